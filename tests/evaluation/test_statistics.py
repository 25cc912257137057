"""The statistics keep their promises: level, coverage, exactness, and honesty about what cannot be known."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from benchmarks.weightings import bounded_mean_tests
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from assay.core.errors import EvidenceError
from assay.core.records import Episode
from assay.core.seeds import rng
from assay.rollout.dataset.suite import Unseen
from assay.rollout.evaluation.clusters import ClusterSums, cluster_sums, paired_cluster_differences
from assay.verdict.statistics.bounded_mean import (
    bounded_mean_test,
    clusters_needed,
    not_better,
    probability_below_zero,
    smallest_certain_gain,
)
from assay.verdict.statistics.intervals import (
    mean_interval,
    median_difference_interval,
    median_interval,
    rate_interval,
    wilson,
)
from assay.verdict.statistics.power import detectable_effect
from assay.verdict.statistics.tests import FEWEST_OPEN, holm, open_mean_interval, sign_flip


def sums_of(totals: list[float] | np.ndarray, sizes: list[float] | np.ndarray | None = None) -> ClusterSums:
    """Return cluster sums with names made up."""
    values = np.asarray(totals, np.float64)
    n = np.ones_like(values) if sizes is None else np.asarray(sizes, np.float64)
    return ClusterSums(tuple(f"c{k:03d}" for k in range(len(values))), values, n)


def play(item: str, draw: int, success: bool, cluster: str = "c") -> Episode:
    """Return an episode without turns."""
    return Episode(
        item_id=item,
        cluster=cluster,
        strata={},
        draw=draw,
        seed=draw,
        turns=(),
        prompt_chars_cut=0,
        ending="claimed",
        reward=float(success),
        parts={},
        success=success,
        flags={},
        metrics={},
    )


def test_wilson_agrees_with_published_values() -> None:
    # Source: Newcombe (1998), Statistics in Medicine 17:857, table I, method 3.
    for successes, n, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
    ):
        found = wilson(successes, n)
        assert found.low == pytest.approx(low, abs=5e-5)
        assert found.high == pytest.approx(high, abs=5e-5)


def test_wilson_of_nothing_is_missing() -> None:
    assert wilson(0, 0).value is None


def sign_flip_test(
    totals: list[float] | np.ndarray, chance: np.random.Generator, flips: int = 20_000
) -> float:
    return sign_flip(sums_of(totals), chance, flips)[0]


def test_exact_sign_flip_agrees_with_brute_force() -> None:
    totals = rng("brute").normal(0.4, 1, 9)
    signs = np.array(list(itertools.product([-1, 1], repeat=9)))
    expected = np.mean(np.abs(signs @ totals) >= abs(totals.sum()) - 1e-12)
    assert sign_flip_test(totals, rng(0)) == pytest.approx(expected)


def test_sampled_sign_flip_agrees_with_the_exact_one() -> None:
    totals = rng("close").normal(0.4, 1, 17)
    exact = np.mean(
        np.abs(totals.sum() - 2 * ((np.arange(2**17)[:, None] >> np.arange(17) & 1) @ totals))
        >= abs(totals.sum()) - 1e-12
    )
    assert sign_flip_test(totals, rng(1)) == pytest.approx(exact, abs=0.01)


def test_sampled_p_is_never_zero() -> None:
    assert sign_flip_test(np.ones(40), rng(0)) == pytest.approx(1 / 20_001)


def test_two_clusters_can_never_be_significant() -> None:
    assert sign_flip_test([5.0, 5.0], rng(0)) == 0.5


@given(
    st.lists(st.integers(-8, 8), min_size=6, max_size=12),
    st.lists(st.integers(1, 4), min_size=12, max_size=12),
    st.sampled_from([-1.3, -0.51, 0.0, 0.27, 0.9]),
)
@settings(max_examples=60)
def test_interval_holds_a_shift_exactly_when_the_test_does_not_reject_it(
    totals: list[int], sizes: list[int], shift: float
) -> None:
    sums = sums_of(totals, sizes[: len(totals)])
    found = sign_flip(sums, rng(0))[1]
    if found.low is None or found.high is None:
        assert not sums.has_spread
        return
    p = sign_flip_test(sums.totals - shift * sums.sizes, rng(0))
    if min(abs(shift - found.low), abs(shift - found.high)) > 1e-8:
        assert (found.low <= shift <= found.high) == (p > 0.05)


def test_p_and_interval_of_sampled_flips_agree_about_zero() -> None:
    for k in range(60):
        p, found = sign_flip(sums_of(rng("agree", k).normal(0.35, 1, 30)), rng(k), flips=999)
        assert found.low is not None and found.high is not None
        assert (found.low <= 0 <= found.high) == (p > 0.05)


def test_under_six_clusters_the_interval_is_missing() -> None:
    assert sign_flip(sums_of([1.0, 2, 3, 4, 5]), rng(0))[1].low is None


def test_without_spread_the_interval_is_missing_but_the_value_is_not() -> None:
    found = sign_flip(sums_of(np.full(20, 0.5)), rng(0))[1]
    assert (found.value, found.low, found.high) == (0.5, None, None)


def test_the_estimand_is_total_difference_over_pairs() -> None:
    assert sign_flip(sums_of([3.0, 0, 0, 0, 0, 0], [6, 1, 1, 1, 1, 2]), rng(0))[1].value == 0.25


@pytest.mark.parametrize("n_clusters", [8, 12, 20, 60])
def test_sign_flip_rejects_a_true_null_about_as_often_as_it_says(n_clusters: int) -> None:
    rejected, source = 0, rng("level", n_clusters)
    for _ in range(400):
        sizes = source.integers(1, 6, n_clusters)
        effect = source.normal(0, 0.3, n_clusters)
        totals = sizes * effect + np.array([source.choice([-0.25, 0, 0.25], s).sum() for s in sizes])
        rejected += sign_flip_test(totals, source, flips=499) <= 0.05
    assert 0.02 <= rejected / 400 <= 0.085


@pytest.mark.parametrize("n_clusters", [8, 20, 50])
def test_paired_intervals_cover_the_truth_about_as_often_as_they_say(n_clusters: int) -> None:
    hits, checked, source = 0, 0, rng("coverage", n_clusters)
    for _ in range(300):
        sizes = source.integers(1, 6, n_clusters)
        totals = sizes * 0.1 + sizes * source.normal(0, 0.2, n_clusters) + source.normal(0, 0.3, n_clusters)
        sums = sums_of(totals, sizes)
        found, checked_with = sign_flip(sums, source, flips=499)[1], mean_interval(sums, source, 499)
        assert found.low is not None and found.high is not None
        hits += found.low <= 0.1 <= found.high
        checked += checked_with.low is not None and checked_with.low <= 0.1 <= (checked_with.high or 0)
    assert 0.915 <= hits / 300 <= 0.985
    assert 0.90 <= checked / 300 <= 0.99


@pytest.mark.parametrize(("rate", "n_clusters"), [(0.03, 40), (0.3, 12), (0.9, 30)])
def test_rate_intervals_cover_clustered_rates(rate: float, n_clusters: int) -> None:
    hits, source = 0, rng("rate", n_clusters)
    for _ in range(400):
        chance = source.beta(4 * rate, 4 * (1 - rate), n_clusters)
        found = rate_interval(sums_of(source.binomial(8, chance), np.full(n_clusters, 8)))
        assert found.low is not None and found.high is not None
        hits += found.low <= rate <= found.high
    assert 0.91 <= hits / 400 <= 0.995


def test_plain_wilson_would_be_too_narrow_for_clustered_episodes() -> None:
    sums = sums_of([8.0, 8, 0, 0, 8, 0, 8, 0, 8, 0], np.full(10, 8))
    found, plain = rate_interval(sums), wilson(40, 80)
    assert (
        found.high is not None and found.low is not None and plain.high is not None and plain.low is not None
    )
    assert found.high - found.low > 2 * (plain.high - plain.low)


def test_median_is_the_mean_of_the_middle_two_for_even_n() -> None:
    assert median_interval([1.0, 2.0, 3.0, 10.0], list("abcd")).value == 2.5


def test_median_intervals_cover_the_median() -> None:
    hits, source = 0, rng("median")
    for _ in range(300):
        values = (source.normal(0, 1, 30)[:, None] + source.normal(0, 1, (30, 4))).ravel()
        found = median_interval(list(values), [f"c{k // 4}" for k in range(120)])
        assert found.low is not None and found.high is not None
        hits += found.low <= 0 <= found.high
    assert 0.91 <= hits / 300 <= 0.99


def test_median_difference_of_equal_shift_is_that_shift() -> None:
    values = list(rng("shift").normal(size=40))
    names = [f"c{k // 2}" for k in range(40)]
    found = median_difference_interval(values, [v + 0.5 for v in values], (names, names), rng(0))
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)


def test_undefined_values_leave_the_count() -> None:
    sums = cluster_sums([1.0, None, 0.0], ["a", "a", "b"])
    assert sums is not None and sums.sizes.sum() == 2
    assert cluster_sums([None], ["a"]) is None
    assert mean_interval(None, rng(0)).value is None


def test_paired_differences_average_draws_within_an_item() -> None:
    before = [play("i", 0, False), play("i", 1, True), play("j", 0, False), play("j", 1, False)]
    after = [play("i", 0, True), play("i", 1, True), play("j", 0, True), play("j", 1, False)]
    sums = paired_cluster_differences(before, after, lambda e: float(e.success))
    assert sums is not None
    assert (sums.totals.tolist(), sums.sizes.tolist()) == ([1.0], [2.0])


def test_unpaired_items_are_refused() -> None:
    with pytest.raises(EvidenceError, match="same items"):
        paired_cluster_differences([play("i", 0, True)], [play("k", 0, True)], lambda e: e.reward)


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), min_size=1, max_size=6))
def test_holm_never_lowers_a_p_and_keeps_their_order(p_values: dict[str, float]) -> None:
    adjusted = holm(p_values)
    assert set(adjusted) == set(p_values)
    for a, b in itertools.combinations(p_values, 2):
        assert (p_values[a] <= p_values[b]) <= (adjusted[a] <= adjusted[b])
    assert all(p_values[name] <= adjusted[name] <= 1 for name in p_values)


def test_what_is_said_to_be_detectable_is_found_with_the_promised_power() -> None:
    source = rng("power")
    seen = sums_of(source.choice([-0.5, 0.0, 0.5], 60))
    effect = detectable_effect(seen)
    assert effect is not None
    drawn = source.choice(seen.residuals, (1000, 60)) + effect
    p, _ = bounded_mean_tests(drawn, np.ones(60), source)
    assert 0.75 <= np.mean(p <= 0.025) <= 0.85


def test_too_few_clusters_detect_nothing() -> None:
    assert detectable_effect(sums_of([1.0])) is None
    assert detectable_effect(sums_of([0.1, -0.1, 0.2, 0.0, 0.1])) is None


def test_sign_flip_of_512_clusters_takes_well_under_two_seconds() -> None:
    start = time.perf_counter()
    sign_flip(sums_of(rng("speed").normal(size=512)), rng(0))
    assert time.perf_counter() - start < 2


def test_equal_seeds_give_equal_results_and_other_seeds_do_not() -> None:
    sums = sums_of(rng("same").normal(0.2, 1, 40))
    assert sign_flip(sums, rng(3)) == sign_flip(sums, rng(3))
    assert mean_interval(sums, rng(3)) != mean_interval(sums, rng(4))


# Of the deciding test. A yes/no difference is -1 or +1: then it is the exact binomial bound.


@pytest.mark.parametrize(
    ("gains", "n"), [(20, 20), (15, 20), (0, 20), (38, 40), (30, 60), (2131, 4096), (50_400, 100_000)]
)
def test_for_yes_and_no_it_is_the_interval_of_clopper_and_pearson(gains: int, n: int) -> None:
    """scipy's exact binomial interval of the share of gains, stretched from [0, 1] to [-1, 1]."""
    exact = stats.binomtest(gains, n)
    ends = exact.proportion_ci(0.95, method="exact")
    p, found = bounded_mean_test(sums_of(np.r_[np.ones(gains), -np.ones(n - gains)]))
    assert p == pytest.approx(exact.pvalue, rel=1e-9)
    assert found.low == pytest.approx(2 * ends.low - 1, abs=1e-9)
    assert found.high == pytest.approx(2 * ends.high - 1, abs=1e-9)


@pytest.mark.parametrize(("better", "worse", "same"), [(30, 12, 400), (3, 0, 2), (520, 430, 99_050)])
def test_of_yes_and_no_on_single_items_it_is_mcnemars_exact_test_where_none_is_alike(
    better: int, worse: int, same: int
) -> None:
    """Ties have no part in p: their terms are 0."""
    values = np.repeat([1.0, -1.0, 0.0], [better, worse, same])
    exact = stats.binomtest(better, better + worse).pvalue
    assert bounded_mean_test(sums_of(values))[0] == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(
    ("gain", "n", "loss"),
    [
        *((0.05, 25, 1.0), (0.6, 25, 1.0), (0.5, 1, 1.0), (1e-6, 50, 1.0), (0.002, 1000, 1.0)),
        *((0.9, 500, 1.0), (0.05, 40, 0.5), (0.0015, 100_000, 1.0), (0.02, 40, 0.01)),
    ],
)
def test_equal_gains_have_the_p_that_is_known_in_closed_form(gain: float, n: int, loss: float) -> None:
    """Down to 1e-139; a p that is no number of a computer any more is 0."""
    p, _ = bounded_mean_test(sums_of(np.full(n, gain)), unseen=Unseen(loss=loss))
    assert p == pytest.approx(min(1.0, 2 * math.exp(-n * math.log1p(gain / loss))), rel=1e-10)
    assert bounded_mean_test(sums_of(np.ones(2000)))[0] == 0.0


@pytest.mark.parametrize("n", [1, 2, 3, 7, 40, 300])
def test_unequal_terms_have_the_p_that_partial_fractions_and_weightings_give(n: int) -> None:
    source = rng("weighted", n)
    sizes = source.integers(1, 5, n).astype(float)
    totals = source.choice([-0.4, 0.0, 0.1, 0.3, 0.7], n) * sizes
    p = probability_below_zero(np.append(totals, -sizes.max()))
    weights = source.standard_exponential((100_000, n + 1))
    drawn = np.mean(weights @ np.append(totals, -sizes.max()) <= 0.0)
    assert p == pytest.approx(drawn, abs=5 * math.sqrt(max(p * (1 - p), 1e-5) / 100_000))
    # Of different terms the tail is the sum of t_k^(n-1) / prod (t_k - t_j) over those k that are negative.
    few = np.sort(source.uniform(-1, 1, 6))
    parts = [float(np.prod(k / (k - np.delete(few, i)))) for i, k in enumerate(few) if k < 0]
    assert probability_below_zero(few) == pytest.approx(sum(parts), abs=1e-9)


@given(
    st.lists(st.integers(-8, 8), min_size=1, max_size=14),
    st.lists(st.integers(1, 4), min_size=14, max_size=14),
    st.sampled_from([0.01, 0.25, 0.5, 1.0]),
    st.sampled_from([0.0, 4.0, 40.0]),
    st.sampled_from([0.001, 0.05, 0.2]),
)
@settings(max_examples=80)
def test_p_and_interval_agree_about_zero(
    totals: list[int], sizes: list[int], loss: float, size: float, alpha: float
) -> None:
    """Ties, all zero, one cluster, all alike and p of 1 among them."""
    sums = sums_of(np.array(totals) / 8, sizes[: len(totals)])
    p, found = bounded_mean_test(sums, unseen=Unseen(size, loss), alpha=alpha)
    assert found.low is not None and found.high is not None and found.value is not None and 0 < p <= 1
    assert -1 <= found.low <= found.value <= found.high <= 1
    assert (found.low <= 0 <= found.high) == (p > alpha)
    turned, mirror = bounded_mean_test(
        sums_of(-sums.totals, sums.sizes), unseen=Unseen(size, loss), alpha=alpha
    )
    assert (turned, mirror.low, mirror.high) == pytest.approx((p, -found.high, -found.low), abs=1e-9)


def test_names_order_and_repeated_calls_are_no_part_of_p() -> None:
    source = rng("names")
    totals, sizes = source.normal(0.04, 0.3, 300).clip(-1, 1), source.integers(1, 9, 300).astype(float)
    found = set()
    for _ in range(30):
        order = source.permutation(300)
        names = tuple(f"{source.integers(1 << 60):x}" for _ in order)
        found.add(bounded_mean_test(ClusterSums(names, (totals * sizes)[order], sizes[order]))[0])
    assert len(found) == 1


@pytest.mark.parametrize("n", [8, 32, 33, 100])
def test_the_p_of_many_experiments_that_plans_go_by_is_the_exact_one_to_a_twentieth(n: int) -> None:
    source, sizes = rng("many", n), np.ones(n)
    totals = source.choice([-0.5, 0.0, 0.3, 0.3], (200, n)) + 0.1
    totals[0] = np.r_[1.0, np.zeros(n - 1)]  # as much as is unseen: the middle, where the formula is 0 / 0
    totals[1] = np.r_[np.full(n // 8, 2.0), np.full(n - n // 8, -0.2)] + 0.011
    for loss in (0.25, 1.0):
        found = not_better(totals, sizes, unseen=Unseen(loss=loss))
        exact = [probability_below_zero(np.append(row, -loss)) for row in totals]
        told = np.array(exact) < 0.25
        assert found[told] == pytest.approx(np.array(exact)[told], rel=0.05)
        assert (found[~told] > 0.2).all()


def test_a_thousand_different_clusters_take_less_than_fifty_milliseconds() -> None:
    sums = sums_of(rng("quick").normal(0.02, 0.3, 1000).clip(-1, 1))
    bounded_mean_test(sums)
    start = time.process_time()
    for _ in range(4):
        bounded_mean_test(sums)
    assert (time.process_time() - start) / 4 < 0.05


def test_equal_values_whatever_their_spread_have_an_interval_with_both_ends() -> None:
    found = bounded_mean_test(sums_of(np.full(20, 0.5)))[1]
    assert found.low is not None and found.high is not None and 0.2 < found.low < 0.5 < found.high < 0.6


def test_a_cluster_that_nobody_drew_counts_where_the_data_are_known_to_hold_it() -> None:
    """Twenty small clusters that gain say nothing of the large ones beside them that lose."""
    small = sums_of(np.full(20, 0.5))
    assert bounded_mean_test(small)[0] < 0.01
    p, found = bounded_mean_test(small, unseen=Unseen(9))
    assert p > 0.3 and found.low is not None and found.low < 0


@pytest.mark.parametrize(
    ("sizes", "largest"), [(np.ones(5), 0), (np.r_[np.ones(19), 19], 0), (np.ones(40), 30)]
)
def test_where_nothing_could_be_shown_the_smallest_layout_that_could_is_said(
    sizes: np.ndarray, largest: float
) -> None:
    n = clusters_needed(sizes, unseen=Unseen(largest))
    assert n > len(sizes) and smallest_certain_gain(sizes, unseen=Unseen(largest)) is None
    more = np.resize(sizes, n * len(sizes)) if largest == 0 else np.ones(n)
    assert smallest_certain_gain(more, unseen=Unseen(largest)) is not None
    all_gain = bounded_mean_test(sums_of(sizes, sizes), unseen=Unseen(largest))
    assert all_gain[0] > 0.04, "a gain of everything everywhere does not show"


def test_studentised_sign_flips_are_plain_ones_where_clusters_are_of_one_size() -> None:
    """What is flipped keeps its squares, so that a larger sum always has a larger t: Janssen's test is no
    other one here."""
    totals = rng("janssen").normal(0.3, 1, 10)
    signs = 1.0 - 2.0 * (np.arange(2**10)[:, None] >> np.arange(10) & 1)
    flipped = signs * totals
    t = np.abs(flipped.mean(axis=1)) / flipped.std(axis=1, ddof=1)
    assert np.mean(t >= t[0] * (1 - 1e-12)) == pytest.approx(sign_flip_test(totals, rng(0)))


def test_the_interval_of_a_mean_without_a_bound_holds_those_of_both_tests() -> None:
    for k in range(60):
        sums = sums_of(0.4 - rng("skewed", k).gamma(0.5, 1, FEWEST_OPEN) + 0.4)
        found, alone = open_mean_interval(sums, rng(k)), sign_flip(sums, rng(k))[1]
        assert found.low is not None and alone.low is not None and found.low <= alone.low
        assert found.high is not None and alone.high is not None and found.high >= alone.high


# What statsmodels 0.15.0 says: OLS on a constant with cov_type "cluster", and multipletests with "holm".


def test_the_cluster_robust_error_is_that_of_statsmodels() -> None:
    values = [0.5, -0.25, 0.75, 0, 0.25, 0.5, -0.5, 1, 0.25, 0, 0.75, -0.25, 0.5, 0.25]
    sums = cluster_sums(values, list("aabbbcddeeeefg"))
    assert sums is not None
    assert sums.mean == pytest.approx(0.26785714285714285)
    assert sums.standard_error == pytest.approx(0.04451512338422232)


def test_holm_is_that_of_statsmodels() -> None:
    found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005, "e": 0.2})
    assert list(found.values()) == pytest.approx([0.04, 0.09, 0.09, 0.025, 0.2])
