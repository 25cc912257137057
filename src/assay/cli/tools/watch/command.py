"""`assay runs watch`: how a training goes, on a terminal until Ctrl-C; elsewhere once, as plain lines.

No text of it, here or on the live page, has characters that steer.
"""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from assay.checks.findings import duration
from assay.cli.tools.watch.snapshot import LATEST_STEPS, Snapshot, SnapshotReader, find_place
from assay.core.console import say
from assay.verdict.evidence.escape import visible

SECONDS, WIDEST_SPARK = 1.0, 60
STYLES = {"RED": "bold red", "AMBER": "yellow", "running": "green", "finished": "green", "damaged": "red"}
SPARKS, PLAIN_SPARKS = "▁▂▃▄▅▆▇█", "_.-=+*#@"
MISSING = "missing"
ALARM_COLUMNS = ("level", "rule", "since step", "what was found and what to try")
LAST_EVENTS, LONGEST = 5, 300
Fact = tuple[str, str]  # a label and a text
STATES = {"none yet": "no training has begun here yet", "silent": "no sign of life; validating, or killed"}


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


def flatten(value: object) -> str:
    r"""Return a value as one line that cannot steer a terminal, at most 300 characters.

    >>> flatten("a\nb\x1b[2J")
    'a b\\x1b[2J'
    """
    text = visible(str(value)[: LONGEST + 1]).replace("\n", " ").replace("\t", " ")
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def draw_spark(values: Sequence[float | None], width: int, sparks: str = SPARKS) -> str:
    """Return values as a line of at most so many bars, each the mean of its share; blank: nothing is known.

    >>> draw_spark([0, 1, None, 2, 3], 5)
    '▁▃ ▆█'
    >>> draw_spark([1, 1], 5), draw_spark([], 5)
    ('▄▄', '')
    """
    bars = np.array_split(np.array(values, dtype=float), max(1, min(width, len(values))))
    means = [float(known.mean()) if len(known := bar[np.isfinite(bar)]) else math.nan for bar in bars]
    finite = [mean for mean in means if math.isfinite(mean)]
    low, top = min(finite, default=0.0), len(sparks) - 1
    span = max(finite, default=0.0) - low
    heights = [(mean - low) / span * top if span > 0 else mean * 0 + top // 2 for mean in means]
    signs = [" " if math.isnan(height) else sparks[round(height)] for height in heights]
    return "".join(signs).rstrip() if values else ""


def describe(snapshot: Snapshot, *, width: int, sparks: str = SPARKS, ages: bool = True) -> list[Fact]:
    """Return label and text of all that is known of a training, "state" first; lines of events last.

    Args:
        snapshot: The training.
        width: Signs of a spark line, 0 for none.
        sparks: What they are drawn with.
        ages: Whether to say how long ago something was written; not for what is kept and read later.
    """

    def spark(values: Sequence[float | None]) -> str:
        return f"{draw_spark(values, width, sparks)}  " if width else ""

    step = MISSING if snapshot.step is None else snapshot.step
    speeds = snapshot.clock.get("tokens_per_second", ())[-LATEST_STEPS:]
    speed = [value for value in speeds if value is not None]
    raised = [f"{event.level} {event.rule} since step {event.first_step}" for event in snapshot.raised]
    facts = [("state", _describe_state(snapshot, ages))]
    facts += [] if snapshot.data is None else [("data", snapshot.data)]
    facts += [("step", f"{step} of {snapshot.steps or MISSING}")]
    rewards = snapshot.log.get("reward", ())
    if known := [value for value in rewards if value is not None]:
        latest = MISSING if rewards[-1] is None else f"{rewards[-1]:+.3f}"
        facts += [("reward", f"{latest}  {spark(rewards)}first {known[0]:+.3f}, best {max(known):+.3f}")]
    else:
        facts += [("reward", MISSING)]
    rates = snapshot.checkpoints.get("success_rate", ())
    facts += [("validation", f"{_describe_validation(snapshot)}  {spark(rates)}".rstrip())]
    facts += [("alarms", (", ".join(raised) or "none now") if snapshot.alarms else MISSING)]
    mean = f"{sum(speed) / len(speed):,.0f} over the latest {len(speed)} steps" if speed else MISSING
    facts += [("tokens/s", mean)]
    if snapshot.state in ("running", "silent"):
        facts += [("time left", duration(snapshot.left_s))]
    for k, event in enumerate(snapshot.events[-LAST_EVENTS:]):
        rest = (f"{name}={value}" for name, value in event.items() if name not in ("time", "event"))
        said = " ".join([str(event.get("time", "")), str(event.get("event", "")), *rest])
        facts += [("" if k else "event", said.strip())]
    facts += [("damaged", said) for said in snapshot.faults]
    return [(label, flatten(text)) for label, text in facts]


def list_alarms(snapshot: Snapshot) -> list[tuple[str, str, str, str]]:
    """Return one row of ALARM_COLUMNS for each rule that is not GREEN now."""
    return [(e.level, e.rule, str(e.first_step), flatten(e.message)) for e in snapshot.raised]


def _describe_state(snapshot: Snapshot, ages: bool) -> str:
    state = STATES.get(snapshot.state, snapshot.state)
    if snapshot.state == "ended early":
        why = [event.get("why") for event in snapshot.events if event.get("event") == "ended early"]
        state += f": {why[-1] if why else ''}"
    if snapshot.is_followed:
        state += f"; this is the last training: DVC is making {snapshot.at_work}, and the next has not begun"
    elif snapshot.at_work is not None:
        state += f"; DVC is making {snapshot.at_work}"
    if ages and snapshot.state in ("running", "silent") and snapshot.age_s is not None:
        state += f", last written {duration(snapshot.age_s)} ago"
    if snapshot.state in ("finished", "ended early") and snapshot.other_settings is not None:
        state += f"; with other settings than those at hand ({snapshot.other_settings})"
    return state


def _describe_validation(snapshot: Snapshot) -> str:
    columns = ("step", "success_rate", "success_rate_low", "success_rate_high", "episodes")
    step, rate, low, high, n = ((snapshot.checkpoints.get(name) or [None])[-1] for name in columns)
    if rate is None:
        return "success " + MISSING
    ends = "interval missing"
    if low is not None and high is not None:
        ends = f"95 % interval {100 * low:.1f} to {100 * high:.1f}"
    count = "" if n is None else f", n = {n:.0f}"
    return f"success {100 * rate:.1f} % ({ends}{count}) at step {MISSING if step is None else f'{step:.0f}'}"
