"""Whether a difference hangs on a single part of the suite: what is left of it without any one cluster or
stratum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field
from scipy.special import stdtrit  # type: ignore[import-untyped,unused-ignore]

from assay.core.records import Episode, Record
from assay.rollout.evaluation.clusters import ClusterSums
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
    parts: dict[str, ClusterSums] = {}
    for k, name in enumerate(whole.names):
        kept = np.arange(len(whole.names)) != k
        names = (*whole.names[:k], *whole.names[k + 1 :])
        parts[f"cluster {name}"] = ClusterSums(names, whole.totals[kept], whole.sizes[kept])
    n_clusters = len(parts)
    for label, value in sorted({pair for e in before for pair in e.strata.items()}):
        arms = [[e for e in arm if e.strata.get(label) != value] for arm in (before, after)]
        rest = paired(arms[0], arms[1], measure) if arms[0] else None
        if rest is not None:
            parts[f"{label}={value}"] = rest
    found = [LeftOut(part=name, difference=round(rest.mean, 10)) for name, rest in parts.items()]
    side = _side(whole, alpha) if shown else 0
    return LeaveOneOut(
        n_clusters=n_clusters,
        n_strata=len(parts) - n_clusters,
        smallest=min(found, key=lambda each: each.difference),
        largest=max(found, key=lambda each: each.difference),
        holds=None if side == 0 else all(_side(rest, alpha) == side for rest in parts.values()),
    )


def _side(sums: ClusterSums, alpha: float) -> int:
    """Return on which side of 0 a difference lies, 0 where its interval holds 0 or there is none."""
    n = len(sums.names)
    if n < 2:
        return 0
    reach = float(stdtrit(n - 1, 1 - alpha / 2)) * sums.standard_error
    return 0 if abs(sums.mean) <= reach else int(np.sign(sums.mean))
