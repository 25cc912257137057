"""What will be claimed, and which alarms of the training somebody answers for."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from assay.core.config.base import Rate, Settings


class ClaimSettings(Settings):
    """What will be claimed, fixed before training."""

    primary: Literal["success"]
    smallest_effect_points: Annotated[float, Field(gt=0, le=100)]
    alpha: Annotated[float, Field(ge=0.05, le=0.05)] = Field(
        description="all intervals are 95 %; no other level yet"
    )
    parsed_rate_margin: Rate = Field(description="largest tolerable loss of parsed completions, as a share")
    checkpoint_rule: Literal["best_validation_reward", "last"]
    controls: list[Literal["aa", "random_reward"]] = Field(
        description=(
            "aa: base against base, always; random_reward: the same training for rewards that mean nothing"
        )
    )

    @model_validator(mode="after")
    def _base_is_always_compared_with_itself(self) -> Self:
        if "aa" not in self.controls or len(set(self.controls)) < len(self.controls):
            raise ValueError("controls: aa has to be among them, and each once")
        return self


# The rules of training health; a test compares them with records.HealthRule, which is no floor below this
# one.
Rule = Literal[
    "non_finite",
    "reward_vs_validation",
    "reward_vs_success",
    "part_share",
    "zero_variance",
    "entropy",
    "kl",
    "truncated",
    "length",
    "parsed",
    "distinct",
    "top_share",
    "field_collapse",
    "clip",
    "grad_norm",
    "infrastructure",
]


class AcknowledgedAlarm(Settings):
    """A RED alarm that somebody looked at and answers for; the reason is quoted beside the claim."""

    rule: Rule
    reason: Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")] = Field(
        examples=["what was looked at, and why it is harmless"]
    )


class EvidenceSettings(Settings):
    """What is said about a training after it ended; no part of the plan that was hashed before."""

    acknowledged_alarms: list[AcknowledgedAlarm] = Field(
        description="RED alarms that no longer bar the claim"
    )

    @model_validator(mode="after")
    def _each_rule_once(self) -> Self:
        rules = [each.rule for each in self.acknowledged_alarms]
        if len(set(rules)) < len(rules):
            raise ValueError("acknowledged_alarms: each rule once")
        return self
