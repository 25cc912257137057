"""What a preset of configs/task/ sets of a task that is brought along: its folder, its entry, what success
is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from assay.core.config.base import Fraction, From0, Positive, Settings, Within
from assay.core.config.tasks import PartKind, TaskSettings

if TYPE_CHECKING:
    from assay.core.config.settings import GenerationSettings
    from assay.rollout.tasks.own import task
    from assay.rollout.tasks.own.calls import Runner

Comparison = Literal["exact", "casefold", "number", "json", "reward", "environment"]
PlayerKind = Literal["trivial", "scripted", "weak", "oracle"]
Isolation = Literal["inline", "worker", "server"]
Ability = Literal["answer_key", "schema", "teach", "illustrate", "batch_step", "shape", "records", "generate"]
# Adapters that make new records of their options, or of seeds.
GENERATING = ("assay.adapters:gymnasium", "assay.adapters:reasoning_gym")
OF_TEXT: frozenset[Comparison] = frozenset({"exact", "casefold", "number", "json"})


class Success(Settings):
    """When an episode succeeded, so declared that it can be judged again without anybody's code."""

    model_config = ConfigDict(serialize_by_alias=True)

    compare: Comparison = Field(
        description="exact, casefold, number, json: the last completion with a column; reward: its sum with"
        " at_least; environment: what it says itself"
    )
    column: str | None = Field(
        default=None,
        alias="with",
        description="column of a record that holds what is right",
        examples=["answer"],
    )
    extract: str | None = Field(
        default=None,
        description="regular expression whose first group, of its last match, is compared;"
        " null: all, stripped",
    )
    tolerance: From0 = Field(default=0.0, description="of number, absolute")
    at_least: Within | None = Field(default=None, description="of reward: success from this sum on")

    @model_validator(mode="after")
    def _has_what_it_compares_with(self) -> Self:
        if self.compare in OF_TEXT and self.column is None:
            raise ValueError(
                f"compare: {self.compare} needs with: the column of a record that holds what is right"
            )
        if self.compare == "reward" and self.at_least is None:
            raise ValueError(
                "compare: reward needs at_least: the sum of rewards from which on it is a success"
            )
        return self


class OwnTask(TaskSettings):
    """A task that is brought along: a reward function, an environment, or an adapter's."""

    not_measured: ClassVar[frozenset[str]] = frozenset(
        {"code", "isolation", "timeout_s", "threads", "shaping", "gamma"}
    )
    reads_own_records: ClassVar[bool] = True
    brings_code: ClassVar[bool] = True

    name: Literal["own"]
    entry: str = Field(
        pattern=r"^[\w./-]+\.py:\w+$|^assay\.adapters:\w+$",
        description="file of that folder and a function or class of it; or assay.adapters:NAME",
        examples=["task.py:reward"],
    )
    success: Success
    parts: Annotated[dict[str, PartKind], Field(min_length=1, examples=[{"reward": "outcome"}])] = Field(
        default={"reward": "outcome"}, description="named parts of the reward and what each pays for"
    )
    reward_range: Annotated[list[Within], Field(min_length=2, max_length=2)] | None = Field(
        default=None,
        description="smallest and largest reward of an episode; null: not known",
        examples=[[0.0, 1.0]],
    )
    players: dict[str, PlayerKind] = Field(
        default={},
        description="functions of the entry's file, or methods of its class, that play it; weak teaches a"
        " from-scratch base, oracle may read the answer",
        examples=[{"weak": "weak"}],
    )
    floor: str | None = Field(
        default=None, description="player at which a normalised score is 0; null: says nothing"
    )
    ceiling: str | None = Field(
        default=None, description="player at which it is 1; null: an oracle, or the answer"
    )
    answer: str | None = Field(
        default=None,
        description="column whose text is a right completion; null: the one success compares with",
    )
    requires: list[str] = Field(
        default=[],
        description="installed packages that grade, each with its version",
        examples=[["reasoning-gym==0.1.25"]],
    )
    options: dict[str, Any] = Field(default={}, description="for the entry, by its own Options")
    strata: list[str] = Field(default=[], description="columns by which tables are split")
    cluster: str | None = Field(
        default=None, description="column of records that are one piece of work; null: none"
    )
    # From here to `gamma`, what says nothing is left out, so that digests of settings are those of the time
    # before there was any of it.
    abilities: list[Ability] = Field(
        default=[],
        exclude_if=lambda value: not value,
        description="what its code can do beside playing, by mix-ins of assay.rollout",
        examples=[["answer_key", "illustrate"]],
    )
    flags: dict[str, Fraction | None] = Field(
        default={},
        exclude_if=lambda value: not value,
        description="facts that hold of an episode or not, as Told says them, and the rate of each beyond"
        " which something is ill; null: none",
        examples=[{"again": 0.5, "near": None}],
    )
    valid_flags: list[str] = Field(
        default=[],
        exclude_if=lambda value: not value,
        description="flags that hold of every answer of the right form, whatever is right",
    )
    metrics: list[str] = Field(
        default=[],
        exclude_if=lambda value: not value,
        description="numbers of an episode, as Told says them",
        examples=[["probes"]],
    )
    actions: bool = Field(
        default=False,
        exclude_if=lambda value: not value,
        description="Told says what completions were read as",
    )
    endings: list[str] = Field(
        default=[],
        exclude_if=lambda value: not value,
        description="further names that Told gives to the end of an episode",
        examples=[["dug"]],
    )
    shaping: From0 = Field(
        default=0.0,
        exclude_if=lambda value: not value,
        description="coefficient of the potential-based shaping in training",
    )
    gamma: Fraction = Field(
        default=1.0, exclude_if=lambda value: value == 1.0, description="discount of the shaping potential"
    )
    isolation: Isolation = Field(
        default="inline",
        description="inline: in this process; worker: one of its own; server: at ASSAY_TASK_SERVER",
    )
    timeout_s: Annotated[float, Field(gt=0, le=86_400)] = Field(
        default=5.0, description="of one call, after which it is lost"
    )
    threads: Annotated[int, Field(ge=1, le=1024)] = Field(default=16, description="calls side by side")
    max_turns: Positive = Field(default=1, description="completions of an episode")
    max_prompt_tokens: Positive | None = Field(
        default=None, description="of a rendered opening; null: no limit"
    )

    @field_validator("code")
    @classmethod
    def _lies_outside_assay(cls, code: str) -> str:
        if [part for part in code.split("/") if part not in ("", ".")][:2] == ["src", "assay"]:
            raise ValueError(
                "code: a folder outside src/assay, such as tasks/mine: it travels in the package"
            )
        return code

    @model_validator(mode="after")
    def _rewards_have_room(self) -> Self:
        if self.reward_range is not None and not self.reward_range[0] < self.reward_range[1]:
            raise ValueError("reward_range: the smallest reward, then the largest")
        return self

    @model_validator(mode="after")
    def _abilities_are_used(self) -> Self:
        if self.shaping and "shape" not in self.abilities:
            raise ValueError("shaping needs abilities: [shape], and a class of Shaped")
        if "shape" in self.abilities and "shaping" in self.parts:
            raise ValueError("parts: shaping is the part that abilities: [shape] adds; call yours otherwise")
        if lost := sorted({*self.valid_flags} - self.flags.keys()):
            raise ValueError(f"valid_flags: {lost[0]} is not among flags")
        return self

    @property
    def most_turns(self) -> int:
        """Completions an episode may take."""
        return self.max_turns

    @property
    def generates(self) -> bool:
        """Whether it can make new records: by its code, or as the adapter does."""
        return "generate" in self.abilities or self.entry in GENERATING

    @property
    def needs(self) -> Sequence[str]:
        """Installed packages that grade, each with its version."""
        return self.requires

    @property
    def answer_column(self) -> str | None:
        """Column whose text is a right completion, None where there is none."""
        return self.answer or (self.success.column if self.success.extract is None else None)

    def build(
        self,
        generation: GenerationSettings,
        *,
        shaping: bool,
        root: str | None = None,
        runner: Runner | None = None,
        **_: Any,
    ) -> task.OwnTask:
        """Return the task; it has one surface and no blocklist."""
        from assay.rollout.tasks.own.task import own_task

        return own_task(self, root, runner, shaping=shaping)
