"""What a training log of another tool holds, in one form: completions by step, or means by step, or both; and
what was found in it, what could not be measured, and the levels of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from assay.core.config.health import HealthSettings
from assay.core.records import HEALTH_LEVELS, HealthLevel

LARGEST = 1e100  # of a number: beyond that it is no measurement


def named_part(name: str) -> str:
    """Return the name of a reward part among the signals of a row."""
    return f"part {name}"


class OddValue(NamedTuple):
    """What stands where a number should: NaN, Inf, a text, or null among numbers."""

    step: int
    signal: str  # as in the rows of a log
    column: str
    said: str


@dataclass(frozen=True, slots=True)
class LoggedCompletion:
    """One completion as a trainer logged it; None is what the log does not say.

    `item` tells prompts apart ("": not logged), `success` is in [0, 1], `tokens` is its length in tokens.
    Which columns these are of is decided over the whole log (`settle`), from what is kept here by name.
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
    keys: Mapping[str, str] = field(default_factory=dict)  # what may tell prompts apart
    numbers: Mapping[str, float] = field(default_factory=dict)  # beside the parts, of whatever meaning
    odd: str | None = None  # what stands where the reward should


@dataclass(frozen=True, slots=True)
class ForeignLog:
    """A training log: completions, rows of means by step under the names of our signals, and what was made of
    it in words."""

    completions: tuple[LoggedCompletion, ...] = ()
    rows: tuple[Mapping[str, float], ...] = ()  # each with "step"; parts are "part <name>"
    notes: tuple[str, ...] = ()
    odd: tuple[OddValue, ...] = ()
    unpaid: tuple[str, ...] = ()  # reward parts that were 0 in every completion
    numbers: tuple[str, ...] = ()  # columns that hold numbers and were not read
    texts: tuple[str, ...] = ()  # columns that hold long texts and were not read
    garbled: tuple[str, ...] = ()  # columns of known names whose texts have digits, and are no numbers


# Rules that trainings of assay do not have: their tasks grade hedges as wrong and are tried before.
HEDGING, DEAD_PART = "hedging", "dead_part"
REWARD_LOST, LOSS_SIZE = "reward_lost", "loss_size"
NOT_MEASURED: Literal["NOT MEASURED"] = "NOT MEASURED"


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
    lacking: str | None = None  # why no more is known than what rang; None: enough was read

    @property
    def worst(self) -> HealthLevel | Literal["NOT MEASURED"]:
        """The worst level of all rules; NOT MEASURED where none rang and too little was read."""
        if not self.findings and self.lacking is not None:
            return NOT_MEASURED
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
BY_STEP = "a column by step"
# What a rule needs, for those that a log does not let it read.
NEEDS: Mapping[str, str] = {
    "non_finite": "loss, reward or grad_norm by step",
    "reward_vs_validation": "a validation reward by step (eval_reward)",
    "reward_vs_success": "rewards, and a column that tells right from wrong (--success names it)",
    "part_share": "two reward parts or more",
    "zero_variance": "several completions of one prompt with their rewards, or frac_reward_zero_std",
    "entropy": BY_STEP,
    "kl": BY_STEP,
    "truncated": "which completions were cut off",
    "length": "completions, or their mean length by step",
    "parsed": "completions with an object or a marked answer",
    "distinct": "several completions of one prompt",
    "top_share": "completions with success, or with the right answer (gold)",
    "field_collapse": "completions with an object or a marked answer",
    "clip": BY_STEP,
    "grad_norm": BY_STEP,
    "infrastructure": "completions with ok or error",
    DEAD_PART: "rewards, or reward parts",
    REWARD_LOST: "rewards, at the start and at the end",
    LOSS_SIZE: "loss by step",
    HEDGING: "completions",
}
