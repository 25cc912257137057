"""What a training log of another tool holds, in one form: completions by step, or means by step, or both; and
what was found in it, what could not be measured, and the levels of both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from assay.core.config.health import HealthSettings
from assay.core.records import HEALTH_LEVELS, HealthLevel

EXACT = 1e-3  # of the spread of rewards: what a sum of parts may miss it by and still be that sum


@dataclass(frozen=True, slots=True)
class LoggedCompletion:
    """One completion as a trainer logged it; None is what the log does not say.

    `item` tells prompts apart ("": not logged), `success` is in [0, 1], `tokens` is its length in tokens.
    """

    step: int
    item: str
    text: str | None
    reward: float | None
    parts: Mapping[str, float] = field(default_factory=dict)
    success: float | None = None
    gold: str | None = None
    tokens: float | None = None
    truncated: bool | None = None
    lost: bool | None = None
    loose: bool = False  # whether `parts` are just the numbers that the log has beside


@dataclass(frozen=True, slots=True)
class ForeignLog:
    """A training log: completions, rows of means by step under the names of our signals, and what was made of
    it in words."""

    completions: tuple[LoggedCompletion, ...] = ()
    rows: tuple[Mapping[str, float], ...] = ()  # each with "step"; parts are "part <name>"
    notes: tuple[str, ...] = ()


def put_together(logs: Sequence[ForeignLog]) -> ForeignLog:
    """Return several files of one training as one log, in the order of steps."""
    completions = sorted((each for log in logs for each in log.completions), key=lambda each: each.step)
    rows = sorted((row for log in logs for row in log.rows), key=lambda row: row["step"])
    notes = dict.fromkeys(note for log in logs for note in log.notes)
    return ForeignLog(tuple(completions), tuple(rows), tuple(notes))


def weigh_parts(log: ForeignLog) -> ForeignLog:
    """Return the log with reward parts as they add up to the reward.

    Tools log what each reward function said, not what it counts for. Where the reward is a weighted sum of
    the parts, least squares finds the weights, from completions or else from the means by step; parts that
    count for nothing are left out. Where no reward is logged it is made of its parts so, or as their plain
    sum. Where no weights make the parts add up they stay as logged, if the log calls them parts.
    """
    names = sorted({name for each in log.completions for name in each.parts})
    if not names:
        return log
    told = [each for each in log.completions if each.reward is not None and not each.lost]
    if told:
        weights = _fit([[each.parts.get(name, 0.0) for name in names] for each in told], _rewards(told))
        if weights is not None:
            return replace(log, completions=_weighed(log, names, weights, sums=False))
        kept = tuple(replace(each, parts={}) if each.loose else each for each in log.completions)
        return replace(log, completions=kept)
    columns = [f"part {name}" for name in names]
    rows = [row for row in log.rows if all(math.isfinite(row.get(c, math.nan)) for c in ("reward", *columns))]
    weights = _fit([[row[column] for column in columns] for row in rows], [row["reward"] for row in rows])
    note = "no reward is logged with the completions: it is the sum of its parts"
    note += ", taken as they are" if weights is None else ", weighed as in the rows by step"
    weighed = _weighed(log, names, [1.0] * len(names) if weights is None else weights, sums=True)
    return replace(log, completions=weighed, notes=(*log.notes, note))


def _rewards(told: Sequence[LoggedCompletion]) -> list[float]:
    return [each.reward for each in told if each.reward is not None]


def _fit(parts: Sequence[Sequence[float]], rewards: Sequence[float]) -> list[float] | None:
    """Return the weights by which parts add up to rewards; None where there are none, or too few to tell."""
    if len(rewards) < 2 * len(parts[0] if parts else ()) + 2:
        return None
    values, wanted = np.array(parts, dtype=float), np.array(rewards, dtype=float)
    found = np.linalg.lstsq(values, wanted, rcond=None)[0]
    if float(np.abs(values @ found - wanted).max()) > EXACT * max(float(np.ptp(wanted)), 1e-6):
        return None
    return [float(weight) for weight in found]


def _weighed(
    log: ForeignLog, names: Sequence[str], weights: Sequence[float], *, sums: bool
) -> tuple[LoggedCompletion, ...]:
    kept = {name: weight for name, weight in zip(names, weights, strict=True) if abs(weight) > EXACT}
    made = []
    for each in log.completions:
        parts = {name: each.parts.get(name, 0.0) * weight for name, weight in kept.items()}
        reward = math.fsum(parts.values()) if sums and each.parts else each.reward
        made.append(replace(each, parts=parts, reward=reward))
    return tuple(made)


HEDGING = "hedging"  # the one rule that trainings of assay do not have: their tasks grade hedges as wrong


class LogFinding(NamedTuple):
    """One rule that rang: its worst level, since which step, what was measured against what, in words."""

    rule: str
    level: HealthLevel
    since: int
    at_end: bool
    value: float | None
    limit: float | None
    start: float | None
    said: str


@dataclass(frozen=True, slots=True)
class JudgedLog:
    """All of a log: what rang, what was measured, and by rule why the rest was not."""

    findings: tuple[LogFinding, ...]
    measured: tuple[str, ...]
    unmeasured: Mapping[str, str]
    steps: tuple[int, int]  # first and last
    completions: int
    notes: tuple[str, ...] = ()

    @property
    def worst(self) -> HealthLevel:
        """The worst level of all rules."""
        return max((each.level for each in self.findings), key=HEALTH_LEVELS.index, default="GREEN")


# The rules are those of the presets; these levels are wider, for two reasons. A reading is of a block of
# steps here, so few in a row are many steps. And what the presets call ill from the start, such as 10 % of
# completions cut off or a KL of 0.1, is how many sound trainings elsewhere begin.
LEVELS = HealthSettings.model_validate(
    {
        "preflight": False,
        "on_non_finite": "stop",
        "max_skipped": 0,
        "retries": 0,
        "max_lost_share": 1.0,
        "baseline_steps": 3,
        "zero_variance": {
            "amber": 0.8,
            "amber_for": 3,
            "red": 0.95,
            "red_for": 4,
            "stop": 1.0,
            "stop_for": 4,
        },
        "entropy": {"amber": 0.5, "amber_for": 2, "red": 0.33, "red_for": 3},
        "kl": {"amber": 1.0, "amber_for": 2, "red": 5.0, "red_for": 2},
        "truncated": {
            **{"amber": 0.3, "amber_for": 2, "red": 0.6, "red_for": 3},
            **{"stop": 0.99, "stop_for": 3},
        },
        "length": {"amber": 2.0, "red": 4.0},
        "parsed": {"amber": 0.02, "amber_for": 2, "red": 0.01, "red_for": 3},
        "parsed_drop": 0.2,
        "distinct": {"amber": 0.5, "amber_for": 2, "red": 0.25, "red_for": 2},
        "top_share": {"amber": 0.15, "amber_for": 2, "red": 0.3, "red_for": 2},
        "top_share_window": 3,
        "field_collapse": {"amber": 0.15, "amber_for": 2, "red": 0.3, "red_for": 3},
        "clip": {"amber": 5.0, "amber_for": 2, "red": 20.0, "red_for": 2},
        "grad_norm": {"amber": 5.0, "amber_for": 2, "red": 20.0, "red_for": 2},
        "infrastructure": {"amber": 0.05, "amber_for": 1, "red": 0.2, "red_for": 1},
        "validation": {"evaluations": 3, "gap": 0.05, "correlation": 0.5, "part_share": 0.8},
    }
)
# What a rule needs, for those that a log does not let it read.
NEEDS: Mapping[str, str] = {
    "non_finite": "loss, reward or grad_norm by step",
    "reward_vs_validation": "a validation reward by step (eval_reward)",
    "reward_vs_success": "rewards, and a column that tells right from wrong (--success names it)",
    "part_share": "two reward parts or more",
    "zero_variance": "several completions of one prompt with their rewards, or frac_reward_zero_std",
    "entropy": "entropy by step",
    "kl": "kl by step",
    "truncated": "which completions were cut off",
    "length": "completions, or their mean length by step",
    "parsed": "completions with an object or a marked answer",
    "distinct": "several completions of one prompt",
    "top_share": "completions with success, or with the right answer (gold)",
    "field_collapse": "completions with an object or a marked answer",
    "clip": "a clip ratio by step",
    "grad_norm": "grad_norm by step",
    "infrastructure": "completions with ok or error",
    HEDGING: "completions",
}
