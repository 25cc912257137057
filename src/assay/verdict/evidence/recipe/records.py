"""What is recorded of a recipe over training seeds: by `assay runs compare`, and in recipe.json, which has
what every seed showed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field

from assay.core.records import Interval, Record, TrainFacts
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.effect import Effect
from assay.verdict.evidence.claim.random_reward import RandomRewardControl
from assay.verdict.evidence.claim.rivals import Rival
from assay.verdict.evidence.claim.verdict import Guardrail, Verdict
from assay.verdict.evidence.details.confidence import StatedConfidence
from assay.verdict.evidence.words.over_seeds import mark, recipe_said
from assay.verdict.evidence.words.remarks import Remark, remark, say_all

Sided = Literal["one-sided", "two-sided"]


class SeedRow(Record):
    """One run of a recipe: this checkpoint against this base."""

    name: str
    seed: int = Field(ge=0)
    chosen_step: int = Field(ge=0)
    verdict: str
    health: str = Field(description="worst alarm of the training")
    before: float
    after: float
    gain: Interval = Field(description="the run's own claim; its interval is over items alone")


class ProfilePoint(Record):
    """Share of runs x items with a score above a threshold; each band holds for one threshold at a time."""

    threshold: float
    before: Interval
    after: Interval


class RecipeClaim(Record):
    """What several trainings with one recipe show. Differences are shares (0.086 is 8.6 points); null: not
    measured."""

    recipe: str
    settings: dict[str, str] = Field(
        description="where recipes differ: this one's settings, and digests of its code"
    )
    verdict: Verdict
    effect: Effect | None
    reasons: tuple[Remark, ...] = Field(description="of the verdict, or why there is none")
    warnings: tuple[Remark, ...]
    primary: str = Field(description="the measure that decides")
    cluster_name: str = Field(description="what a cluster of items is called, in the plural")
    sided: Sided
    alpha: float
    level: float = Field(description="at which it was tested: what earlier openings left of alpha")
    registration: Remark | None = Field(
        description="why these are not the seeds of the plan, all of them and no other; null: they are"
    )
    seeds: tuple[int, ...]
    n_items: int = Field(ge=0)
    n_clusters: int = Field(ge=0)
    draws: int = Field(ge=1)
    before: float | None
    after: float | None
    difference: Interval | None = Field(
        description="mean gain; the interval holds those of all three tests: without 0 just where p <= 0.05"
    )
    p: float | None = Field(
        description="the largest of the next two and of bounded means over clusters: a verdict needs all"
    )
    p_seeds: float | None = Field(
        description="sign flips of whole runs: other seeds, these very items and base measurement"
    )
    p_seeds_items: float | None = Field(
        description="t of the mean gain, seeds and clusters both being samples"
    )
    error_of_seeds_points: float | None = Field(description="standard error from seeds alone")
    error_of_items_points: float | None = Field(
        description="standard error from items and the measurement of the base"
    )
    smallest_detectable_points: float | None = Field(
        description="true effect that two tests find with power 0.8, simulated, and the third can show at all"
    )
    probability_of_improvement: Interval | None = Field(
        description="a run beats the base on an item; ties one half"
    )
    optimality_gap_before: float | None = Field(description="how far the scores fall short of 1")
    optimality_gap_after: float | None
    guardrails: tuple[Guardrail, ...]
    profile: tuple[ProfilePoint, ...]
    runs: tuple[SeedRow, ...]

    @property
    def reason(self) -> str:
        """Its reasons in English."""
        return say_all(self.reasons)

    @property
    def marked(self) -> str:
        """The verdict, with a mark where the seeds are not those of the plan."""
        return mark(self.verdict, self.registration)

    @property
    def sentence(self) -> str:
        """What it says in English."""
        return recipe_said(self)


class SeedRun(Record):
    """One training seed: what it showed, or why it shows nothing. Differences are shares; null: not
    measured."""

    name: str
    seed: int = Field(ge=0)
    state: Literal["finished", "failed"]
    verdict: str | None = Field(
        description="of this checkpoint against this base; null: the run did not finish"
    )
    reasons: tuple[Remark, ...] = Field(description="of its claim; for a failed run what failed")
    warnings: tuple[Remark, ...] = Field(description="of its claim")
    chosen_step: int | None
    health: str | None = Field(description="worst alarm of the training")
    base_digest: str | None
    policy_digest: str | None
    chain: str | None = Field(description="digest of every step of the training")
    before: Interval | None
    after: Interval | None
    gain: Interval | None = Field(description="the run's own; its interval is over items alone")
    p: float | None
    greedy_before: float | None
    greedy_after: float | None
    normalised_score: float | None
    rivals: dict[str, Rival] = Field(
        default={}, description="the trained policy against each rival of the plan"
    )
    measures: dict[str, Interval] = Field(default={}, description="after training, as in reports.json")
    confidence: StatedConfidence | None = Field(
        default=None, description="stated after training; null: none asked for"
    )
    aa_passed: bool | None = Field(description="base against base; null: not run")
    random_reward: RandomRewardControl | None = Field(description="the control arm; null: not run")

    @property
    def reason(self) -> str:
        """Its reasons in English."""
        return say_all(self.reasons)


class BaseBuilt(Record):
    """One base built from scratch with another base seed: what its gates measured, or why it was refused."""

    base_seed: int = Field(ge=0)
    passed: bool
    reasons: tuple[Remark, ...] = Field(description="why it was refused")
    copy_accuracy: float | None
    parsed_rate: float | None
    success_rate: float | None


class SeedsTogether(Record):
    """One recipe over its training seeds; its verdict is that of `assay runs compare`."""

    task: str
    preset: str
    verdict: str = Field(description="NOT EVALUABLE where one seed is: leaving it out would flatter the rest")
    reasons: tuple[Remark, ...] = Field(description="of the verdict, or why there is none")
    code_digest: str = Field(
        description="of the code that built, trained and measured, as dvc.lock of these runs has it"
    )
    data_digest: str = Field(description="of the data they read, likewise")
    settings_digest: str = Field(description="of all settings but the training seed")
    lock_sha256: dict[str, str] = Field(
        description="dvc.lock of each run that has one, by the name of the run"
    )
    seeds: tuple[int, ...]
    runs: tuple[SeedRun, ...]
    bases: tuple[BaseBuilt, ...]
    recipe: RecipeClaim | None = Field(
        description="all numbers over seeds; null where the runs cannot be put together"
    )
    notes: tuple[Remark, ...]

    @property
    def marked(self) -> str:
        """The verdict, with a mark where the seeds are not those of the plan."""
        return self.verdict if self.recipe is None else self.recipe.marked

    @property
    def sentence(self) -> str:
        """What it says in English."""
        if self.recipe is not None:
            return self.recipe.sentence
        return f"The recipe over seeds is not evaluable: {say_all(self.reasons)}."

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What to read beside the verdict."""
        return (*(() if self.recipe is None else self.recipe.warnings), *self.notes)


class Recipes(Record):
    """What recipe.json holds: one recipe a task."""

    recipes: dict[str, SeedsTogether]


def record_finished(
    name: str,
    claim: Claim,
    trained: TrainFacts,
    greedy: tuple[float | None, float | None],
    metrics: Mapping[str, Any],
    measures: Mapping[str, Interval] = MappingProxyType({}),
    confidence: StatedConfidence | None = None,
) -> SeedRun:
    """Return the record of a run that reached its verdict, NOT EVALUABLE included.

    Args:
        name: Of the run.
        claim: Its claim.json.
        trained: Its train.json.
        greedy: The primary measure before and after with greedy decoding.
        metrics: Its metrics.json; a run that is not evaluable has no score there.
        measures: Those after training in its reports.json.
        confidence: That stated after training, in its details.json.
    """
    of_claim = ("verdict", "reasons", "warnings", "before", "after", "p", "rivals", "random_reward")
    of_training = ("seed", "chosen_step", "base_digest", "policy_digest", "chain")
    known: dict[str, Any] = {field: getattr(claim, field) for field in of_claim}
    known |= {field: getattr(trained, field) for field in of_training}
    score = metrics.get("score")
    return SeedRun(
        **known,
        name=name,
        state="finished",
        health=trained.health.worst,
        gain=claim.difference,
        greedy_before=greedy[0],
        greedy_after=greedy[1],
        normalised_score=None if score is None else float(score),
        measures=dict(measures),
        confidence=confidence,
        aa_passed=None if claim.control is None else claim.control.passed,
    )


def record_failed(name: str, seed: int, found: str) -> SeedRun:
    """Return the record of a run that did not reach a verdict, with what failed and no number at all."""
    nothing: dict[str, Any] = dict.fromkeys(SeedRun.model_fields)
    given = {"name": name, "seed": seed, "state": "failed", "warnings": (), "rivals": {}, "measures": {}}
    return SeedRun.model_validate(nothing | given | {"reasons": (remark("failed", found=found),)})
