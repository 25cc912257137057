"""Uncertainty over seeds and items: what is covered, how often nothing is called something, and what is
resampled."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from assay.verdict.statistics.seeds_and_items import (
    CrossedMean,
    bootstrap,
    cell_weights,
    crossed_mean,
    detectable_effect,
    expanded_percentiles,
    fewest_runs,
    resampled,
    sign_flip_runs,
    weighted_mean,
)
from assay.verdict.statistics.tests import sign_flip_tests

Array = NDArray[np.float64]
DRAWS = 4
# Standard deviations of the effect of a seed and of an item on the success of a draw.
WORLDS = [(0.0, 0.0), (0.02, 0.05), (0.06, 0.1), (0.1, 0.02)]


def gains(
    rng: np.random.Generator,
    n_seeds: int,
    n_items: int,
    of_seeds: float,
    of_items: float,
    effect: float = 0.0,
) -> Array:
    """Return gains of a recipe with this mean effect: every run on the same items, against one measurement of
    the base."""
    base = rng.uniform(0.3, 0.7, n_items)
    trained = base + effect + rng.normal(0, of_items, n_items) + rng.normal(0, of_seeds, n_seeds)[:, None]
    after = rng.binomial(DRAWS, np.clip(trained, 0, 1)) / DRAWS
    return after - rng.binomial(DRAWS, base) / DRAWS


def share(n_seeds: int, n_items: int, times: int = 500) -> tuple[float, float, list[float]]:
    """Return over all worlds: coverage of the interval, false verdicts by both tests, and by sign flips of
    runs alone.

    The last is one share for each world.
    """
    rng, covered, both, alone = np.random.default_rng((n_seeds, n_items)), 0, 0, []
    one_sided = n_seeds < fewest_runs(0.05, one_sided=False)
    names = [str(item) for item in range(n_items)]
    for of_seeds, of_items in WORLDS:
        alone.append(0.0)
        for _ in range(times):
            cells = gains(rng, n_seeds, n_items, of_seeds, of_items)
            found = crossed_mean(cells, names)
            flips = sign_flip_runs(cells.mean(axis=1), rng, one_sided=one_sided)
            assert found.interval.low is not None and found.interval.high is not None
            covered += found.interval.low <= 0 <= found.interval.high
            both += max(found.p(one_sided=one_sided), flips) <= 0.05
            alone[-1] += (flips <= 0.05) / times
    n = times * len(WORLDS)
    return covered / n, both / n, alone


@pytest.mark.parametrize("n_items", [40, 256])
@pytest.mark.parametrize("n_seeds", [5, 6, 8, 10])
def test_the_interval_covers_and_a_recipe_that_does_nothing_is_seldom_called_better(
    n_seeds: int, n_items: int
) -> None:
    # 2,000 pipelines each: one standard error of a share of 5 % is 0.5 points.
    covered, both, _ = share(n_seeds, n_items)
    assert 0.93 <= covered <= 0.97
    assert both <= 0.06


def test_sign_flips_of_runs_alone_would_be_fooled_by_the_one_measurement_of_the_base() -> None:
    # The reason for the second test: the base's luck moves all seeds alike, and more seeds make it look more
    # certain. 500 pipelines in each of 4 worlds: standard errors of 1.1 points for the mean, 2.2 for the
    # worst.
    alone = share(10, 40)[2]
    assert np.mean(alone) > 0.28 and max(alone) > 0.4


@pytest.mark.parametrize("n_seeds", [5, 6, 8, 10])
def test_the_effect_called_detectable_is_found_in_four_of_five_pipelines(n_seeds: int) -> None:
    # Trainings differ much and items little: there the formula for a t test alone promises too much at five
    # and six seeds.
    rng, one_sided = np.random.default_rng(n_seeds), n_seeds < fewest_runs(0.05, one_sided=False)
    world = (128, 0.06, 0.02)
    names, times = [str(item) for item in range(128)], 500
    tried = [crossed_mean(gains(rng, n_seeds, *world), names) for _ in range(200)]
    errors = np.array([(t.error_of_seeds, t.error_of_items, t.standard_error) for t in tried])
    known = CrossedMean(0.0, *np.sqrt((errors**2).mean(axis=0)).tolist(), df=10.0, n_items=128)
    effect = detectable_effect(known, n_seeds, 128, 0.05, rng, one_sided=one_sided)
    assert effect is not None
    found = 0
    for _ in range(times):
        cells = gains(rng, n_seeds, *world, effect=effect)
        flips = sign_flip_runs(cells.mean(axis=1), rng, one_sided=one_sided)
        found += cells.mean() > 0 and max(crossed_mean(cells, names).p(one_sided=one_sided), flips) <= 0.05
    assert found / times == pytest.approx(0.8, abs=0.06)  # one standard error is 1.8 points


def test_one_sided_a_smaller_effect_is_detectable_and_without_error_none_is_known() -> None:
    mean = CrossedMean(0.0, 0.03, 0.02, 0.035, df=9.0, n_items=64)
    one, two = (
        detectable_effect(mean, 8, 64, 0.05, np.random.default_rng(0), one_sided=s) for s in (True, False)
    )
    assert one is not None and two is not None and one < 0.95 * two
    flat = crossed_mean(np.zeros((6, 10)), [str(item) for item in range(10)])
    assert detectable_effect(flat, 6, 10, 0.05, np.random.default_rng(0), one_sided=False) is None


def test_seeds_resampled_within_each_item_would_miss_what_differs_between_trainings() -> None:
    rng = np.random.default_rng(5)
    cells = 0.5 + rng.normal(0, 0.1, 6)[:, None] + rng.normal(0, 0.02, (6, 200))
    names = [str(item) for item in range(200)]
    whole = bootstrap(lambda w: weighted_mean(cells, w), resampled(6, names, names, rng)).std()
    drawn = rng.integers(6, size=(2000, 6, 200))
    apart = np.take_along_axis(cells[None, :, :], drawn, axis=1).mean(axis=(1, 2)).std()
    assert whole == pytest.approx(crossed_mean(cells, names).error_of_seeds, rel=0.1)
    assert apart < whole / 5


def test_the_bootstrap_of_a_mean_covers_too() -> None:
    rng, covered, times = np.random.default_rng(11), 0, 150
    names, one = [str(item) for item in range(60)], ["all"] * 60
    for _ in range(times):
        cells = rng.normal(0, 0.1, 6)[:, None] + rng.normal(0, 0.3, 60) + rng.normal(0, 0.2, (6, 60))
        draws = list(resampled(6, names, one, rng, 500))
        df = crossed_mean(cells, names).df
        low, high = expanded_percentiles(bootstrap(lambda w, c=cells: weighted_mean(c, w), draws), df)  # type: ignore[misc]
        covered += bool(low <= 0 <= high)
    assert 0.89 <= covered / times <= 0.995


def test_error_of_the_mean_is_found_again_in_many_worlds() -> None:
    rng = np.random.default_rng(2)
    names = [str(item // 2) for item in range(80)]
    found, means = [], []
    for _ in range(400):
        shift = np.repeat(rng.normal(0, 0.2, 40), 2)
        cells = shift + rng.normal(0, 0.1, 6)[:, None] + rng.normal(0, 0.3, (6, 80))
        one = crossed_mean(cells, names)
        means.append(one.mean)
        found.append(one.standard_error**2)
    assert np.mean(found) == pytest.approx(np.var(means), rel=0.15)


def test_what_all_runs_share_counts_as_error_of_items_however_many_runs_there_are() -> None:
    rng = np.random.default_rng(3)
    base, names = rng.normal(0, 0.3, 50), [str(item) for item in range(50)]
    errors = [crossed_mean(rng.normal(0, 0.01, (n, 50)) - base, names).standard_error for n in (5, 50)]
    assert errors[1] == pytest.approx(errors[0], rel=0.05)
    assert errors[1] == pytest.approx(base.std(ddof=1) / np.sqrt(50), rel=0.05)


def test_without_any_variation_there_is_no_interval_and_nothing_is_significant() -> None:
    flat = crossed_mean(np.zeros((6, 10)), [str(item) for item in range(10)])
    assert (flat.interval.low, flat.interval.high, flat.p(one_sided=False)) == (None, None, 1.0)


def test_the_order_of_runs_and_of_items_does_not_matter() -> None:
    cells, names = np.random.default_rng(4).normal(size=(5, 12)), [f"c{item % 4}" for item in range(12)]
    one = crossed_mean(cells, names)
    other = crossed_mean(cells[::-1, ::-1], names[::-1])
    assert other.standard_error == pytest.approx(one.standard_error) and other.df == pytest.approx(one.df)


@pytest.mark.parametrize(
    ("n", "one_sided", "expected"), [(5, True, 1 / 32), (5, False, 2 / 32), (6, False, 2 / 64)]
)
def test_the_smallest_p_of_so_few_runs_is_exact(n: int, one_sided: bool, expected: float) -> None:
    assert sign_flip_runs(np.linspace(0.1, 0.3, n), np.random.default_rng(0), one_sided=one_sided) == expected


def test_sign_flips_of_runs_agree_with_those_of_clusters_and_one_sided_with_either_side() -> None:
    rng = np.random.default_rng(6)
    for n in (7, 20):
        values = rng.normal(0.2, 1, n)
        two = sign_flip_runs(values, np.random.default_rng(1), one_sided=False)
        assert two == pytest.approx(sign_flip_tests(values[None], np.random.default_rng(1))[0], abs=0.015)
        up, down = (sign_flip_runs(s * values, np.random.default_rng(1), one_sided=True) for s in (1, -1))
        assert up + down == pytest.approx(1, abs=0.02)


def test_resamples_keep_runs_clusters_and_strata_whole() -> None:
    clusters = ["a", "a", "b", "c", "c", "d", "e"]
    strata = ["easy", "easy", "easy", "hard", "hard", "hard", "alone"]
    for runs, items in resampled(5, clusters, strata, np.random.default_rng(0), 300):
        assert cell_weights(runs, items).shape == (len(runs), 5, 7)
        assert runs.sum(axis=1) == pytest.approx(5.0)
        assert (items[:, 0] == items[:, 1]).all() and (items[:, 3] == items[:, 4]).all()
        # Two clusters in either stratum, and one that stands alone and always counts.
        assert items[:, 0] + items[:, 2] == pytest.approx(2.0)
        assert items[:, 3] + items[:, 5] == pytest.approx(2.0)
        assert (items[:, 6] == 1.0).all()
