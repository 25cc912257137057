"""The one place that talks to the terminal: lines, and progress bars that stay quiet when nobody watches."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

_OUT = Console(file=sys.stdout, soft_wrap=True, highlight=False, markup=False, emoji=False)
_ERR = Console(file=sys.stderr, soft_wrap=True, highlight=False, markup=False, emoji=False)
# Of several processes that train together one speaks; all of them may complain.
_SPEAKS = os.environ.get("WORLD_SIZE", "1") == "1" or os.environ.get("RANK", "0") == "0"


BETWEEN_LINES_S = 60.0  # of what runs where nobody sees a bar


_places: list[Callable[[str], str]] = []


def name_places(by: Callable[[str], str]) -> None:
    """From now on pass all that is said through a function: whoever knows the project says where its settings
    are edited."""
    _places[:] = [by]


def say(line: str) -> None:
    """Write one line to standard output."""
    if _SPEAKS:
        _OUT.print(_shown(line))


def complain(line: str) -> None:
    """Write one line to standard error."""
    _ERR.print(_shown(line))


@contextmanager
def quietly() -> Iterator[None]:
    """Say nothing while the block runs, neither lines nor bars: for who calls a stage and speaks for
    itself."""
    before = _OUT.quiet, _ERR.quiet
    _OUT.quiet = _ERR.quiet = True
    try:
        yield
    finally:
        _OUT.quiet, _ERR.quiet = before


def say_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write a table to standard output; without a terminal as plain columns, each row a line."""
    cells = [[_shown(cell).replace("\n", " ") for cell in row] for row in (columns, *rows)]
    if _OUT.is_terminal:
        table = Table(*cells[0])
        for row in cells[1:]:
            table.add_row(*row)
        _OUT.print(table)
        return
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        _OUT.print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _shown(text: str) -> str:
    """Return the text with what is no letter to be seen escaped: data quoted in a message must not steer a
    terminal."""
    for by in _places:
        text = by(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


Advance = Callable[..., None]


@contextmanager
def progress(label: str, total: int, done: int = 0) -> Iterator[Advance]:
    """Show a bar with time left while the block runs, from `done` on; yields advance(n, note="").

    A block that ends sooner ends the bar where it is. Without a terminal one line is written at the start,
    one at the end, and one a minute between them.
    """
    if not _SPEAKS:
        yield lambda n, note="": None
        return
    if not _ERR.is_terminal:
        complain(f"{label} ...")
        told, made = "", 0
        began = spoke = time.monotonic()

        def count(n: int, note: str = "") -> None:
            nonlocal told, made, spoke
            told, made, at = (f": {note}" if note else told), made + n, time.monotonic()
            if at - spoke >= BETWEEN_LINES_S and made:
                spoke, minutes = at, (at - began) / made * (total - done - made) / 60
                complain(f"{label} {done + made} of {total}, about {max(1, round(minutes))} min left{told}")

        yield count
        complain(f"{label} done{told}")
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=_ERR, transient=False) as bar:
        task = bar.add_task(label, total=total, completed=done, note="")

        def advance(n: int, note: str = "") -> None:
            bar.update(task, advance=n, note=note) if note else bar.update(task, advance=n)

        yield advance
        if not bar.finished:  # what ended before its time has nothing left to wait for
            bar.update(task, total=bar.tasks[0].completed)
