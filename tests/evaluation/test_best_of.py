"""Best of k is the mean over every choice of k draws, and its interval treats clusters as the other measures
do."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import comb
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import EvidenceError
from assay.core.records import Episode
from assay.rollout.evaluation.measures import best_of
from assay.verdict.statistics.checkpoint_rows import best_of_items
from tests.evaluation.test_statistics import play


def drawn(successes: list[list[bool]], items_per_cluster: int = 1) -> list[Episode]:
    return [
        play(f"item{i}", draw, success, cluster=f"cluster{i // items_per_cluster}")
        for i, draws in enumerate(successes)
        for draw, success in enumerate(draws)
    ]


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=7), st.data())
def test_the_best_of_k_is_the_mean_over_all_choices_of_k_draws(
    values: list[float], data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(values)))
    assert best_of(values, k) == pytest.approx(
        fmean(max(choice) for choice in combinations(values, k)), abs=1e-9
    )


@given(st.integers(1, 200), st.data())
def test_for_success_it_is_pass_at_k(n: int, data: st.DataObject) -> None:
    right, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    expected = 1 - comb(n - right, k) / comb(n, k)
    assert best_of([1.0] * right + [0.0] * (n - right), k) == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=8))
def test_it_grows_from_the_mean_to_the_maximum_with_k(values: list[float]) -> None:
    found = [best_of(values, k) for k in range(1, len(values) + 1)]
    assert found[0] == pytest.approx(fmean(values), abs=1e-9) and found[-1] == max(values)
    assert all(a <= b + 1e-9 for a, b in pairwise(found))


@pytest.mark.parametrize("k", [0, 3])
def test_more_than_there_are_draws_is_refused(k: int) -> None:
    with pytest.raises(EvidenceError, match="from 1 to 2"):
        best_of([0.0, 1.0], k)


def test_items_are_averaged_and_counted() -> None:
    found = best_of_items(drawn([[True, False], [False, False], [True, True], [False, True]]), 2, "suite")
    assert found.success_rate.value == found.mean_reward.value == 0.75
    assert found.success_rate.n == found.mean_reward.n == 4
    assert best_of_items(drawn([[True, False], [False, False]]), 1, "suite").success_rate.value == 0.25


def test_items_of_one_cluster_are_not_taken_as_independent() -> None:
    won = [[i // 4 % 2 == 0, False] for i in range(64)]
    apart = best_of_items(drawn(won), 2, "suite")
    together = best_of_items(drawn(won, items_per_cluster=4), 2, "suite")
    for measure in ("mean_reward", "success_rate"):
        narrow, wide = getattr(apart, measure), getattr(together, measure)
        assert narrow.value == wide.value
        assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)


def test_the_order_of_episodes_does_not_matter() -> None:
    episodes = drawn([[i % 3 == 0, i % 2 == 0] for i in range(20)])
    assert best_of_items(episodes, 2, "suite") == best_of_items(episodes[::-1], 2, "suite")
