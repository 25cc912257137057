"""Whether a difference hangs on a single part of the suite: what is left of it without any one cluster or
stratum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field
from scipy.special import stdtrit  # type: ignore[import-untyped,unused-ignore]

from assay.core.records import Episode, Record
from assay.rollout.evaluation.clusters import Array, ClusterSums
from assay.verdict.evidence.claim.differences import paired


class LeftOut(Record):
    """The primary difference without one part."""

    part: str = Field(description='"cluster NAME" or "label=value" of a stratum')
    difference: float = Field(description="after - before over the items that remain, a share")


class LeaveOneOut(Record):
    """The smallest and the largest difference that leaving one part out gives."""

    n_clusters: int = Field(ge=0, description="clusters left out one by one")
    n_strata: int = Field(ge=0, description="values of strata left out one by one")
    smallest: LeftOut
    largest: LeftOut
    holds: bool | None = Field(
        description="whether the difference stays on its side of 0 without any one, by a Student interval"
        " over clusters; null where none was shown"
    )


def leave_one_out(
    before: Sequence[Episode], after: Sequence[Episode], measure: str, alpha: float, *, shown: bool
) -> LeaveOneOut | None:
    """Return how far a paired difference moves when one cluster, or one value of a stratum, is left out.

    Source: Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapter 11 (the jackknife values).

    Args:
        before: Episodes of one arm.
        after: Those of the other on the same items.
        measure: What is compared.
        alpha: Two-sided level of the Student intervals that tell whether the direction holds.
        shown: Whether the deciding test showed a direction; without one there is none to hold.

    Returns:
        None where fewer than three clusters make a pair.

    Raises:
        EvidenceError: the arms do not hold the same items.
    """
    whole = paired(before, after, measure)
    if whole is None or len(whole.names) < 3:
        return None
    means, sides = _without_each(whole, alpha)
    found = [
        LeftOut(part=f"cluster {name}", difference=round(mean, 10))
        for name, mean in zip(whole.names, means.tolist(), strict=True)
    ]
    n_clusters = len(found)
    for label, value in sorted({pair for e in before for pair in e.strata.items()}):
        arms = [[e for e in arm if e.strata.get(label) != value] for arm in (before, after)]
        rest = paired(arms[0], arms[1], measure) if arms[0] else None
        if rest is not None:
            found.append(LeftOut(part=f"{label}={value}", difference=round(rest.mean, 10)))
            sides = np.append(sides, _side(rest, alpha))
    side = _side(whole, alpha) if shown else 0
    return LeaveOneOut(
        n_clusters=n_clusters,
        n_strata=len(found) - n_clusters,
        smallest=min(found, key=lambda each: each.difference),
        largest=max(found, key=lambda each: each.difference),
        holds=None if side == 0 else bool((sides == side).all()),
    )


def _without_each(sums: ClusterSums, alpha: float) -> tuple[Array, Array]:
    """Return the mean without each cluster, and on which side of 0 it then lies as of `_side`, [clusters]."""
    n, totals, sizes = len(sums.names) - 1, sums.totals, sums.sizes
    means = (totals.sum() - totals) / (sizes.sum() - sizes)
    squares, cross, weights = (each.sum() - each for each in (totals * totals, totals * sizes, sizes * sizes))
    spread = np.maximum(squares - 2 * means * cross + means * means * weights, 0.0)
    errors = np.sqrt(n / (n - 1) * spread) / (sizes.sum() - sizes)
    reach = float(stdtrit(n - 1, 1 - alpha / 2)) * errors
    return means, np.where(np.abs(means) <= reach, 0.0, np.sign(means))


def _side(sums: ClusterSums, alpha: float) -> int:
    """Return on which side of 0 a difference lies, 0 where its interval holds 0 or there is none."""
    n = len(sums.names)
    if n < 2:
        return 0
    reach = float(stdtrit(n - 1, 1 - alpha / 2)) * sums.standard_error
    return 0 if abs(sums.mean) <= reach else int(np.sign(sums.mean))
