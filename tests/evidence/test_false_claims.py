"""How often the verdict is wrong when nothing changed, and how often the interval holds the truth; all
seeded."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from assay.core.seeds import rng
from assay.evaluation.clusters import ClusterSums
from assay.evidence.claim.differences import Comparison
from assay.evidence.claim.verdict import decide
from assay.statistics.intervals import interval
from assay.statistics.tests import sign_flip, sign_flip_tests
from conftest import make_plan

Array = NDArray[np.float64]
EXPERIMENTS, K = 3000, 4


def equal(n: int) -> Array:
    return np.full(n, 3.0)


def unequal(n: int) -> Array:
    """Return sizes from 1 to 12, most of them small."""
    return np.round(np.linspace(1, 12**0.5, n) ** 2)


def same_policy(source: np.random.Generator, sizes: Array) -> Array:
    """Return total differences by cluster of one policy played twice, [experiments, clusters]; most items are
    rarely solved."""
    rates = source.beta(0.5, 2.0, (EXPERIMENTS, len(sizes)))
    draws = (sizes * K).astype(int)
    return np.asarray((source.binomial(draws, rates) - source.binomial(draws, rates)) / K, np.float64)


def mixed_gains(source: np.random.Generator, sizes: Array) -> Array:
    """Return the same for a policy that won on some clusters what it lost on others: true gains of 10 points,
    mean zero."""
    rates = source.uniform(0.3, 0.7, (EXPERIMENTS, len(sizes)))
    gains = source.normal(0.0, 0.1, rates.shape)
    draws = (sizes * K).astype(int)
    after = np.clip(rates + gains, 0, 1)
    return np.asarray((source.binomial(draws, after) - source.binomial(draws, rates)) / K, np.float64)


def skewed_gains(source: np.random.Generator, sizes: Array) -> Array:
    """Return the same where few clusters gained much and many lost a little, mean zero: the test's symmetry
    does not hold."""
    rates = source.uniform(0.3, 0.7, (EXPERIMENTS, len(sizes)))
    gains = 0.1 * (source.gamma(1.0, 1.0, rates.shape) - 1.0)
    after = np.clip(rates + gains, 0, 1)
    # What clipping cuts off is put back, so that the truth stays zero.
    gains -= (after - rates).mean()
    draws = (sizes * K).astype(int)
    after = np.clip(rates + gains, 0, 1)
    return np.asarray((source.binomial(draws, after) - source.binomial(draws, rates)) / K, np.float64)


def verdict_of(totals: Array, sizes: Array, source: np.random.Generator) -> str:
    sums = ClusterSums(tuple(f"c{k:03d}" for k in range(len(sizes))), totals, sizes)
    p, difference = sign_flip(sums, source, 4999)
    found = Comparison(
        measure="success_rate",
        before=0.3,
        after=0.3,
        difference=difference,
        p=p,
        p_holm=None,
        cross_check=interval(0.0, float("nan"), float("nan"), 1),
        standard_error=sums.standard_error,
        n_clusters=len(sizes),
    )
    return decide(found, make_plan(), (), None)[0]


def share_of_false_verdicts(
    name: str, n: int, sizes: Array, null: Callable[[np.random.Generator, Array], Array]
) -> float:
    """Return the share of experiments whose verdict names a change; only where p <= 0.05 can it."""
    source = rng("false verdicts", name, n)
    totals = null(source, sizes)
    near = np.flatnonzero(sign_flip_tests(totals, rng("flips", name, n), 4999) <= 0.06)
    named = [verdict_of(totals[k], sizes, source) for k in near]
    return (
        sum(verdict in ("IMPROVED", "IMPROVED WITH REGRESSIONS", "REGRESSED") for verdict in named)
        / EXPERIMENTS
    )


@pytest.mark.parametrize("null", [same_policy, mixed_gains, skewed_gains])
@pytest.mark.parametrize("layout", [equal, unequal])
@pytest.mark.parametrize("n", [8, 12, 20, 40, 100])
def test_a_verdict_names_a_change_that_is_none_in_at_most_six_per_cent(
    n: int, layout: Callable[[int], Array], null: Callable[[np.random.Generator, Array], Array]
) -> None:
    found = share_of_false_verdicts(f"{layout.__name__} {null.__name__}", n, layout(n), null)
    assert 0.005 <= found <= 0.06


@pytest.mark.parametrize("layout", [equal, unequal])
@pytest.mark.parametrize("n", [8, 20, 100])
def test_the_interval_holds_the_true_difference_in_93_to_97_per_cent(
    n: int, layout: Callable[[int], Array]
) -> None:
    source, sizes, held, truth = rng("coverage", layout.__name__, n), layout(n), 0, 0.1
    experiments = 2000
    gains = truth + source.normal(0, 0.15, (experiments, n))
    totals = sizes * gains + np.sqrt(sizes * 0.1) * source.normal(size=(experiments, n))
    for row in totals:
        found = sign_flip(ClusterSums(tuple(map(str, range(n))), row, sizes), source, 999)[1]
        assert found.low is not None and found.high is not None
        held += found.low <= truth <= found.high
    assert 0.93 <= held / experiments <= 0.97
