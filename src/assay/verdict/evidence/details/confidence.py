"""Whether the confidence that a player states tells right verdicts from wrong ones.

Of tasks whose episodes carry the metric `confidence` and the flag `false_claim`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from assay.core.records import Episode, Interval, Record
from assay.rollout.dataset.suite import FEWEST_CLUSTERS
from assay.rollout.evaluation.clusters import cluster_sums
from assay.verdict.statistics.bounded_mean import bounded_mean_test
from assay.verdict.statistics.intervals import interval


class StatedConfidence(Record):
    """Brier scores of one arm: the mean square of stated confidence less right (1) or wrong (0), of all
    verdicts that state one. Source: Brier (1950), Monthly Weather Review 78:1."""

    right: float = Field(
        ge=0,
        le=1,
        description="share of these verdicts that are right, proven or not: in a null world nothing is"
        " claimed, elsewhere channel and mass are right (`success` asks for proof as well, and of all"
        " episodes). Also the constant that scores best",
    )
    brier: float = Field(ge=0, le=1)
    constant: float = Field(ge=0, le=1, description="Brier score of always stating that share")
    difference: Interval = Field(
        description="brier - constant, n verdicts; below 0 the confidence informs, if only by one level for"
        " claims and another for nothing there"
    )
    n_clusters: int = Field(ge=1)


def has_verdicts(episodes: Sequence[Episode]) -> bool:
    """Return whether the task asks how sure the player is, in worlds of which some hold nothing."""
    return any(e.metrics.get("confidence") is not None and "false_claim" in e.flags for e in episodes)


def verdict_right(episode: Episode) -> bool | None:
    """Return whether the verdict was right, be it proven or not; None without one.

    On a null world any claim is wrong; elsewhere channel and mass have to be right, and "nothing there" is
    wrong.
    """
    if episode.metrics.get("confidence") is None:
        return None
    false_claim = episode.flags.get("false_claim")
    if false_claim is not None:
        return not false_claim
    return bool(episode.flags.get("channel_correct")) and bool(episode.flags.get("mass_correct"))


def stated_confidence(episodes: Sequence[Episode]) -> StatedConfidence | None:
    """Return how the stated confidence compares with the best constant; None without verdicts.

    The best constant is taken from the same verdicts, as if it were known: that favours it.
    """
    told = [
        (float(e.metrics["confidence"] or 0.0), float(bool(verdict_right(e))), e.cluster)
        for e in episodes
        if has_verdicts([e])
    ]
    if not told:
        return None
    share = math.fsum(right for _, right, _ in told) / len(told)
    brier, constant = (
        [(p - right) ** 2 for p, right in pairs]
        for pairs in ([(sure, right) for sure, right, _ in told], [(share, right) for _, right, _ in told])
    )
    gaps = [one - other for one, other in zip(brier, constant, strict=True)]
    sums = cluster_sums(gaps, [cluster for *_, cluster in told])
    assert sums is not None
    found = interval(sums.mean, math.nan, math.nan, len(told))
    if len(sums.names) >= FEWEST_CLUSTERS:
        found = bounded_mean_test(sums)[1].model_copy(update={"n": len(told)})
    return StatedConfidence(
        right=round(share, 10),
        brier=round(math.fsum(brier) / len(told), 10),
        constant=round(math.fsum(constant) / len(told), 10),
        difference=found,
        n_clusters=len(sums.names),
    )
