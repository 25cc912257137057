"""What a preset of configs/task/ sets of each task; `TaskSettings` is all of them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from assay.core.config.base import Fraction, Positive, Settings

Surface = Literal["compact", "json"]
# Tokens one completion may take. What a task has to say does not depend on who trains on it, but on the surface it does.
CompletionLimits = Annotated[dict[Surface, Positive], Field(min_length=2, examples=[{"compact": 24, "json": 160}])]


class ColliderTask(Settings):
    """The bump hunt and its rules of play."""

    name: Literal["collider"]
    max_turns: Positive
    shaping: Annotated[float, Field(ge=0)] = Field(description="coefficient of the potential-based shaping in training")
    gamma: Fraction = Field(description="discount of the shaping potential")
    max_new_tokens: CompletionLimits


class RewardWeights(Settings):
    """What each part of a structured answer is worth; their sum is the reward of a perfect one."""

    parsed_strict: Fraction
    parsed_extracted: Fraction = Field(description="instead of parsed_strict, for an object dug out of other text")
    schema_valid: Fraction
    fields: Fraction = Field(description="times the share of gold fields that are right")
    exact: Fraction

    @model_validator(mode="after")
    def _chatter_does_not_pay(self) -> Self:
        if self.parsed_extracted > self.parsed_strict:
            raise ValueError("parsed_extracted must not exceed parsed_strict: text around an object would pay")
        if self.parsed_strict + self.schema_valid == 0.0:
            raise ValueError("parsed_strict and schema_valid must not both be 0: nothing would be paid where there is no gold")
        return self


class NumberTolerance(Settings):
    """By how much two numbers may differ and still be the same; 0 and 0: not at all."""

    absolute: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    relative: Annotated[float, Field(ge=0, lt=1)] = Field(description="of the larger of the two magnitudes")


class StructuredTask(Settings):
    """One prompt, one JSON value, an object as a rule, that must satisfy a schema and be right."""

    name: Literal["structured"]
    lessons: Literal["shop"] | None = Field(description="what teaches a from-scratch base; null for data of your own")
    strata: list[str] = Field(description="fields of a record by which tables are split", examples=[["difficulty"]])
    max_new_tokens: CompletionLimits
    max_prompt_chars: Positive
    max_prompt_tokens: Positive = Field(description="of the whole rendered prompt")
    truncate_prompts: bool = Field(description="cut the middle of a record's context to fit; else refuse the record")
    grade: Annotated[list[str], Field(min_length=1)] | None = Field(
        description="fields of the gold (arguments of its calls) that count in fields and exact; null: all of them"
    )
    weights: RewardWeights
    extracted_share: Annotated[float, Field(ge=0, lt=1)] = Field(
        description="of the other parts, that an object dug out of other text earns"
    )
    whitespace: Literal["fold", "keep"] = Field(
        description="fold: runs of white space in texts compare as one space, none at the ends; keep: as written, as code needs"
    )
    number_tolerance: NumberTolerance
    blocklist: str | None = Field(description="file of terms inside dataset.root; null: none")
    reject_blocklisted: bool = Field(description="a completion with a blocked term earns 0")


TaskSettings = ColliderTask | StructuredTask
# What a task is trained or its base is built with: a measurement does not depend on it. All else of a task says what is asked
# and how it is graded, so a setting that is not named here makes another suite. A blocklist counts by its content.
NOT_MEASURED: dict[str, frozenset[str]] = {
    "collider": frozenset({"shaping", "gamma"}), "structured": frozenset({"lessons", "blocklist"}),
}  # fmt: skip
