"""What changed from the start of a training to its end: what its reward grew out of (success, one part of it,
or training items alone), and what became of its answers (their length, their fields, whether they hedge)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.core.counting import counted
from assay.core.records import HealthLevel
from assay.health.logs.answers import count_entries, hedges, read_fields
from assay.health.logs.blocks import (
    Read,
    StepBlock,
    TwoEnds,
    correlation,
    fields_of,
    lengths_of,
    ring,
    success_of,
    welch,
)
from assay.health.logs.means import names_success
from assay.health.logs.records import HEDGING, LEVELS, REWARD_LOST, LogFinding, LoggedCompletion
from assay.health.rules.signals import failures_left
from assay.health.rules.validation_rules import Change, rank_correlation
from assay.rollout.evaluation.alarms import EMPTIED, MIN_ANSWERS, VARIES

FOLLOWS = 0.25  # of a gain in reward: success that surely gained less did not follow it
MASTERED = 0.9  # success beyond which another part may well be all that is left to learn from
PAID = 0.5  # correlation of a part with success by which it pays for success
LEARNED_FROM = (
    0.9  # of what rewards of one prompt differ by: AMBER where one part that is no success makes it
)
MIN_CORRELATED = 30  # items
LOST, MOSTLY_LOST = 0.3, 0.6  # of what rewards can differ by: AMBER and RED


@dataclass(frozen=True, slots=True)
class _Gains:
    """How reward and success changed: as shares of what they can be, and once more on a scale of this log.

    Completions show what a reward can be, and means do not: where they stay near nought, a small gain is all
    of what was seen of a reward, and has to be held against all of what was seen of success.
    """

    reward: Change
    success: Change
    reward_seen: Change
    success_seen: Change

    @classmethod
    def of(cls, ends: TwoEnds) -> _Gains | None:
        """Return the changes; None where one of them is not logged, or never varies."""
        gain, success, width = ends.change("reward"), ends.change("success"), ends.width()
        if gain is None or success is None or width <= 0.0:
            return None
        share = _divide(gain, width)
        if ends.has_completions:
            return cls(share, success, share, success)
        if ends.has_nought:
            return cls(share, success, share, _divide(success, max(ends.means("success"))))
        spans = (max(means) - min(means) for means in (ends.means("reward"), ends.means("success")))
        seen = [_divide(each, span) for each, span in zip((gain, success), spans, strict=True)]
        return cls(share, success, *seen)

    def hardly(self, share: float) -> bool:
        """Return whether success surely changed by less than this share of what reward did, on both."""
        both = ((self.reward, self.success), (self.reward_seen, self.success_seen))
        return all(_surely_less(success, reward, share) for reward, success in both)

    @property
    def flat(self) -> bool:
        """Whether success may not have risen at all, and surely rose less than reward."""
        return self.success.low <= 0.0 and self.hardly(1.0)


def _surely_less(one: Change, other: Change, share: float) -> bool:
    """Return whether a change is less than a share of another one, beyond the errors of both."""
    error = math.hypot(one.high - one.mean, share * (other.high - other.mean))
    return share * other.mean - one.mean > error


def _divide(change: Change, by: float) -> Change:
    return Change(*(each / by for each in change)) if by > 0.0 else Change(0.0, 0.0, 0.0)


def read_success(ends: TwoEnds) -> Read:
    """Read whether more reward came with more success, and whether reward still ranks items as success
    does."""
    gains = _Gains.of(ends)
    if gains is None or ends.is_reward():
        return False, None
    rule, share, success = "reward_vs_success", gains.reward, gains.success
    said = f"From start to end reward (as a share of its range) changed by {share}, success by {success}"
    material = share.low > 0.0 and share.mean > LEVELS.validation.gap
    if material and gains.flat:
        try_this = "read the completions that are paid best, since the reward pays for what is no success"
        return ring(ends, rule, "RED", f"{said}; {try_this}", success.mean, share.mean)
    if material and gains.hardly(FOLLOWS):
        return ring(ends, rule, "AMBER", f"{said}, which hardly follows", success.mean, FOLLOWS * share.mean)
    if success.high < -LEVELS.validation.gap and share.mean >= 0.0:
        return ring(ends, rule, "RED", f"{said}: success was lost and reward was not", success.mean, 0.0)
    rewards, right = ends.units(ends.end, "reward"), ends.units(ends.end, "success")
    n = len(set(rewards) & set(right))
    agreement = rank_correlation(rewards, right) if n >= MIN_CORRELATED else None
    limit = LEVELS.validation.correlation
    if (
        agreement is not None
        and math.tanh(math.atanh(max(-0.999, min(0.999, agreement))) + 1.96 / math.sqrt(n - 3)) < limit
    ):
        said = f"At the end the rank correlation of reward and success over {n} items is {agreement:.3g}"
        try_this = "read the failures that are paid best"
        return ring(ends, rule, "RED", f"{said}, surely below {limit:g}; {try_this}", agreement, limit)
    return True, None


def read_lost(ends: TwoEnds) -> Read:
    """Read whether much of the reward was lost that there was at the start: what was known is forgotten."""
    gain, width = ends.change("reward"), ends.width()
    if gain is None or width <= 0.0:
        return False, None
    share = _divide(gain, width)
    if share.high >= 0.0 or -share.mean < LOST:
        return True, None
    said = f"From start to end reward (as a share of its range) changed by {share}"
    said = f"{said}; go back to a checkpoint before that, and lower the learning rate"
    return ring(ends, REWARD_LOST, "RED" if -share.mean >= MOSTLY_LOST else "AMBER", said, share.mean, -LOST)


def read_parts(ends: TwoEnds, parts: Sequence[str]) -> Read:
    """Read which part made the gain in reward, and which part the policy learns from at the end."""
    gains = {part: found for part in parts if (found := ends.change(f"part {part}")) is not None}
    gain, success = ends.change("reward"), ends.change("success")
    width = ends.width()
    if len(gains) < 2 or gain is None or width <= 0.0:
        return False, None
    limit, rule = LEVELS.validation.part_share, "part_share"
    part = max(gains, key=lambda name: gains[name].mean)
    material = gain.low > 0.0 and gain.mean > LEVELS.validation.gap * width
    room = math.fsum(_room(ends, other) for other in gains if other != part)
    material = material and room >= (1.0 - limit) * gain.mean
    if material and gains[part].mean > limit * gain.mean:
        share, both = gains[part].mean / gain.mean, _Gains.of(ends)
        said = f"{part} made {share:.0%} of the gain in reward, which is {gain}"
        try_this = "read some completions, and weigh the parts anew if this is not what you are after"
        if both is not None and both.hardly(FOLLOWS):
            level: HealthLevel = "RED" if both.flat else "AMBER"
            said = f"{said}, while success changed by {success}"
            return ring(ends, rule, level, f"{said}; {try_this}", share, limit)
        if success is None and not names_success(part):
            return ring(ends, rule, "AMBER", f"{said}; {try_this}", share, limit)
    return True, _learned_from(ends, parts, success)


def _room(ends: TwoEnds, part: str) -> float:
    """Return what a part could have gained: up to the most that it was seen to give at either end, and up to
    1 where it is success and only means are known."""
    first, last = ends.units(ends.start, f"part {part}"), ends.units(ends.end, f"part {part}")
    most = max([*first.values(), *last.values()])
    if names_success(part) and all(unit.startswith("row ") for unit in first):
        most = max(most, 1.0)
    return most - math.fsum(first.values()) / len(first)


def _learned_from(ends: TwoEnds, parts: Sequence[str], success: Change | None) -> LogFinding | None:
    """Read which part makes the rewards of one prompt differ: that is all that a group teaches.

    A part that is no success teaches by itself where success is seldom; where nearly all succeeds, that is
    as it should be.
    """
    groups = [
        group for block in ends.end for group in block.groups if all(e.reward is not None for e in group)
    ]
    right = list(ends.units(ends.end, "success").values())
    if not groups or success is None or not right or math.fsum(right) / len(right) > MASTERED:
        return None
    total, shared = 0.0, dict.fromkeys(parts, 0.0)
    for group in groups:
        rewards = np.array([each.reward for each in group])
        apart = rewards - rewards.mean()
        total += float(apart @ apart)
        for part in parts:
            values = np.array([each.parts.get(part, 0.0) for each in group])
            shared[part] += float((values - values.mean()) @ apart)
    if total <= 0.0:
        return None
    part, most = max(shared.items(), key=lambda each: (each[1], each[0]))
    paid_for = _agreement(groups, part, ends.most_success)
    if most / total <= LEARNED_FROM or names_success(part) or (paid_for is not None and paid_for > PAID):
        return None
    said = f"At the end {part} makes {most / total:.0%} of what rewards of one prompt differ by"
    said = f"{said}, so that hardly anything else is learned; weigh the parts anew"
    return ring(ends, "part_share", "AMBER", said, most / total, LEARNED_FROM)[1]


def _agreement(groups: Sequence[Sequence[LoggedCompletion]], part: str, most: float) -> float | None:
    """Return the correlation of a part with success within prompts; None where success does not vary."""
    pairs = [
        (each.parts.get(part, 0.0) - _mean_of(group, part), said - mean)
        for group in groups
        for said, mean, each in _successes(group, most)
    ]
    return correlation(pairs)


def _mean_of(group: Sequence[LoggedCompletion], part: str) -> float:
    return math.fsum(each.parts.get(part, 0.0) for each in group) / len(group)


def _successes(group: Sequence[LoggedCompletion], most: float) -> list[tuple[float, float, LoggedCompletion]]:
    told = [(said, each) for each in group if (said := success_of(each, most)) is not None]
    mean = math.fsum(said for said, _ in told) / len(told) if told else 0.0
    return [(said, mean, each) for said, each in told]


def read_validation(ends: TwoEnds) -> Read:
    """Read whether the reward on validation items follows the reward on training items."""
    gain, validation = ends.change("reward"), ends.change("validation")
    if gain is None or validation is None:
        return False, None
    said = f"Reward changed by {gain} in training and by {validation} on validation"
    try_this = "choose an earlier checkpoint"
    if gain.low > 0.0 and validation.high < 0.0:
        return ring(ends, "reward_vs_validation", "RED", f"{said}; {try_this}", validation.mean, 0.0)
    if gain.low > 0.0 and validation.is_flat(gain.low):
        return ring(ends, "reward_vs_validation", "AMBER", f"{said}; {try_this}", validation.mean, gain.low)
    return True, None


RISEN = 0.1  # of success: a rise by which longer or shorter completions are paid for
LENGTH_PAID = 0.5  # correlation of reward and length among completions of one prompt that are equally right
EARNED = 0.9  # of the answers that say one and the same: if so many succeed, it is no collapse
ALIKE = 0.95  # of the answers at the end: that say one and the same
READ = "read some of them, since it may earn more than it should"
HEDGED, HEDGED_RED = 0.15, 0.3  # more of the completions than at the start
STUFFED = 2.0  # times as many entries of lists as at the start


def read_length(ends: TwoEnds) -> Read:
    """Read how far completions grew or shrank, whether success came with it, and whether length itself is
    paid."""
    both = _lengths(ends)
    if both is None or both[0] <= 0.0:
        return False, None
    first, last = both
    factor, success, levels = last / first, ends.change("success"), LEVELS.length
    paid, drift = _length_is_paid(ends), max(factor, 1.0 / max(factor, 1e-9))
    risen = success is not None and success.low > 0.0 and success.mean >= RISEN
    rightly = paid is None or abs(paid) < LENGTH_PAID or (paid > 0.0) != (factor > 1.0)
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


def _lengths(ends: TwoEnds) -> tuple[float, float] | None:
    """Return the mean length of a completion at the start and at the end, in one unit: of those that are
    logged, the first that most blocks of both have."""
    sides = [[lengths_of(block) for block in side] for side in (ends.start, ends.end)]
    for unit in range(3):
        told = [[found for lengths in side if (found := lengths[unit]) is not None] for side in sides]
        if all(2 * len(each) > len(side) for each, side in zip(told, sides, strict=True)):
            return math.fsum(told[0]) / len(told[0]), math.fsum(told[1]) / len(told[1])
    return None


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
