"""Settings of the rivals that the base itself plays."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from assay.core.config.base import Natural, Settings


class RivalSettings(Settings):
    """What one would do with the base instead of training it, played on the held-out suite beside it; 0 and
    false leave one out, and the claim says so."""

    few_shot: Annotated[int, Field(ge=0, le=64)] = Field(
        description="examples from train in the prompt, fewer where they do not fit", examples=[3]
    )
    best_of_n: Natural = Field(
        description="draws, of which the first valid one counts; 1 would be the base", examples=[4]
    )
    constrained: bool = Field(
        description="decoding that follows the record's JSON schema, where answers have one", examples=[True]
    )
    more_sft: Natural = Field(
        default=0,
        description="steps of further supervised fine-tuning on the items that GRPO trains on, by"
        " base.warm_start; the trained policy has to beat what that makes",
    )

    @model_validator(mode="after")
    def _more_than_the_base(self) -> Self:
        if self.best_of_n == 1 or self.best_of_n > 64:
            raise ValueError("best_of_n: 0, or 2 to 64")
        return self
