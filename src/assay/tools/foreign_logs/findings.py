"""What was found in a training log of another tool, what could not be measured, and the levels of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from assay.core.config.health import HealthSettings
from assay.core.records import HEALTH_LEVELS, HealthLevel

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
