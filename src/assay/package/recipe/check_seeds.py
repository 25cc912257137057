"""The raw episodes of every seed of a recipe, in a package of their own, and what such a package says again
of itself: data, dvc.lock, every claim from raw episodes, each run as a package of it alone would be looked
at, the numbers over seeds.

One archive a task in evidence/seeds/, tracked by DVC through a file beside it. What is equal in every run, as
the data and the measurement of the base, lies in it once. All follows from it with this code and no model.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from assay.core.config.settings import ScratchBase
from assay.core.counting import counted
from assay.core.errors import ConfigError, PackageError
from assay.core.evidence_files import LOGS, RESULTS, folder_of, place_of
from assay.core.records import Episode
from assay.core.storage.files import read_bytes, write_bytes, write_text
from assay.core.storage.json import dumps, read_record, write_json
from assay.core.storage.untrusted import listing
from assay.package.checking import RECIPE, SHARED
from assay.package.recipe import recipe_file
from assay.package.recipe.compare import LOCK, SETTINGS
from assay.package.verification.checks import Check, LookResult, looked, unlooked
from assay.package.verification.code import md5_here
from assay.package.verification.compared import compare
from assay.package.verification.own_code import own_copy, unseen_said
from assay.package.verification.packed_seed import PackedSeed, lines_of, looks_at, seeds_apart
from assay.package.verification.unpacked import link
from assay.pipeline.dvc_lock import SOURCE, code_in, md5, md5_at
from assay.pipeline.project import Project
from assay.stages import fingerprint
from assay.stages.packing.archive import sealed, sha256_of, write_gz, write_tar
from assay.stages.packing.layout import BASE, PROVENANCE, SUMS, TOLD, files_of
from assay.stages.packing.pages import told_of
from assay.stages.packing.secrets.known import known_secrets, this_machine
from assay.stages.packing.secrets.search import refuse, scan
from assay.stages.packing.verify import FORMAT
from assay.stages.render_evidence.ahead import end_when_orphaned
from assay.stages.render_evidence.claim_at import claim_at
from assay.stages.render_evidence.scripted import FOLDER, scripted_files, write_scripted
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.figures.drawing import render
from assay.verdict.evidence.figures.gallery import of_seeds_of
from assay.verdict.evidence.recipe.records import Recipes, SeedsTogether

HOME = "evidence/seeds"
# Of each run: the results that dvc.lock vouches for, and of what was rendered from them what recipe.json
# quotes.
PAGES = tuple(place_of(name) for name in ("claim.json", "metrics.json"))
PLAYERS = place_of(FOLDER)  # what the scripted players did, which is the same in all
KINDS = ("png", "svg")
TOKENIZER = f"{BASE}/tokenizer.json"
FIX = "./run assay seeds again"
DATA = folder_of("data")
LOGGED = place_of("train_log.jsonl").rpartition("/")[0]
# By whom the rest is told, which a package of seeds does not hold.
NO_MODELS = (
    "a package of seeds holds no base, no adapter and no ledger: that models with these digests played, and"
    " which openings came before, is the word of whoever made it"
)
NO_LOGS = (
    "of an older version, and without evidence/logs/train: the tables of a training were held against each"
    " other, its settings and its facts, and not made again from its log"
)
OTHER = "check it with the version that made it, or make it again: ./run assay seeds"
# What runs have in common, worked out once; a process that is forked has it too.
_KNOWN: dict[tuple[str, ...], Any] = {}


def pack_seeds(root: Path, found: SeedsTogether, copies: Sequence[Path]) -> Path:
    """Write evidence/seeds/<task>.tar.gz of finished runs, the file by which DVC tracks it, and the figure.

    Raises:
        PackageError: A file of a run is missing, or there is a secret in one.
        OSError: It cannot be written; an older archive stays.
    """
    packed, figures = root / HOME / f"{found.task}.tar.gz", draw_seeds(found, copies[0])
    write_seeds(packed, found, copies, figures)
    for name, drawing in figures.items():
        write_bytes(packed.with_name(name), drawing)
    content = read_bytes(packed, fix=FIX)
    # By hand what `dvc add` writes, but for its copy in the cache: the archive itself is in git.
    tracked = {
        "md5": md5(content),
        "size": len(content),
        "hash": "md5",
        "path": packed.name,
        "cache": "false",
    }
    lines = [f"{'- ' if name == 'md5' else '  '}{name}: {value}" for name, value in tracked.items()]
    write_text(packed.with_name(f"{packed.name}.dvc"), "\n".join(["outs:", *lines, ""]))
    return packed


def write_seeds(
    path: Path, found: SeedsTogether, copies: Sequence[Path], figures: Mapping[str, bytes] | None = None
) -> str:
    """Write the package of finished runs as .tar.gz; return its identity.

    Args:
        path: The archive.
        found: What the runs say together.
        copies: Their folders, each with a name of its own.
        figures: The figure of every seed by its file, where it is drawn already.

    Raises:
        PackageError: A file of a run is missing, or there is a secret in one.
        OSError: It cannot be written; an older archive stays.
    """
    runs = {copy.name: packed_of(copy) for copy in copies}
    for copy in copies:
        _refuse_secrets(copy, runs[copy.name])
    drawn = draw_seeds(found, copies[0]) if figures is None else figures
    members: dict[str, bytes | Path] = {**drawn, RECIPE: recipe_bytes(found)}
    for name in sorted({name for files in runs.values() for name in files}):
        places = [files.get(name) for files in runs.values()]
        same = None not in places and len({sha256_of(place) for place in places if place}) == 1
        for run, files in list(runs.items())[: 1 if same else None]:
            if name in files:
                members[f"{SHARED if same else run}/{name}"] = files[name]
    members[PROVENANCE] = provenance_bytes(found.task, members)
    with tempfile.TemporaryDirectory(prefix="assay-seeds-") as scratch:
        identity = write_tar(Path(scratch, "seeds.tar"), sealed(members))
        write_gz(path, Path(scratch, "seeds.tar"))
    return identity


def _refuse_secrets(copy: Path, files: Mapping[str, bytes | Path]) -> None:
    """Refuse a run that holds a secret in anything but what a model wrote, which the package of a run looks
    through.

    Raises:
        PackageError: It holds one that no waiver of its settings answers for.
    """
    written = tuple(name for name in files if name.startswith((RESULTS, LOGS)) and name.endswith(".jsonl"))
    known = known_secrets(this_machine(copy)).secrets
    looked_at = {name: content for name, content in files.items() if name not in written}
    found = scan(looked_at, known, Project.open(copy).params.package.waivers)
    refuse([each for each in found if each.reason is None], ())


def packed_of(copy: Path) -> dict[str, bytes | Path]:
    """Return what of a run is packed, by name; of a task that was brought along also what its code told, by
    which a check that does not run it plays again."""
    told = told_of(Project.open(copy))
    names = [name for name in entries_of(copy) if name != TOLD]
    return dict(files_of(copy, names, fix=FIX)) | ({} if told is None else {TOLD: told})


def entries_of(copy: Path) -> list[str]:
    """Return what of a run is packed: its results and logs, as dvc.lock names them, its settings, its data,
    and the tokenizer of its base where that was learned."""
    outs = [
        str(out["path"])
        for name, stage in recipe_file.read_stages(copy).items()
        if name != recipe_file.LAST
        for out in stage.get("outs", [])
    ]
    kept = [out for out in outs if out.startswith((f"{RESULTS}/", f"{LOGS}/"))]
    project = Project.open(copy)
    own = [TOLD, *code_of_task(project)] if project.params.task.brings_code else []
    return [*kept, *PAGES, PLAYERS, SETTINGS, LOCK, *data_of(project), *words_of(project), *own]


def words_of(project: Project) -> list[str]:
    """Return the file without which no token can be counted: of a base whose tokenizer was learned."""
    base = project.params.base
    learned = isinstance(base, ScratchBase) and base.bpe_vocabulary is not None
    return [TOKENIZER] if learned else []


def data_of(project: Project) -> list[str]:
    """Return the folder of the data, without which no episode can be graded; none where it lies elsewhere."""
    return _within(project.params.dataset.root)


def code_of_task(project: Project) -> list[str]:
    """Return the folder of a task that was brought along, whose digest is in every suite's; none of a task of
    assay. It is not run."""
    return _within(project.params.task.code) if project.params.task.brings_code else []


def _within(folder: str) -> list[str]:
    path = PurePath(os.path.normpath(folder))
    return [] if path.is_absolute() or path.parts[:1] in ((), ("..",)) else [path.as_posix()]


def recipe_bytes(found: SeedsTogether) -> bytes:
    """Return recipe.json as the package of one recipe holds it: without the bases that were built beside it,
    of which the package holds nothing."""
    kept = found.model_copy(update={"bases": ()})
    return f"{dumps(Recipes(recipes={found.task: kept}).model_dump(mode='json'))}\n".encode()


def provenance_bytes(task: str, members: Mapping[str, bytes | Path]) -> bytes:
    """Return provenance.json: of which task, and the sha256 of what no dvc.lock vouches for."""
    apart = {*PAGES, SETTINGS, TOKENIZER, TOLD}
    named = [
        name
        for name in members
        if "/" not in name or (inner := name.partition("/")[2]) in apart or inner.startswith(f"{PLAYERS}/")
    ]
    digests = {name: sha256_of(members[name]) for name in sorted({*named} - {PROVENANCE, SUMS})}
    return f"{dumps({'format': FORMAT, 'seeds': task, 'sha256': digests})}\n".encode()


def older_provenance(task: str) -> bytes:
    """Return the same as it was before it named files."""
    return f"{dumps({'format': FORMAT, 'seeds': task})}\n".encode()


def draw_seeds(found: SeedsTogether, copy: Path) -> dict[str, bytes]:
    """Return the figure of every seed by its file; which measure is primary, the settings of a run say."""
    shown = of_seeds_of(found, Project.open(copy).params.claim.primary)
    drawn = render(shown.figure, shown.finding)
    return {f"{found.task}.{kind}": content for kind, content in drawn.items()}


def check_seeds(
    package: Path, work: Path, *, other_code: bool = False, processes: int = 2, task_code: Path | None = None
) -> Iterator[Check]:
    """Yield what the runs of an unpacked package say again of themselves and of recipe.json.

    Args:
        package: The folder of the package; only read.
        work: An empty folder.
        other_code: Whether a figure that is drawn otherwise goes unjudged.
        processes: How many runs are looked at at a time.
        task_code: The checker's own copy of the folder of a task that was brought along, which is run.

    Raises:
        PackageError: That folder is not the one that graded these runs.
    """
    for check in _checks(package, work, task_code, other_code=other_code, processes=processes):
        found = check.found.replace(f"{work / 'stored'}/", "").replace(f"{package}/", "")
        yield check.model_copy(update={"found": found.replace(str(work), "the package")})


def _checks(
    package: Path, work: Path, task_code: Path | None, *, other_code: bool, processes: int
) -> Iterator[Check]:
    told: dict[str, SeedsTogether] = {}
    yield looked("V1", "recipe", partial(_names, package, told))
    if len(told) != 1:
        return
    (one,) = told.values()
    copies = [work / "stored" / run.name for run in one.runs]
    first = looked("V1", "runs", partial(_restored, package, copies))
    yield first
    if first.outcome == "failed":
        yield unlooked("V1", "all else", "not looked at: the runs cannot be put together")
        return
    yield looked("V3", "code", partial(_code, copies[0], other_code=other_code))
    yield looked("V3", "dvc.lock", partial(_locked, package, one, copies))
    again = work / "again"
    own = None if task_code is None else own_copy(copies[0], task_code, work / "code")
    data = partial(_data_again, copies, work / "data", own)
    try:
        yield from _claims_again(copies, again, data, own, processes=processes)
    except (OSError, RuntimeError) as error:  # a process beside was killed, or could not be started
        yield Check(level="V1", name="claims", outcome="failed", found=f"a process ended: {error}")
        return
    packages = {copy.name: PackedSeed(copy, task_code=own) for copy in copies}
    if own is None and Project.open(copies[0]).params.task.brings_code:
        yield unlooked("V2", "rewards", unseen_said(packages[copies[0].name]))
    yield looked("V3", "seeds apart", partial(seeds_apart, packages))
    yield unlooked("V3", "models and ledger", NO_MODELS, "not shown")
    if not all(package.logged or package.elsewhere for package in packages.values()):
        yield unlooked("V3", "logs of the trainings", NO_LOGS)
    if one.bases or one.notes:
        said = "what recipe.json says of bases and trainings that are not in the package is its maker's word"
        yield unlooked("V1", "bases and notes", said, "not shown")
    name = f"{one.task}: the numbers over seeds, from raw episodes"
    yield looked("V1", name, partial(_numbers_again, package, one, copies, again))
    yield looked("V1", "figure", partial(_figure_again, package, one, copies[0], again, other_code))


def _names(package: Path, told: dict[str, SeedsTogether]) -> LookResult:
    found = read_record(package / RECIPE, Recipes, fix=FIX).recipes
    if len(found) != 1:
        return LookResult("", [f"{RECIPE}: {len(found)} recipes, one is expected"])
    (one,) = found.values()
    runs = [run.name for run in one.runs]
    if odd := [name for name in runs if not name or "/" in name or name in (".", "..", SHARED)]:
        return LookResult("", [f"{RECIPE}: a run named {odd[0]!r}"])
    told.update(found)
    expected = {SHARED, RECIPE, PROVENANCE, SUMS, *(f"{one.task}.{kind}" for kind in KINDS), *runs}
    others = sorted(each.name for each in package.iterdir() if each.name not in expected)
    wrong = [f"{name}: has no place in a package of seeds" for name in others]
    alike = {*listing(package / SHARED)}
    for run in runs:
        twice = [name for name in listing(package / run) if name in alike]
        wrong += [
            f"{run}/{name}: lies in {SHARED} too, where no check would read it" for name in sorted(twice)
        ]
    stored = read_bytes(package / PROVENANCE, fix=FIX)
    now = provenance_bytes(one.task, {name: package / name for name in listing(package)})
    if stored not in (now, older_provenance(one.task)):
        wrong.append(f"{PROVENANCE}: not the task and the sha256 of what no {LOCK} vouches for")
    return LookResult("one recipe, and files as provenance.json has them", wrong)


def _restored(package: Path, copies: Sequence[Path]) -> LookResult:
    """Put the runs together; without their data nothing could be graded."""
    for copy in copies:
        for home in (package / SHARED, package / copy.name):
            if not home.is_dir():
                raise PackageError("the files of every run", found="no folder", where=copy.name, fix=FIX)
            shutil.copytree(home, copy, dirs_exist_ok=True, copy_function=link)
        try:
            project = Project.open(copy)
            data = data_of(project)
        except ConfigError as error:
            told = f"{copy.name}, {error.where}: expected {error.expected}, found {error.found}"
            return LookResult("", [f"settings of another version of assay ({told}). Fix: {OTHER}"])
        if not any((copy / each).is_dir() for each in data):
            said = (
                "it holds no data, so no episode can be graded again: of an older version,"
                " or data from outside"
            )
            return LookResult("", [f"{said} of the project. Fix: {OTHER}"])
        own = [TOLD, project.params.task.code] if project.params.task.brings_code else []
        if lost := [name for name in own if not (copy / name).exists()]:
            return LookResult("", [f"{copy.name}: no {lost[0]}, as of an older version. Fix: {OTHER}"])
        _write_lock(copy)
    return LookResult(f"{counted(len(copies), 'runs')} with data, settings and results")


def _write_lock(copy: Path, without: str = "") -> None:
    """Write dvc.lock as JSON, which is read often, without a stage."""
    stages = recipe_file.read_stages(copy)
    kept = {name: stage for name, stage in stages.items() if name != without}
    write_text(copy / LOCK, f"{dumps({'schema': '2.0', 'stages': kept})}\n")


def _code(copy: Path, *, other_code: bool) -> LookResult:
    """Say whether the code that made the claims is the code here. If it is not, the numbers judge:
    `--other-code` excuses no more than is said."""
    stages = recipe_file.read_stages(copy)
    task = Project.open(copy).params.task.told_code
    rooms = code_in({recipe_file.LAST: stages.get(recipe_file.LAST, {})}, task)
    odd = [name for name, known in rooms.items() if md5_here(name) != known]
    if odd or not rooms:
        first = min(odd, default="none is known")
        said = (
            f"{len(odd)} of {len(rooms)} rooms that make a claim differ from those that check here,"
            f" first {first}"
        )
        how = "accepted (--other-code)" if other_code else "the numbers judge, as with --other-code"
        return LookResult(f"{said}; {how}", left=sorted(odd) or [SOURCE])
    return LookResult(f"the {len(rooms)} rooms that make a claim are those that check here")


def _locked(package: Path, one: SeedsTogether, copies: Sequence[Path]) -> LookResult:
    """Compare every result and the data with what dvc.lock of their run says, and that with recipe.json."""
    wrong, n = list[str](), 0
    for copy in copies:
        if sha256_of(package / copy.name / LOCK) != one.lock_sha256.get(copy.name):
            wrong.append(f"{copy.name}/{LOCK}: not that of {RECIPE}")
        entries, known, faults = entries_of(copy), dict[str, str](), dict[str, str]()
        if not any((each / LOGGED).exists() for each in copies):  # of an older version, which is said
            entries.remove(LOGGED)
        for stage, found in recipe_file.read_stages(copy).items():
            for entry in [*found.get("deps", []), *found.get("outs", [])]:
                path = str(entry["path"])
                if path not in entries or path in PAGES:
                    continue
                has = known.setdefault(path, md5_at(copy / path))
                if has != entry.get("md5"):
                    said = f"{str(entry.get('md5'))[:12]} by {stage} of {LOCK}, it is {has[:12]}"
                    faults.setdefault(path, f"{copy.name}/{path}: {said}")
        n, wrong = n + len(known), [*wrong, *faults.values()]
        inside = tuple(f"{each}/" for each in entries)
        more = [name for name in listing(copy) if name not in entries and not name.startswith(inside)]
        wrong += [f"{copy.name}/{name}: has no place in a run" for name in sorted(more)]
    return LookResult(f"{counted(n, 'files and folders')} of {counted(len(copies), 'runs')}", wrong)


def _data_again(copies: Sequence[Path], work: Path, own: Path | None) -> LookResult:
    """Fingerprint, audit and plan again, once for what runs have in common."""
    done: dict[tuple[str, ...], str] = {}
    for copy in copies:
        project = PackedSeed(copy, task_code=own).project
        roots = [*data_of(project), *code_of_task(project)]
        kind = (*(md5_at(copy / each) for each in (*roots, DATA)), recipe_file.digest_run(copy)[2])
        if kind in done:
            continue
        again = work / copy.name
        for each in roots:
            shutil.copytree(copy / each, again / each, copy_function=link)
        fingerprint.run(replace(project, root=again))
        names = {f"{DATA}/{name}" for place in (copy, again) for name in listing(place / DATA)}
        seen = compare(copy, again, names, said="fingerprint, audit, contamination and plan")
        if seen.wrong:
            return LookResult("", [f"{copy.name}/{each}" for each in seen.wrong])
        done[kind] = seen.said
    return LookResult("; ".join(dict.fromkeys(done.values())))


def _claims_again(
    copies: Sequence[Path], again: Path, data: Callable[[], LookResult], own: Path | None, *, processes: int
) -> Iterator[Check]:
    """Yield the check of the data, and those of each run.

    The first claim is made before the others, which need much of what it needed; the data are looked at
    beside.
    """
    _KNOWN.clear()
    try:
        if processes < 2:
            yield looked("V1", "data", data)
            for copy in copies:
                yield from _run_again(copy, again, own)
            return
        context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
        pool_of = partial(ProcessPoolExecutor, mp_context=context, initializer=end_when_orphaned)
        with pool_of(1) as pool:
            beside = pool.submit(looked, "V1", "data", data)
            first = _run_again(copies[0], again, own)
            yield beside.result()
        yield from first
        with pool_of(processes) as pool:
            for found in pool.map(partial(_run_again, again=again, own=own), copies[1:]):
                yield from found
    finally:
        _KNOWN.clear()


def _run_again(copy: Path, again: Path, own: Path | None) -> list[Check]:
    """Grade every episode of a run again and make its claim, which takes the place of what is stored; then
    look at it as at any run."""
    read: dict[str, list[Episode]] = {}

    def look() -> LookResult:
        project = PackedSeed(copy, task_code=own).project
        made, place = claim_at(project, _KNOWN), again / copy.name
        read.update({name: episodes for name, (_, episodes) in made.arms.items()})
        for name, content in zip(PAGES, (made.claim, made.metrics()), strict=True):
            write_json(place / name, content)
        n = sum(len(episodes) for _, episodes in made.arms.values())
        how = "read" if own is None and project.params.task.brings_code else "graded"
        said = f"{counted(n, 'episodes')} of {counted(len(made.arms), 'arms')} {how} again; claim and metrics"
        # As a record, since a field that came later is told by its default.
        stored = again / f"{copy.name}-stored"
        write_json(stored / PAGES[0], read_record(copy / PAGES[0], Claim, fix=FIX))
        write_bytes(stored / PAGES[1], read_bytes(copy / PAGES[1], fix=FIX))
        players = scripted_files(listing(copy))
        if players:
            for name in players:
                link(copy / name, _room_for(stored / name))
            write_scripted(replace(project, root=place), made.scripted)
            players = sorted({*players, *scripted_files(listing(place))})
            said = f"{said}, and what scripted players did"
        seen = compare(stored, place, [*PAGES, *players], said=said, in_any_order=PAGES[1:])
        for name in PAGES:
            write_bytes(copy / name, (place / name).read_bytes())
        # Not in the package, but what recipe.json tells of each seed is from there.
        for name, further in (("details.json", made.details), ("reports.json", made.reports)):
            write_json(copy / place_of(name), further)
        return LookResult(seen.said, [*made.misgraded, *seen.wrong])

    claim = looked("V1", f"{copy.name}: claim", look)
    seed = PackedSeed(copy, read, task_code=own)
    return [claim, *lines_of(copy.name, [*looks_at(seed, again / f"{copy.name}-tables")])]


def _room_for(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _numbers_again(package: Path, told: SeedsTogether, copies: Sequence[Path], again: Path) -> LookResult:
    """Put recipe.json together again, from the claims that were made again."""
    one_sided = told.recipe is not None and told.recipe.sided == "one-sided"
    for copy in copies:  # what it rendered is another now where it was edited, which its own check said
        _write_lock(copy, without=recipe_file.LAST)
    runs = [recipe_file.read_seed(copy) for copy in copies]
    found = recipe_file.combine_seeds(told.task, told.preset, copies, runs, (), one_sided=one_sided)
    # What runs were left out, they cannot say; and what dvc.lock was, dvc.lock shows.
    notes = told.notes if {*found.notes} <= {*told.notes} else found.notes
    update: Mapping[str, Any] = {"notes": notes, "lock_sha256": told.lock_sha256}
    write_bytes(again / RECIPE, recipe_bytes(found.model_copy(update=update)))
    stored = again / "stored"
    write_bytes(stored / RECIPE, recipe_bytes(told) if told.bases else read_bytes(package / RECIPE, fix=FIX))
    return compare(stored, again, [RECIPE], said=f"{RECIPE} over {counted(len(runs), 'seeds')}")


def _figure_again(
    package: Path, told: SeedsTogether, copy: Path, again: Path, other_drawings: bool
) -> LookResult:
    """Draw the figure of every seed again, from the numbers that were made again."""
    (found,) = read_record(again / RECIPE, Recipes, fix=FIX).recipes.values()
    drawn = draw_seeds(found, copy)
    for name, content in drawn.items():
        write_bytes(again / name, content)
    seen = compare(package, again, drawn, said="the gain of every seed, drawn again")
    if seen.wrong and other_drawings:
        return LookResult(f"drawn otherwise here: {seen.wrong[0]}", outcome="not checked")
    return seen
