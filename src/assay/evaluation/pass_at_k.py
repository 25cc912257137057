"""Best of k: what the best of k answers to one item is worth, estimated without bias from n >= k draws."""

from __future__ import annotations

import math
from collections.abc import Sequence

from assay.core.errors import EvidenceError


def best_of(values: Sequence[float], k: int) -> float:
    """Return the expected maximum of k of these values, drawn without replacement.

    The i-th smallest of n is the maximum of C(i - 1, k - 1) of the C(n, k) choices. For values of 0 and 1
    this is pass@k, 1 - C(n - c, k) / C(n, k) with c ones. Source: Chen et al. (2021), "Evaluating Large
    Language Models Trained on Code", arXiv 2107.03374, eq. 1.

    >>> best_of([1, 0, 0, 0], 2), best_of([3.0, 1.0, 2.0], 1), best_of([3.0, 1.0, 2.0], 3)
    (0.5, 2.0, 3.0)

    Raises:
        EvidenceError: k is under 1 or over the number of values.
    """
    n = len(values)
    if not 1 <= k <= n:
        raise EvidenceError(
            f"k from 1 to {n}, the draws of an item", found=str(k), where="best_of", fix="play more draws"
        )
    choices = math.comb(n, k)
    return math.fsum(
        math.comb(i, k - 1) / choices * value for i, value in enumerate(sorted(values)) if i >= k - 1
    )
