"""The table at the head of README.md says what the claim says, whatever the claim says."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.evidence_files import place_of
from assay.package.publish.headline import caveats_of, headline, table_of
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.formatting import percent
from tests.house import ROOT

CLAIM = Claim.model_validate_json((ROOT / place_of("claim.json")).read_text(encoding="utf-8"))


def changed(**values: Any) -> Claim:
    return CLAIM.model_copy(update=values)


def test_every_rate_and_lead_of_the_table_is_one_of_the_claim() -> None:
    for arm in (CLAIM.before, CLAIM.after):
        assert arm is not None and f"| {percent(arm.value)} [" in table_of(CLAIM).replace("**", "")
    for kind in {each.kind for each in CLAIM.rivals.values()}:
        own = [(each.difference.value or 0, name) for name, each in CLAIM.rivals.items() if each.kind == kind]
        assert f"(`{min(own)[1]}`) | {percent(CLAIM.rivals[min(own)[1]].rate)} |" in table_of(CLAIM)


@pytest.mark.parametrize("verdict", ["NOT EVALUABLE", "DRAFT"])
def test_where_nothing_may_be_claimed_no_number_stands_there(verdict: str) -> None:
    said = headline(changed(verdict=verdict))
    assert said.startswith(f"**{verdict}.** ") and "|" not in said


def test_a_claim_without_an_interval_has_no_table() -> None:
    assert CLAIM.difference is not None
    gap = CLAIM.difference.model_copy(update={"low": None, "high": None})
    assert "|" not in headline(changed(difference=gap))


def test_what_did_not_play_has_no_row() -> None:
    rows = table_of(changed(rivals={}, random_reward=None)).split("\n")
    assert [row.split(" | ")[0] for row in rows[2:]] == ["| **after training**", "| before training"]


def test_where_less_is_better_the_strongest_baseline_is_the_lowest() -> None:
    plan = CLAIM.plan.model_copy(update={"direction": "lower"})
    scripted = {name: each for name, each in CLAIM.rivals.items() if each.kind == "scripted"}
    lowest = min(scripted, key=lambda name: scripted[name].rate or 0)
    assert f"(`{lowest}`)" in table_of(changed(plan=plan, rivals=scripted))


def test_earlier_looks_are_told_only_where_they_cost_something() -> None:
    assert any("Model number" in each for each in caveats_of(CLAIM))
    first = changed(level=CLAIM.plan.alpha, difference_at_level=None)
    assert not any("at most" in each for each in caveats_of(first))


def test_a_control_that_collapsed_is_no_baseline() -> None:
    assert CLAIM.random_reward is not None
    lost = CLAIM.random_reward.model_copy(update={"collapsed": CLAIM.reasons})
    assert "random rewards" in table_of(CLAIM) and "random rewards" not in table_of(
        changed(random_reward=lost)
    )
