"""What is asked of a sweep, and whether the run was measured as it would be now: what differs and forbids a
comparison, and what only has to be said."""

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
from assay.tools.sweep.sources import SweepSource

PLAYING = ("tasks", "evaluation", "policy", "seeds.py")  # the code that decides an episode
_MACHINE = ("params.device", "params.threads", "params.deterministic", "packages.")


@dataclass(frozen=True, slots=True)
class SweepRequest:
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


def suite_of(project: Project, asked: SweepRequest) -> Suite:
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
        expected, fix = f"at most the {len(items)} items of {asked.split}", f"--items {len(items)}"
        raise ConfigError(expected, found=str(n), where="--items", fix=f"{fix}, or leave it out")
    return choose(items, n, split=own.split, draws=asked.draws or own.draws, seed=own.seed, rules=own.rules)


def settings_notes(project: Project, source: SweepSource, asked: SweepRequest) -> list[str]:
    """Return what else than the weights differs from the training and may move last digits.

    Raises:
        ConfigError: Task, base, suite or way of playing are others than the run's; names what differs.
        PolicyError: There is no base.
    """
    if not (project.root / "models/base").is_dir():
        fix = "./run dvc repro base"
        raise PolicyError("the base of the project", found="nothing", where="models/base", fix=fix)
    if source.facts is None:
        return []
    params = project.params
    data = f"{params.dataset.root}/{params.validation.suite}.jsonl"
    now, then = run_key(project, "train", (data, "models/base")).parts, dict(source.facts.parts)

    def find_differing(sections: Sequence[str]) -> list[str]:
        kept = [{name: parts[name] for name in parts if _is_of(name, sections)} for parts in (now, then)]
        return difference(*kept)

    must = ["params.task", "params.generation", "deps.models/base"]
    if not asked.heldout:
        names = [name for name in ("items", "draws") if getattr(asked, name) is None]
        must += [f"params.validation.{name}" for name in ("suite", "seed", *names)] + [f"deps.{data}"]
    odd = find_differing(must)
    odd.sort(key=lambda said: not said.startswith("task.name:"))  # of two tasks nearly everything differs
    if odd:
        raise ConfigError(
            "the task, base and suite that this run was trained with",
            found=_name_three(odd),
            where=str(asked.path),
            fix="restore them (./run assay config use …, git checkout -- params.yaml), or sweep a run of"
            " these settings",
        )
    moved = find_differing([*(f"deps.src/assay/{name}" for name in PLAYING), *_MACHINE])
    may = "Its own validations may differ from these rows."
    return [f"Since the training changed: {_name_three(moved)}. {may}"] if moved else []


def _name_three(said: Sequence[str]) -> str:
    return "; ".join(said[:3]) + (f" (and {len(said) - 3} more)" if len(said) > 3 else "")


def _is_of(name: str, sections: Sequence[str]) -> bool:
    return any(name == each or name.startswith((f"{each.rstrip('.')}.", f"{each}/")) for each in sections)


def check_published(
    project: Project, source: SweepSource, suite: Suite, asked: SweepRequest, base_digest: str
) -> None:
    """Refuse where what the training published is no longer what lies here.

    Raises:
        DataError: The validation suite is another.
        PolicyError: The base, or models/adapter, is another.
    """
    facts, again = source.trained, "./run dvc repro train"
    if facts is None:
        return
    if facts.base_digest != base_digest:
        expected, found = f"the base of this training ({facts.base_digest[:12]}…)", f"{base_digest[:12]}…"
        raise PolicyError(expected, found=found, where="models/base", fix=again)
    if not asked.heldout and asked.own_suite and facts.validation_suite != suite.digest:
        expected = f"the validation suite of this training ({facts.validation_suite[:12]}…)"
        found, where = f"{suite.digest[:12]}…", f"{setting('validation')}, and its data"
        raise DataError(expected, found=found, where=where, fix=again)
    uses = any(each.name == ADAPTER for each in source.candidates)
    if uses and adapted_digest(base_digest, project.root / ADAPTER) != facts.policy_digest:
        expected = f"the adapter that train.json names ({facts.policy_digest[:12]}…)"
        raise PolicyError(expected, found="another", where=ADAPTER, fix="./run dvc checkout models/adapter")
