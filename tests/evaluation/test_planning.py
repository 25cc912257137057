"""What is promised before training is what the deciding test then delivers, on experiments that nobody
fitted."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from assay.core.records import Episode
from assay.core.seeds import rng
from assay.statistics.power import PlannedPower, planned_power, planned_said, smallest_gain
from assay.statistics.tests import sign_flip_tests
from tests.evaluation.test_statistics import play

Array = NDArray[np.float64]
LAYOUTS = {
    "8 clusters of 10": (np.full(8, 10.0), 8, 0.35, 0.5, 0.1),
    "12 unequal clusters": (np.arange(12.0) % 5 + 1, 8, 0.3, 0.45, 0.1),
    "40 clusters of 5": (np.full(40, 5.0), 8, 0.25, 0.6, 0.2),
    "40 very unequal clusters": (
        np.r_[np.full(20, 1.0), np.full(15, 4.0), np.full(5, 20.0)],
        4,
        0.3,
        0.5,
        0.15,
    ),
    "100 single items": (np.full(100, 1.0), 4, 0.3, 0.6, 0.2),
    "256 hard single items": (np.full(256, 1.0), 4, 0.06, 0.3, 0.05),
}
EXPERIMENTS = 4000


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_true_gain_of_the_promised_size_is_found_in_four_of_five_experiments(name: str) -> None:
    sizes, draws, low, high, spread = LAYOUTS[name]
    source, n = rng("promise", name), len(sizes)
    home = np.repeat(np.arange(n), sizes.astype(int))
    rates = source.uniform(low, high, (EXPERIMENTS, n))[:, home]
    before = source.binomial(draws, rates) / draws
    # Each pilot is another base; the promise is about gains, whichever pilot it was made from.
    promised = np.array([smallest_gain(before[k], sizes, draws, spread=spread) or np.nan for k in range(2)])
    gains = promised[np.arange(EXPERIMENTS) % 2, None] + spread * source.choice([-1.0, 1.0], (EXPERIMENTS, n))
    after = source.binomial(draws, np.clip(rates + gains[:, home], 0, 1)) / draws
    totals = (after - before) @ np.eye(n)[home]
    power = np.mean(sign_flip_tests(totals, rng("promise flips", name), 4999) <= 0.05)
    assert 0.77 <= power <= 0.83


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


def test_the_plan_says_what_it_was_made_from_and_does_not_depend_on_the_order() -> None:
    found = planned(base())
    assert (found.n_clusters, found.n_items, found.draws, found.power) == (30, 60, 4, 0.8)
    assert found == planned(base()[::-1])
    reach = [found.by_spread[key] for key in ("0", "10", "20", "30")]
    assert None not in reach and reach == sorted(reach, key=lambda value: value or 0.0)
    assert found.smallest_detectable_points == found.by_spread["20"]


def test_a_suite_that_cannot_show_the_smallest_effect_is_said_up_front() -> None:
    found = planned(base())
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
    rates = np.full(40, 0.5)
    few = smallest_gain(rates, np.full(40, 1.0), 4, spread=0.1)
    more_draws = smallest_gain(rates, np.full(40, 1.0), 16, spread=0.1)
    more_items = smallest_gain(np.full(160, 0.5), np.full(160, 1.0), 4, spread=0.1)
    assert few is not None and more_draws is not None and more_items is not None
    assert more_draws < few and more_items < few


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
