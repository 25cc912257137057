"""What the tests know of README.md and the pages of docs/: their blocks of commands, their links, their
paths."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.house import ROOT

PAGES = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")),
)
MARK = "Needs: "


@dataclass(frozen=True, slots=True)
class Block:
    """Shell commands of a page, what it says that they need, and what it shows below them; None where it says
    or shows nothing."""

    text: str
    needs: str | None
    shown: str | None


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a block: its words, and what the page says that it needs; None where it says nothing."""

    page: str
    words: tuple[str, ...]
    needs: str | None

    def __str__(self) -> str:
        return f"{self.page}: {' '.join(self.words)}"


def text_of(page: str) -> str:
    """Return a page as it stands."""
    return (ROOT / page).read_text(encoding="utf-8")


def without_blocks(page: str) -> str:
    """Return a page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text_of(page), flags=re.M | re.S)


def blocks(page: str) -> Iterator[Block]:
    """Yield every block of shell commands, with the `Needs:` line above it and the `text` block below."""
    for found in re.finditer(
        r"(?:^(Needs: [^\n]+(?:\n[^\n]+)*)\n\n)?^```sh\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?",
        text_of(page),
        re.M | re.S,
    ):
        yield Block(found[2], found[1] and " ".join(found[1].split()), found[3])


def commands(page: str) -> Iterator[Command]:
    """Yield every command of a page's blocks, without comments and without variables that are set for it."""
    for block in blocks(page):
        yield from commands_of(page, block)


def commands_of(page: str, block: Block) -> Iterator[Command]:
    """Yield those of one block."""
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        for part in " ".join(map(shlex.quote, words)).split(shlex.quote("&&")):
            told = shlex.split(part)
            while told and re.match(r"[A-Z_]+=", told[0]):
                told = told[1:]
            if told:
                yield Command(page, tuple(told), block.needs)


def is_shown(shown: str, said: str) -> bool:
    """Return whether a page shows what was said; `…` stands for whatever lies between.

    >>> is_shown("…\\nBETTER: +3.0…\\n", "read: 3 rows\\nBETTER: +3.0 points\\n")
    True
    >>> is_shown("BETTER\\n", "WORSE\\n")
    False
    """
    pattern = ".*".join(map(re.escape, shown.split("…")))
    return re.fullmatch(pattern, said, re.S) is not None


def mentions(page: str) -> set[str]:
    """Return the commands of assay and DVC that the sentences and tables of a page mention."""
    spans = re.findall(r"`(?:\./run )?((?:assay|dvc) [a-z][^`]*)`", without_blocks(page))
    return {span for span in spans if "…" not in span}


def slug(heading: str) -> str:
    """Return the anchor that a git host gives a heading.

    >>> slug("What `verify` cannot show")
    'what-verify-cannot-show'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page."""
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.M)}
