"""`assay runs watch`: how a training goes, on a terminal until Ctrl-C; elsewhere once, as plain lines."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from assay.core.console import say
from assay.tools.watch.snapshot import Snapshot, SnapshotReader, find_place
from assay.tools.watch.status import PLAIN_SPARKS, SPARKS, describe, flatten, list_alarms

SECONDS = 1.0
WIDEST_SPARK = 60
STYLES = {"RED": "bold red", "AMBER": "yellow", "running": "green", "finished": "green", "damaged": "red"}


def run(path: Path, *, once: bool) -> None:
    """Show a training: again every second on a terminal, once otherwise. Reads only; leaves with Ctrl-C.

    Raises:
        RecordError: The path is no place of a training.
    """
    reader = SnapshotReader(find_place(path))
    if once or not sys.stdout.isatty():
        for line in format_lines(reader.read(), sys.stdout.encoding or "ascii"):
            say(line)
        return
    signal.signal(signal.SIGTERM, _leave)  # so that the cursor is given back
    console = Console(highlight=False, markup=False, emoji=False)
    try:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                live.update(make_panel(reader.read(), console.width, console.encoding), refresh=True)
                time.sleep(SECONDS)
    except KeyboardInterrupt:
        return


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def choose_sparks(encoding: str) -> str:
    """Return the signs of a spark line that an encoding can write.

    >>> choose_sparks("ascii")
    '_.-=+*#@'
    """
    try:
        SPARKS.encode(encoding)
    except (LookupError, UnicodeEncodeError):
        return PLAIN_SPARKS
    return SPARKS


def format_lines(snapshot: Snapshot, encoding: str = "utf-8") -> list[str]:
    """Return the training as lines of text, a fact a line."""
    facts = describe(snapshot, width=WIDEST_SPARK, sparks=choose_sparks(encoding))
    for level, rule, step, found in list_alarms(snapshot):
        facts.append((level, f"{rule}, since step {step}: {found}"))
    return [flatten(f"{snapshot.name}:"), *(f"  {label:<14}{text}" for label, text in facts)]


def make_panel(snapshot: Snapshot, width: int, encoding: str = "utf-8") -> Panel:
    """Return the training as a panel that fits a terminal of so many columns."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    bars = max(8, min(WIDEST_SPARK, width * 2 // 5))
    for label, text in describe(snapshot, width=bars, sparks=choose_sparks(encoding)):
        grid.add_row(label, Text(text, style=STYLES.get(snapshot.state if label == "state" else label, "")))
    alarms = [
        Text(f"{level} {rule} since step {step}: {found}", style=STYLES.get(level, ""))
        for level, rule, step, found in list_alarms(snapshot)
    ]
    title = Text(flatten(f"{snapshot.name}: training"))
    return Panel(Group(grid, *alarms), title=title, subtitle=Text("Ctrl-C leaves"))
