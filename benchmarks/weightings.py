"""The deciding test of a rate on many experiments at once, by weightings as the claim does it: for
simulations."""

from __future__ import annotations

import numpy as np

from assay.rollout.evaluation.clusters import Array

_CHUNK = 1_000


def bounded_mean_tests(
    totals: Array, sizes: Array, rng: np.random.Generator, *, largest: float = 0.0, weightings: int = 2_000
) -> tuple[Array, Array]:
    """Return the one-sided p of "not better" and of "not worse" for rows of [experiments, clusters].

    `sizes` has the same shape or is [clusters]; all rows meet the same weightings.
    """
    totals = np.asarray(totals, np.float64)
    unseen_size = np.maximum(largest, np.broadcast_to(sizes, totals.shape).max(axis=1))
    worse, better = np.ones(len(totals)), np.ones(len(totals))
    for start in range(0, weightings, _CHUNK):
        weights = rng.standard_exponential((min(_CHUNK, weightings - start), totals.shape[1] + 1))
        seen, unseen = weights[:, :-1] @ totals.T, weights[:, -1:] * unseen_size
        better += np.count_nonzero(seen - unseen <= 0.0, axis=0)
        worse += np.count_nonzero(seen + unseen >= 0.0, axis=0)
    return better / (weightings + 1), worse / (weightings + 1)
