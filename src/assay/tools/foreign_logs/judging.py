"""A training log of another tool from its records to what is to be said about it."""

from __future__ import annotations

import math

from assay.core.records import HEALTH_LEVELS
from assay.tools.foreign_logs.answer_rules import read_hedging, read_length, read_said
from assay.tools.foreign_logs.block_rules import read_blocks
from assay.tools.foreign_logs.blocks import FEWEST_BLOCKS, MIN_COMPLETIONS, cut, range_of
from assay.tools.foreign_logs.ends import TwoEnds
from assay.tools.foreign_logs.findings import HEDGING, NEEDS, JudgedLog, LogFinding
from assay.tools.foreign_logs.records import ForeignLog
from assay.tools.foreign_logs.reward_rules import read_parts, read_success, read_validation


def judge_log(log: ForeignLog) -> JudgedLog:
    """Return what all rules say that the log's columns allow; what they do not allow is named with what is
    lacking."""
    blocks = cut(log)
    steps = (int(min(_steps(log))), int(max(_steps(log))))
    if len(blocks) < FEWEST_BLOCKS:
        why = f"{FEWEST_BLOCKS} steps or more, and {FEWEST_BLOCKS * MIN_COMPLETIONS} completions if any"
        lacking = {rule: why for rule in NEEDS}
        return JudgedLog((), (), lacking, steps, len(log.completions), log.notes)
    successes = [each.success for each in log.completions if each.success is not None]
    most_success, rewards = max(successes, default=1.0), range_of(log, "reward")
    found, measured = read_blocks(blocks, rewards, most_success)
    parts = sorted({name for each in log.completions for name in each.parts})
    parts = parts or sorted({n[5:] for row in log.rows for n in row if n.startswith("part ")})
    ends = TwoEnds.of(blocks, rewards, most_success)
    for rule, (could, finding) in {
        "reward_vs_success": read_success(ends),
        "part_share": read_parts(ends, parts),
        "length": read_length(ends),
        "field_collapse": read_said(ends),
        HEDGING: read_hedging(ends),
        "reward_vs_validation": read_validation(ends),
    }.items():
        measured |= {rule} if could else set()
        found += [] if finding is None else [finding]
    worst: dict[str, LogFinding] = {}
    for each in found:
        known = worst.get(each.rule)
        if known is None or HEALTH_LEVELS.index(each.level) > HEALTH_LEVELS.index(known.level):
            worst[each.rule] = each
    ordered = sorted(worst.values(), key=lambda each: (-HEALTH_LEVELS.index(each.level), each.since))
    unmeasured = {rule: need for rule, need in NEEDS.items() if rule not in measured}
    done = tuple(rule for rule in NEEDS if rule in measured)
    return JudgedLog(tuple(ordered), done, unmeasured, steps, len(log.completions), log.notes)


def _steps(log: ForeignLog) -> list[float]:
    steps = [float(each.step) for each in log.completions] + [row["step"] for row in log.rows]
    return [step for step in steps if math.isfinite(step)]
