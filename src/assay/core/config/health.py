"""What a training is watched for, and what is done about it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from assay.core.config.base import MOST, Fraction, Natural, Positive, Rate, Settings, Within


class Levels(Settings):
    """When one signal is an AMBER or RED alarm: beyond a value for so many steps on end."""

    amber: Within
    amber_for: Positive
    red: Within
    red_for: Positive


class StoppingLevels(Levels):
    """Levels of a signal that also ends a training in which nothing can be learned."""

    stop: Within
    stop_for: Positive


class LengthLevels(Settings):
    """Completion length against its baseline, as factors either way: 2 means half or twice."""

    amber: Annotated[float, Field(gt=1, le=1e9)]
    red: Annotated[float, Field(gt=1, le=1e9)]


class ValidationLevels(Settings):
    """What training reward may claim that validation does not show."""

    evaluations: Annotated[int, Field(ge=2, le=MOST)] = Field(
        description="validations on end that are looked at"
    )
    gap: Fraction = Field(description="growth of mean reward beyond success, both normalised: AMBER")
    correlation: Annotated[float, Field(ge=-1, le=1)] = Field(
        description="rank correlation of reward and success below: RED"
    )
    part_share: Fraction = Field(description="of the gain that a single part may make: AMBER beyond")


SHARES = (
    "zero_variance",
    "truncated",
    "top_share",
    "field_collapse",
    "infrastructure",
    "entropy",
    "parsed",
    "distinct",
)
BELOW = ("entropy", "parsed", "distinct")  # where less is worse
# What is done about an accident: a training may go on under other values, which is when they are wanted.
ACCIDENTS = ("preflight", "let_pass", "on_non_finite", "max_skipped", "retries", "max_lost_share")
SIGNALS = (*SHARES, "kl", "length", "clip", "grad_norm")


class HealthSettings(Settings):
    """Preflight, what happens to a poisoned step, and the alarms of a training."""

    preflight: bool = Field(
        description="let `assay doctor` look before the first step, and refuse what cannot work"
    )
    let_pass: list[str] = Field(
        default=[],
        description="looks of that examination whose faults are said and refuse nothing",
        examples=[["reward spread"]],
    )
    on_non_finite: Literal["stop", "skip", "rollback"] = Field(
        description="for a step in which something is NaN or Inf"
    )
    max_skipped: Natural = Field(
        description="steps that may be skipped or rolled back before the training stops"
    )
    retries: Natural = Field(description="of one environment step that crashed or timed out")
    max_lost_share: Fraction = Field(
        description="of a step's episodes that the environment may lose; more stops"
    )
    baseline_steps: Positive = Field(description="first logged steps whose mean a signal is compared with")
    zero_variance: StoppingLevels = Field(
        description="share of groups whose rewards are all equal and that do not succeed throughout"
    )
    entropy: Levels = Field(
        description=(
            "as a share of its baseline; below is worse, while more than the rest of the first steps'"
            " failures is left"
        )
    )
    kl: Levels = Field(description="to the base on the probe, nats a token")
    truncated: StoppingLevels = Field(description="share of truncated completions")
    length: LengthLevels
    parsed: Levels = Field(description="share of completions that parse; below is worse")
    parsed_drop: Rate = Field(description="AMBER when the share fell so far below its baseline")
    distinct: Levels = Field(
        description=(
            "how far the completions of a group differ, as far as the task has answers for it: 0 all alike, 1"
            " none alike, and 1 for a group that succeeds throughout"
        )
    )
    top_share: Levels = Field(
        description="share of items answered with one and the same answer, beyond those that it is right for"
    )
    top_share_window: Positive = Field(
        description="steps over which that share and those of fields are taken"
    )
    field_collapse: Levels = Field(
        description=(
            "share of items in which one field says one and the same, or nothing, beyond those where that is"
            " right"
        )
    )
    clip: Levels = Field(description="clipped share, as a multiple of its baseline")
    grad_norm: Levels = Field(description="before clipping, as a multiple of its baseline")
    infrastructure: Levels = Field(description="share of episodes that the environment lost")
    validation: ValidationLevels

    @model_validator(mode="after")
    def _levels_can_be_reached_in_order(self) -> Self:
        for name in SIGNALS:
            levels: Levels | LengthLevels = getattr(self, name)
            values = [
                levels.amber,
                levels.red,
                *([levels.stop] if isinstance(levels, StoppingLevels) else []),
            ]
            below, most = name in BELOW, 1.0 if name in SHARES else float("inf")
            if values != sorted(values, reverse=below) or not all(0 < value <= most for value in values):
                order = "amber >= red" if below else "amber <= red (<= stop)"
                raise ValueError(
                    f"health.{name}: {order}, each above 0" + (" and at most 1" if most == 1 else "")
                )
        return self
