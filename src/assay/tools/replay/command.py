"""`assay episodes replay`: one stored episode, wherever it lies, turn by turn on a terminal and as a page; no
text of a model steers either."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jinja2 import ChoiceLoader, FileSystemLoader
from rich.console import Console
from rich.text import Text

from assay.core.console import say
from assay.core.counting import counted
from assay.core.errors import AssayError, ConfigError, DataError, RecordError
from assay.core.evidence_files import place_of
from assay.core.records import Episode, Turn
from assay.core.seeds import derive_seed
from assay.core.storage.files import real, write_text
from assay.dataset.suite import Play
from assay.evidence.escape import visible
from assay.evidence.page.shell import ENVIRONMENT, TEMPLATES, shell
from assay.evidence.tables.trajectories import shortened
from assay.package.archive import unpack
from assay.package.layout import TOLD
from assay.pipeline.inputs import blocklist_of, task_of, task_with, validation_suite
from assay.pipeline.project import Project
from assay.pipeline.rival_files import file_of
from assay.stages.render_evidence.arms import suite_of
from assay.tasks.protocol import Message, Task
from assay.tasks.rivals import FEW_SHOT
from assay.tools.grade.completions import of_episode, stored
from assay.tools.grade.replaying import play_texts
from assay.tools.judge.lines import json_rows, refuse
from assay.tools.tasks_file import find_items, open_project
from assay.verify.unpacked import Unpacked

ARCHIVES = (".tar", ".gz", ".tgz")
FIX = "name a file of episodes, a folder of results, a project or a package (.tar)"
VALIDATION = "validation"
LONGEST = 20_000  # characters of a text: more of one nobody reads, and its file has all
_OWN = FileSystemLoader(Path(__file__).parent / "templates")
_PAGES = ENVIRONMENT.overlay(loader=ChoiceLoader([_OWN, FileSystemLoader(TEMPLATES)]))
Line = tuple[str, str]  # a text, and the style it is shown in


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


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """One turn as it is shown: its facts in words, and its texts."""

    number: int
    head: str
    completion: str
    action: str | None
    parts: list[tuple[str, str]]
    total: str
    observation: str | None


def run(root: Path, path: Path, asked: ReplayRequest) -> None:
    """Show an episode, and write its page where one is asked for.

    Raises:
        AssayError: There is no such episode.
    """
    if asked.page is not None and asked.page.suffix.lower() not in (".html", ".htm"):
        fix = "--page episode.html"
        raise ConfigError("a name that ends in .html", found=str(asked.page), where="--page", fix=fix)
    walk = find_walk(root, path, asked)
    console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
    for text, style in lines_of(walk):
        console.print(Text(text, style=style), soft_wrap=True)
    if asked.page is not None:
        write_text(asked.page, page_of(walk))
        say(f"wrote {asked.page}")


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
            best = _Found(where, *stored(where, row, FIX))
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


def whose(walk: Walk) -> list[tuple[str, str]]:
    """Return which episode this is, by name."""
    episode = walk.episode
    facts = [("from", walk.source), ("item", f"{episode.item_id}, draw {episode.draw}")]
    facts += [(label, value) for label, value in sorted(episode.strata.items())]
    facts.append(("policy", episode.policy or "not said"))
    if cut := episode.prompt_chars_cut:
        facts.append(
            ("prompt", f"{counted(cut, 'characters')} of what is shown here were cut, so that it fitted")
        )
    if file_of(FEW_SHOT) in walk.source:
        facts.append(("prompt", "examples stood before what is shown here"))
    return facts


def outcome_of(walk: Walk) -> list[tuple[str, str]]:
    """Return what the whole episode came to, by name."""
    episode = walk.episode
    words = {None: "missing", True: "yes", False: "no"}
    return [
        ("ending", episode.ending),
        ("reward", f"{episode.reward:g}"),
        ("success", words[episode.success]),
        ("right", "not at hand" if walk.truth is None else walk.truth),
        *((name, words[value]) for name, value in sorted(episode.flags.items())),
        *((name, f"{value:g}") for name, value in sorted(episode.metrics.items()) if value is not None),
        ("checked", walk.graded),
    ]


def turns_of(walk: Walk) -> list[ShownTurn]:
    """Return the turns as they are shown, with the reward so far."""
    turns, total = walk.episode.turns, 0.0
    shown = []
    for number, turn in enumerate(turns, start=1):
        total += sum(turn.parts.values())
        parts = [(name, f"{value:+g}") for name, value in sorted(turn.parts.items())]
        shown.append(
            ShownTurn(
                number,
                _head(turn, number, len(turns)),
                shortened(turn.completion, LONGEST),
                turn.action,
                parts,
                f"{total:g}",
                None if turn.observation is None else shortened(turn.observation, LONGEST),
            )
        )
    return shown


def _head(turn: Turn, number: int, of: int) -> str:
    known = turn.n_tokens > 0 or turn.prompt_digest
    facts = [counted(turn.n_tokens, "tokens") if known else "tokens not counted", turn.outcome]
    facts += ["cut off"] if turn.truncated else []
    facts += [] if turn.failure is None else [f"failure: {turn.failure}"]
    return f"turn {number} of {of}: {', '.join(facts)}"


def lines_of(walk: Walk) -> Iterator[Line]:
    """Yield the lines of a terminal, each with a style: no text steers it, or looks like a line of ours."""
    for name, text in whose(walk):
        yield f"{_flat(name)}: {_flat(text)}", ""
    if walk.opening is None:
        yield "the prompt is not at hand", "italic"
    for message in walk.opening or ():
        yield f"--- {_flat(message['role'])}", "bold"
        yield _block(shortened(message["content"], LONGEST)), ""
    for turn in turns_of(walk):
        yield f"--- {_flat(turn.head)}", "bold"
        yield _block(turn.completion), "cyan"
        yield f"action: {'none that could be read' if turn.action is None else _flat(turn.action)}", ""
        earned = ", ".join(f"{_flat(name)} {value}" for name, value in turn.parts) or "nothing"
        yield f"earned: {earned}; in all {turn.total}", "magenta"
        if turn.observation is not None:
            yield "--- observation", "bold"
            yield _block(turn.observation), ""
    yield "--- end", "bold"
    for name, text in outcome_of(walk):
        good = {"yes": "green", "no": "red"}.get(text, "") if name == "success" else ""
        yield f"{_flat(name)}: {_flat(text)}", good


def _flat(text: str) -> str:
    return visible(text).replace("\n", "\\n")


def _block(text: str) -> str:
    return "\n".join(f"| {line}" for line in visible(text).split("\n"))


def page_of(walk: Walk) -> str:
    """Return one self-contained page; every text in it is escaped."""
    title = f"Episode of item {visible(walk.episode.item_id[:80])}, draw {walk.episode.draw}"
    opening = [(each["role"], shortened(each["content"], LONGEST)) for each in walk.opening or ()]
    body = _PAGES.get_template("episode.html").render(
        title=title,
        facts=[*whose(walk), *outcome_of(walk)],
        opening=opening,
        turns=turns_of(walk),
        success=walk.episode.success,
    )
    return shell(title=title, body=body)
