"""What a suite of very many clusters costs: no table of resamples is larger than one of MOST_RESAMPLED."""

from __future__ import annotations

import numpy as np
import pytest

from assay.core.seeds import rng
from assay.rollout.evaluation.clusters import cluster_sums
from assay.verdict.statistics import intervals, report
from assay.verdict.statistics import tests as tests_module
from assay.verdict.statistics.intervals import median_difference_interval, resample_counts
from assay.verdict.statistics.power import suite_of
from assay.verdict.statistics.report import measure_columns
from assay.verdict.statistics.tests import open_mean_interval

N, MOST = 300, 60  # clusters of two values each


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let few clusters be many, and note how many each table of resamples has."""
    sizes: list[int] = []

    def noted(n: int, *rest: int, **more: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        sizes.append(n)
        return resample_counts(n, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(intervals, "MOST_RESAMPLED", MOST)
    for module in (intervals, report, tests_module):
        monkeypatch.setattr(module, "resample_counts", noted)
    return sizes


def test_no_table_of_resamples_has_more_clusters_than_are_resampled(drawn: list[int]) -> None:
    values = rng("many").normal(size=2 * N) + 0.3
    clusters = [f"c{k // 2}" for k in range(2 * N)]
    found = measure_columns({"mean_tokens": list(values)}, clusters, rng(0))["mean_tokens"]
    shifted = [value + 0.5 + 0.01 * k for k, value in enumerate(rng("more").normal(size=2 * N))]
    gap = median_difference_interval(list(values), shifted, (clusters, clusters), rng(1))
    sums = cluster_sums(list(values), clusters)
    assert sums is not None
    mean = open_mean_interval(sums, rng(2))
    assert drawn == [MOST, MOST, MOST]
    for each in (found, gap, mean):
        assert each.low is not None and each.value is not None and each.high is not None
        assert each.low < each.value < each.high
    # As wide as the standard error says: groups lose few degrees of freedom.
    assert found.high is not None and found.low is not None
    assert found.high - found.low == pytest.approx(2 * 1.96 * sums.standard_error, rel=0.25)


def test_a_suite_of_other_size_has_the_items_of_its_clusters_in_their_order() -> None:
    clusters = rng("homes").integers(9, size=40)
    clusters[:9] = range(9)
    rates = rng("rates").random(40)
    for n in (4, 9, 23):
        order = rng("planned suite", 9).permutation(9)
        expected = [rates[clusters == order[k % 9]] for k in range(n)]
        found, homes = suite_of(rates, clusters, n)
        assert found.tolist() == np.concatenate(expected).tolist()
        assert homes.tolist() == [k for k, own in enumerate(expected) for _ in own]
