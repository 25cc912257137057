"""How the trained policy comes about: by a training of assay, or by one that somebody did elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from assay.core.config.base import MOST, Above0, Digest, From0, Natural, Positive, Rate, Settings
from assay.core.config.places import setting
from assay.core.errors import ConfigError

ELSEWHERE = "chosen elsewhere"  # the rule of a checkpoint that was trained elsewhere


class LoraSettings(Settings):
    """Low-rank adapter."""

    r: Positive = Field(examples=[16])
    alpha: Positive = Field(examples=[32])
    dropout: Annotated[float, Field(ge=0, lt=1)] = Field(examples=[0.0])
    target_modules: Annotated[list[str], Field(min_length=1)] | Literal["all-linear"] = Field(
        description=(
            "names of modules, each of which the base must have; or all-linear: all but its first and last"
        ),
        examples=[["q_proj", "v_proj"]],
    )


class TrainSettings(Settings):
    """GRPO by TRL's GRPOTrainer; names follow GRPOConfig where they are the same thing."""

    steps: Positive
    items_per_step: Positive
    group_size: Annotated[int, Field(ge=2, le=4096)]
    micro_batch_size: Positive = Field(description="episodes in one forward and backward pass")
    num_iterations: Literal[1] = Field(
        description="optimisation passes over one batch of episodes; more is not tried yet"
    )
    learning_rate: Above0
    lr_scheduler: Literal["constant", "constant_with_warmup", "linear", "cosine"]
    warmup_steps: Natural
    max_grad_norm: Above0
    beta: From0 = Field(description="weight of the KL term in the loss")
    epsilon_low: Rate
    epsilon_high: Above0
    loss_type: Literal["grpo", "bnpo", "dapo"]
    scale_rewards: Literal["group", "batch", "none"]
    gradient_checkpointing: bool
    kl_probe_episodes: Positive
    kl_probe_every: Positive = Field(
        description="steps from one measurement of the KL to the base to the next; the last step"
        " always has one"
    )
    lora: LoraSettings

    @model_validator(mode="after")
    def _can_be_held(self) -> Self:
        for what, n, most in (
            ("steps x items_per_step", self.steps * self.items_per_step, 10_000_000),
            ("items_per_step x group_size", self.items_per_step * self.group_size, MOST),
        ):
            if n > most:
                raise ValueError(f"{what}: {n:,}, at most {most:,}")
        return self

    def measures_kl(self, step: int) -> bool:
        """Return whether the KL to the base is measured at a step, counted from 1."""
        return step % self.kl_probe_every == 0 or step == self.steps


class NamedData(Settings):
    """A file that an external training saw, as whoever brings it says."""

    file: Annotated[str, Field(min_length=1)] = Field(
        description="JSONL of records or plain text, relative to the project",
        examples=["elsewhere/data.jsonl"],
    )
    sha256: Digest = Field(description="as sha256sum prints it", examples=["0123456789abcdef" * 4])


class ExternalTraining(Settings):
    """A training that was done elsewhere, of which there is nothing but what it made.

    Digests stand for the files, so that DVC needs no dependency that other presets do not have: another
    content is another setting.
    """

    kind: Literal["external"]
    how: Annotated[str, Field(min_length=1, max_length=2000, pattern=r"\S")] = Field(
        description="how it was made, in words that are quoted beside the claim"
    )
    data: list[NamedData] = Field(
        description="what it was trained on, to be searched for held-out records; [] where nobody says"
    )

    folder: Annotated[str, Field(min_length=1)] = Field(
        description="a LoRA adapter as peft saves it, or a whole model, relative to the project",
        examples=["elsewhere/adapter"],
    )
    sha256: Digest = Field(
        description="of its files, as `assay config digest FOLDER` prints it",
        examples=["0123456789abcdef" * 4],
    )

    def __getattr__(self, name: str) -> Any:
        """Refuse what only a training of assay has, such as its steps, whoever asks for it.

        Raises:
            ConfigError: There is no such setting.
        """
        if name in TrainSettings.model_fields:
            raise ConfigError(
                "a training by assay, which has this setting",
                found="train.kind: external",
                where=setting(f"train.{name}"),
                fix="choose a preset that trains: ./run assay config use grpo=tiny",
            )
        return super().__getattr__(name)  # type: ignore[misc]  # pydantic hides it from type checkers


def any_training() -> Any:
    """Return the union of both, told apart by `kind`, which a training of assay does not have."""

    def kind(value: Any) -> str:
        told = value.get("kind") if isinstance(value, Mapping) else getattr(value, "kind", None)
        return "grpo" if told is None else str(told)

    return Annotated[
        Annotated[TrainSettings, Tag("grpo")] | Annotated[ExternalTraining, Tag("external")],
        Discriminator(kind),
    ]
