"""`assay seeds`: one recipe on several training seeds, and what they say together in evidence/results/recipe.json."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath

from assay.composition import Selection, check, compose, presets, selected
from assay.config.settings import ScratchBase
from assay.console import complain, say, say_table
from assay.counting import counted
from assay.errors import AssayError, ConfigError, RecordError
from assay.evaluation.seeds_and_items import fewest_runs
from assay.evidence.recipe_wording import too_few_said
from assay.evidence.seed_records import BaseBuilt, SeedRun, SeedsTogether, failed
from assay.evidence.seed_tables import bases_frame, runs_frame
from assay.evidence.wording import difference_text
from assay.stages.project import Project
from assay.storage.locks import hold
from assay.tools.recipe_file import FILE, known, left_out, together, told, write
from assay.tools.seed_copies import await_stages, first_outputs, hand_over, home, lock_of, refresh, same_baseline
from assay.tools.seed_jobs import Job, run_all
from assay.tools.seed_reading import base_built, finished_run

MEASURED, LAST = "pre_eval", "render_evidence"
MOST = 100


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for on the command line."""

    seeds: tuple[int, ...]
    bases: tuple[int, ...]
    task: str | None
    jobs: int
    one_sided: bool


def seeds_of(text: str) -> tuple[int, ...]:
    """Return the seeds that a text names, sorted: numbers, ranges with both ends, or several of them with commas.

    >>> seeds_of("0..4"), seeds_of("7,0,3"), seeds_of("2"), seeds_of("0..1,5")
    ((0, 1, 2, 3, 4), (0, 3, 7), (2,), (0, 1, 5))

    Raises:
        ConfigError: It names none, too many, or something else.
    """
    found: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"\s*([0-9]{1,9})\s*(?:\.\.\s*([0-9]{1,9}))?\s*", part)
        first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (0, -1)
        if not first <= last < first + MOST:
            fix = "./run assay seeds 0..5"
            raise ConfigError(
                f"seeds like 0..5 or 0,3,7, the lower one first, at most {MOST}", found=repr(text), where="assay seeds", fix=fix
            )
        found += range(first, last + 1)
    if len(found) != len(set(found)):
        raise ConfigError("each seed once", found=repr(text), where="assay seeds", fix="leave out what stands twice")
    return tuple(sorted(found))


def run(root: Path, asked: Asked) -> int:
    """Train on every seed that is not finished, then write recipe.json; return 1 if a seed failed or is not evaluable.

    Raises:
        AssayError: The settings are wrong, the measurement before training failed, or another call is at it.
    """
    chosen = selected(root)
    task = asked.task or chosen.task
    if task not in presets(root, "task"):
        fix = "choose one of them"
        raise ConfigError(f"a task ({', '.join(presets(root, 'task'))})", found=repr(task), where="--task", fix=fix)
    check(root)  # the copies compose from configs/: what stands in params.yaml alone would be left out without a word
    data = str(PurePath(compose(root, Selection(chosen.grpo, task, 0)).values["dataset"]["root"]).name)
    held = known(root).get(data)  # what is damaged, or would be replaced by another recipe, is refused now and not in an hour
    if held is not None and held.preset != chosen.grpo:
        raise ConfigError(
            f"a recipe.json with preset {chosen.grpo}, or none, for {data}",
            found=f"{counted(len(held.seeds), 'seeds')} of preset {held.preset}",
            where=FILE,
            fix=f"./run assay config use grpo={held.preset}, or call assay seeds in another clone, or remove the file",
        )
    params = Project.open(root).params
    if asked.bases and not isinstance(params.base, ScratchBase):
        raise ConfigError("a base that is built from a seed", found="a pretrained one", where="--bases", fix="leave it out")
    alpha = params.claim.alpha
    if len(asked.seeds) < fewest_runs(alpha, one_sided=asked.one_sided):
        complain(f"there will be no verdict over seeds: {too_few_said(len(asked.seeds), alpha, one_sided=asked.one_sided)}")
    recipe = f"{task}-{chosen.grpo}"
    with hold(home(root) / f"{recipe}.lock"):
        measured = _measured(root, recipe, chosen.grpo, task)
        runs = _trained(root, measured, recipe, chosen.grpo, task, asked)
        bases = _built(root, measured, recipe, chosen.grpo, task, asked)
        copies = {run.name: home(root) / run.name for run in runs}
        found = together(data, chosen.grpo, copies, runs, bases, one_sided=asked.one_sided)
        before = known(root).get(data)
        if before is not None and not bases and _same(before, found):
            found = found.model_copy(update={"bases": before.bases})
        if before is not None and not {*before.seeds} <= {*found.seeds}:
            say(f"recipe.json held seeds {', '.join(map(str, before.seeds))} of {data}; it holds what was asked for now")
        more = left_out(_seeds_there(root, recipe), found)
        if more:
            note = f"Trained by the same recipe and left out here: {', '.join(f'seed {seed}' for seed in more)}."
            found = found.model_copy(update={"notes": (*found.notes, note)})
        where = write(root, found)
    _tell(found)
    say(f"wrote {where.relative_to(root)}; ./run assay readme shows it")
    return 0 if all(run.verdict not in (None, "NOT EVALUABLE") for run in runs) else 1


def _seeds_there(root: Path, recipe: str) -> dict[int, Path]:
    found = ((re.fullmatch(rf"{re.escape(recipe)}-seed([0-9]{{1,9}})", path.name), path) for path in home(root).iterdir())
    return {int(name[1]): path for name, path in found if name and path.is_dir()}


def _same(one: SeedsTogether, other: SeedsTogether) -> bool:
    return (one.code_digest, one.settings_digest) == (other.code_digest, other.settings_digest)


def _measured(root: Path, recipe: str, grpo: str, task: str) -> Path:
    """Return the copy whose base and measurement before training all seeds share."""
    copy = home(root) / f"{recipe}-shared"

    def prepare() -> None:
        await_stages(copy)
        refresh(root, copy, grpo=grpo, task=task, seed=0)
        first_outputs(root, copy)

    failures: list[str] = []
    run_all(
        f"{recipe}: base and baseline",
        [Job(copy, MEASURED, prepare)],
        1,
        lambda job, why: failures.extend([why] if why else []),
    )
    if failures:
        log = copy.with_name(f"{copy.name}.log")
        raise RecordError("a base and its measurement", found=failures[0], where=str(log.relative_to(root)), fix="read it")
    return copy


def _trained(root: Path, measured: Path, recipe: str, grpo: str, task: str, asked: Asked) -> list[SeedRun]:
    """Return what each seed showed; one that is finished is read, one that was interrupted goes on."""
    lock, found = lock_of(measured), dict[int, SeedRun]()

    def prepare(copy: Path, seed: int) -> None:
        await_stages(copy)
        refresh(root, copy, grpo=grpo, task=task, seed=seed, inputs=measured)
        hand_over(measured, copy, lock)

    def done(seed: int, job: Job, why: str | None) -> None:
        run = found[seed] = outcome(job, seed, why)
        if run.verdict in (None, "NOT EVALUABLE"):
            complain(f"{run.name}: {run.verdict or 'FAILED'}: {run.reason}")
        else:
            say(f"{run.name}: {run.verdict}, {difference_text(run.gain, rate=True)} points")

    jobs = {seed: home(root) / f"{recipe}-seed{seed}" for seed in asked.seeds}
    by_copy = {copy: seed for seed, copy in jobs.items()}
    run_all(
        f"{recipe}: training seeds", [Job(copy, LAST, partial(prepare, copy, seed)) for seed, copy in jobs.items()], asked.jobs,
        lambda job, why: done(by_copy[job.copy], job, why),
    )  # fmt: skip
    finished = [copy for seed, copy in jobs.items() if found[seed].state == "finished"]
    if not same_baseline([measured, *finished]):
        raise RecordError("one base and one baseline for all seeds", found="several", where=str(home(root)), fix="call again")
    return [found[seed] for seed in asked.seeds]


def outcome(job: Job, seed: int, why: str | None) -> SeedRun:
    """Return what became of a seed: its run, or the reason why there is none."""
    name = job.copy.name
    if why is not None:
        return failed(name, seed, told(why, job.copy))
    try:
        return finished_run(job.copy, name)
    except AssayError as error:
        return failed(name, seed, told(f"{error.where}: expected {error.expected}, found {error.found}", job.copy))


def _built(root: Path, measured: Path, recipe: str, grpo: str, task: str, asked: Asked) -> tuple[BaseBuilt, ...]:
    """Return what the gates said of a base built with each base seed; a refused one is a row like any other."""
    lock, found = lock_of(measured), dict[int, BaseBuilt]()

    def prepare(copy: Path, seed: int) -> None:
        await_stages(copy)
        refresh(root, copy, grpo=grpo, task=task, seed=0, base_seed=seed, inputs=measured)
        hand_over(measured, copy, lock, shared=("fingerprint",))

    copies = {home(root) / f"{recipe}-base{seed}": seed for seed in asked.bases}

    def done(job: Job, why: str | None) -> None:
        found[copies[job.copy]] = base_built(job.copy, copies[job.copy], None if why is None else told(why, job.copy))

    if copies:
        jobs = [Job(copy, "base", partial(prepare, copy, seed)) for copy, seed in copies.items()]
        run_all(f"{recipe}: bases", jobs, asked.jobs, done)
    return tuple(found[seed] for seed in asked.bases)


def _tell(found: SeedsTogether) -> None:
    say(f"{found.task}: {found.verdict}: {found.sentence}")
    for warning in (*(found.recipe.warnings if found.recipe is not None else ()), *found.notes):
        say(f"warning: {warning}")
    for frame in (runs_frame(found.runs), *([bases_frame(found.bases)] if found.bases else [])):
        say_table(list(frame.columns), [[str(cell) for cell in row] for row in frame.itertuples(index=False)])
