"""What a figure shows, in one sentence with its numbers; neutral words where nothing is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.core.counting import counted
from assay.core.records import HEALTH_RULES, HealthEvent, HealthRule, Interval
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.figures.forest_rows import ForestRow
from assay.verdict.evidence.figures.paired_rows import labels_shown
from assay.verdict.evidence.formatting import MISSING, difference_text, percent, signed
from assay.verdict.evidence.labels import labelled


def is_shown(gap: Interval | None) -> bool:
    """Return whether the interval of a difference leaves out none."""
    return gap is not None and gap.low is not None and gap.high is not None and not gap.low <= 0 <= gap.high


def moved(
    name: str, before: Interval | None, after: Interval | None, gap: Interval | None, n: str, *, rate: bool
) -> str:
    """Return how a measure moved from one arm to the other.

    >>> one, two = (Interval(value=v, low=v, high=v, n=9) for v in (0.2, 0.5))
    >>> moved("success", one, two, Interval(value=0.3, low=0.2, high=0.4, n=9), "9 items", rate=True)
    'Success rose from 20.0 % to 50.0 % (+30.0 points [+20.0, +40.0], n = 9 items)'
    >>> moved("success", one, two, Interval(value=0.3, low=-0.1, high=0.7, n=9), "9 items", rate=True)[:57]
    'No change shown: success 20.0 % before, 50.0 % after (+30'
    """
    arms = [None if each is None else each.value for each in (before, after)]
    if None in arms or gap is None or gap.value is None:
        return f"{_started(name)}: a value is {MISSING}"
    old, new = (
        f"{percent(value)} %" if rate else f"{value:.3f}".replace("-", "\u2212")
        for value in arms
        if value is not None
    )
    unit = " points" if rate else ""
    numbers = f"({_difference(gap, rate)}, n = {n})".replace("@", unit)
    if not is_shown(gap):
        return f"No change shown: {name} {old} before, {new} after {numbers}"
    return f"{_started(name)} {'rose' if gap.value > 0 else 'fell'} from {old} to {new} {numbers}"


def _difference(gap: Interval, rate: bool) -> str:
    value, _, rest = difference_text(gap, rate=rate).partition(" ")
    return f"{value}@ {rest}".strip()


def _started(text: str) -> str:
    return text[:1].upper() + text[1:]


def of_forest(claim: Claim, gains: Sequence[float]) -> str:
    """Return how many clusters gained, lost and stayed, and in how many strata a gain is shown."""
    if claim.verdict == "NOT EVALUABLE" or not gains:
        return ""
    up, down = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    said = f"{up} of {counted(len(gains), claim.plan.cluster_name)} gained, {down} lost"
    strata = [each.difference for each in labels_shown(claim)[0].values()]
    if strata:
        more = sum(is_shown(gap) and (gap.value or 0) > 0 for gap in strata)
        less = sum(is_shown(gap) and (gap.value or 0) < 0 for gap in strata)
        what = counted(len(strata), "subgroups")
        said += (
            f"; all {what} improved"
            if more == len(strata) > 1
            else f"; a rise is shown in {more} of {what}, a fall in {less}"
        )
    return said


def of_rates(gaps: Mapping[str, Interval | None]) -> str:
    """Return how many of some rates moved, and which one most."""
    shown = {name: gap for name, gap in gaps.items() if gap is not None and is_shown(gap)}
    if not shown:
        return f"No change shown in any of {counted(len(gaps), 'other rates')}"
    name, most = max(shown.items(), key=lambda each: abs(each[1].value or 0.0))
    said = f"{len(shown)} of {counted(len(gaps), 'other rates')} changed, {labelled(name)} most"
    return f"{said} ({_difference(most, True).replace('@', ' points')}, n = {most.n} items)"


def of_rivals(rows: Sequence[ForestRow], *, higher: bool) -> str:
    """Return how many baselines the trained policy beats, and the one nearest above or below it."""
    known = [row for row in rows if row.difference is not None and row.difference.value is not None]
    if not known:
        return ""
    sign = 1 if higher else -1

    def lead(row: ForestRow) -> float:
        return sign * ((row.difference.value if row.difference else None) or 0.0)

    beaten = [row for row in known if lead(row) > 0 and is_shown(row.difference)]
    n = "all" if len(beaten) == len(known) > 1 else f"{len(beaten)} of"
    said = f"The trained policy beats {n} {counted(len(known), 'baselines')}"
    nearest = min(known, key=lead)
    word = "closest" if nearest in beaten else "not shown to beat"
    assert nearest.difference is not None
    return f"{said}; {word}: {nearest.name} ({_difference(nearest.difference, True).replace('@', ' points')})"


def of_health(
    alarms: Sequence[HealthEvent], steps: int, unmeasured: Sequence[HealthRule], *, running: bool
) -> str:
    """Return how many rules left GREEN, and whether one was RED."""
    left = {event.rule: event.step for event in reversed(alarms) if event.level != "GREEN"}
    red = sorted({event.rule for event in alarms if event.level == "RED"})
    measured = len(HEALTH_RULES) - len([rule for rule in unmeasured if rule not in left])
    when = "so far" if running else f"in {counted(steps, 'steps')}"
    if not left:
        return f"No alarm {when}: all {measured} rules measured stayed GREEN"
    first = ", ".join(
        f"{labelled(rule)} from step {step}" for rule, step in sorted(left.items(), key=lambda e: e[1])
    )
    end = f"RED: {', '.join(map(labelled, red))}" if red else "none RED"
    return f"{len(left)} of {measured} rules measured left GREEN {when} ({first}); {end}"


def of_line(name: str, values: Sequence[float], window: int, *, rate: bool = False) -> str:
    """Return where a line began and ended, as means of its first and last values.

    >>> of_line("reward", [0.0, 0.0, 1.0, 1.0], 2)
    'Reward: 0.00 over the first 2 steps, 1.00 over the last 2'
    """
    known = [value for value in values if value == value]
    if not known:
        return ""
    n = max(1, min(window, len(known) // 2))
    ends = [sum(part) / len(part) for part in (known[:n], known[-n:])]
    first, last = (f"{percent(end)} %" if rate else f"{end:.2f}".replace("-", "\u2212") for end in ends)
    return f"{_started(name)}: {first} over the first {counted(n, 'steps')}, {last} over the last {n}"


def of_seeds(n: int, gains: Sequence[Interval], whole: Interval | None) -> str:
    """Return in how many seeds a gain is shown, and what all seeds say together."""
    up = sum(is_shown(gap) and (gap.value or 0) > 0 for gap in gains)
    said = f"A gain is shown in {up} of {counted(n, 'training seeds')}"
    known = [100 * gap.value for gap in gains if gap.value is not None]
    if known:
        said += f" ({signed(min(known))} to {signed(max(known))} points)"
    if whole is not None and whole.value is not None:
        said += f"; together {_difference(whole, True).replace('@', ' points')}"
    return said
