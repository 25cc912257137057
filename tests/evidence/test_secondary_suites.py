"""Secondary suites say where a policy is better or worse beyond the held-out one, and never move the
verdict."""

from __future__ import annotations

import pytest

from assay.verdict.evidence.claim.openings import Openings
from assay.verdict.evidence.claim.plan import ClaimPlan, PlannedSuite, plan_digest
from assay.verdict.evidence.claim.secondary_suites import PlayedSuite, secondary_frame
from assay.verdict.evidence.words.sentences import controls_said, secondary_said
from conftest import codes, make_claim, make_plan, never_right
from synthetic_episodes import arm

UP = (0.2, 0.9)


def planned(*names: str) -> ClaimPlan:
    suites = {name: PlannedSuite(suite_digest="5" * 64, largest_cluster=1) for name in names}
    return make_plan(draws=4, secondary_suites=suites)


def played(name: str, before: float, after: float, clusters: int = 40) -> PlayedSuite:
    one, other = (
        arm(f"{name} {which}", rate, clusters=clusters, items_per_cluster=1, draws=1, parse_rate=1.0)
        for which, rate in (("before", before), ("after", after))
    )
    return PlayedSuite(one, other, {"null": never_right(one)})


def opened(**places: int | None) -> Openings:
    return Openings(
        place=1,
        recipe_place=1,
        policies_before=0,
        registered=True,
        restored=0,
        sha256="0" * 64,
        secondary_places=places,
    )


def claim_on(headline: tuple[float, float], **suites: PlayedSuite):  # type: ignore[no-untyped-def]
    arms = [arm(f"headline {k}", rate) for k, rate in enumerate(headline)]
    return make_claim(*arms, planned(*suites), secondary_suites=suites)


@pytest.mark.parametrize("headline", [UP, UP[::-1], (0.5, 0.5)])
@pytest.mark.parametrize("beyond", [UP, UP[::-1]])
def test_a_gain_beyond_the_suite_changes_no_verdict_and_a_loss_there_is_named_in_its_sentence(
    headline: tuple[float, float], beyond: tuple[float, float]
) -> None:
    alone, beside = claim_on(headline), claim_on(headline, traps=played("traps", *beyond))
    kept = ["effect", "difference", "p", "warnings"]
    if beyond == UP:
        kept += ["verdict", "reasons", "sentence"]
    else:
        words = {"IMPROVED": "IMPROVED WITH REGRESSIONS"}
        assert beside.verdict == words.get(alone.verdict, alone.verdict)
        assert "worse_on_suite" in codes(beside.reasons) and "got worse on traps, 9" in beside.sentence
    assert [getattr(alone, name) for name in kept] == [getattr(beside, name) for name in kept]
    assert beside.secondary_suites["traps"].direction == ("better" if beyond == UP else "worse")


def test_each_suite_pays_for_all_of_them_and_no_measure_of_the_headline_does() -> None:
    found = claim_on(UP, ood=played("ood", 0.4, 0.6), traps=played("traps", *UP)).secondary_suites
    least, most = sorted(found.values(), key=lambda each: each.p or 0.0)
    assert least.p_holm == pytest.approx(2 * (least.p or 0.0))
    assert most.p_holm == pytest.approx(max(most.p or 0.0, least.p_holm or 0.0))


def test_records_that_were_opened_before_cost_a_gain_its_level_and_a_loss_nothing() -> None:
    suites = {"ood": played("ood", 0.3, 0.7, 60), "traps": played("traps", 0.7, 0.3, 60)}
    arms = [arm(f"headline {k}", rate) for k, rate in enumerate(UP)]
    found = {}
    for place in (1, 5000, None):
        told = opened(ood=place, traps=place)
        claim = make_claim(*arms, planned(*suites), secondary_suites=suites, opened=told)
        found[place] = {name: each.direction for name, each in claim.secondary_suites.items()}
    assert found[1] == {"ood": "better", "traps": "worse"}
    assert found[5000] == found[None] == {"ood": "not shown", "traps": "worse"}


def test_too_few_clusters_are_described_and_called_nothing() -> None:
    found = claim_on(UP, ood=played("ood", *UP, clusters=5)).secondary_suites["ood"]
    assert (found.p, found.p_holm, found.direction, found.n_clusters) == (None, None, "not shown", 5)


def test_a_player_without_skill_that_does_better_is_named_beside_the_gain() -> None:
    suite = played("traps", 0.1, 0.5)
    always = [each.model_copy(update={"success": True}) for each in suite.before]
    claim = claim_on(UP, traps=PlayedSuite(suite.before, suite.after, {"always": always, **suite.trivial}))
    assert claim.secondary_suites["traps"].best_trivial_rate == 1.0
    assert "always, which needs no skill, reaches 100.0 %" in controls_said(claim)
    assert len(secondary_frame(claim.secondary_suites)) == 1


def test_a_task_without_such_suites_says_nothing_of_them_and_keeps_the_digest_of_its_plan() -> None:
    claim = claim_on(UP)
    assert claim.secondary_suites == {} and secondary_said({}, "scenarios") == ""
    assert "Secondary" not in controls_said(claim)
    assert plan_digest(make_plan()) == plan_digest(planned()) != plan_digest(planned("traps"))
