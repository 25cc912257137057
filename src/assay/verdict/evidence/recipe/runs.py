"""Finished runs as rows of one matrix: which belong together, what each scored on each item of the shared
suite, whether they are the seeds that their plan registered, and the level left for what they show."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from assay.core.errors import EvidenceError
from assay.core.records import Episode, HealthLevel, Interval
from assay.rollout.dataset.suite import Unseen
from assay.rollout.evaluation.clusters import Array
from assay.rollout.evaluation.measures import check_complete, value_of
from assay.verdict.evidence.claim.verdict import DRAFT
from assay.verdict.evidence.words.remarks import Remark, remark, say_all
from assay.verdict.statistics.openings import opening_level

ABSENT = "(absent)"
RUNS = "assay runs compare"
MOST_NAMED = 3  # settings in the name of a recipe; all of them stand in its record


class _Known(BaseModel):
    """Part of a record: what else an earlier or later version of assay wrote beside it does not matter
    here."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class KnownPlan(_Known):
    """What a comparison of runs needs of a plan; see `ClaimPlan`."""

    primary: str
    direction: Literal["higher", "lower"]
    smallest_effect_points: float
    draws: int
    suite_digest: str
    alpha: float
    cluster_name: str
    guardrails: dict[str, float]
    seeds: tuple[int, ...] = ()
    sided: Literal["two-sided", "one-sided"] = "two-sided"
    looks: int | None = None
    largest_cluster: int | None = None
    worst_cluster: float = 100.0

    @property
    def unseen(self) -> Unseen:
        """As of `ClaimPlan`."""
        return Unseen(float(self.largest_cluster or 0), self.worst_cluster / 100)


class KnownOpenings(_Known):
    """What a comparison of runs needs of the openings before a run; see `Openings`."""

    recipe_place: int | None
    registered: bool
    rolls: int = 0


class KnownRival(_Known):
    """What a comparison of runs needs of a rival; see `Rival`."""

    kind: str
    difference: Interval
    p: float | None


class KnownRandomReward(_Known):
    """What a comparison of runs needs of the control for random rewards; see `RandomRewardControl`."""

    comparable: bool
    ahead: Interval | None
    ahead_p: float | None


class KnownClaim(_Known):
    """What a comparison of runs needs of a claim; see `Claim`."""

    verdict: str
    reasons: tuple[Remark, ...] = ()
    plan: KnownPlan
    plan_digest: str
    before_policy: str
    after_policy: str
    training_seeds: tuple[int, ...]
    difference: Interval | None
    rivals: dict[str, KnownRival] = {}
    random_reward: KnownRandomReward | None = None
    opened: KnownOpenings | None = None


class KnownHealth(_Known):
    """What a comparison of runs needs of a training's alarms; see `HealthSummary`."""

    worst: HealthLevel


class KnownTraining(_Known):
    """What a comparison of runs needs of a training; see `TrainFacts`."""

    seed: int
    chosen_step: int
    base_digest: str
    chain: str
    health: KnownHealth


@dataclass(frozen=True, slots=True)
class Run:
    """One finished run as it was read: settings and code by dotted name, without the training seed."""

    name: str
    settings: Mapping[str, str]
    claim: KnownClaim
    trained: KnownTraining
    before: Sequence[Episode]
    after: Sequence[Episode]


@dataclass(frozen=True, slots=True)
class Scores:
    """One measure of several runs on the same items; `before` and `after` are [runs, items], means over the
    draws."""

    items: tuple[str, ...]
    clusters: tuple[str, ...]
    strata: tuple[str, ...]
    before: Array
    after: Array

    @property
    def gains(self) -> Array:
        """After less before, [runs, items]."""
        return self.after - self.before


def _refusal(expected: str, found: str, fix: str) -> EvidenceError:
    return EvidenceError(expected, found=found, where=RUNS, fix=fix)


def check_together(runs: Sequence[Run]) -> None:
    """Refuse runs that cannot be put together, naming the first two that differ and in what.

    Raises:
        EvidenceError: a run is not evaluable or incomplete, or two runs differ in suite, plan, base or items.
    """
    for run in runs:
        if run.claim.verdict in ("NOT EVALUABLE", DRAFT):
            found = f"{run.name} is {run.claim.verdict}: {say_all(run.claim.reasons)}"
            fix = "mend that run; leaving out what failed would flatter the rest"
            if run.claim.verdict == DRAFT:
                fix = "run it with evaluation.open=true; ./run dvc metrics diff compares drafts"
            raise _refusal("runs that can be evaluated", found, fix)
        for arm, episodes in (("before", run.before), ("after", run.after)):
            check_complete(episodes, run.claim.plan.draws, f"{run.name}, {arm}")
    first = runs[0]
    homes = _homes(first.before)
    for run in runs:
        for what, one, other in (
            ("suite", first.claim.plan.suite_digest, run.claim.plan.suite_digest),
            ("plan of the claim", first.claim.plan_digest, run.claim.plan_digest),
            ("base policy", first.claim.before_policy, run.claim.before_policy),
        ):
            if one != other:
                found = f"{one[:12]} in {first.name}, {other[:12]} in {run.name}"
                raise _refusal(
                    f"runs with one {what}", found, "name runs that differ in seed or recipe alone"
                )
        if _homes(run.before) != homes or _homes(run.after) != homes:
            found = f"others in {run.name} than in {first.name}"
            raise _refusal("the same items in every run", found, "evaluate again")


def _homes(episodes: Sequence[Episode]) -> dict[str, tuple[str, Mapping[str, str]]]:
    return {episode.item_id: (episode.cluster, episode.strata) for episode in episodes}


def group_by_recipe(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return the runs by recipe, each by seed; a recipe is named by the settings in which the recipes differ.

    Raises:
        EvidenceError: two runs of one recipe have the same seed, or one and the same trained policy.
    """
    apart = find_settings_apart(runs)
    groups: dict[tuple[str, ...], list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: (run.trained.seed, run.name)):
        own = groups[tuple(run.settings.get(name, ABSENT) for name in apart)]
        for other in own:
            both, policy = f"{other.name} and {run.name}", run.claim.after_policy
            if other.trained.seed == run.trained.seed:
                found = f"seed {run.trained.seed} in {other.name} and in {run.name}, all settings equal"
                fix = "name one of the two, chosen before looking at the results"
                raise _refusal("each seed once in a recipe", found, fix)
            same = "digests of every step" if run.trained.chain == other.trained.chain else ""
            if policy == other.claim.after_policy != run.claim.before_policy:
                same = "trained policy"
            if same:
                fix = "name one of the two; a copy is no further seed"
                raise _refusal("trainings of their own", f"{both} with the same {same}", fix)
        own.append(run)
    named: dict[str, list[Run]] = {}
    for values, own in sorted(groups.items()):
        title = _title(apart, values)
        before = sum(known.split(" #")[0] == title for known in named)
        named[f"{title} #{before + 1}" if before else title] = own
    return named


def find_settings_apart(runs: Sequence[Run]) -> list[str]:
    """Return the names of the settings that are not the same in all runs, sorted."""
    names = sorted({name for run in runs for name in run.settings})
    return [name for name in names if len({run.settings.get(name, ABSENT) for run in runs}) > 1]


def _title(names: Sequence[str], values: Sequence[str]) -> str:
    if not names:
        return "the recipe"
    shown = [f"{name}={value}" for name, value in zip(names, values, strict=True)][:MOST_NAMED]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def collect_scores(runs: Sequence[Run], measure: str) -> Scores | None:
    """Return what the runs scored on the items where the measure is defined in every run and arm; None if
    nowhere."""
    tables: list[tuple[dict[str, float], dict[str, float]]] = [
        (_means(run.before, measure), _means(run.after, measure)) for run in runs
    ]
    homes = {episode.item_id: episode for episode in runs[0].before}
    items = sorted(item for item in homes if all(item in arm for arms in tables for arm in arms))
    if not items:
        return None
    labels = tuple(", ".join(f"{k}={v}" for k, v in sorted(homes[item].strata.items())) for item in items)
    before, after = (np.array([[arms[k][item] for item in items] for arms in tables]) for k in (0, 1))
    return Scores(tuple(items), tuple(homes[item].cluster for item in items), labels, before, after)


def _means(episodes: Sequence[Episode], measure: str) -> dict[str, float]:
    values: dict[str, list[float]] = defaultdict(list)
    for episode in episodes:
        found = value_of(episode, measure)
        if found is not None:
            values[episode.item_id].append(float(found))
    return {item: math.fsum(own) / len(own) for item, own in values.items()}


@dataclass(frozen=True, slots=True)
class Registration:
    """Why runs are not the registered ones, None where they are; and the level of a test over them."""

    against: Remark | None
    level: float
    place: int | None


def registration_of(runs: Sequence[Run], *, one_sided: bool) -> Registration:
    """Return what the plan of some runs of one recipe registered.

    Runs that are not the registered ones are tested at the plan's alpha, as if they were: what they show is
    marked wherever it is shown.
    """
    plan = runs[0].claim.plan
    against = _against(runs, one_sided=one_sided)
    if against is not None:
        return Registration(against, plan.alpha, None)
    place = max(run.claim.opened.recipe_place or 1 for run in runs if run.claim.opened is not None)
    level = opening_level(place, plan.alpha, looks=plan.looks, seeds=len(plan.seeds), one_sided=one_sided)
    return Registration(None, level, place)


def _against(runs: Sequence[Run], *, one_sided: bool) -> Remark | None:
    plan, seeds = runs[0].claim.plan, sorted(run.trained.seed for run in runs)
    asked = "one-sided" if one_sided else "two-sided"
    if not plan.seeds:
        return remark("no_seeds_planned")
    missing, more = sorted({*plan.seeds} - {*seeds}), sorted({*seeds} - {*plan.seeds})
    if missing or more:
        return remark("other_seeds", missing=missing, more=more)
    if asked != plan.sided:
        return remark("other_sides", asked=asked, planned=plan.sided)
    unknown = [run.name for run in runs if run.claim.opened is None or run.claim.opened.recipe_place is None]
    if unknown:
        return remark("places_not_known", trainings=unknown)
    late = [run.name for run in runs if run.claim.opened is not None and not run.claim.opened.registered]
    if late:
        return remark("registered_late", trainings=late)
    rolls = [0 if run.claim.opened is None else run.claim.opened.rolls for run in runs]
    if again := [run.name for run, n in zip(runs, rolls, strict=True) if n != min(rolls)]:
        return remark("other_rolls", trainings=again)
    return None
