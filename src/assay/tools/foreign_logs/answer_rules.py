"""What became of the answers of a training: their length, their fields, and whether they hedge."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

from assay.core.counting import counted
from assay.core.records import HealthLevel
from assay.evaluation.alarms import EMPTIED, MIN_ANSWERS, VARIES
from assay.tools.foreign_logs.answers import count_entries, hedges, read_fields
from assay.tools.foreign_logs.blocks import StepBlock, fields_of, length_of, success_of
from assay.tools.foreign_logs.ends import Read, TwoEnds, correlation, ring, welch
from assay.tools.foreign_logs.findings import HEDGING, LEVELS
from assay.tools.foreign_logs.records import LoggedCompletion
from assay.training.health.signals import failures_left

RISEN = 0.1  # of success: a rise by which longer or shorter completions are paid for
PAID = 0.5  # correlation of reward and length among completions of one prompt that are equally right
EARNED = 0.9  # of the answers that say one and the same: if so many succeed, it is no collapse
ALIKE = 0.95  # of the answers at the end: that say one and the same
READ = "read some of them, since it may earn more than it should"
HEDGED, HEDGED_RED = 0.15, 0.3  # more of the completions than at the start
STUFFED = 2.0  # times as many entries of lists as at the start


def read_length(ends: TwoEnds) -> Read:
    """Read how far completions grew or shrank, whether success came with it, and whether length itself is
    paid."""
    first, last = _mean_length(ends.start), _mean_length(ends.end)
    if first is None or last is None or first <= 0.0:
        return False, None
    factor, success, levels = last / first, ends.change("success"), LEVELS.length
    paid, drift = _length_is_paid(ends), max(factor, 1.0 / max(factor, 1e-9))
    risen = success is not None and success.low > 0.0 and success.mean >= RISEN
    rightly = paid is None or abs(paid) < PAID or (paid > 0.0) != (factor > 1.0)
    said = f"The mean length of a completion went from {first:.4g} to {last:.4g}"
    try_this = "look at what is written now and which part of the reward pays for it"
    if not rightly and drift > math.sqrt(levels.amber) and not risen:
        said = (
            f"{said}, and among equally right completions of a prompt reward follows length (r = {paid:.2g})"
        )
        level: HealthLevel = "RED" if drift > levels.amber else "AMBER"
        return ring(ends, "length", level, f"{said}; {try_this}", factor, math.sqrt(levels.amber), 1.0)
    if drift <= levels.amber or (risen and rightly):
        return True, None
    if factor < 1.0 and success is not None and _left(ends) <= 1.0 - 1.0 / levels.amber:
        return True, None
    said = said if success is None else f"{said}, while success changed by {success}"
    level = "RED" if drift > levels.red else "AMBER"
    return ring(ends, "length", level, f"{said}; {try_this}", factor, levels.amber, 1.0)


def _left(ends: TwoEnds) -> float:
    """Return which share of the failures of the start is left at the end."""
    first, last = (list(ends.units(side, "success").values()) for side in (ends.start, ends.end))
    return failures_left(math.fsum(first) / len(first), math.fsum(last) / len(last))


def _mean_length(blocks: Sequence[StepBlock]) -> float | None:
    told = [length for block in blocks if (length := length_of(block)) is not None]
    return math.fsum(told) / len(told) if told else None


def _length_is_paid(ends: TwoEnds) -> float | None:
    """Return the correlation of reward and length at the end, within prompts and among equally right
    completions; None where it cannot be known."""
    pairs: list[tuple[float, float]] = []
    for group in (group for block in ends.end for group in block.groups):
        alike: defaultdict[float | None, list[LoggedCompletion]] = defaultdict(list)
        for each in group:
            if each.reward is not None and (each.text is not None or each.tokens is not None):
                alike[success_of(each, ends.most_success)].append(each)
        for told in alike.values():
            lengths = [float(len(e.text or "")) if e.tokens is None else e.tokens for e in told]
            rewards = [e.reward or 0.0 for e in told]
            middle = math.fsum(rewards) / len(told), math.fsum(lengths) / len(told)
            pairs += [
                (r - middle[0], n - middle[1]) for r, n in zip(rewards, lengths, strict=True) if len(told) > 1
            ]
    return correlation(pairs)


def read_said(ends: TwoEnds) -> Read:
    """Read which field, or the completion itself, says nothing or one and the same at the end, and did not at
    the start.

    Where no gold is known, the start is what a field may look like, and success has the last word: what most
    of the answers say that succeed is no collapse.
    """
    rule, places = "field_collapse", _places(ends.start)
    first, last = _said(ends.start, places), _said(ends.end, places)
    # Where success is not logged, nothing says that the answers ought not to be so.
    level: HealthLevel = "RED" if ends.change("success") is not None else "AMBER"
    read = False
    for place, told in sorted(last.items(), key=lambda each: (-len(each[1]), each[0])):
        before = first.get(place, [])
        if min(len(told), len(before)) < MIN_ANSWERS:
            continue
        read = True
        empty, was_empty = (_share(side, "") for side in (told, before))
        (commonest, times), (_, were) = (
            Counter(said for said, _ in side).most_common(1)[0] for side in (told, before)
        )
        top, was_top = times / len(told), were / len(before)
        size = f"of {counted(len(told), 'completions')} at the end"
        if empty - was_empty > EMPTIED and not _earned(ends, told, ""):
            said = f"{place} says nothing in {empty:.0%} {size}, {was_empty:.0%} at the start; {READ}"
            return ring(ends, rule, level, said, empty, was_empty + EMPTIED, was_empty)
        if top >= ALIKE and was_top < VARIES and not _earned(ends, told, commonest):
            said = f"{place} says one and the same in {top:.0%} {size}, {was_top:.0%} at the start; {READ}"
            return ring(ends, rule, level, said, top, ALIKE, was_top)
    return read, None


def _places(blocks: Sequence[StepBlock]) -> set[str]:
    """Return the fields that most of the answers with fields have."""
    told = [fields for b in blocks for e in b.kept if e.text and (fields := read_fields(e.text))]
    counts = Counter(place for fields in told for place in fields)
    return {place for place, times in counts.items() if times > len(told) / 2}


def _said(blocks: Sequence[StepBlock], places: set[str]) -> dict[str, list[tuple[str, LoggedCompletion]]]:
    """Return by place what answers say there, "" where they leave it out; not where a gold says it."""
    found: defaultdict[str, list[tuple[str, LoggedCompletion]]] = defaultdict(list)
    for each in (each for block in blocks for each in block.kept):
        if each.text is None:
            continue
        found["the completion"].append((" ".join(each.text.split()), each))
        fields, known = read_fields(each.text), fields_of(each)
        for place in places - known.keys() if fields else ():
            found[place].append((fields.get(place, ""), each))
    return dict(found)


def _share(told: Sequence[tuple[str, LoggedCompletion]], value: str) -> float:
    return sum(said == value for said, _ in told) / len(told)


def _earned(ends: TwoEnds, told: Sequence[tuple[str, LoggedCompletion]], value: str) -> bool:
    """Return whether most of those that say this succeed."""
    known = [success_of(each, ends.most_success) for said, each in told if said == value]
    right = [each for each in known if each is not None]
    return bool(right) and math.fsum(right) / len(right) > EARNED


def read_hedging(ends: TwoEnds) -> Read:
    """Read whether more completions give several answers, or none they stand by, and whether lists are
    stuffed."""
    sides = [[e for b in side for e in b.kept if e.text is not None] for side in (ends.start, ends.end)]
    if min(map(len, sides)) < MIN_ANSWERS:
        return False, None
    shares = [[float(hedges(each.text or "")) for each in side] for side in sides]
    grown = welch(*shares)
    assert grown is not None
    was, now = (math.fsum(side) / len(side) for side in shares)
    if grown.low > 0.0 and grown.mean > HEDGED:
        level: HealthLevel = "RED" if grown.mean > HEDGED_RED else "AMBER"
        said = (
            f"{now:.0%} of the completions at the end hedge, {was:.0%} at the start: several answers for one,"
        )
        said = (
            f"{said} or none they stand by; let the reward count one answer, the last, and nothing beside it"
        )
        return ring(ends, HEDGING, level, said, now, was + HEDGED, was)
    entries = [[float(count_entries(each.text or "")) for each in side] for side in sides]
    more, before = welch(*entries), math.fsum(entries[0]) / len(entries[0])
    success = ends.change("success")
    risen = success is not None and success.low > 0.0 and success.mean >= RISEN
    if (
        more is not None
        and before > 0.0
        and more.low > 0.0
        and more.mean > (STUFFED - 1.0) * before
        and not risen
    ):
        now = before + more.mean
        said = f"Lists of an answer have {now:.3g} entries at the end, {before:.3g} at the start"
        return ring(ends, HEDGING, "AMBER", f"{said}; let wrong entries cost", now, STUFFED * before, before)
    return True, None
