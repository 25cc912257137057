"""`assay episodes replay`: one episode turn by turn, on a terminal and as a page; no text of a model steers
either."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jinja2 import ChoiceLoader, FileSystemLoader
from rich.console import Console
from rich.text import Text

from assay.core.console import say
from assay.core.counting import counted
from assay.core.errors import ConfigError
from assay.core.records import Turn
from assay.core.storage.files import write_text
from assay.evidence.escape import visible
from assay.evidence.page.shell import ENVIRONMENT, TEMPLATES, shell
from assay.evidence.tables.trajectories import shortened
from assay.pipeline.rival_files import file_of
from assay.tasks.rivals import FEW_SHOT
from assay.tools.replay.finding import ReplayRequest, Walk, find_walk

LONGEST = 20_000  # characters of a text: more of one nobody reads, and its file has all
_OWN = FileSystemLoader(Path(__file__).parent / "templates")
_PAGES = ENVIRONMENT.overlay(loader=ChoiceLoader([_OWN, FileSystemLoader(TEMPLATES)]))
Line = tuple[str, str]  # a text, and the style it is shown in


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
