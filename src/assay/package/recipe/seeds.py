"""`assay seeds`: one recipe on several training seeds, and what they say together in recipe.json."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from assay.core.config.composition import Selection, check, compose, files_of, presets, selected, use
from assay.core.config.settings import PretrainedBase, ScratchBase
from assay.core.console import complain, progress, say, say_table
from assay.core.counting import counted
from assay.core.errors import AssayError, ConfigError, RecordError, RunningAlready
from assay.core.evidence_files import OBSERVED
from assay.core.storage.files import read_bytes, read_text, write_bytes, write_text
from assay.core.storage.json import digest, dumps, write_json
from assay.core.storage.locks import hold
from assay.package.recipe import recipe_file
from assay.package.recipe.check_seeds import pack_seeds
from assay.package.recipe.compare import LOCK
from assay.package.recipe.recipe_file import FILE, LAST, describe, read_stages
from assay.pipeline.heldout_ledger import LEDGER, NAME, NOTHING, copy_id, memory, merged, openings
from assay.pipeline.note_openings import adopt
from assay.pipeline.project import Project
from assay.verdict.evidence.formatting import difference_text
from assay.verdict.evidence.recipe.records import SeedRun, SeedsTogether, record_failed
from assay.verdict.evidence.recipe.tables import bases_frame, runs_frame
from assay.verdict.evidence.recipe.verdict import too_few
from assay.verdict.evidence.words.over_seeds import NOT_EVALUABLE
from assay.verdict.evidence.words.remarks import remark
from assay.verdict.statistics.openings import opening_level
from assay.verdict.statistics.seeds_and_items import fewest_runs

SHARED = ("fingerprint", "base", "pre_eval")  # what all seeds have in common
MOST = 100


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds that a text names, sorted: numbers, and ranges with both ends, with commas.

    >>> parse_seeds("0..4"), parse_seeds("7,0,3"), parse_seeds("2"), parse_seeds("0..1,5")
    ((0, 1, 2, 3, 4), (0, 3, 7), (2,), (0, 1, 5))

    Raises:
        ConfigError: It names none, one twice, too many, or something else.
    """
    found: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"\s*([0-9]{1,9})\s*(?:\.\.\s*([0-9]{1,9}))?\s*", part)
        first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (0, -1)
        # Before the range is made: 0..999999999 is no list to have in memory.
        found += range(first, last + 1) if first <= last < first + MOST else [-1]
    if -1 in found or len(found) != len(set(found)):
        expected = f"seeds like 0..5 or 0,3,7, each once, the lower one first, at most {MOST}"
        raise ConfigError(
            expected, found=repr(text), where="assay seeds", fix="./run assay seeds, for those of the plan"
        )
    return tuple(sorted(found))


def planned_seeds(root: Path) -> tuple[int, ...]:
    """Return the seeds that the plan of a project registers."""
    return tuple(sorted(Project.open(root).params.claim.seeds))


def run(
    root: Path,
    seeds: Sequence[int],
    *,
    bases: Sequence[int] = (),
    task: str | None = None,
    jobs: int = 1,
    one_sided: bool = False,
    few: bool = False,
) -> int:
    """Train on every seed that is not finished, then write recipe.json; return 1 if one shows nothing.

    From the seeds `bases` further bases are built, to see which pass the gates; so many `jobs` run at a time.
    `few`: also where the seeds are too few for a verdict.

    Raises:
        AssayError: The settings are wrong, the measurement before training failed, or another call is at it.
    """
    settings = replace(selected(root), seed=0, task=task or selected(root).task)
    data = check_request(root, settings, seeds, bases, one_sided=one_sided, few=few)
    recipe, home = f"{settings.task}-{settings.grpo}", root / HOME
    one_sided = one_sided or Project.open(root).params.claim.sided == "one-sided"
    with hold(home / f"{recipe}.lock"):
        shared = home / f"{recipe}-shared"
        # A new one begins with what the project has: after a run of the same settings DVC has nothing to do.
        measuring = SeedJob(shared, root, settings, () if has_stages(shared) else SHARED, SHARED[-1])
        for _, failure in run_jobs([measuring], 1, f"{recipe}: base and baseline"):
            if failure is not None:
                where = str(measuring.log.relative_to(root))
                raise RecordError("a base and its measurement", found=failure, where=where, fix="read it")
        copies = [home / f"{recipe}-seed{seed}" for seed in seeds]
        pairs = zip(copies, seeds, strict=True)
        trainings = [
            SeedJob(copy, shared, replace(settings, seed=seed), SHARED, LAST) for copy, seed in pairs
        ]
        runs = train_seeds(trainings, jobs, f"{recipe}: training seeds")
        places = {home / f"{recipe}-base{seed}": seed for seed in bases}
        buildings = [
            SeedJob(copy, shared, settings, SHARED[:1], "base", seed) for copy, seed in places.items()
        ]
        built = [
            recipe_file.read_base(job.copy, job.base_seed, failure)
            for job, failure in (run_jobs(buildings, jobs, f"{recipe}: bases") if bases else ())
        ]
        built.sort(key=lambda base: base.base_seed)
        found = recipe_file.combine_seeds(data, settings.grpo, copies, runs, built, one_sided=one_sided)
        found = add_history(root, recipe, found)
        recipe_file.write_recipe(root, found)
        if all(run.state == "finished" for run in runs):
            packed = pack_seeds(root, found, copies)
            say(f"wrote {packed.relative_to(root)} and a figure beside it; assay verify checks it")
    print_recipe(found)
    say(f"wrote {FILE}; ./run assay publish readme shows it")
    return 0 if all(run.verdict not in (None, NOT_EVALUABLE) for run in runs) else 1


def check_request(
    root: Path,
    settings: Selection,
    seeds: Sequence[int],
    bases: Sequence[int],
    *,
    one_sided: bool,
    few: bool = False,
) -> str:
    """Refuse now, and not in an hour, what cannot end in a record; return what the task's data are called."""
    tasks = presets(root, "task")
    if settings.task not in tasks:
        expected = f"a task ({', '.join(tasks)})"
        raise ConfigError(expected, found=repr(settings.task), where="--task", fix="choose one of them")
    check(root)  # copies compose from configs/: what stands in params.yaml alone would be left out
    data = PurePath(compose(root, settings).values["dataset"]["root"]).name
    held = recipe_file.read_recipes(root).get(data)
    if held is not None and held.preset != settings.grpo:
        raise ConfigError(
            f"a recipe.json with preset {settings.grpo}, or none, for {data}",
            found=f"{counted(len(held.seeds), 'seeds')} of preset {held.preset}",
            where=FILE,
            fix=f"./run assay config use grpo={held.preset}, or another clone, or remove the file",
        )
    params = Project.open(root).params
    if not params.evaluation.open:
        fix = f"evaluation.open: true in configs/grpo/{settings.grpo}.yaml, then ./run assay config use"
        raise ConfigError("settings with a verdict", found="a draft", where="evaluation.open", fix=fix)
    if bases and not isinstance(params.base, ScratchBase):
        expected = "a base that is built from a seed"
        raise ConfigError(expected, found="a pretrained one", where="--bases", fix="leave it out")
    if {*seeds} != {*params.claim.seeds}:
        plan = ", ".join(map(str, sorted(params.claim.seeds)))
        complain(f"these are not the seeds of the plan (claim.seeds: {plan}): what they show will be marked")
    claim, n = params.claim, len(seeds)

    def level(of: int) -> float:
        return opening_level(1, claim.alpha, looks=claim.looks, seeds=of, one_sided=one_sided)

    if n < fewest_runs(level(n), one_sided=one_sided):
        needed = next(k for k in itertools.count(n) if k >= fewest_runs(level(k), one_sided=one_sided))
        told = str(too_few(n, level(needed), one_sided=one_sided))
        if not few:
            expected, fix = f"{needed} seeds or more", f"./run assay seeds 0..{needed - 1}, or add --yes"
            raise ConfigError(expected, found=told, where="assay seeds", fix=fix)
        complain(f"there will be no verdict over seeds: {told}")
    return data


def train_seeds(jobs: Sequence[SeedJob], at_once: int, label: str) -> list[SeedRun]:
    """Return what each seed showed, or why it shows nothing; one that is finished is only read."""
    found: dict[int, SeedRun] = {}
    for job, failure in run_jobs(jobs, at_once, label):
        name, seed = job.copy.name, job.settings.seed
        try:
            run = (
                record_failed(name, seed, failure) if failure is not None else recipe_file.read_seed(job.copy)
            )
        except AssayError as error:
            run = record_failed(name, seed, describe(error, job.copy))
        found[seed] = run
        if run.verdict in (None, NOT_EVALUABLE):
            complain(f"{name}: {run.verdict or 'FAILED'}: {run.reason}")
        else:
            say(f"{name}: {run.verdict}, {difference_text(run.gain, rate=True)} points")
    whole = [job.copy for job in jobs if found[job.settings.seed].state == "finished"]
    if len({digest_baseline(copy) for copy in (jobs[0].source, *whole)}) > 1:
        expected = "one base and one baseline for all seeds"
        raise RecordError(expected, found="several", where=HOME, fix="call again")
    return [found[job.settings.seed] for job in jobs]


def digest_baseline(copy: Path) -> str:
    """Return the digest of what dvc.lock says of the base and its measurement."""
    stages = read_stages(copy)
    return digest([stages.get(name, {}).get("outs", []) for name in ("base", "pre_eval")])


def add_history(root: Path, recipe: str, found: SeedsTogether) -> SeedsTogether:
    """Return a recipe with the bases it had before, and a note of finished seeds that were not asked for."""
    kind = (found.code_digest, found.data_digest, found.settings_digest)
    held = recipe_file.read_recipes(root).get(found.task)
    if held is not None and not found.bases and (held.code_digest, held.settings_digest) == kind[::2]:
        found = found.model_copy(update={"bases": held.bases})
    if held is not None and not {*held.seeds} <= {*found.seeds}:
        seeds = ", ".join(map(str, held.seeds))
        say(f"recipe.json held seeds {seeds} of {held.task}; it holds what was asked for now")
    others = []
    for copy in (root / HOME).glob(f"{recipe}-seed*/"):
        seed = copy.name.removeprefix(f"{recipe}-seed")
        with suppress(AssayError):  # one that cannot be read is no finished run
            same = LAST in read_stages(copy) and recipe_file.digest_run(copy) == kind
            if same and seed.isdecimal() and int(seed) not in found.seeds:
                others.append(int(seed))
    if others:
        note = remark("seeds_not_asked", seeds=sorted(others))
        found = found.model_copy(update={"notes": (*found.notes, note)})
    return found


def print_recipe(found: SeedsTogether) -> None:
    """Say the verdict over seeds, what speaks against it, and the tables of seeds and bases."""
    say(f"{found.task}: {found.marked}: {found.sentence}")
    for warning in found.remarks:
        say(f"warning: {warning}")
    for frame in (runs_frame(found.runs), *([bases_frame(found.bases)] if found.bases else [])):
        say_table(list(frame.columns), [[str(cell) for cell in row] for row in frame.itertuples(index=False)])


HOME = ".scratch/seeds"
# What stages read of a project besides each other's outputs; evidence, dvc.lock and models are theirs.
FILES = ("constraints.txt", "dvc.yaml", ".dvcignore", ".dvc/config", ".dvc/plots")
INPUTS = ("src", "tasks", "configs", "data", *FILES)
_OUTPUT = re.compile(r"(models|evidence)(/\w[\w.-]*)+")
_FIX = "call this in the project's folder"


@dataclass(frozen=True, slots=True)
class SeedJob:
    """A copy, its settings, the last stage to run; `source` has its inputs, and outputs of `handed`
    stages."""

    copy: Path
    source: Path
    settings: Selection
    handed: tuple[str, ...]
    stage: str
    base_seed: int | None = None

    @property
    def log(self) -> Path:
        """Where everything goes that DVC and the stages say."""
        return self.copy.with_name(f"{self.copy.name}.log")


def run_jobs(jobs: Sequence[SeedJob], at_once: int, label: str) -> Iterator[tuple[SeedJob, str | None]]:
    """Run `dvc repro` in copies, so many at once; yield each as it ends, with what failed or None.

    Raises:
        ConfigError: DVC is not installed.
    """
    dvc = shutil.which("dvc")
    if dvc is None:
        fix = "./run assay seeds, which knows where it is"
        raise ConfigError("the command dvc", found="none on the PATH", where="assay seeds", fix=fix)
    waiting, going = list(jobs), dict[SeedJob, subprocess.Popen[bytes]]()
    try:
        with progress(label, len(jobs)) as advance:
            while waiting or going:
                while waiting and len(going) < at_once:
                    job = waiting.pop(0)
                    try:
                        prepare_copy(job)
                    except AssayError as error:
                        advance(1, job.copy.name)
                        yield job, describe(error, job.copy)
                    else:
                        going[job] = start_dvc(dvc, job)
                        say(f"{job.copy.name}: at work, see {job.log.name} in {HOME}")
                time.sleep(0.2)
                for job in [job for job, process in going.items() if process.poll() is not None]:
                    code = going.pop(job).returncode
                    take_back_ledger(job.copy)
                    advance(1, job.copy.name)
                    yield job, describe(read_failure(job.log, code), job.copy) if code else None
    finally:
        # Ctrl-C reached them as well: a training saves its step and ends.
        for process in going.values():
            process.wait()


def start_dvc(dvc: str, job: SeedJob) -> subprocess.Popen[bytes]:
    """Start `dvc repro` in a copy; it ends with this process."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("DVC_EXP")}
    # The code that DVC hashes in the copy is the code that runs, whatever happens to the project meanwhile.
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [f"{job.copy.resolve()}/src", env.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "assay.core.parent", dvc, "repro", job.stage]
    with job.log.open("wb") as log:
        quiet = subprocess.DEVNULL
        return subprocess.Popen(command, cwd=job.copy, env=env, stdin=quiet, stdout=log, stderr=log)


def read_failure(log: Path, code: int) -> str:
    """Return in one line why DVC ended with a code: what assay said last, else what DVC said first."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    ours, theirs = ([line for line in lines if line.startswith(start)] for start in ("assay: ", "ERROR: "))
    if ours or theirs:
        return (ours[-1:] or theirs)[0].partition(": ")[2].rstrip(".")
    return f"DVC ended with {code}" if code > 0 else f"DVC was ended by signal {-code}"


def prepare_copy(job: SeedJob) -> None:
    """Make a copy hold its source's inputs as they are now, and what is handed to it; other outputs stay."""
    source, copy = job.source, job.copy
    wait_for_stages(copy)
    for name in INPUTS:
        _replace(source / name, copy / name)
    (copy / ".dvc-site/repo").mkdir(parents=True, exist_ok=True)  # DVC would make it open to all users
    # No git of its own; DVC's cache is the project's, so that what is known there is not made again.
    # Relative, since a comma or # in the way to the project would be grammar there.
    cache = os.path.relpath((copy.parents[2] / ".dvc/cache").resolve(), (copy / ".dvc").resolve())
    write_text(copy / ".dvc/config.local", f"[core]\n    no_scm = true\n[cache]\n    dir = {cache}\n")
    (copy / ".dvc/tmp/rwlock").unlink(missing_ok=True)  # a killed DVC can leave it empty, which none can read
    if job.base_seed is not None:
        line = r"(\n  kind: scratch\n  seed: )\d+"
        for preset in files_of(copy, "grpo", job.settings.grpo):
            text = read_text(copy / preset, fix=_FIX)
            write_text(copy / preset, re.sub(line, rf"\g<1>{job.base_seed}", text))
    use(copy, grpo=job.settings.grpo, task=job.settings.task, seed=job.settings.seed)
    params = Project.open(copy).params
    seed = params.base.seed if isinstance(params.base, ScratchBase) else None
    if job.base_seed not in (None, seed):
        expected, where = "a base that is built from a seed", f"configs/grpo/{job.settings.grpo}.yaml"
        found = "none" if seed is None else f"seed {seed}, which does not stand below kind: scratch"
        raise ConfigError(expected, found=found, where=where, fix="write both lines; or no --bases")
    data = params.dataset.root
    if not Path(data).is_absolute() and not data.startswith("data/"):
        _replace(source / data, copy / data)
    model = Path(params.base.model) if isinstance(params.base, PretrainedBase) else Path("~")
    if (source / model).exists() and not model.is_absolute() and not os.path.lexists(copy / model):
        # Gigabytes, and told by their digest: a link will do.
        (copy / model).parent.mkdir(parents=True, exist_ok=True)
        (copy / model).symlink_to((source / model).resolve())
    hand_over(source, copy, job.handed)
    lend_ledger(copy)


def lend_ledger(copy: Path) -> None:
    """Let a copy know which held-out records its project opened, and go by the project's random name: seeds
    pay for what was seen before them."""
    project = copy.parents[2]
    known = openings(project)
    if known is not None:
        write_json(copy / OBSERVED / LEDGER, merged(known, openings(copy) or NOTHING))
        write_text(memory(copy) / NAME, copy_id(project))


def take_back_ledger(copy: Path) -> None:
    """Note in the project what a copy opened, whether its run ended well or not."""
    found = openings(copy)
    if found is not None:
        adopt(copy.parents[2], found)


def has_stages(copy: Path) -> bool:
    """Return whether a copy has a dvc.lock that is whole; one torn by a kill is none."""
    with suppress(AssayError):
        return bool(read_stages(copy))
    return False


def hand_over(source: Path, copy: Path, handed: Sequence[str]) -> None:
    """Give a copy the outputs of stages, and what dvc.lock says of them; what is lacking is made anew."""
    before = read_stages(copy) if has_stages(copy) else {}
    known = {name: stage for name, stage in read_stages(source).items() if name in handed}
    for out in [out for stage in known.values() for out in stage.get("outs", [])]:
        path = str(out["path"])
        if _OUTPUT.fullmatch(path) and (source / path).exists():
            _replace(source / path, copy / path)
    after = {name: stage for name, stage in before.items() if name not in handed} | known
    if not after:
        (copy / LOCK).unlink(missing_ok=True)
    elif after != before:  # otherwise it keeps its bytes, and so its digest; JSON is YAML
        write_text(copy / LOCK, dumps({"schema": "2.0", "stages": after}) + "\n")


def wait_for_stages(copy: Path, seconds: float = 120.0) -> None:
    """Wait until no stage of a killed call is at work in a copy; RunningAlready after so long."""
    until, locks = time.monotonic() + seconds, sorted((copy / ".scratch").glob("*/*.lock"))
    while locks:
        try:
            with hold(locks[0]):
                locks.pop(0)
        except RunningAlready:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


def _replace(source: Path, target: Path) -> None:
    """Put a file or a folder in the place of another: a file that the source lost would count for DVC."""
    if not source.is_dir():
        write_bytes(target, read_bytes(source, fix=_FIX))
        return
    if target.is_dir():
        shutil.rmtree(target)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info"))
