"""The one place that talks to the terminal: lines, and progress bars that stay quiet when nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_OUT = Console(file=sys.stdout, soft_wrap=True, highlight=False, markup=False)
_ERR = Console(file=sys.stderr, soft_wrap=True, highlight=False, markup=False)


def say(line: str) -> None:
    """Write one line to standard output."""
    _OUT.print(line)


def complain(line: str) -> None:
    """Write one line to standard error."""
    _ERR.print(line)


Advance = Callable[..., None]


@contextmanager
def progress(label: str, total: int) -> Iterator[Advance]:
    """Show a bar with time left while the block runs; yields advance(n, note="").

    Without a terminal one line is written at the start and one at the end.
    """
    if not _ERR.is_terminal:
        complain(f"{label} ...")
        last = [""]

        def count(n: int, note: str = "") -> None:
            last[0] = note or last[0]

        yield count
        complain(f"{label} done{': ' + last[0] if last[0] else ''}")
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.fields[note]}"),
    )  # fmt: skip
    with Progress(*columns, console=_ERR, transient=False) as bar:
        task = bar.add_task(label, total=total, note="")

        def advance(n: int, note: str = "") -> None:
            bar.update(task, advance=n, note=note) if note else bar.update(task, advance=n)

        yield advance
