"""Which tasks there are: from settings to a task."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.config.settings import GenerationSettings
from assay.core.config.tasks import ColliderTask, StructuredTask, TaskSettings
from assay.core.errors import ConfigError
from assay.core.storage.json import dumps
from assay.tasks.collider import SUITES, Collider, ColliderSettings, generate
from assay.tasks.protocol import Task
from assay.tasks.structured import Structured, shop

RELEASE = ("release", 1)


def build(settings: TaskSettings, generation: GenerationSettings, *, shaping: bool, blocklist: Sequence[str] = ()) -> Task:
    """Return the task that the settings name.

    Args:
        settings: Rules of play.
        generation: Says which surface the policy speaks.
        shaping: Whether shaping rewards count; only training may say yes.
        blocklist: Terms of the file that `settings.blocklist` names; a task opens no file.
    """
    match settings:
        case ColliderTask():
            return Collider(
                ColliderSettings(
                    surface=generation.surface,
                    max_turns=settings.max_turns,
                    shaping=settings.shaping if shaping else 0.0,
                    gamma=settings.gamma,
                )
            )
        case StructuredTask():
            return Structured(settings, blocklist)


def shipped_data(task: str) -> dict[str, str]:
    """Return the data that come with a task: the text of each file by its name. Equal code gives equal text.

    Raises:
        ConfigError: No data come with such a task.
    """
    if task == "collider":
        rows = {name: generate(name, size, max_turns=8, labels=RELEASE) for name, size in SUITES.items()}
        return {f"{name}.jsonl": "".join(dumps(row) + "\n" for row in suite) for name, suite in rows.items()}
    if task == "structured":
        return shop.files(RELEASE)
    raise ConfigError("collider or structured", found=repr(task), where="--task", fix="--task structured")
