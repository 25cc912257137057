"""What reaches disk: strict, frozen records that every room shares."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Record(BaseModel):
    """A frozen record with no unknown keys, no hidden defaults, no NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


ParseOutcome = Literal["ok", "repaired", "failed"]
# "tasks" is any file that is none of the three: what `assay evaluate` was pointed at.
Split = Literal["train", "validation", "heldout", "secondary", "tasks"]


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
    policy: str | None = Field(
        default=None,
        description=(
            "who played it: the policy's digest; in a validation that of the weights, as their step's row of"
            " the log has it; of a scripted player `scripted:` and its name; null: the untrained policy of a"
            " validation, or a batch"
        ),
    )
    draw: int = Field(ge=0)
    seed: int = Field(ge=0, description="sampling seed, derived from (suite seed, item id, draw)")
    turns: tuple[Turn, ...]
    prompt_chars_cut: int = Field(
        ge=0, description="characters left out of the opening so that it fits; 0 if it fitted"
    )
    ending: str = Field(description="why the episode stopped")
    reward: float = Field(description="sum of the reward parts")
    parts: dict[str, float] = Field(description="reward parts summed over the turns")
    success: bool = Field(description="the fixed rule of the task; not the reward")
    flags: dict[str, bool | None] = Field(
        description="further yes/no facts; null where the question does not arise"
    )
    metrics: dict[str, float | None] = Field(description="further numbers; null where undefined")

    @property
    def n_tokens(self) -> int:
        """Tokens the model wrote in the whole episode."""
        return sum(turn.n_tokens for turn in self.turns)

    @property
    def parsed_rate(self) -> float:
        """Share of completions that parsed, repaired ones included."""
        return sum(turn.outcome != "failed" for turn in self.turns) / max(1, len(self.turns))


class Origin(Record):
    """Where the weights of a base come from that were converted for transformers, as base.json has it."""

    file: str = Field(description="name of the GGUF file")
    sha256: str
    package: str | None = Field(description="NAME==VERSION that it came in; null for a file of one's own")
    name: str | None = Field(description="what the file calls the model")
    weights: str = Field(description="in what the file keeps them, in words: 4-bit (Q4_1), dequantised")
    licence: str | None = Field(description="as the file says")
    package_licence: str | None

    @property
    def licence_said(self) -> str:
        """The licence in words, and who says so."""
        said = [f"{self.licence}, as the file says"] if self.licence else []
        said += [f"{self.package_licence}, as the package says"] if self.package_licence else []
        return "; ".join(said) or "not stated"


class SftFacts(Record):
    """What a pretrained base was shown before it was trained for reward, as base.json has it."""

    of: str = Field(description="digest of the model before")
    rows: int = Field(description="train rows that it was shown at least once")
    train_rows: int = Field(description="of so many; GRPO trains on others")
    steps: int
    tokens: int = Field(description="of answers, each as often as it was shown")
    first_loss: float = Field(description="nats per token of an answer")
    last_loss: float
    parsed_rate: float = Field(
        description="of sampled episodes of train items that it was not shown, as all below"
    )
    success_rate: float
    mean_reward: float


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


HealthRule = Literal[
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
HealthLevel = Literal["GREEN", "AMBER", "RED"]
HEALTH_RULES: tuple[HealthRule, ...] = get_args(HealthRule)
HEALTH_LEVELS: tuple[HealthLevel, ...] = get_args(HealthLevel)


class HealthEvent(Record):
    """One rule of training health that reached another level; a line of health.jsonl."""

    rule: HealthRule
    level: HealthLevel = Field(description="the level reached; GREEN: the alarm is over")
    stop: bool = Field(description="whether the training ends here")
    value: float | None = Field(
        description="what was measured, in the signal's own unit; null if it was no number"
    )
    threshold: float | None = Field(description="the limit that decided, in the unit of the value")
    baseline: float | None = Field(
        description="what the limit was derived from, in the same unit; null: from nothing measured"
    )
    step: int = Field(ge=0, description="optimizer step of the event; 0 is before the first")
    first_step: int = Field(ge=0, description="since when the value was beyond the limit")
    item_ids: tuple[str, ...] = Field(max_length=8, description="items concerned, the first few")
    message: str = Field(description="one sentence: what was found and what to try")


class RuleSummary(Record):
    """What one rule of training health said over a whole training."""

    rule: HealthRule
    level: HealthLevel = Field(description="the worst level reached")
    first_step: int = Field(ge=0, description="since when the first value was beyond its limit")
    worst_step: int = Field(ge=0, description="step at which the worst level was first reached")
    times: int = Field(ge=1, description="how often it left GREEN")


class HealthSummary(Record):
    """The alarms of a training in short."""

    worst: HealthLevel
    rules: tuple[RuleSummary, ...] = Field(
        description="those that left GREEN, in the order in which they first did"
    )
    unmeasured: tuple[HealthRule, ...] = Field(
        description="those that had nothing to read: neither ill nor known to be well"
    )

    @classmethod
    def of(cls, events: Sequence[HealthEvent], unmeasured: Sequence[HealthRule] = ()) -> Self:
        """Sum up the events of one training, oldest first; which rules had nothing to read, no event can
        say."""
        rules: dict[HealthRule, list[HealthEvent]] = {}
        for event in events:
            rules.setdefault(event.rule, []).append(event)
        found = []
        for rule, told in rules.items():
            levels: list[HealthLevel] = ["GREEN", *(event.level for event in told)]
            times = sum(before == "GREEN" != after for before, after in pairwise(levels))
            if times:
                level = max(levels, key=HEALTH_LEVELS.index)
                reached = next(event.step for event in told if event.level == level)
                first = told[0].first_step
                found.append(
                    RuleSummary(rule=rule, level=level, first_step=first, worst_step=reached, times=times)
                )
        worst = max((each.level for each in found), key=HEALTH_LEVELS.index, default=HEALTH_LEVELS[0])
        return cls(worst=worst, rules=tuple(found), unmeasured=tuple(unmeasured))


class HonestFacts(Record):
    """What a player shows who is always right on the train items, by which alarms are judged."""

    items: int = Field(ge=1, description="whose right answer is known; at most the first 2000 are looked at")
    answers: int = Field(ge=1, description="different right answers among them")
    top_share: float = Field(
        gt=0, le=1, description="share of items for which the commonest of those is right"
    )


class HonestLevels(Record):
    """Levels of a rule that honest play moves; null for one that nothing could be beyond."""

    amber: float | None
    red: float | None


class HonestPlay(Record):
    """What the player at a task's ceiling showed on train items before the first step; shares in [0, 1]."""

    player: str
    items: int = Field(ge=1)
    episodes: int = Field(ge=1)
    success: float = Field(ge=0, le=1)
    turns: float = Field(description="of an episode, mean")
    answers: int = Field(ge=1, description="different texts; up to half as many as items are few")
    top_share: float = Field(ge=0, le=1, description="of items to which the commonest of those is given")
    distinct: float = Field(ge=0, le=1, description="how far the episodes of an item differ")
    parsed: float = Field(ge=0, le=1, description="of completions")
    zero_variance: float = Field(ge=0, le=1, description="of items that fail somewhere, all rewards equal")
    levels: dict[str, HonestLevels] = Field(
        description="by rule, those that are not as the settings have them"
    )


class TrainFacts(Record):
    """What a training was, for those who compare before and after."""

    seed: int = Field(ge=0)
    steps: int = Field(ge=1)
    chosen_step: int = Field(ge=0)
    claim_plan_sha256: str = Field(description="of claim_plan.json as it stood when training began")
    base_digest: str
    policy_digest: str = Field(description="of the base under the chosen adapter")
    validation_suite: str
    chain: str = Field(
        description="digest over prompts, completions, rewards, gradients and weights of every step"
    )
    alarms: tuple[TrainAlarm, ...] = Field(description="in the order in which they first rang")
    health: HealthSummary
    other_machines: int = Field(
        default=0,
        ge=0,
        description="how often it was gone on with on another processor, or under other thread flags",
    )
    honest: HonestFacts | None = Field(
        default=None, description="null where the task cannot write down what is right"
    )
    honest_play: HonestPlay | None = Field(
        default=None, description="null where no player of the task is honest; then no level moves"
    )


class ControlFacts(Record):
    """The control training for random rewards; null where none was asked for."""

    asked: bool
    base_digest: str | None = None
    seed: int | None = Field(default=None, ge=0)
    steps: int | None = Field(default=None, ge=1)
    chosen_step: int | None = Field(default=None, ge=0, description="whose weights were played: the last")
    validation_step: int | None = Field(
        default=None, ge=0, description="the step that validation would have chosen; 0 is the base itself"
    )
    policy_digest: str | None = None
    stopped: str | None = Field(
        default=None, description="why it ended before its last step, and nothing was played"
    )
    chain: str | None = Field(default=None, description="as in the facts of the training proper")
    health: HealthSummary | None = None
    other_machines: int = Field(default=0, ge=0, description="as in the facts of the training proper")


class OtherPolicy(Record):
    """A policy that saw held-out records before the one that is claimed something of; the claim's base is
    none."""

    policy_digest: str
    stages: tuple[str, ...] = Field(description="in which it saw them")
    n_records: int | None = Field(
        ge=1, description="of the claim's, so many; null: nobody knows which it saw"
    )
    place: int | None = Field(
        ge=1,
        description="which try it was as its own base counts them; null: noted before places were. A base is"
        " no try for what was trained from it, so a place may stand twice or be missing",
    )
    looks: int | None = Field(default=None, ge=1, description="that its plan had; null: any number, or older")
    called: bool | None = Field(
        default=None, description="whether its claim was called better at its level; null: none was known"
    )
    same_recipe: bool = Field(description="whether it is another registered seed of the same plan")


class OpenedRecords(Record):
    """What was known of the held-out records when the trained policy was let loose on them; openings.json."""

    policy_digest: str
    records: str = Field(description="key of the records, as in heldout_openings.json")
    n_records: int = Field(ge=1)
    place: int | None = Field(
        ge=1, description="which look at any of them it was, the first is 1; null: nobody knows"
    )
    recipe_place: int | None = Field(ge=1, description="the same with the seeds of one plan counted as one")
    looks: int | None = Field(
        default=None, ge=1, description="that the plan had when this policy first saw the records"
    )
    family: str = Field(description="digest of plan and settings but for the seed")
    first_family: str | None = Field(
        description="the same as it was when this policy first saw them; another: registered afterwards"
    )
    seed: int = Field(ge=0)
    seeds: tuple[int, ...] = Field(description="those that the plan registers")
    rolls: int = Field(
        default=0, ge=0, description="policies that this seed was trained to before, by the same plan"
    )
    left_out: tuple[int, ...] = Field(
        description="seeds that another plan showed beside some of these, and that this plan leaves out"
    )
    others: tuple[OtherPolicy, ...] = Field(description="who saw them before")
    restored: int = Field(
        ge=0, description="of all known policies those that were no longer in the ledger's file"
    )
    put_back: int = Field(
        default=0, ge=0, description="the same where git had put an older version of the file in its place"
    )
    secondary_places: dict[str, int | None] = Field(
        default={}, description="`place` among those that saw the records of each secondary suite"
    )

    @model_validator(mode="after")
    def _after_all_others(self) -> Self:
        if self.place is not None and self.place <= len(self.others):
            raise ValueError(f"place {self.place}, behind {len(self.others)} others")
        return self


class ValidationEpisode(Record):
    """One episode of a validation; a line of validation.jsonl."""

    step: int = Field(ge=0, description="optimizer step whose policy played it; 0 is the base")
    greedy: bool
    episode: Episode


class Interval(Record):
    """A point value with its 95 % interval and the number of observations behind it; null where undefined."""

    value: float | None
    low: float | None
    high: float | None
    n: int = Field(ge=0)
