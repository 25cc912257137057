"""`assay runs watch`: where a training stands, on a terminal, until Ctrl-C; without a terminal once, as plain lines."""

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
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from assay.console import say
from assay.tools.following import Follower, Snapshot, locate
from assay.tools.standing import PLAIN_SPARKS, SPARKS, alarm_rows, facts_of, one_line

SECONDS = 1.0
SPARK_SHARE, WIDEST_SPARK, LABELS = 0.4, 60, 14
LEVELS = {"RED": "bold red", "AMBER": "yellow"}
STYLES = {"running": "green", "finished": "green", "ended early": "yellow", "silent": "yellow", "none yet": "dim"}


def run(path: Path, *, once: bool) -> None:
    """Show a training: again every second on a terminal, once otherwise. Reads only; leaves with Ctrl-C.

    Raises:
        RecordError: The path is no place of a training.
    """
    follower = Follower(locate(path))
    if once or not sys.stdout.isatty():
        for line in plain(follower.look()):
            say(line)
        return
    signal.signal(signal.SIGTERM, _leave)  # so that the cursor is given back
    console = Console(highlight=False, markup=False, emoji=False)
    try:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                live.update(view(follower.look(), console.width, sparks=sparks_for(console.encoding)), refresh=True)
                time.sleep(SECONDS)
    except KeyboardInterrupt:
        return


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def sparks_for(encoding: str) -> str:
    """Return the signs of a spark line that an encoding can write.

    >>> sparks_for("ascii")
    '_.-=+*#@'
    """
    try:
        SPARKS.encode(encoding)
    except (LookupError, UnicodeEncodeError):
        return PLAIN_SPARKS
    return SPARKS


def plain(snapshot: Snapshot) -> list[str]:
    """Return the training as lines of text, a fact a line."""
    lines = [one_line(f"{snapshot.name}:")]
    facts = facts_of(snapshot, width=WIDEST_SPARK, sparks=sparks_for(sys.stdout.encoding or "ascii"))
    lines += [f"  {label:<{LABELS}}{text}" for label, text in facts]
    return lines + [
        f"  {level:<{LABELS}}{rule}, since step {step}: {message}" for level, rule, step, message in alarm_rows(snapshot)
    ]


def view(snapshot: Snapshot, width: int, sparks: str = SPARKS) -> Panel:
    """Return the training as a panel that fits a terminal of so many columns."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    bars = max(8, min(WIDEST_SPARK, int(SPARK_SHARE * width)))
    for label, text in facts_of(snapshot, width=bars, sparks=sparks):
        style = STYLES[snapshot.state] if label == "state" else "red" if label == "damaged" else ""
        grid.add_row(label, Text(text, style=style))
        if label == "step" and snapshot.steps and snapshot.step is not None:
            grid.add_row("", ProgressBar(total=snapshot.steps, completed=snapshot.step, width=bars))
    rows = [
        Text(f"{level} {rule} since step {step}: {message}", style=LEVELS.get(level, ""))
        for level, rule, step, message in alarm_rows(snapshot)
    ]
    return Panel(Group(grid, *rows), title=Text(one_line(f"{snapshot.name}: training")), subtitle=Text("Ctrl-C leaves"))
