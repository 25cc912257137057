"""What a package must hold to before it is written: no secret unanswered for, and an adapter that merges as
it plays."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from assay.core.config.base import Fraction, Positive, Settings

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Waiver(Settings):
    """A finding of the secret scan that somebody looked at and answers for; it is written into the
    package."""

    file: Annotated[str, Field(min_length=1)] = Field(
        description="path inside the package", examples=["evidence/README.md"]
    )
    sha256: Digest = Field(
        description="of the text that was found, as the refusal names it; never the text",
        examples=["0123456789abcdef" * 4],
    )
    reason: Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")] = Field(
        examples=["what was looked at, and why it is no secret"]
    )


class ParitySettings(Settings):
    """How far the merged model may be from base and adapter side by side."""

    prompts: Positive = Field(description="held-out openings that both answer")
    max_logit_difference: Annotated[float, Field(gt=0)] = Field(
        description="largest absolute difference of any logit"
    )
    min_greedy_agreement: Fraction = Field(description="share of greedy tokens that have to be the same")


class PackageSettings(Settings):
    """What `package` refuses for, and what it may let pass."""

    waivers: list[Waiver]
    parity: ParitySettings

    @model_validator(mode="after")
    def _each_finding_once(self) -> Self:
        found = [(each.file, each.sha256) for each in self.waivers]
        if len(set(found)) < len(found):
            raise ValueError("waivers: each finding once")
        return self
