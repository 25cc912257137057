"""What is recorded of a recipe over training seeds."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from assay.core.records import Interval, Record
from assay.evidence.claim.verdict import Detail, Guardrail, Verdict

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
    iqm: float = Field(description="of the gains of its items")


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
    detail: Detail | None
    reason: str
    sentence: str
    warnings: tuple[str, ...]
    sided: Sided
    alpha: float
    seeds: tuple[int, ...]
    n_items: int = Field(ge=0)
    n_clusters: int = Field(ge=0)
    draws: int = Field(ge=1)
    before: float | None
    after: float | None
    difference: Interval | None = Field(description="mean gain; interval for other seeds and other items")
    p: float | None = Field(description="the larger of the next two: a verdict needs both")
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
        description="true effect that both tests find with power 0.8; simulated"
    )
    iqm: Interval | None = Field(description="mean of the middle half of the gains of runs x items")
    iqm_before: float | None
    iqm_after: float | None
    probability_of_improvement: Interval | None = Field(
        description="a run beats the base on an item; ties one half"
    )
    optimality_gap_before: float | None = Field(description="how far the scores fall short of 1")
    optimality_gap_after: float | None
    guardrails: tuple[Guardrail, ...]
    profile: tuple[ProfilePoint, ...]
    runs: tuple[SeedRow, ...]
