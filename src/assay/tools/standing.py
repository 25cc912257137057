"""Where a training stands, in lines for a terminal and a page; every text is one line without characters that steer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from assay.evidence.hostile_text import visible
from assay.tools.following import LATEST_STEPS, Snapshot

SPARKS, PLAIN_SPARKS, GAP = "▁▂▃▄▅▆▇█", "_.-=+*#@", "·"
MISSING = "missing"
ALARM_COLUMNS = ("level", "rule", "since step", "what was found and what to try")
LAST_EVENTS, LONGEST = 5, 300
STATES = {
    "none yet": "no training has begun here yet", "running": "running", "finished": "finished", "ended early": "ended early",
    "silent": "no sign of life; validating, or killed",
}  # fmt: skip


def one_line(value: object) -> str:
    r"""Return a value as one line that cannot steer a terminal, at most 300 characters.

    >>> one_line("a\nb\x1b[2J")
    'a b\\x1b[2J'
    """
    text = visible(str(value)[: LONGEST + 1]).replace("\n", " ").replace("\t", " ")
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def spark(values: Sequence[float | None], width: int, sparks: str = SPARKS) -> str:
    """Return values as a line of at most so many bars, each the mean of its share; where nothing is known, a dot.

    >>> spark([0, 1, None, 2, 3], 5)
    '▁▃·▆█'
    >>> spark([1, 1], 5), spark([], 5)
    ('▄▄', '')
    """
    n = min(width, len(values))
    groups = [values[len(values) * k // n : len(values) * (k + 1) // n] for k in range(n)]
    known = [[value for value in group if value is not None] for group in groups]
    means = [sum(group) / len(group) if group else math.nan for group in known]
    finite = [mean for mean in means if math.isfinite(mean)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    top = len(sparks) - 1

    def bar(mean: float) -> str:
        if not math.isfinite(mean):
            return GAP if sparks is SPARKS else " "
        share = (mean - low) / (high - low) if high > low else 0.5
        return sparks[min(top, max(0, round(share * top - (high <= low) * 0.01)))]

    return "".join(bar(mean) for mean in means)


def duration(seconds: float | None) -> str:
    """Return a time in words.

    >>> duration(5), duration(200), duration(7500), duration(None)
    ('5 s', '3 min 20 s', '2 h 05 min', 'missing')
    """
    if seconds is None or not 0 <= seconds < 1e12:
        return MISSING
    s = round(seconds)
    if s < 60:
        return f"{s} s"
    return f"{s // 60} min {s % 60:02} s" if s < 3600 else f"{s // 3600} h {s % 3600 // 60:02} min"


def facts_of(snapshot: Snapshot, *, width: int, sparks: str = SPARKS, ages: bool = True) -> list[tuple[str, str]]:
    """Return label and text of everything that is known of a training, "state" first; lines of events last.

    Args:
        snapshot: The training.
        width: Signs of a spark line, 0 for none.
        sparks: What they are drawn with.
        ages: Whether to say how long ago something was written; not for what is kept and read later.
    """
    state = STATES[snapshot.state]
    if snapshot.state == "ended early":
        state += f": {next((e.get('why') for e in reversed(snapshot.events) if e.get('event') == 'ended early'), '')}"
    if snapshot.control is not None:
        doing = "plays the held-out suite" if snapshot.control.trained else "trains for random rewards"
        known = snapshot.control.step is not None and not snapshot.control.trained
        past = f", past step {snapshot.control.step} of {snapshot.steps or MISSING}" if known else ""
        state += f"; the control stage {doing}{past}"
    if ages and snapshot.state in ("running", "silent") and snapshot.age_s is not None:
        state += f", last written {duration(snapshot.age_s)} ago"
    if snapshot.state in ("finished", "ended early") and snapshot.other_settings is not None:
        state += f"; with other settings than those at hand ({snapshot.other_settings})"
    step = MISSING if snapshot.step is None else snapshot.step
    facts = [("state", state), *([] if snapshot.data is None else [("data", snapshot.data)])]
    facts += [("step", f"{step} of {snapshot.steps or MISSING}")]
    facts += [("reward", _curve(snapshot.log.get("reward", ()), width, sparks))]
    facts += [("validation", _validation(snapshot, width, sparks))]
    facts += [("alarms", _alarms(snapshot))]
    speed = [value for value in snapshot.clock.get("tokens_per_second", ())[-LATEST_STEPS:] if value is not None]
    facts += [("tokens/s", f"{sum(speed) / len(speed):,.0f} over the latest {len(speed)} steps" if speed else MISSING)]
    if snapshot.state in ("running", "silent"):
        facts += [("time left", duration(snapshot.left_s))]
    facts += [("event" if k == 0 else "", _event(event)) for k, event in enumerate(snapshot.events[-LAST_EVENTS:])]
    facts += [("damaged", said) for said in snapshot.faults]
    return [(label, one_line(text)) for label, text in facts]


def alarm_rows(snapshot: Snapshot) -> list[tuple[str, str, str, str]]:
    """Return one row of ALARM_COLUMNS for each rule that is not GREEN now."""
    return [(e.level, e.rule, str(e.first_step), one_line(e.message)) for e in snapshot.standing]


def _curve(values: Sequence[float | None], width: int, sparks: str) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return MISSING
    latest = MISSING if values[-1] is None else f"{values[-1]:+.3f}"
    return f"{latest}  {_bars(values, width, sparks)}first {known[0]:+.3f}, best {max(known):+.3f}"


def _validation(snapshot: Snapshot, width: int, sparks: str) -> str:
    table, success = snapshot.checkpoints, snapshot.checkpoints.get("success_rate", ())
    if not success or success[-1] is None:
        return "success " + MISSING
    low, high, n = (table.get(name, (None,))[-1] for name in ("success_rate_low", "success_rate_high", "episodes"))
    interval = "interval missing" if low is None or high is None else f"95 % interval {100 * low:.1f} to {100 * high:.1f}"
    count = "" if n is None else f", n = {n:.0f}"
    step = table["step"][-1]
    said = f"success {100 * success[-1]:.1f} % ({interval}{count}) at step {MISSING if step is None else f'{step:.0f}'}"
    return f"{said}  {_bars(success, width, sparks)}".rstrip()


def _bars(values: Sequence[float | None], width: int, sparks: str) -> str:
    return f"{spark(values, width, sparks)}  " if width else ""


def _alarms(snapshot: Snapshot) -> str:
    if not snapshot.alarms:
        return MISSING
    standing = snapshot.standing
    return ", ".join(f"{e.level} {e.rule} since step {e.first_step}" for e in standing) if standing else "none now"


def _event(event: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in event.items() if name not in ("time", "event")}
    return " ".join([str(event.get("time", "")), str(event.get("event", "")), *(f"{k}={v}" for k, v in rest.items())]).strip()
