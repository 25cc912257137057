"""What configs/task/structured.yaml sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import Field, model_validator

from assay.core.config.base import Fraction, From0, Positive, Settings
from assay.core.config.tasks import PartKind, TaskSettings

if TYPE_CHECKING:
    from assay.core.config.settings import GenerationSettings

    from .task import Structured

RELEASE = ("release", 10)


def _part(kind: PartKind, description: str | None = None) -> Any:
    """Return the form of a weight whose part pays for an outcome, for shaping or for form."""
    return Field(description=description, json_schema_extra={"kind": kind})


class RewardWeights(Settings):
    """What each part of a structured answer is worth; their sum is the reward of a perfect one."""

    parsed_strict: Fraction = _part("format")
    parsed_extracted: Fraction = _part(
        "format", "instead of parsed_strict, for an object dug out of other text"
    )
    schema_valid: Fraction = _part("outcome")
    fields: Fraction = _part("outcome", "times the share of gold fields that are right")
    exact: Fraction = _part("outcome")

    @model_validator(mode="after")
    def _chatter_does_not_pay(self) -> Self:
        if self.parsed_extracted > self.parsed_strict:
            raise ValueError(
                "parsed_extracted must not exceed parsed_strict: text around an object would pay"
            )
        if self.parsed_strict + self.schema_valid == 0.0:
            raise ValueError(
                "parsed_strict and schema_valid must not both be 0: nothing would be paid where there is no"
                " gold"
            )
        return self


# The reward's parts by name, in the order of the weights: what has a weight is a part.
PARTS: dict[str, PartKind] = {
    name: cast(dict[str, Any], field.json_schema_extra)["kind"]
    for name, field in RewardWeights.model_fields.items()
}


class NumberTolerance(Settings):
    """By how much two numbers may differ and still be the same; 0 and 0: not at all."""

    absolute: From0
    relative: Annotated[float, Field(ge=0, lt=1)] = Field(description="of the larger of the two magnitudes")


class StructuredTask(TaskSettings):
    """One prompt, one JSON value, an object as a rule, that must satisfy a schema and be right."""

    not_measured: ClassVar[frozenset[str]] = frozenset({"code", "lessons", "blocklist"})
    reads_own_records: ClassVar[bool] = True
    ships_data: ClassVar[bool] = True

    name: Literal["structured"]
    code: Literal["tasks/structured"] = "tasks/structured"
    lessons: Literal["shop"] | None = Field(
        description="what teaches a from-scratch base; null for data of your own"
    )
    strata: list[str] = Field(
        description="fields of a record by which tables are split", examples=[["difficulty"]]
    )
    max_prompt_chars: Positive
    max_prompt_tokens: Positive = Field(description="of the whole rendered prompt")
    truncate_prompts: bool = Field(
        description="cut the middle of a record's context to fit; else refuse the record"
    )
    grade: Annotated[list[str], Field(min_length=1)] | None = Field(
        description=(
            "fields of the gold (arguments of its calls) that count in fields and exact; null: all of them"
        )
    )
    weights: RewardWeights
    extracted_share: Annotated[float, Field(ge=0, lt=1)] = Field(
        description="of the other parts, that an object dug out of other text earns"
    )
    whitespace: Literal["fold", "keep"] = Field(
        description=(
            "fold: runs of white space in texts compare as one space, none at the ends; keep: as written, as"
            " code needs"
        )
    )
    number_tolerance: NumberTolerance
    blocklist: str | None = Field(description="file of terms inside dataset.root; null: none")
    reject_blocklisted: bool = Field(description="a completion with a blocked term earns 0")

    @property
    def teaches(self) -> bool:
        """Whether it has lessons for a base that is built from scratch."""
        return self.lessons is not None

    @property
    def blocklist_file(self) -> str | None:
        """File of blocked terms inside the data."""
        return self.blocklist

    def build(
        self,
        generation: GenerationSettings,
        *,
        shaping: bool,
        blocklist: str = "",
        where: str = "blocklist",
        **_: Any,
    ) -> Structured:
        """Return the task; it has one surface, no shaping and no code of anybody's."""
        from .reading.blocklist import parse_blocklist
        from .task import Structured

        return Structured(self, tuple(parse_blocklist(blocklist, where)) if blocklist else ())

    @classmethod
    def make_data(cls) -> dict[str, str]:
        """Return the jobs of the shop and their schemas."""
        from . import shop

        return shop.files(RELEASE)
