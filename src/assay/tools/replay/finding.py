"""One stored episode, wherever it lies, and what its task says of it again: its opening, what is right."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from assay.core.counting import counted
from assay.core.errors import AssayError, ConfigError, DataError, RecordError
from assay.core.evidence_files import place_of
from assay.core.records import Episode, ValidationEpisode
from assay.core.seeds import derive_seed
from assay.core.storage.files import real
from assay.core.storage.json import dumps
from assay.dataset.suite import Play
from assay.package.archive import unpack
from assay.package.layout import TOLD
from assay.pipeline.inputs import blocklist_of, task_of, task_with, validation_suite
from assay.pipeline.project import Project
from assay.stages.render_evidence.arms import suite_of
from assay.tasks.protocol import Message, Task
from assay.tools.grade.completions import of_episode
from assay.tools.grade.replaying import play_texts
from assay.tools.judge.lines import json_rows, refuse
from assay.tools.tasks_file import find_items, open_project
from assay.verify.unpacked import Unpacked

ARCHIVES = (".tar", ".gz", ".tgz")
FIX = "name a file of episodes, a folder of results, a project or a package (.tar)"
VALIDATION = "validation"


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Which episode: `item` and `draw`, the first that fits if not given; of a project or a package `arm`
    names the file, of a validation `step`. `task`, `tasks` and `seed` say what was played, where it is not
    the project's; `page` is the HTML file to write.
    """

    item: str | None = None
    draw: int | None = None
    arm: str = "post_eval"
    step: int | None = None
    task: str | None = None
    tasks: Path | None = None
    seed: int | None = None
    page: Path | None = None


@dataclass(frozen=True, slots=True)
class Walk:
    """An episode to walk through.

    `opening` is what the model was asked and `truth` what is right; None where the task is not at hand.
    `graded` says in words what the task said when it was asked again.
    """

    source: str
    episode: Episode
    opening: list[Message] | None
    truth: str | None
    graded: str


@dataclass(frozen=True, slots=True)
class _Found:
    """An episode in its file, and whether it is of a validation."""

    place: str
    episode: Episode
    step: int | None = None
    greedy: bool = False


def find_walk(root: Path, path: Path, asked: ReplayRequest) -> Walk:
    """Return the episode that was asked for.

    Raises:
        AssayError: There is none, or the place holds no episodes.
    """
    with _opened(path) as folder:
        if folder is not None and (folder / "params.yaml").is_file():
            return _of_run(root, folder, path, asked)
        file = path if folder is None else _file_in(folder, asked.arm)
        found = _found_in(file, asked)
        return _of_file(root, found, asked)


@contextmanager
def _opened(path: Path) -> Iterator[Path | None]:
    """Yield the folder that a place is, unpacked if it is a package; None for a file of episodes."""
    if not path.exists():
        raise refuse("a file of episodes, a folder or a package", "nothing", str(path), FIX)
    if path.is_dir():
        yield path
    elif path.suffix.lower() in ARCHIVES:
        with tempfile.TemporaryDirectory(prefix="assay-replay-") as scratch:
            unpack(path, Path(scratch) / "package")
            yield Path(scratch) / "package"
    else:
        yield None


def _file_in(folder: Path, arm: str) -> Path:
    tried = (f"{arm}.jsonl", "episodes.jsonl")
    found = [path for name in tried for path in sorted(folder.rglob(name)) if path.is_file()]
    if not found:
        expected, fix = f"{' or '.join(tried)} in it", "--arm pre_eval, or name the file itself"
        raise refuse(expected, "neither", str(folder), fix)
    return found[0]


def _found_in(path: Path, asked: ReplayRequest) -> _Found:
    """Return the first episode of a file that is asked for."""
    n, items = 0, dict[str, None]()
    best: _Found | None = None
    for where, row in json_rows(path):
        n += 1
        inside = row.get("episode", row)
        name = inside.get("item_id") if isinstance(inside, dict) else None
        if name is None:
            raise refuse("an episode of assay", f"the columns {', '.join(map(str, row))}", where, FIX)
        items.setdefault(str(name))
        wanted = asked.item is None or name == asked.item
        wanted = wanted and asked.draw in (None, inside.get("draw"))
        wanted = wanted and (asked.step is None or row.get("step") == asked.step)
        if wanted and best is None:
            best = _parsed(where, row)
    if best is None:
        known = f", such as {next(iter(items))!a}" if items else ""
        what = "".join(
            f"{name} {value} "
            for name, value in (("item", asked.item), ("draw", asked.draw), ("step", asked.step))
            if value is not None
        )
        found = f"none in {counted(n, 'episodes')} of {counted(len(items), 'items')}{known}"
        fix = "leave out --draw and --step, or name an item of it"
        raise refuse(f"an episode of {what.strip()}" if what else "an episode", found, str(path), fix)
    return best


def _parsed(where: str, row: dict[str, object]) -> _Found:
    try:
        if "episode" in row:
            told = ValidationEpisode.model_validate_json(dumps(row))
            return _Found(where, told.episode, told.step, told.greedy)
        return _Found(where, Episode.model_validate_json(dumps(row)))
    except (ValidationError, ValueError) as error:
        raise refuse("an episode of assay", " ".join(str(error).split())[:120], where, FIX) from None


def _of_run(root: Path, folder: Path, path: Path, asked: ReplayRequest) -> Walk:
    """Return an episode of a run or of a package; a task's own code is run from this project alone."""
    try:
        file = folder / place_of(f"{asked.arm}.jsonl")
    except KeyError:
        file = folder / place_of("pre_eval.jsonl")
        names = "pre_eval, post_eval, pre_eval_greedy, validation"
        raise ConfigError("an arm of a run", found=asked.arm, where="--arm", fix=f"one of {names}") from None
    if not file.is_file():
        fix = "name a run or package with episodes, and --arm as its files are called"
        raise DataError("episodes", found=f"no {asked.arm}.jsonl", where=str(path), fix=fix)
    found = _found_in(file, asked)
    packed = folder != path or (folder / TOLD).is_file()
    unpacked = Unpacked(folder) if packed else None
    project = Project.open(folder) if unpacked is None else unpacked.project
    if not packed and project.params.task.brings_code and real(folder) != real(root):
        said = "not graded again: the code of a task is not run from another folder"
        return Walk(f"{path}, {asked.arm}", found.episode, None, None, said)
    suite = validation_suite(project) if asked.arm == VALIDATION else suite_of(project, asked.arm)
    task = task_of(project) if unpacked is None else unpacked.task
    plays = [
        play
        for play in suite.plays()
        if (play.item.id, play.draw) == (found.episode.item_id, found.episode.draw)
    ]
    if not plays:
        fix = "get the run or package again from where it came from"
        raise RecordError(
            "an episode of its suite", found=f"item {found.episode.item_id}", where=found.place, fix=fix
        )
    return _walk(f"{path}, {asked.arm}", found, task, plays[0], project.params.health.retries)


def _of_file(root: Path, found: _Found, asked: ReplayRequest) -> Walk:
    """Return an episode of a file, with the settings and data of the project here, where they are its own."""
    source, validated = found.place, found.step is not None
    if asked.task is None and not (root / "params.yaml").is_file():
        return Walk(source, found.episode, None, None, "not graded again: no settings of its task are here")
    project = open_project(root, asked.task)
    params = project.params
    task = task_with(project, blocklist_of(project))
    try:
        items, split = find_items(project, task, {found.episode.item_id}, validated, asked.tasks)
    except AssayError as error:
        if asked.tasks is not None or asked.task is not None:
            raise
        said = f"not graded again: {error.found} in {error.where} (--task NAME, --tasks FILE)"
        return Walk(source, found.episode, None, None, said)
    seed = asked.seed
    if seed is None:
        seed = params.validation.seed if validated else params.evaluation.seed
    item = next(each for each in items if each.id == found.episode.item_id)
    world = derive_seed("world", split, seed, item.id)
    play = Play(item, found.episode.draw, found.episode.seed, world)
    return _walk(source, found, task, play, params.health.retries)


def _walk(source: str, found: _Found, task: Task, play: Play, retries: int) -> Walk:
    """Return the episode with its opening, played again through the task."""
    episode = found.episode
    if found.step is not None:
        source += f", step {found.step}{', greedy' if found.greedy else ''}"
    opening, _ = task.start(play.item, play.world_seed)
    truth = task.truth(play.item)
    answer = of_episode(found.place, episode.model_dump(mode="json"))
    try:
        (again,), _ = play_texts(task, [play], [answer], retries, lambda n: None)
    except DataError as error:  # another world, or no whole episode: then the opening is none of it
        said = f"graded otherwise by the task that is here: expected {error.expected}, found {error.found}"
        return Walk(source, episode, None, truth, said)
    same = (again.reward, again.success, again.ending) == (episode.reward, episode.success, episode.ending)
    said = "graded again by the task, with the same result"
    if not same:
        said = f"graded otherwise by the task that is here: reward {again.reward:g}, success {again.success}"
    return Walk(source, episode, opening, truth, said)
