"""The rules of training health, read block by block: the same rungs, ladder and shares as in a training of
assay."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from assay.core.records import HEALTH_LEVELS, HealthEvent, HealthSummary
from assay.health.logs.blocks import (
    StepBlock,
    ValueRange,
    ends_of,
    fields_of,
    signals_of,
    solved_groups,
    texts_of,
    variety,
)
from assay.health.logs.records import LEVELS, LogFinding
from assay.health.rules.alarm_levels import Ladder, RuleReading, below
from assay.health.rules.commonest import most_common, reading, share_readings
from assay.health.rules.signals import Baselines, failures_left, step_readings

MIN_ITEMS = 10  # of a window: fewer say nothing about a share of items
_SETTING = re.compile(r"\b(?:train|task|generation|health)\.(?=\w)")  # another trainer has other sections
LASTING = 3  # blocks that a rule which is quiet again has to have rung for
LEAST_VARIETY = 0.05  # of the start: less is a task whose answers are alike anyway


def read_blocks(
    blocks: Sequence[StepBlock], rewards: ValueRange | None, most_success: float
) -> tuple[list[LogFinding], set[str]]:
    """Return what the rules found block by block, and which of them read anything."""
    n_start = len(ends_of(blocks)[0])
    settings = LEVELS.model_copy(update={"baseline_steps": n_start})
    ladder, baselines = Ladder(), Baselines({})
    signals = [signals_of(block, rewards, most_success) for block in blocks]
    parsed = [each.parsed for each in signals if each.parsed is not None]
    if parsed and max(parsed) < 0.5:  # free text: that it holds no object is no fault
        signals = [replace(each, parsed=None) for each in signals]
    events, left, successes = list[HealthEvent](), 1.0, list[float]()
    for k, each in enumerate(signals):
        if each.success is not None:
            successes.append(each.success)
            first = baselines.take("success", each.success, n_start)
            recent = successes[-n_start:]
            left = 1.0 if first is None else failures_left(first, math.fsum(recent) / len(recent))
        readings = step_readings(each, settings, baselines, left)
        readings += _variety(blocks[k], rewards, most_success, baselines, n_start, left)
        window = blocks[max(0, k + 1 - LEVELS.top_share_window) : k + 1]
        readings += _commonest(window, most_success, baselines, n_start)
        events += ladder.climb(each.step, readings)
    return _findings(events, blocks), set(ladder.state())


def _variety(
    block: StepBlock,
    rewards: ValueRange | None,
    most_success: float,
    baselines: Baselines,
    n_start: int,
    left: float,
) -> list[RuleReading]:
    """Read how far completions of one prompt differ, against the start, where not all of them are right.

    As for entropy, less of it is no alarm as far as success accounts for it.
    """
    groups = block.groups
    value = variety(groups, solved_groups(groups, rewards, most_success))
    if value is None:
        return []
    base = baselines.take("distinct", value, n_start)
    if base is None or base < LEAST_VARIETY:
        return []
    levels, what = LEVELS.distinct, "how far completions of one prompt differ that are not all right"
    amber = below(what, value, levels.amber * base, levels.amber_for)
    red = below(what, value, levels.red * base, levels.red_for)
    judged = [
        replace(rung, beyond=rung.beyond and left > 1.0 - share)
        for rung, share in ((amber, levels.amber), (red, levels.red))
    ]
    return [RuleReading("distinct", (judged[0], judged[1], None), base)]


def _commonest(
    window: Sequence[StepBlock], most_success: float, baselines: Baselines, n_start: int
) -> list[RuleReading]:
    """Read how many items of a window one answer answers, and one value of a field, beyond those it is right
    for."""
    found = list[RuleReading]()
    given, right = texts_of(window, most_success)
    common, items = most_common(given, right)
    if common.items >= MIN_ITEMS:
        start = baselines.take("top_share", max(0.0, common.excess), n_start)
        what = "the share of items that one answer answers"
        if start is not None:  # what was so from the start is no change, right or wrong
            forgiving = not common.answers_all
            amber, red = share_readings(common, start, LEVELS.top_share, what, field=forgiving)
            found.append(RuleReading("top_share", (amber, red, None), common.honest, items))
    places: dict[str, list[dict[str, dict[str, int]]]] = {}
    golds: dict[str, dict[str, list[str]]] = {}
    for block in window:
        here: dict[str, dict[str, dict[str, int]]] = {}
        for each in block.kept:
            for place, said in fields_of(each).items():
                counts = here.setdefault(place, {}).setdefault(each.item, {})
                counts[said.found] = counts.get(said.found, 0) + 1
                golds.setdefault(place, {}).setdefault(each.item, []).append(said.gold)
        for place, counted in here.items():
            places.setdefault(place, []).append(counted)
    told = []
    for place, texts in places.items():
        common, items = most_common(texts, golds[place])
        start = baselines.take(f"field {place}", max(0.0, common.excess), n_start)
        if common.items >= MIN_ITEMS and start is not None:
            what = f"the share of items in which {place} says one and the same, or nothing,"
            levels = LEVELS.field_collapse
            told.append(reading("field_collapse", common, start, levels, what, items, field=True))
    return [*found, max(told, key=_severity)] if told else found


def _severity(found: RuleReading) -> tuple[int, float]:
    amber = found.rungs[0]
    assert amber is not None and amber.value is not None and amber.threshold is not None
    return sum(rung is not None and rung.beyond for rung in found.rungs), amber.value - amber.threshold


def _findings(events: Sequence[HealthEvent], blocks: Sequence[StepBlock]) -> list[LogFinding]:
    """Return the rules that rang at the end, or for three blocks: one block of a long log proves little."""
    found = []
    for rule in HealthSummary.of(events).rules:
        told = [event for event in events if event.rule == rule.rule]
        levels = {event.step: event.level for event in told}
        here, rang = "GREEN", 0
        for block in blocks:
            here = levels.get(block.last_step, here)
            rang += here != "GREEN"
        if here == "GREEN" and rang < LASTING:
            continue
        worst = max(told, key=lambda event: (HEALTH_LEVELS.index(event.level), event.stop))
        said = _SETTING.sub("", worst.message)
        since = min(event.first_step for event in told if event.level != "GREEN")
        numbers = (worst.value, worst.threshold, worst.baseline)
        found.append(LogFinding(rule.rule, worst.level, since, here != "GREEN", *numbers, said))
    return found
