"""What is promised before training is what the deciding test then delivers, on experiments that nobody
fitted."""

from __future__ import annotations

import time

import numpy as np
import pytest
from benchmarks.weightings import bounded_mean_tests
from numpy.typing import NDArray

from assay.core.records import Episode
from assay.core.seeds import rng
from assay.rollout.dataset.suite import Unseen
from assay.verdict.judge.planning import PlanRequest, make_plan
from assay.verdict.statistics.bounded_mean import not_better
from assay.verdict.statistics.power import (
    PlannedPower,
    ReachAt,
    clusters_for,
    planned_power,
    planned_said,
    plausible_spread,
    recommended_clusters,
    smallest_gain,
)
from tests.evaluation.test_statistics import play

Array = NDArray[np.float64]
# Items by cluster, draws, lowest and highest rate of the base, spread of gains (None: all or nothing).
LAYOUTS = {
    "10 clusters of 10": (np.full(10, 10), 4, 0.2, 0.4, 0.1),
    "10 clusters of 10, learned or not": (np.full(10, 10), 4, 0.1, 0.3, None),
    "12 unequal clusters": (np.arange(12) % 5 + 4, 8, 0.2, 0.3, 0.1),
    "40 clusters of 5": (np.full(40, 5), 2, 0.25, 0.6, 0.2),
    "60 unequal clusters, learned or not": (np.arange(60) % 7 + 2, 2, 0.1, 0.5, None),
    "100 single items": (np.full(100, 1), 4, 0.3, 0.6, 0.2),
    "256 hard single items": (np.full(256, 1), 2, 0.06, 0.3, 0.05),
}
EXPERIMENTS = 1500


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_true_gain_of_the_promised_size_is_found_in_four_of_five_experiments(name: str) -> None:
    sizes, draws, low, high, spread = LAYOUTS[name]
    source, n = rng("promise", name), len(sizes)
    home = np.repeat(np.arange(n), sizes)
    rates = source.uniform(low, high, (EXPERIMENTS, n))[:, home]
    before = source.binomial(draws, rates) / draws
    # Each pilot is another base; the promise is about gains, whichever pilot it was made from.
    pilots = 4
    promised = np.array(
        [smallest_gain(before[k], home, draws, spread=spread) or np.nan for k in range(pilots)]
    )
    assert not np.isnan(promised).any()
    gain = promised[np.arange(EXPERIMENTS) % pilots, None]
    if spread is None:
        share = gain / (1 - (low + high) / 2)
        true = np.where((source.random((EXPERIMENTS, n)) < share)[:, home], 1.0, rates)
    else:
        gains = gain + spread * source.normal(size=(EXPERIMENTS, n))
        true = np.clip(rates + gains[:, home], 0, 1)
    after = source.binomial(draws, true) / draws
    totals = (after - before) @ np.eye(n)[home]
    luck = rng("promise weightings", name)
    found = [
        bounded_mean_tests(totals[part], sizes.astype(float), luck, weightings=8000)[0]
        for part in np.array_split(np.arange(EXPERIMENTS), 30)
    ]
    assert 0.75 <= np.mean(np.concatenate(found) <= 0.025) <= 0.85


def base(n: int = 30, draws: int = 4) -> list[Episode]:
    """Return draws of a base that solves every item about half of the time, two items a cluster."""
    chance = rng("base")
    return [
        play(f"i{k}", d, bool(chance.random() < 0.5), f"c{k // 2}")
        for k in range(2 * n)
        for d in range(draws)
    ]


def planned(episodes: list[Episode], draws: int = 4) -> PlannedPower:
    return planned_power(episodes, "s", draws, primary="success", alpha=0.05)


@pytest.fixture(scope="module")
def usual() -> PlannedPower:
    return planned(base())


def test_the_plan_says_what_it_was_made_from_and_does_not_depend_on_the_order(usual: PlannedPower) -> None:
    found = usual
    assert (found.n_clusters, found.n_items, found.draws, found.power) == (30, 60, 4, 0.8)
    assert found == planned(base()[::-1])
    reach = [found.by_spread[key] for key in ("0", "10", "20", "30")]
    assert None not in reach and reach == sorted(reach, key=lambda value: value or 0.0)
    assert found.smallest_detectable_points == found.by_spread["20"]


def test_a_suite_that_cannot_show_the_smallest_effect_is_said_up_front(usual: PlannedPower) -> None:
    found = usual
    assert found.smallest_detectable_points is not None
    fine, enough = planned_said(found, found.smallest_detectable_points + 1, "scenarios")
    assert enough and "is within the smallest effect" in fine and "30 scenarios, 60 items, K = 4" in fine
    said, enough = planned_said(found, found.smallest_detectable_points - 1, "scenarios")
    assert (
        not enough
        and "EXCEEDS the smallest effect that matters" in said
        and "assumed to differ by 20 points" in said
    )


def test_more_draws_and_more_items_show_smaller_gains() -> None:
    few = smallest_gain(np.full(40, 0.5), np.arange(40), 4, spread=0.1)
    more_draws = smallest_gain(np.full(40, 0.5), np.arange(40), 16, spread=0.1)
    more_items = smallest_gain(np.full(160, 0.5), np.arange(160), 4, spread=0.1)
    assert few is not None and more_draws is not None and more_items is not None
    assert more_draws < few and more_items < few


def test_the_same_episodes_show_smaller_gains_on_more_items_than_in_more_draws() -> None:
    items = smallest_gain(np.full(128, 0.3), np.arange(128), 2, spread=0.2)
    draws = smallest_gain(np.full(64, 0.3), np.arange(64), 4, spread=0.2)
    assert items is not None and draws is not None and items < draws


def test_the_curve_falls_and_recommends_as_many_clusters_as_the_smallest_effect_takes() -> None:
    found = planned_power(base(), "s", 4, primary="success", alpha=0.05, smallest_effect_points=15.0)
    assert [at.n_clusters for at in found.curve] == [8, 15, 30, 60, 120]
    reach = [at.smallest_detectable_points for at in found.curve if at.smallest_detectable_points]
    assert len(reach) >= 4 and reach == sorted(reach, reverse=True)
    assert found.all_or_nothing is not None and found.recommended_clusters is not None
    assert smallest_gain(*suite(found.recommended_clusters), 4, spread=0.2) == pytest.approx(0.15, abs=0.015)
    said, enough = planned_said(found, 15.0, "scenarios")
    assert not enough and f"{found.recommended_clusters} scenarios like these would show that" in said


def suite(n: int) -> tuple[Array, NDArray[np.int64]]:
    """Return rates and clusters of n clusters of two items, as `base` draws them."""
    return rng("suite", n).binomial(4, 0.5, 2 * n) / 4, np.arange(2 * n) // 2


@pytest.mark.parametrize(
    ("rate", "n", "draws", "points"),
    [
        *((0.01, 1500, 1, 1.3), (0.03, 1500, 1, 2.1), (0.05, 1500, 1, 2.6), (0.1, 1500, 1, 3.3)),
        *((0.01, 12, 8, 19.0), (0.1, 12, 8, 22.7), (0.03, 60, 4, 7.4)),
    ],
)
def test_where_the_base_is_seldom_right_what_is_promised_is_what_can_be_found(
    rate: float, n: int, draws: int, points: float
) -> None:
    """A spread of 20 points around a base of 3 % would cut losses off at 0, and so be a gain."""
    unseen = Unseen(loss=max(0.25, draws**-0.5))
    gain = smallest_gain(np.full(n, rate), np.arange(n), draws, spread=0.2, unseen=unseen, seen_draws=0)
    assert gain is not None and 100 * gain == pytest.approx(points, rel=0.06)
    source, sd = rng("seldom", rate, n), plausible_spread(0.2, rate, gain)
    after = np.clip(rate + gain + sd * source.normal(size=(400, n)), 0, 1)
    after = np.clip(after + rate + gain - after.mean(), 0, 1)
    totals = (source.binomial(draws, after) - source.binomial(draws, rate, after.shape)) / draws
    assert 0.7 < np.mean(not_better(totals, np.ones(n), unseen=unseen) <= 0.025) < 0.9


def test_fewer_clusters_than_the_curve_has_are_looked_for_too() -> None:
    """Ten thousand items are asked about, and a hundred or two show ten points."""
    asked: list[int] = []

    def reach(n: int) -> float:
        asked.append(n)
        return 100 / n**0.5

    curve = [ReachAt(n_clusters=n, smallest_detectable_points=100 / n**0.5) for n in (5000, 10_000)]
    assert clusters_for(curve, 10.0, reach) == 100 and len(asked) <= 3
    assert clusters_for(curve, 1.2, reach) == recommended_clusters(curve, 1.2) == 6945
    assert clusters_for(curve, 0.5, reach) is None and clusters_for([], 5.0, reach) is None
    assert clusters_for(curve, 60.0, reach) == 6, "fewer than six test nothing"
    plan = make_plan(PlanRequest(items="160", rate=0.4, draws=1, effect=35.0), None)
    n = plan.power.clusters_for_smallest_effect
    assert n is not None and n < min(each.n_clusters for each in plan.power.table[0].by_clusters)
    again = make_plan(PlanRequest(items=str(n), rate=0.4, draws=1), None).power.smallest_detectable_points
    assert again == pytest.approx(35.0, rel=0.06)


def test_a_larger_cluster_than_any_drawn_makes_the_promise_smaller(usual: PlannedPower) -> None:
    wary = planned_power(base(), "s", 4, primary="success", alpha=0.05, unseen=Unseen(4))
    assert usual.smallest_detectable_points is not None and wary.smallest_detectable_points is not None
    assert wary.smallest_detectable_points > 1.3 * usual.smallest_detectable_points


def test_a_plan_of_512_items_takes_a_few_seconds() -> None:
    episodes = [play(f"i{k}", d, (k + d) % 4 == 0, f"c{k}") for k in range(512) for d in range(2)]
    start = time.process_time()
    planned_power(episodes, "s", 2, primary="success", alpha=0.05, smallest_effect_points=10.0)
    assert time.process_time() - start < 6, "three seconds, and as many again for a slow machine"


@pytest.mark.parametrize(
    "episodes",
    [
        [play(f"i{k}", d, True, f"c{k}") for k in range(20) for d in range(4)],  # nothing is left to gain
        [play(f"i{k}", d, d == 0, f"c{k}") for k in range(5) for d in range(4)],  # under six clusters
    ],
)
def test_where_nothing_could_be_found_no_number_is_made_up(episodes: list[Episode]) -> None:
    found = planned(episodes)
    assert found.smallest_detectable_points is None
    said, enough = planned_said(found, 50.0, "scenarios")
    assert not enough and "no true gain that is possible" in said
