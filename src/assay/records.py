"""What reaches disk: strict, frozen records that every room shares."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Record(BaseModel):
    """A frozen record with no unknown keys, no hidden defaults, no NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


ParseOutcome = Literal["ok", "repaired", "failed"]
# "tasks" is any file that is none of the three: what `assay evaluate` was pointed at.
Split = Literal["train", "validation", "heldout", "tasks"]


class Turn(Record):
    """One prompt-completion-observation exchange."""

    prompt_digest: str = Field(description="sha256 of the token ids the completion was conditioned on")
    completion: str = Field(description="the model's text, exactly as decoded")
    n_tokens: int = Field(ge=0, description="tokens of the completion, end-of-sequence included")
    truncated: bool = Field(description="the token limit was reached before end-of-sequence")
    outcome: ParseOutcome
    failure: str | None = Field(description="why the completion could not be graded; null if it could")
    action: str | None = Field(description="canonical text of the parsed action; null if parsing failed")
    observation: str | None = Field(description="what the model was told next; null if the episode ended")
    parts: dict[str, float] = Field(description="reward parts earned by this turn; one not named earned 0")


class Episode(Record):
    """One complete play of one item."""

    item_id: str
    cluster: str = Field(description="unit of independent evidence: scenario or prompt group")
    strata: dict[str, str] = Field(description="labels for tables, e.g. tier")
    draw: int = Field(ge=0)
    seed: int = Field(ge=0, description="sampling seed, derived from (suite seed, item id, draw)")
    turns: tuple[Turn, ...]
    prompt_chars_cut: int = Field(ge=0, description="characters left out of the opening so that it fits; 0 if it fitted")
    ending: str = Field(description="why the episode stopped")
    reward: float = Field(description="sum of the reward parts")
    parts: dict[str, float] = Field(description="reward parts summed over the turns")
    success: bool = Field(description="the fixed rule of the task; not the reward")
    flags: dict[str, bool | None] = Field(description="further yes/no facts; null where the question does not arise")
    metrics: dict[str, float | None] = Field(description="further numbers; null where undefined")

    @property
    def n_tokens(self) -> int:
        """Tokens the model wrote in the whole episode."""
        return sum(turn.n_tokens for turn in self.turns)

    @property
    def parsed_rate(self) -> float:
        """Share of completions that parsed, repaired ones included."""
        return sum(turn.outcome != "failed" for turn in self.turns) / max(1, len(self.turns))


TRAINING_LOG_COLUMNS = ("step", "epoch", "loss", "reward", "reward_std", "kl", "grad_norm", "learning_rate")


class Alarm(Record):
    """A flag that was raised more often than its task tolerates."""

    flag: str
    rate: float = Field(ge=0, le=1, description="share of the episodes in which the question arises")
    threshold: float = Field(ge=0, le=1, description="the share that is tolerated")
    n: int = Field(ge=1, description="episodes in which the question arises")


AlarmSource = Literal["batch", "validation", "greedy validation"]


class TrainAlarm(Record):
    """One alarm over a whole training, by what was watched."""

    source: AlarmSource
    first_step: int = Field(ge=0)
    times: int = Field(ge=1, description="batches or validations that raised it")
    worst_step: int = Field(ge=0)
    worst: Alarm


class TrainFacts(Record):
    """What a training was, for those who compare before and after."""

    seed: int = Field(ge=0)
    steps: int = Field(ge=1)
    chosen_step: int = Field(ge=0)
    claim_plan_sha256: str = Field(description="of claim_plan.json as it stood when training began")
    base_digest: str
    validation_suite: str
    alarms: tuple[TrainAlarm, ...] = Field(description="in the order in which they first rang")


class Interval(Record):
    """A point value with its 95 % interval and the number of observations behind it; null where undefined."""

    value: float | None
    low: float | None
    high: float | None
    n: int = Field(ge=0)
