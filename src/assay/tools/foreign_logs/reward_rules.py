"""What the reward of a training grew out of: success, one part of it, or training items alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from assay.core.records import HealthLevel
from assay.tools.foreign_logs.blocks import success_of
from assay.tools.foreign_logs.ends import Read, TwoEnds, correlation, ring
from assay.tools.foreign_logs.findings import LEVELS, LogFinding
from assay.tools.foreign_logs.formats import names_success
from assay.tools.foreign_logs.records import LoggedCompletion
from assay.training.health.validation_rules import Change, rank_correlation

FOLLOWS = 0.25  # of a gain in reward: success that surely gained less did not follow it
MASTERED = 0.9  # success beyond which another part may well be all that is left to learn from
PAID = 0.5  # correlation of a part with success by which it pays for success
LEARNED_FROM = (
    0.9  # of what rewards of one prompt differ by: AMBER where one part that is no success makes it
)
MIN_CORRELATED = 30  # items


def read_success(ends: TwoEnds) -> Read:
    """Read whether more reward came with more success, and whether reward still ranks items as success
    does."""
    gain, success = ends.change("reward"), ends.change("success")
    if gain is None or success is None or ends.rewards is None or ends.rewards.width <= 0.0:
        return False, None
    rule, width = "reward_vs_success", ends.rewards.width
    share = Change(*(each / width for each in gain))
    said = f"From start to end reward (as a share of its range) changed by {share}, success by {success}"
    material = share.low > 0.0 and share.mean > LEVELS.validation.gap
    if material and success.is_flat(share.mean):
        try_this = "read the completions that are paid best, since the reward pays for what is no success"
        return ring(ends, rule, "RED", f"{said}; {try_this}", success.mean, share.mean)
    if material and success.high < FOLLOWS * share.mean:
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


def read_parts(ends: TwoEnds, parts: Sequence[str]) -> Read:
    """Read which part made the gain in reward, and which part the policy learns from at the end."""
    gains = {part: found for part in parts if (found := ends.change(f"part {part}")) is not None}
    gain, success = ends.change("reward"), ends.change("success")
    if len(gains) < 2 or gain is None or ends.rewards is None or ends.rewards.width <= 0.0:
        return False, None
    limit, rule = LEVELS.validation.part_share, "part_share"
    part = max(gains, key=lambda name: gains[name].mean)
    material = gain.low > 0.0 and gain.mean > LEVELS.validation.gap * ends.rewards.width
    room = math.fsum(_room(ends, other) for other in gains if other != part)
    material = material and room >= (1.0 - limit) * gain.mean
    if material and gains[part].mean > limit * gain.mean:
        share, grown = gains[part].mean / gain.mean, gain.mean / ends.rewards.width
        said = f"{part} made {share:.0%} of the gain in reward, which is {gain}"
        try_this = "read some completions, and weigh the parts anew if this is not what you are after"
        if success is not None and success.high < FOLLOWS * grown:
            level: HealthLevel = "RED" if success.is_flat(grown) else "AMBER"
            said = f"{said}, while success changed by {success}"
            return ring(ends, rule, level, f"{said}; {try_this}", share, limit)
        if success is None and not names_success(part):
            return ring(ends, rule, "AMBER", f"{said}; {try_this}", share, limit)
    return True, _learned_from(ends, parts, success)


def _room(ends: TwoEnds, part: str) -> float:
    """Return what a part could have gained: up to the most that it was seen to give at either end."""
    first, last = ends.units(ends.start, f"part {part}"), ends.units(ends.end, f"part {part}")
    values = [*first.values(), *last.values()]
    return max(values) - math.fsum(first.values()) / len(first)


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
