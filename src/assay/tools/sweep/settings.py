"""Whether a run was measured as it would be now: what differs and forbids a comparison, and what only has to
be said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from assay.core.config.places import setting
from assay.core.errors import ConfigError, DataError, PolicyError
from assay.dataset.suite import Suite, choose
from assay.pipeline.inputs import heldout_suite, items_of, validation_suite
from assay.pipeline.policies import ADAPTER
from assay.pipeline.project import Project
from assay.pipeline.resume import difference, run_key
from assay.policy.digests import adapted_digest
from assay.tools.sweep.sources import Source
from assay.training.checkpoints.of_run import RunFacts

PLAYING = ("tasks", "evaluation", "policy", "seeds.py")  # the code that decides an episode
_MACHINE = ("params.device", "params.threads", "params.deterministic", "packages.")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says; None leaves a matter to the settings."""

    path: Path
    out: Path | None = None
    heldout: bool = False
    draws: int | None = None
    items: int | None = None
    skip_damaged: bool = False

    @property
    def split(self) -> Literal["validation", "heldout"]:
        """The suite that is played."""
        return "heldout" if self.heldout else "validation"

    @property
    def own_suite(self) -> bool:
        """Whether it is the suite that the settings name, unchanged."""
        return self.draws is None and self.items is None


def suite_of(project: Project, asked: Asked) -> Suite:
    """Return what is played: the suite of the settings, or fewer or more of its items and draws.

    Raises:
        ConfigError: More items are asked for than there are.
        DataError: The data changed since they were fingerprinted.
    """
    own = heldout_suite(project) if asked.heldout else validation_suite(project)
    if asked.own_suite:
        return own
    items = items_of(project, "heldout" if asked.heldout else project.params.validation.suite)
    n = asked.items or len(own.items)
    if n > len(items):
        expected = f"at most the {len(items)} items of {asked.split}"
        raise ConfigError(
            expected, found=str(n), where="--items", fix=f"--items {len(items)}, or leave it out"
        )
    return choose(items, n, split=own.split, draws=asked.draws or own.draws, seed=own.seed, rules=own.rules)


def settings_notes(project: Project, source: Source, asked: Asked) -> list[str]:
    """Return what else than the weights differs from the training and may move last digits.

    Raises:
        ConfigError: Task, base, suite or way of playing are others than the run's; names what differs.
        PolicyError: There is no base.
    """
    if not (project.root / "models/base").is_dir():
        raise PolicyError(
            "the base of the project", found="nothing", where="models/base", fix="./run dvc repro base"
        )
    facts = source.facts
    if facts is None:
        return []
    now = run_key(
        project,
        "train",
        (f"{project.params.dataset.root}/{project.params.validation.suite}.jsonl", "models/base"),
    )
    base, data = (
        ("deps.models/base",),
        f"deps.{project.params.dataset.root}/{project.params.validation.suite}.jsonl",
    )
    must: tuple[str, ...] = ("params.task", "params.generation", *base)
    if not asked.heldout:
        suite = (
            "suite",
            "seed",
            *(("items",) if asked.items is None else ()),
            *(("draws",) if asked.draws is None else ()),
        )
        must += (*(f"params.validation.{name}" for name in suite), data)
    odd = _differing(now.parts, facts, must)
    odd.sort(key=lambda said: not said.startswith("task.name:"))  # of two tasks nearly everything differs
    if odd:
        more = f" (and {len(odd) - 3} more)" if len(odd) > 3 else ""
        raise ConfigError(
            "the task, base and suite that this run was trained with",
            found="; ".join(odd[:3]) + more,
            where=str(asked.path),
            fix=(
                "restore them (./run assay config use …, git checkout -- params.yaml), or sweep a run of"
                " these settings"
            ),
        )
    code = tuple(f"deps.src/assay/{name}" for name in PLAYING)
    moved = _differing(now.parts, facts, (*code, *_MACHINE))
    if not moved:
        return []
    more = f" (and {len(moved) - 3} more)" if len(moved) > 3 else ""
    return [
        f"Since the training changed: {'; '.join(moved[:3])}{more}. Its own validations may differ from these"
        " rows."
    ]


def _differing(now: dict[str, str], facts: RunFacts, names: Sequence[str]) -> list[str]:
    def kept(parts: dict[str, str]) -> dict[str, str]:
        return {name: value for name, value in parts.items() if _is_of(name, names)}

    return difference(kept(now), kept(dict(facts.parts)))


def _is_of(name: str, sections: Sequence[str]) -> bool:
    return any(name == each or name.startswith((f"{each.rstrip('.')}.", f"{each}/")) for each in sections)


def check_published(project: Project, source: Source, suite: Suite, asked: Asked, base_digest: str) -> None:
    """Refuse where what the training published is no longer what lies here.

    Raises:
        DataError: The validation suite is another.
        PolicyError: The base, or models/adapter, is another.
    """
    facts, again = source.trained, "./run dvc repro train"
    if facts is None:
        return
    if facts.base_digest != base_digest:
        found = f"{base_digest[:12]}…"
        raise PolicyError(
            f"the base of this training ({facts.base_digest[:12]}…)",
            found=found,
            where="models/base",
            fix=again,
        )
    if not asked.heldout and asked.own_suite and facts.validation_suite != suite.digest:
        expected = f"the validation suite of this training ({facts.validation_suite[:12]}…)"
        raise DataError(
            expected, found=f"{suite.digest[:12]}…", where=f"{setting('validation')}, and its data", fix=again
        )
    uses = any(each.name == ADAPTER for each in source.candidates)
    if uses and adapted_digest(base_digest, project.root / ADAPTER) != facts.policy_digest:
        expected = f"the adapter that train.json names ({facts.policy_digest[:12]}…)"
        raise PolicyError(expected, found="another", where=ADAPTER, fix="./run dvc checkout models/adapter")
