"""The controls of a claim: base against base flags broken pipelines and no others; random rewards are told
from learning. How often a verdict is wrong when nothing changed, and how often the
interval holds the truth."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from assay.core.records import Episode
from assay.core.seeds import rng
from assay.evaluation.clusters import ClusterSums
from assay.evidence.claim.aa_test import AA_LEVEL, Control, aa_control
from assay.evidence.claim.claim import Claim
from assay.evidence.claim.differences import Comparison
from assay.evidence.claim.random_reward import random_reward_control, random_reward_said
from assay.evidence.claim.verdict import decide
from assay.statistics.intervals import interval
from assay.statistics.tests import sign_flip, sign_flip_tests
from conftest import make_claim, make_plan
from synthetic_episodes import arm

PIPELINES = 240


def control_of(base: list[Episode], again: list[Episode] | None, draws: int = 4) -> Control:
    return aa_control(base, again, measure="success_rate", draws=draws, rng=rng("aa"))


def test_at_most_one_sound_pipeline_in_twenty_is_flagged() -> None:
    flagged = tested = 0
    for k in range(PIPELINES):
        n, rate = (8, 12, 20, 30)[k % 4], (0.1, 0.35, 0.6)[k % 3]
        found = control_of(arm(f"pipeline {k}", rate, clusters=n, items_per_cluster=1), None)
        tested += found.passed is not None
        flagged += found.passed is False
    assert tested == PIPELINES and flagged / PIPELINES <= 0.05


def mixed_up(seed: int) -> list[Episode]:
    """Return a base whose second half of draws was played by another policy: an adapter that was left on."""
    first, second = arm(f"b{seed}", 0.3, clusters=30), arm(f"t{seed}", 0.8, clusters=30)
    return [b if b.draw < 2 else t for b, t in zip(first, second, strict=True)]


def test_a_pipeline_that_mixes_up_policies_is_flagged() -> None:
    assert all(control_of(mixed_up(k), None).passed is False for k in range(20))
    found = make_claim(mixed_up(0), arm("after", 0.9, clusters=30))
    assert found.verdict == "NOT EVALUABLE" and "base and base" in found.sentence
    assert not re.search(r"\d", found.sentence)


def test_draws_that_share_their_seed_are_no_draws(before: list[Episode], after: list[Episode]) -> None:
    leaked = [e.model_copy(update={"seed": 7}) for e in before]
    found = make_claim(leaked, after)
    assert found.verdict == "NOT EVALUABLE" and "repeat the sampling seed" in found.reason
    assert "share sampling seeds" in found.sentence


def test_p_and_level_of_the_control_are_shown(claim: Claim) -> None:
    assert claim.control is not None and claim.control.p is not None
    assert claim.control.level == AA_LEVEL < claim.plan.alpha


@pytest.mark.parametrize("n", [6, 7])
def test_a_control_that_could_not_flag_anything_counts_as_not_run(n: int) -> None:
    found = control_of(arm("base", 0.3, clusters=n), arm("not the base", 1.0, clusters=n, first_draw=4))
    assert (found.verdict, found.passed) == ("NOT RUN", None) and "could ever be flagged" in found.reason
    assert control_of(arm("base", 0.3, clusters=8), None).passed is not None


ASKED = make_plan(controls=("aa", "random_reward"))


def random_arm(rate: float) -> list[Episode]:
    return arm(f"paid by the toss of a coin {rate}", rate)


def test_random_rewards_that_change_nothing_leave_the_claim_as_it_is(
    before: list[Episode], after: list[Episode]
) -> None:
    found = make_claim(before, after, ASKED, random_arm=random_arm(0.35))
    assert found.verdict == "IMPROVED" and found.random_reward is not None
    control = found.random_reward
    assert (control.verdict, control.trained_is_ahead) == ("NO EVIDENCE", True)
    assert control.ahead is not None and control.ahead.low is not None and control.ahead.low > 0
    assert not any("andom rewards" in text for text in found.warnings)
    assert "ahead by +" in random_reward_said(control)
    assert Claim.model_validate_json(found.model_dump_json()) == found


def test_random_rewards_that_improve_too_are_said_plainly(
    before: list[Episode], after: list[Episode]
) -> None:
    found = make_claim(before, after, ASKED, random_arm=random_arm(0.66))
    assert found.random_reward is not None and found.random_reward.verdict == "IMPROVED"
    assert any(
        text.startswith("Random rewards improved the primary metric too: +") for text in found.warnings
    )
    assert any("not shown to beat one for random rewards" in text for text in found.warnings)


def test_the_same_numbers_come_from_the_function_alone(before: list[Episode], after: list[Episode]) -> None:
    one = random_reward_control(before, random_arm(0.5), after, ASKED, rng(1))
    other = random_reward_control(before[::-1], random_arm(0.5)[::-1], after[::-1], ASKED, rng(1))
    assert one == other and one.n_items == 40


def test_an_arm_that_was_not_asked_for_is_said_not_to_have_run(claim: Claim) -> None:
    assert (
        claim.random_reward is None
        and random_reward_said(claim.random_reward) == "Random-reward arm: not run."
    )


def test_a_control_that_the_plan_asks_for_must_be_there_and_be_whole(
    before: list[Episode], after: list[Episode]
) -> None:
    absent = make_claim(before, after, ASKED)
    assert (
        absent.verdict == "NOT EVALUABLE"
        and "random-reward arm that the plan asks for was not played" in absent.reason
    )
    torn = make_claim(before, after, ASKED, random_arm=random_arm(0.35)[:-1])
    assert torn.verdict == "NOT EVALUABLE" and "missing" in torn.reason
    volunteered = make_claim(before, after, random_arm=random_arm(0.35)[:-1])
    assert volunteered.verdict == "IMPROVED" and any("NOT EVALUABLE" in text for text in volunteered.warnings)


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
