"""What a training starts from, with nothing wrong in it: a toy set-up, and the shipped presets with a quick
base."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assay.checks.doctor.examination import examine
from assay.checks.doctor.worlds import setup_of
from assay.checks.findings import Finding
from assay.core.config.composition import Selection, compose
from assay.core.config.reading import parse_params
from assay.core.config.settings import Params, ScratchBase, TinyArchitecture
from assay.pipeline.project import Project
from assay.rollout.dataset.suite import Suite, choose
from assay.rollout.policy.base import tiny
from assay.rollout.policy.base.warm_start import warm_started
from assay.rollout.policy.model import Policy
from assay.rollout.policy.renderer import Dialogue
from assay.rollout.tasks.protocol import Item
from assay.stages import fingerprint
from assay.training.setup import Setup as TrainingSetup
from tests.house import ROOT
from tests.training.faulty_tasks import WORDS, Letters


@dataclass(frozen=True)
class Setup:
    """All that a training starts from."""

    policy: Policy
    task: Any
    items: list[Item]
    validation: Suite
    params: Params

    def examined(self) -> list[Finding]:
        training = TrainingSetup(self.task, self.task, self.items, self.validation, self.params)
        return examine(self.policy, training, folder=Path(__file__).parent)


def rows(first: int, n: int) -> list[Item]:
    """Return n items with prompts of unequal length, no two of one cluster."""
    made = []
    for k in range(first, first + n):
        prompt = "".join(WORDS[(k + j * j) % 8] for j in range(3 + k % 5))
        made.append(Letters().item({"id": f"item{k}", "cluster": f"prompt{k}", "prompt": prompt}))
    return made


def healthy_policy(words: Sequence[str] = WORDS, positions: int = 512, **changes: Any) -> Policy:
    """Return an untrained policy that writes letters and ends its answers by chance."""
    tokenizer = tiny.build_tokenizer(words)
    shape = TinyArchitecture(
        hidden_size=32,
        intermediate_size=64,
        layers=1,
        heads=2,
        max_positions=positions,
        initializer_range=0.05,
    )
    model = tiny.build_model(shape, tokenizer, 5)
    for name, value in changes.items():
        setattr(model.config, name, value)
        for module in model.modules():
            if hasattr(module, name):
                setattr(module, name, value)
    return Policy(model, tokenizer, Dialogue(tokenizer), "test")


def healthy() -> Setup:
    """Return a set-up in which nothing is wrong."""
    values = json.loads(json.dumps(composed("tiny", "collider")))
    values["task"]["max_new_tokens"]["compact"] = 48
    values["train"] |= {
        "steps": 40,
        "items_per_step": 4,
        "group_size": 4,
        "micro_batch_size": 16,
        "kl_probe_episodes": 8,
        "lora": {"r": 4, "alpha": 8, "dropout": 0.0, "target_modules": "all-linear"},
    }
    values["distributed"]["processes"] = 1
    values["validation"] |= {"items": 12, "interval": 10}
    values["checkpoint"] |= {"every": 10}
    items, validation = rows(0, 40), rows(100, 12)
    suite = choose(validation, 12, split="validation", draws=1, seed=0)
    return Setup(healthy_policy(), Letters(), items, suite, parse_params(values))


_COMPOSED: dict[tuple[str, str], Any] = {}


def composed(grpo: str, task: str) -> Any:
    if (grpo, task) not in _COMPOSED:
        _COMPOSED[grpo, task] = compose(ROOT, Selection(grpo, task, 0)).values
    return _COMPOSED[grpo, task]


def with_settings(setup: Setup, **changes: Any) -> Setup:
    """Change settings by dotted names, `__` for a dot."""
    params = setup.params
    for name, value in changes.items():
        params = _changed(params, name.split("__"), value)
    return replace(setup, params=params)


def _changed(settings: Any, names: Sequence[str], value: Any) -> Any:
    first, *rest = names
    if isinstance(settings, dict):
        return settings | {first: value}
    new = _changed(getattr(settings, first), rest, value) if rest else value
    return settings.model_copy(update={first: new})


def settings(**changes: Any) -> Callable[[Setup], Setup]:
    return lambda setup: with_settings(setup, **changes)


def shipped(root: Path, task: str) -> Project:
    """Return a fingerprinted project at an empty folder, with the shipped data of a task and the preset
    tiny."""
    shutil.copytree(ROOT / "data" / task, root / "data" / task)
    project = Project(root, parse_params(composed("tiny", task)))
    fingerprint.run(project)
    return project


def with_preset(project: Project, grpo: str) -> Project:
    """Return a shipped project under another preset."""
    return Project(project.root, parse_params(composed(grpo, project.params.task.name)))


def spoken(project: Project, *, quickly: bool = True) -> Policy:
    """Return a base that speaks a shipped project's task: that of tiny_smoke, or one from as little warm
    start as may do."""
    base = with_preset(project, "tiny_smoke").params.base
    assert isinstance(base, ScratchBase)
    warm = base.warm_start
    if not quickly:
        return warm_started(base, project.task())
    short = warm.model_copy(
        update={
            "drill_pool": 100,
            "demonstration_pool": 100,
            "drills": warm.drills.model_copy(update={"steps": 10, "batch_size": 16}),
            "demonstrations": warm.demonstrations.model_copy(update={"steps": 120, "batch_size": 16}),
        }
    )
    return warm_started(base.model_copy(update={"warm_start": short}), project.task())


def examined_project(project: Project, policy: Policy) -> list[Finding]:
    """Return what is found as the train stage would look."""
    return examine(policy, setup_of(project), folder=project.root)


# These say something about the machine that the tests happen to run on.
OF_THE_MACHINE = {"threads", "memory (forecast)", "disk"}


def amiss(findings: Sequence[Finding]) -> list[tuple[str, str, str]]:
    """Return level, check and found of all that is not well, whatever the machine."""
    return [
        (f.level, f.check, f.found) for f in findings if f.level != "ok" and f.check not in OF_THE_MACHINE
    ]
