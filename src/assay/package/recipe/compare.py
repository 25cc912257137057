"""`assay runs compare`: trainings of several seeds as one statement about the recipe; recipes in pairs."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from assay.core.console import complain, say, say_table
from assay.core.errors import AssayError, EvidenceError, RecordError
from assay.core.evidence_files import RESULTS, place_of
from assay.core.records import Episode
from assay.core.storage.files import read_text, write_bytes, write_text
from assay.core.storage.json import loads, read_record, read_records, write_json
from assay.core.storage.tables import write_csv
from assay.core.storage.untrusted import inside, listing, read_capped
from assay.core.storage.yaml import read_yaml
from assay.pipeline.dvc_lock import folder_md5, md5
from assay.pipeline.project import Project
from assay.stages.render_evidence.at_hand import changed_settings, claim_at_hand
from assay.verdict.evidence.figures.drawing import render
from assay.verdict.evidence.figures.recipe_figures import performance_profile, seeds_forest
from assay.verdict.evidence.recipe.runs import RUNS, KnownClaim, KnownTraining, Run
from assay.verdict.evidence.recipe.tables import (
    CSV_COLUMNS,
    RecipeComparison,
    compare_runs,
    comparison_frame,
    comparison_markdown,
    contests_frame,
    csv_rows,
    recipes_frame,
)
from assay.verdict.evidence.words.over_seeds import MEANING
from assay.verdict.evidence.words.remarks import Remark, remark


def run(root: Path, names: Sequence[str], *, one_sided: bool, out: Path | None) -> None:
    """Say what the runs show together; with `out` write compare.json, compare.csv, compare.md and two figures
    there.

    Raises:
        AssayError: A run cannot be read, or they cannot be put together.
    """
    if out is not None and out.exists() and not out.is_dir():
        fix = "--out with another name"
        raise RecordError("a folder to write in", found="a file", where=str(out), fix=fix)
    runs = read_all(root, names or [*list_experiments(root), WORKSPACE])
    notes: list[Remark] = []
    if not names:
        runs, notes = drop_copies(runs)
    runs, unknown = drop_unknown_code(runs)
    found = compare_runs(runs, one_sided=one_sided, notes=[*notes, *unknown])
    print_comparison(found)
    if out is not None:
        write_comparison(out, found, runs[0].claim.plan.smallest_effect_points, runs[0].claim.plan.primary)
        say(f"wrote compare.json, compare.csv, compare.md and figures to {out}")


def read_all(root: Path, names: Sequence[str]) -> list[Run]:
    """Return all runs; if one cannot be read none is compared, since those that fail are seldom a random
    choice.

    Raises:
        EvidenceError: Some cannot be read; each is said.
        AssayError: The only one cannot.
    """
    runs: list[Run] = []
    failed: list[AssayError] = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="assay-compare-") as scratch:
            try:
                runs.append(read_run(root, name, Path(scratch)))
            except AssayError as error:
                failed.append(error)
    if len(failed) == 1:
        raise failed[0]
    if failed:
        for each in failed:
            complain(str(each))
        found, fix = f"{len(failed)} that cannot (above)", "do what stands there, or name the others alone"
        fix += " (and say what was left out, and why)"
        raise EvidenceError("runs that can be read", found=found, where=RUNS, fix=fix)
    return runs


def drop_copies(runs: Sequence[Run]) -> tuple[list[Run], list[Remark]]:
    """Return the runs without those that are another one's copy in everything, and a note of each copy.

    After `dvc exp run` the workspace holds the newest experiment a second time.
    """
    kept: list[Run] = []
    notes = []
    for run in runs:
        same = [k for k in kept if (k.trained, k.settings, k.claim) == (run.trained, run.settings, run.claim)]
        if same:
            notes.append(remark("same_run", training=run.name, other=same[0].name))
        else:
            kept.append(run)
    return kept, notes


def drop_unknown_code(runs: Sequence[Run]) -> tuple[list[Run], list[Remark]]:
    """Return the runs, without code in their settings if it is not known of all; then a note says so."""
    unknown = [run.name for run in runs if not any(name.startswith(CODE) for name in run.settings)]
    if not unknown:
        return list(runs), []
    bare = [
        replace(run, settings={k: v for k, v in run.settings.items() if not k.startswith(CODE)})
        for run in runs
    ]
    return bare, [remark("code_not_known", trainings=unknown)]


def print_comparison(found: RecipeComparison) -> None:
    """Say verdicts, then tables, then what the intervals are for."""
    for recipe in found.recipes:
        title = f"{recipe.recipe}: " if len(found.recipes) > 1 else ""
        say(f"{title}{recipe.marked}: {recipe.sentence}")
        for warning in recipe.warnings:
            say(f"warning: {title}{warning}")
    for contest in found.contests:
        say(f"{contest.marked}: {contest.sentence}")
    for note in found.notes:
        say(f"note: {note}")
    frames = [comparison_frame(found), recipes_frame(found)]
    frames += [contests_frame(found)] if found.contests else []
    for frame in frames:
        say("")
        say_table(list(frame.columns), [[str(cell) for cell in row] for row in frame.itertuples(index=False)])
    say("")
    say(MEANING)


def write_comparison(out: Path, found: RecipeComparison, smallest_effect_points: float, primary: str) -> None:
    """Write the comparison as record, table, text and figures; equal runs give equal bytes."""
    write_json(out / "compare.json", found)
    write_csv(out / "compare.csv", csv_rows(found), CSV_COLUMNS)
    write_text(out / "compare.md", comparison_markdown(found))
    figures = {
        "seeds_forest": seeds_forest(found.recipes, smallest_effect_points, primary),
        "performance_profile": performance_profile(found.recipes, primary),
    }
    for name, figure in figures.items():
        for kind, content in render(figure).items():
            write_bytes(out / f"{name}.{kind}", content)


# Of a run, by their names in a folder of results.
CLAIM, TRAINED, BEFORE, AFTER = FILES = tuple(
    place_of(name).removeprefix(f"{RESULTS}/")
    for name in ("claim.json", "train.json", "pre_eval.jsonl", "post_eval.jsonl")
)
MAX_BYTES = 1_000_000_000
SETTINGS, LOCK, PIPELINE = "params.yaml", "dvc.lock", "dvc.yaml"
CODE = "code: "
MEASURED = ("train", "pre_eval", "post_eval")
# These change no result, or are the seed itself.
APART = ("seed", "version", "checkpoint")
WORKSPACE = "workspace"
_PARSED: dict[bytes, list[Episode]] = {}
TAKE = "take the run's files again, or name another run"


def list_experiments(root: Path) -> list[str]:
    """Return the DVC experiments that started from the commit at hand, by name; none outside of git."""
    head = _find_commit(root, "HEAD")
    return sorted(name for name, base, _ in _experiments(root) if base == head)


def read_run(root: Path, name: str, scratch: Path) -> Run:
    """Return the run that a folder, an experiment or a revision holds.

    Args:
        root: The project, for experiments and revisions.
        name: A folder, or else the name of an experiment, or any revision of git.
        scratch: An empty folder, for files out of git.

    Raises:
        AssayError: There is no such run, a file of it is missing or damaged, or they are not of one run.
    """
    folder = root if name == WORKSPACE else Path(name)
    if name == WORKSPACE and (folder / RESULTS / CLAIM).is_file() and (folder / PIPELINE).is_file():
        claim_at_hand(Project.open(folder))  # it may be of other settings; an experiment brings its own
    if name and os.path.lexists(folder):  # an empty name is not the folder one stands in
        return _read(*_places(folder), name)
    take_out(root, _commit(root, name), scratch, name)
    try:
        return _read(scratch / RESULTS, scratch, name)
    except AssayError as error:
        where = error.where.replace(f"{scratch}/", f"{name}:")
        raise type(error)(error.expected, found=error.found, where=where, fix=error.fix) from None


def _places(folder: Path) -> tuple[Path, Path]:
    """Return where a folder has its results, and its settings."""
    fix = "name a project that was run, or a folder with its evidence/results and params.yaml"
    if not folder.is_dir():
        found = "something else, or a link to nothing"
        raise RecordError("a folder", found=found, where=str(folder), fix=fix)
    above = Path(os.path.realpath(folder)).parent.parent
    for results, settings in ((folder / RESULTS, folder), (folder, folder), (folder, above)):
        if (results / CLAIM).is_file() and (settings / SETTINGS).is_file():
            return results, settings
    missing = SETTINGS if any((place / CLAIM).is_file() for place in (folder, folder / RESULTS)) else CLAIM
    expected = f"{', '.join(FILES)} and {SETTINGS} of a run"
    raise RecordError(expected, found=f"no {missing}", where=str(folder), fix=fix)


def _read(results: Path, settings: Path, name: str) -> Run:
    contents: dict[str, bytes] = {}
    for home, file in [(results, file) for file in FILES] + [(settings, SETTINGS)]:
        place = Path(os.path.realpath(home))
        path = inside(place / file, [place], where=f"{name}, {file}", fix=TAKE)
        contents[file] = read_capped(path, max_bytes=MAX_BYTES, fix=TAKE)
    claim = read_record(results / CLAIM, KnownClaim, fix=TAKE)
    trained = read_record(results / TRAINED, KnownTraining, fix=TAKE)
    params = read_yaml(settings / SETTINGS, fix=TAKE)
    lock = read_lock(settings / LOCK, fix=TAKE) if (settings / LOCK).is_file() else None
    _check_one_run(name, claim, trained, params)
    if lock is not None:
        _check_recorded(name, lock, params, results)
    arms = [_episodes(results / arm, contents[arm]) for arm in (BEFORE, AFTER)]
    kept = {key: value for key, value in flatten_settings(params).items() if key.split(".")[0] not in APART}
    return Run(name, kept | _code(lock), claim, trained, arms[0], arms[1])


def read_lock(path: Path, *, fix: str) -> dict[str, Any]:
    """Return a dvc.lock; one that assay wrote is JSON, which is read a hundred times as fast as YAML.

    Raises:
        ConfigError: It is no YAML.
    """
    with suppress(AssayError):
        found = loads(read_text(path, fix=fix), where=path.name, fix=fix)
        if isinstance(found, dict):
            return found
    return read_yaml(path, fix=fix)


def _episodes(path: Path, content: bytes) -> list[Episode]:
    # All runs of a recipe hold the same episodes of the base: parsing them once halves the work.
    key = hashlib.sha256(content).digest()
    if key not in _PARSED:
        _PARSED[key] = read_records(path, Episode, fix=TAKE)
    return _PARSED[key]


def _check_one_run(name: str, claim: KnownClaim, trained: KnownTraining, params: Mapping[str, Any]) -> None:
    seed, base, file = str(trained.seed), trained.base_digest[:12], "train.json"
    seeds = ", ".join(map(str, claim.training_seeds))
    for what, one, other, where in (
        ("training seed", seed, str(params.get("seed")), SETTINGS),
        ("training seed", seed, seeds, "claim.json"),
        ("base", base, claim.before_policy[:12], "claim.json"),
    ):
        if one != other:
            found = f"{one} in {file}, {other} in {where}"
            raise RecordError(f"files of one run, with one {what}", found=found, where=name, fix=TAKE)


def _check_recorded(name: str, lock: Mapping[str, Any], params: Mapping[str, Any], results: Path) -> None:
    """Refuse settings and files that are not those of the run that dvc.lock tells of."""
    stages = lock.get("stages")
    if not isinstance(stages, dict) or not all(isinstance(stages.get(stage), dict) for stage in MEASURED):
        raise RecordError("a dvc.lock of a whole run", found="stages missing", where=name, fix="./run repro")
    if changed := changed_settings(stages, params):
        fix = "run it (./run repro), put the settings back, or name runs without it:"
        fix, where = f"{fix} ./run assay runs compare NAME NAME", f"{name}, {SETTINGS}"
        raise RecordError("the settings that were run", found=changed[0], where=where, fix=fix)
    for out in [out for stage in stages.values() if isinstance(stage, dict) for out in stage.get("outs", [])]:
        wrote = str(out.get("path", "")).removeprefix(f"{RESULTS}/")
        is_read = any(f"{file}/".startswith(f"{wrote}/") for file in FILES)
        if is_read and out.get("md5") != _md5(results / wrote):
            where = f"{name}, {wrote}"
            raise RecordError("the files that the run wrote", found="others", where=where, fix=TAKE)


def _md5(path: Path) -> str:
    """Return the md5 that dvc.lock has of a file or folder; what is no plain file counts as an empty one."""
    if not path.is_dir():
        return md5(read_capped(path, max_bytes=MAX_BYTES, fix=TAKE))
    files = {
        file: read_capped(path / file, max_bytes=MAX_BYTES, fix=TAKE) if is_plain else b""
        for file, is_plain in listing(path).items()
    }
    return folder_md5(files)[0]


def _code(lock: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the digests of the code and data that trained and measured, not of what stages hand on."""
    if lock is None:
        return {}
    deps = [dep for stage in MEASURED for dep in lock["stages"][stage].get("deps", [])]
    own = [dep for dep in deps if not str(dep["path"]).startswith(("models/", "evidence/"))]
    return {f"{CODE}{dep['path']}": str(dep.get("md5"))[:8] for dep in own}


def flatten_settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return settings by dotted name, as text.

    >>> flatten_settings({"train": {"steps": 200}, "device": "cpu"})
    {'train.steps': '200', 'device': 'cpu'}
    """
    found: dict[str, str] = {}
    for name, value in settings.items():
        inner = isinstance(value, dict)
        found |= flatten_settings(value, f"{prefix}{name}.") if inner else {f"{prefix}{name}": str(value)}
    return found


def _experiments(root: Path) -> list[tuple[str, str, str]]:
    """Return of each experiment its name, the commit it started from, and its own."""
    listed = _git(root, "for-each-ref", "--format=%(refname) %(objectname)", "refs/exps/") or b""
    found = []
    for line in listed.decode("utf-8", "replace").split("\n"):
        ref, _, commit = line.partition(" ")
        steps = ref.split("/", 4)
        # refs/exps/<two digits>/<the other 38>/<name>; what DVC keeps beside (exec, stash) has no such shape
        if len(steps) == 5 and len(steps[2]) == 2 and len(steps[3]) == 38:
            found.append((steps[4], steps[2] + steps[3], commit))
    return found


def _find_commit(root: Path, name: str) -> str | None:
    found = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    return None if found is None else found.decode().strip()


def _commit(root: Path, name: str) -> str:
    own = [(base, commit) for known, base, commit in _experiments(root) if known == name]
    head = _find_commit(root, "HEAD")
    chosen = [commit for base, commit in own if base == head] or [commit for _, commit in own]
    if len(set(chosen)) > 1:
        found = f"{len(chosen)} of that name, from different commits"
        fix = "name its commit (dvc exp show --sha -A)"
        raise RecordError("one experiment", found=found, where=name, fix=fix)
    commit = chosen[0] if chosen else _find_commit(root, name)
    if commit is None:
        expected = "a folder, an experiment or a revision of git"
        fix = "./run dvc exp ls   shows the names of experiments"
        raise RecordError(expected, found="none of them", where=name, fix=fix)
    return commit


def take_out(root: Path, commit: str, scratch: Path, name: str) -> None:
    """Write what a comparison needs, and what dvc.lock names with it, from a commit below an empty folder.

    Raises:
        RecordError: A file is not in the commit, or is a link, or too large.
    """
    folders = [f"{RESULTS}/{PurePosixPath(file).parent}" for file in FILES]
    listed = _git(root, "ls-tree", "-r", "--long", "-z", commit, "--", *folders, SETTINGS, LOCK) or b""
    known = {
        file: told.split()
        for told, _, file in (line.partition("\t") for line in listed.decode("utf-8", "replace").split("\0"))
    }
    for file in dict.fromkeys([*(f"{RESULTS}/{file}" for file in FILES), SETTINGS, *filter(None, known)]):
        mode, _, blob, size = [*known.get(file, ()), "", "", "", ""][:4]
        where, is_file, content, fix = f"{name}:{file}", mode.startswith("100"), None, TAKE
        found = f"{size} bytes" if is_file else "a link or a folder" if mode else "no such file"
        if is_file and int(size) <= MAX_BYTES:
            inside(scratch / file, [scratch], where=where, fix=TAKE)
            content = _git(root, "cat-file", "blob", blob)
            found, fix = "an object that git does not have", "git fetch, or dvc exp pull"
        if content is None:
            raise RecordError("the files of a finished run", found=found, where=where, fix=fix)
        write_bytes(scratch / file, content)


def _git(root: Path, *arguments: str) -> bytes | None:
    """Return what git says, None where it fails."""
    command = ["git", "--no-optional-locks", *arguments]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, timeout=120, check=False)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
