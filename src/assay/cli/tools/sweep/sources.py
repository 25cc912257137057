"""What `assay runs sweep` was pointed at: a run folder, a project, or a folder of adapters; and what can be
played of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from assay.core.config.places import setting
from assay.core.errors import AssayError, ConfigError, DataError, PolicyError, RecordError
from assay.core.records import TrainFacts
from assay.core.storage.files import read_bytes, real
from assay.core.storage.json import loads, read_record
from assay.pipeline.dvc_lock import md5_at
from assay.pipeline.policies import ADAPTER
from assay.pipeline.project import Project
from assay.pipeline.resume import difference, run_key
from assay.pipeline.run_folder import DONE, KEY
from assay.rollout.dataset.suite import Suite, choose
from assay.rollout.policy.base.adapter_files import CONFIG
from assay.rollout.policy.digests import adapted_digest
from assay.training.checkpoints.of_run import RunFacts, checkpoint_of, run_facts, total_steps
from assay.training.checkpoints.store import MANIFEST

_STEP = re.compile(r"step-(\d{6,})")
_NUMBER = re.compile(r"(?:.*\D)?0*(\d{1,9})")
FIX = "name a folder of .scratch/train/, a project, or a folder of adapter folders such as checkpoint-100/"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A checkpoint that is there and, as far as one can tell without loading it, whole."""

    step: int
    name: str
    folder: Path
    ours: bool  # a checkpoint of a training here, not a folder that peft wrote
    root: Path  # links may lead anywhere in here


@dataclass(slots=True)
class SweepSource:
    """Everything that was found, steps ascending, without step 0: that is the base itself.

    `facts` says which training of ours it is, `trained` what that published, where it did and can be seen.
    """

    name: str
    folder: Path
    candidates: list[Candidate] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: RunFacts | None = None
    trained: TrainFacts | None = None
    beginning: Path | None = None  # the checkpoint of step 0, which must be the base

    @property
    def steps(self) -> int | None:
        """How many steps the training was to make, None where nobody knows."""
        if self.facts is not None:
            return total_steps(self.facts)
        return None if self.trained is None else self.trained.steps


def open_source(root: Path, path: Path) -> tuple[Project, SweepSource]:
    """Return the project whose settings count, and what there is to sweep.

    Args:
        root: The project one stands in.
        path: What was named.

    Raises:
        AssayError: There is no checkpoint, or the folder is none of the three.
    """
    if not path.is_dir():
        found = "a file" if path.exists() else "nothing there"
        raise ConfigError("a folder with checkpoints", found=found, where=str(path), fix=FIX)
    if (path / "params.yaml").is_file():
        project = Project.open(path)
        return project, _of_project(project, path)
    project = Project.open(root)
    if (path / KEY).is_file() or any(_find_steps(path)):
        return project, _of_run(project, path)
    if (path / MANIFEST).is_file():
        found, fix = "one checkpoint of it", f"assay runs sweep {path.parent}"
        raise ConfigError("a run folder", found=found, where=str(path), fix=fix)
    return project, _of_adapters(path)


def _find_steps(folder: Path) -> Iterator[tuple[int, Path]]:
    for path in sorted(folder.iterdir()):
        found = _STEP.fullmatch(path.name)
        # peft folders of another trainer may have such a name as well
        if found is not None and path.is_dir() and not (path / CONFIG).is_file():
            yield int(found.group(1)), path


def _of_project(project: Project, path: Path) -> SweepSource:
    """Return the newest run folder of a project, and what it published."""

    def newest_step(run: Path) -> int:
        return max((folder.stat().st_mtime_ns for _, folder in _find_steps(run)), default=0)

    runs = [key.parent for key in (project.scratch / "train").glob(f"*/{KEY}") if newest_step(key.parent)]
    adapter, proof = project.root / ADAPTER, project.results("train.json")
    elsewhere = project.params.external is not None  # there is no step to count from
    published = adapter.is_dir() and proof.is_file() and not elsewhere
    if runs:
        newest = max(runs, key=lambda run: (newest_step(run), run.name))
        source = _of_run(project, newest)
        if len(runs) > 1:
            source.notes.append(f"Of {len(runs)} run folders, {newest.name} is the newest.")
    elif published:
        source = SweepSource(real(path).name, path, trained=_read_facts(proof))
    else:
        where = f"{path}: .scratch/train/ and {ADAPTER}"
        fix = "name the folder that holds them" if elsewhere else "train first: ./run dvc repro train"
        found = "none of a training by assay (train.kind: external)" if elsewhere else "none"
        raise ConfigError("checkpoints", found=found, where=where, fix=fix)
    if published and source.trained is None:
        source.notes.append(f"{ADAPTER} is of another training than {source.name} and is left out.")
    elif published and source.trained is not None:
        chosen = source.trained.chosen_step
        if chosen > 0 and chosen not in {each.step for each in source.candidates}:
            # DVC may link to its cache, wherever that is.
            source.candidates.append(Candidate(chosen, ADAPTER, adapter, ours=False, root=Path("/")))
            source.candidates.sort(key=lambda each: each.step)
    return source


def _read_facts(proof: Path) -> TrainFacts:
    return read_record(proof, TrainFacts, fix="./run dvc repro train")


def _read_json(path: Path, fix: str) -> Any:
    return loads(read_bytes(path, fix=fix).decode("utf-8", "replace"), where=str(path), fix=fix)


def _of_run(project: Project, path: Path) -> SweepSource:
    """Return the checkpoints of a run folder; those that are damaged are named and not among them."""
    fix = "take another run folder; without its key nobody knows what shape its adapters have"
    facts = run_facts(_read_json(path / KEY, fix), str(path / KEY))
    source = SweepSource(real(path).name, path, facts=facts, trained=_find_published(project, path))
    for step, folder in _find_steps(path):
        try:
            checkpoint_of(folder, facts.digest)
        except AssayError as error:
            source.damaged.append(f"{folder.name}: {error.found}")
            continue
        if step == 0:
            source.beginning = folder
        else:
            source.candidates.append(Candidate(step, folder.name, folder, ours=True, root=path))
    source.candidates.sort(key=lambda each: each.step)
    return source


def _find_published(project: Project, folder: Path) -> TrainFacts | None:
    """Return the facts of the training that a run folder has written last, None where they are of another."""
    proof = project.results("train.json")
    if not (folder / DONE).is_file() or not proof.is_file():
        return None
    try:
        told = _read_json(folder / DONE, "")
    except RecordError:
        return None
    same = isinstance(told, dict) and told.get("md5") == md5_at(proof.parent)
    return _read_facts(proof) if same else None


def _of_adapters(path: Path) -> SweepSource:
    """Return the adapters of a folder, each step once; the number a folder's name ends with is its step."""
    source = SweepSource(real(path).name, path)
    seen: dict[int, str] = {}
    for folder in sorted(each for each in path.iterdir() if (each / CONFIG).is_file()):
        found = _NUMBER.fullmatch(folder.name)
        if found is None or int(found.group(1)) == 0:
            said = "its name does not end with a number" if found is None else "step 0 is the base"
            source.notes.append(f"{folder.name} is left out: {said}.")
            continue
        step = int(found.group(1))
        if step in seen:
            both, fix = f"{seen[step]} and {folder.name}", "rename one of them, or move it away"
            raise ConfigError("each step once", found=both, where=str(path), fix=fix)
        seen[step] = folder.name
        source.candidates.append(Candidate(step, folder.name, folder, ours=False, root=path))
    alone = (path / CONFIG).is_file()
    if not source.candidates and alone:
        fix = f"assay evaluate --tasks FILE --policy {path}, or name the folder above it"
        raise ConfigError("a folder of adapter folders", found="one adapter", where=str(path), fix=fix)
    if not source.candidates:
        named = f" ({source.notes[0]})" if source.notes else ""
        raise ConfigError("checkpoints", found=f"none{named}", where=str(path), fix=FIX)
    if alone:
        source.notes.append(f"The adapter in {source.name} itself has no step and is left out.")
    source.candidates.sort(key=lambda each: each.step)
    return source


# Rooms, as the key of a training names them: whose code decides an episode.
PLAYING = ("rollout/tasks", "rollout/evaluation", "rollout/policy", "core")
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
        ConfigError: More items are asked for than there are, or a draft is to open held-out ones.
        DataError: The data changed since they were fingerprinted.
    """
    if asked.heldout and not project.params.evaluation.open:
        expected, fix = "settings that open the held-out suite", "leave --heldout out"
        raise ConfigError(expected, found="a draft", where=setting("evaluation.open"), fix=fix)
    own = project.inputs("heldout").heldout if asked.heldout else project.inputs("validation").validation
    if asked.own_suite:
        return own
    items = project.items("heldout" if asked.heldout else project.params.validation.suite)
    n = asked.items or len(own.items)
    if n > len(items):
        expected, fix = f"at most the {len(items)} items of {asked.split}", f"--items {len(items)}"
        raise ConfigError(expected, found=str(n), where="--items", fix=f"{fix}, or leave it out")
    return choose(
        items,
        n,
        split=own.split,
        draws=asked.draws or own.draws,
        seed=own.seed,
        rules=own.rules,
        similarity=project.params.dataset.near_duplicates,
    )


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
    data, code = f"{params.dataset.root}/{params.validation.suite}.jsonl", params.task.code
    now, then = (
        run_key(project.root, project.params, "train", (code, data, "models/base")).parts,
        dict(source.facts.parts),
    )

    def find_differing(sections: Sequence[str]) -> list[str]:
        kept = [{name: parts[name] for name in parts if _is_of(name, sections)} for parts in (now, then)]
        return difference(*kept)

    must = ["params.task", "params.generation", "deps.models/base"]
    if params.task.brings_code:
        must += [f"deps.{code}", "requires"]
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
    moved = find_differing([f"deps.{code}", *(f"deps.src/assay/{name}" for name in PLAYING), *_MACHINE])
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
