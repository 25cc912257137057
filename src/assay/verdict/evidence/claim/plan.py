"""What will be called an improvement, fixed before training, and its digest."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from assay.core.config.health import ACCIDENTS, HealthSettings
from assay.core.config.settings import Params
from assay.core.records import Record
from assay.rollout.dataset.fingerprint import Fingerprint
from assay.rollout.dataset.suite import Suite, Unseen
from assay.rollout.tasks.protocol import RivalKind

LEAST_WORST = 25  # points


class PlannedSuite(Record):
    """A further suite on which the trained policy is compared with the base; part of no verdict."""

    suite_digest: str
    largest_cluster: int | None = Field(ge=1, description="as that of the plan, of this data file")
    worst_cluster: float = Field(default=100.0, ge=1, le=100, description="as that of the plan")

    @property
    def unseen(self) -> Unseen:
        """As that of the plan."""
        return Unseen(float(self.largest_cluster or 0), self.worst_cluster / 100)


class ClaimPlan(Record):
    """What will be called an improvement; written and hashed before the first optimizer step."""

    primary: str = Field(description="the one metric that decides, a rate: success, or the name of a flag")
    direction: Literal["higher", "lower"] = Field(description="which way is better")
    smallest_effect_points: float = Field(gt=0, description="smallest change that matters, percentage points")
    draws: int = Field(ge=1, description="episodes per item in each arm")
    suite_digest: str
    largest_cluster: int | None = Field(
        default=None,
        ge=1,
        description="items of the largest cluster that the data lead one to expect in such a suite, drawn or"
        " not; null: no larger than those drawn",
    )
    worst_cluster: float = Field(
        default=100.0,
        ge=1,
        le=100,
        description="points that a cluster nobody saw may lose; 100: all, or hashed before plans said so",
    )
    dataset_sha256: str | None = Field(
        default=None, description="of all data, as fingerprint.json has it; null: hashed before plans said so"
    )
    checkpoint_rule: str = Field(description="how the checkpoint is chosen: a setting")
    alpha: float = Field(gt=0, le=0.2, description="two-sided level of the deciding test")
    cluster_name: str = Field(description="what one cluster is, plural: scenarios, prompt groups")
    secondary: tuple[str, ...] = Field(description="further confirmatory measures, Holm-corrected together")
    guardrails: dict[str, float] = Field(
        description="measure: largest tolerable loss, in the measure's own unit"
    )
    # With a default, as above: plans that were hashed before there was a choice had the A/A control alone.
    controls: tuple[Literal["aa", "random_reward"], ...] = Field(
        default=("aa",),
        description="aa: base against base; random_reward: a training for random rewards beside it",
    )
    control_share: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="of the steps of the training, so many that for random rewards takes; 1: all, or hashed"
        " before plans said so",
    )
    rivals: dict[str, RivalKind] = Field(
        default={},
        description="who else plays the held-out items, by name; better than every trivial one is what skill"
        " needs",
    )
    seeds: tuple[int, ...] = Field(
        default=(),
        description="training seeds of a statement about the recipe; none: hashed before plans said so",
    )
    sided: Literal["two-sided", "one-sided"] = Field(default="two-sided", description="of that statement")
    looks: int | None = Field(
        default=None,
        ge=1,
        description="policies that may see the held-out records, each tested at alpha / looks; null: hashed"
        " before plans said so, or any number, the k-th tested at alpha / (k (k - 1))",
    )
    reward_range: tuple[float, float] | None = Field(
        default=None,
        description="between what rewards of episodes lie, by which their means are tested; null: the task"
        " does not say, and nothing is",
    )
    temperature: float | None = Field(
        default=None, description="of sampled evaluations; null: hashed before plans said so"
    )
    # By what the training is watched and its checkpoint chosen, so that neither is settled when the alarms
    # have rung.
    alarms: str | None = Field(
        default=None, description="digest of the alarms' settings; null: hashed before plans said so"
    )
    validation_suite: str | None = Field(
        default=None, description="digest of the suite that chooses; null: as above"
    )
    near_duplicates: float | None = Field(
        default=None,
        description="share of common words from which held-out records are one cluster; null: not united",
    )
    tasks: str | None = Field(
        default=None,
        description="label of strata that are tasks of their own: a loss in one is a loss of the claim",
    )
    secondary_suites: dict[str, PlannedSuite] = Field(
        default={},
        description="by data file; the primary metric on each, two-sided, Holm-corrected over them, whatever"
        " the verdict",
    )

    @property
    def unseen(self) -> Unseen:
        """The cluster that nobody saw, as the tests of the plan reckon with it."""
        return Unseen(float(self.largest_cluster or 0), self.worst_cluster / 100)


def plan_of(
    params: Params,
    heldout: Suite,
    validation: Suite,
    *,
    cluster_name: str,
    data: Fingerprint,
    rivals: Mapping[str, RivalKind],
    reward_range: tuple[float, float] | None,
    secondary: Mapping[str, Suite],
) -> ClaimPlan:
    """Return the plan that the settings ask for on the suites of a dataset."""
    claim = params.claim
    return ClaimPlan(
        primary=claim.primary,
        direction="higher",
        smallest_effect_points=claim.smallest_effect_points,
        draws=heldout.draws,
        suite_digest=heldout.digest,
        largest_cluster=largest_cluster(heldout, data, ("train", params.validation.suite)),
        worst_cluster=worst_cluster(heldout, claim.worst_cluster),
        dataset_sha256=data.dataset_sha256,
        checkpoint_rule=claim.checkpoint_rule,
        alpha=claim.alpha,
        cluster_name=cluster_name,
        # Whatever is called the primary metric: more of it with less success is a regression.
        secondary=("mean_reward",) if claim.primary == "success" else ("mean_reward", "success_rate"),
        guardrails={"parsed_rate": claim.parsed_rate_margin},
        controls=tuple(claim.controls),
        control_share=claim.control_share if "random_reward" in claim.controls else 1.0,
        rivals=dict(rivals),
        reward_range=reward_range,
        temperature=params.generation.measured_at,
        seeds=tuple(claim.seeds),
        sided=claim.sided,
        looks=claim.looks,
        alarms=alarms_digest(params.health),
        validation_suite=validation.digest,
        near_duplicates=params.dataset.near_duplicates,
        secondary_suites={
            name: PlannedSuite(
                suite_digest=suite.digest,
                largest_cluster=data.splits[name].largest_cluster,
                worst_cluster=worst_cluster(suite, claim.worst_cluster),
            )
            for name, suite in secondary.items()
        },
    )


def largest_cluster(heldout: Suite, data: Fingerprint, others: Sequence[str]) -> int | None:
    """Return the size in items of the largest cluster that a suite could have held, as all data tell it.

    Of `others`, files of other lengths, it counts by how much their largest cluster is larger than a usual
    one. None where the fingerprint does not say.
    """
    usual = statistics.median(Counter(item.cluster for item in heldout.items).values())
    found = []
    for name, split in data.splits.items():
        if split.largest_cluster is None or split.usual_cluster is None:
            return None
        if name == "heldout":
            found.append(float(split.largest_cluster))
        elif name in others:
            found.append(split.largest_cluster / split.usual_cluster * usual)
    return math.ceil(max(found) - 1e-9)


def worst_cluster(suite: Suite, asked: float | None) -> float:
    """Return how many points a cluster that nobody saw may lose: what is asked, or what its draws leave."""
    n_clusters = len({item.cluster for item in suite.items})
    return usual_worst(len(suite.items) * suite.draws / n_clusters) if asked is None else asked


def usual_worst(draws: float) -> float:
    """Return how many points a cluster of so many draws may lose where nobody says.

    Luck moves the difference of two arms of N draws by 71 points / sqrt(N) at most (sd); true gains differ by
    about 20, however many draws there are. docs/decisions/evidence.md shows what it costs and buys.

    >>> [usual_worst(draws) for draws in (1, 2, 4, 16, 64)]
    [100.0, 71.0, 50.0, 25.0, 25.0]
    """
    return float(max(LEAST_WORST, math.ceil(100 / math.sqrt(draws) - 1e-9)))


def expected_unseen(params: Params, heldout: Suite, data: Fingerprint) -> Unseen:
    """Return the cluster that nobody saw as a plan will have it."""
    size = largest_cluster(heldout, data, ("train", params.validation.suite))
    return Unseen(float(size or 0), worst_cluster(heldout, params.claim.worst_cluster) / 100)


def alarms_digest(health: HealthSettings) -> str:
    """Return the sha256 of everything that decides when an alarm rings: all of `health` but ACCIDENTS."""
    return _digest(health.model_dump(mode="json", exclude=set(ACCIDENTS)))


def plan_digest(plan: ClaimPlan) -> str:
    """Return the sha256 of the plan's canonical JSON (sorted keys, no spaces), 64 hex digits."""
    # A plan with the default is the plan it was before the field existed.
    return _digest(plan.model_dump(mode="json", exclude_defaults=True))


# What another suite alone makes otherwise; a larger loss may be reckoned with then, no smaller one.
OF_SUITE = {"suite_digest", "dataset_sha256", "largest_cluster", "worst_cluster"}


def differs_beyond_suite(plan: ClaimPlan, before: ClaimPlan) -> bool:
    """Return whether a plan for other held-out records is otherwise another than one before it."""
    now, then = (each.model_dump(exclude=OF_SUITE) for each in (plan, before))
    return now != then or plan.worst_cluster < before.worst_cluster


def _digest(content: object) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
