"""What the rules of training health say of a log of another tool: what rang, what could not be measured."""

from __future__ import annotations

from collections.abc import Set

from assay.core.records import HEALTH_LEVELS
from assay.health.logs.block_rules import read_blocks
from assay.health.logs.blocks import (
    FEWEST_BLOCKS,
    MIN_COMPLETIONS,
    Read,
    TwoEnds,
    cut,
    most_success_in,
    range_of,
)
from assay.health.logs.end_rules import (
    read_hedging,
    read_length,
    read_lost,
    read_parts,
    read_said,
    read_success,
    read_validation,
)
from assay.health.logs.fact_rules import read_dead, read_loss_size, read_non_finite
from assay.health.logs.records import (
    DEAD_PART,
    HEDGING,
    LOSS_SIZE,
    NEEDS,
    REWARD_LOST,
    ForeignLog,
    JudgedLog,
    LogFinding,
)
from assay.rollout.tables.columns import list_names


def judge_log(log: ForeignLog) -> JudgedLog:
    """Return what all rules say that the log's columns allow; what they do not allow is named with what is
    lacking."""
    blocks = cut(log)
    steps = (int(min(_steps(log))), int(max(_steps(log))))
    dead, notes = read_dead(log)
    read: dict[str, Read] = {
        "non_finite": read_non_finite(log),
        DEAD_PART: dead,
        LOSS_SIZE: read_loss_size(log),
    }
    found, measured = list[LogFinding](), set[str]()
    needs = dict(NEEDS)
    if len(blocks) >= FEWEST_BLOCKS:
        most_success, rewards = most_success_in(log), range_of(log, "reward")
        found, measured = read_blocks(blocks, rewards, most_success)
        parts = sorted({name for each in log.completions for name in each.parts})
        parts = parts or sorted({n[5:] for row in log.rows for n in row if n.startswith("part ")})
        ends = TwoEnds.of(blocks, rewards, most_success)
        if ends.is_reward():
            needs["reward_vs_success"] = "a success that is not the reward itself (--success names it)"
        read |= {
            "reward_vs_success": read_success(ends),
            REWARD_LOST: read_lost(ends),
            "part_share": read_parts(ends, parts),
            "length": read_length(ends),
            "field_collapse": read_said(ends),
            HEDGING: read_hedging(ends),
            "reward_vs_validation": read_validation(ends),
        }
    for rule, (could, finding) in read.items():
        measured |= {rule} if could else set()
        found += [] if finding is None else [finding]
    worst: dict[str, LogFinding] = {}
    for each in found:
        known = worst.get(each.rule)
        if known is None or HEALTH_LEVELS.index(each.level) > HEALTH_LEVELS.index(known.level):
            worst[each.rule] = each
    ordered = sorted(worst.values(), key=lambda each: (-HEALTH_LEVELS.index(each.level), each.since))
    lacking = _lacking(log, len(blocks), measured)
    return JudgedLog(
        findings=tuple(ordered),
        measured=tuple(rule for rule in NEEDS if rule in measured),
        unmeasured={rule: need for rule, need in needs.items() if rule not in measured},
        steps=steps,
        completions=len(log.completions),
        notes=(*log.notes, *notes, *(_name_unread(log) if lacking is None else [])),
        lacking=lacking,
    )


def _steps(log: ForeignLog) -> list[float]:
    steps = [float(each.step) for each in log.completions] + [float(each.step) for each in log.odd]
    return steps + [row["step"] for row in log.rows]


def _name_unread(log: ForeignLog) -> list[str]:
    named = list_names(log.numbers)
    return [f"numbers that were not read: {named} (--columns names what they are)"] if log.numbers else []


def _lacking(log: ForeignLog, blocks: int, measured: Set[str]) -> str | None:
    """Return why a log without alarms is not known to be well, and what would have it read; None where it
    is."""
    if blocks < FEWEST_BLOCKS:
        least = f"{FEWEST_BLOCKS} steps, and {FEWEST_BLOCKS * MIN_COMPLETIONS} completions if any"
        return f"too short to compare its end with its start, which takes {least}"
    known = {name for row in log.rows for name in row}
    known |= {"reward" for each in log.completions if each.reward is not None}
    known |= {"success" for each in log.completions if each.success is not None}
    unread = f"not read: {list_names([*log.texts, *log.numbers])}" if log.texts or log.numbers else ""
    if log.texts:
        return f"{unread}; --columns completion={log.texts[0]} reads the texts, if that is what was said"
    if not known & {"reward", "success"}:
        if log.garbled:
            return f"{list_names(log.garbled)} cannot be read: write plain numbers (1234.5)"
        name = log.numbers[0] if log.numbers else "NAME"
        lacking = f"no column is known as a reward or a success{f'; {unread}' if unread else ''}"
        return f"{lacking}; --columns score={name} names the reward, if it is one"
    if measured <= {"non_finite", DEAD_PART, LOSS_SIZE, REWARD_LOST}:
        lacking = f"only {list_names(sorted(known - {'step'}))} by step can be read"
        lacking = f"{lacking}; {unread}" if unread else lacking
        wanted = "log success, reward_std, kl or entropy beside, or name the folder that has the completions"
        return f"{lacking}; {wanted}"
    if log.garbled:
        return f"{list_names(log.garbled)} cannot be read: write plain numbers (1234.5)"
    return None
