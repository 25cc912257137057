"""The figures on repeated looks in docs/ are those of the benchmark, and each stays under alpha."""

from __future__ import annotations

import json

import numpy as np
import pytest
from benchmarks import looks, openings
from benchmarks.attack import GAINS

from assay.verdict.statistics.openings import Look, share_of_look
from tests.house import ROOT

FOUND = json.loads(openings.RESULT.read_text())


@pytest.mark.parametrize("row", FOUND["looks"], ids=lambda each: each["name"])
def test_no_way_of_looking_again_is_called_better_more_often_than_alpha(row: dict[str, float]) -> None:
    assert row["replications"] >= 3_000
    assert row["now"] <= row["upper"] <= openings.ALPHA


def test_the_rows_are_of_attacks_that_would_have_won() -> None:
    before = {each["name"]: each["before"] for each in FOUND["looks"]}
    assert before["10 policies in turn, each with its own settings"] > 0.09
    assert before["the best 6 of 12 seeds"] > 0.4
    assert before["the best of three rolls of each of 6 seeds"] > 0.3


def test_the_table_in_the_docs_is_the_recorded_one() -> None:
    assert openings.table(FOUND) in (ROOT / "docs/method.md").read_text()


def test_the_power_named_in_the_decision_is_the_recorded_one() -> None:
    text = " ".join((ROOT / "docs/decisions/evidence.md").read_text().split())
    power = {each["place"]: each for each in FOUND["series"]}
    first, second, tenth = (
        [round(100 * power[place][name]) for name in ("ours", "squares", "products")] for place in (1, 2, 10)
    )
    assert f"an honest single run keeps {first[0]} % here" in text
    assert f"it would have {first[1]} %, with alpha / (k (k + 1)) {first[2]} %" in text
    assert f"with {second[0]} % here ({second[1]} and {second[2]} % there)" in text
    assert f"the tenth with {tenth[0]} % ({tenth[1]} and {tenth[2]} %)" in text


def test_looks_that_were_planned_find_more_and_call_no_more_than_alpha() -> None:
    found = json.loads(looks.RESULT.read_text())
    assert looks.table(found) in (ROOT / "docs/method.md").read_text()
    free, *rules = found["looks"]
    assert free["any_false"] > 0.15, "looks that would have won"
    for each in rules:
        assert each["users"] >= 20_000 and each["any_false"] <= each["upper"] <= looks.ALPHA
        assert max(each["any_false_late"], each["any_false_half"]) <= looks.ALPHA
    series, planned = rules[0], rules[-1]
    assert all(planned[name] > series[name] for name in ("found", "last", "share"))


@pytest.mark.parametrize("run", [0, 1, 5])
def test_the_benchmark_hands_on_what_a_claim_does(run: int) -> None:
    called = np.zeros((1, 7), bool)
    called[:, 7 - run :] = True
    before = [Look(k + 1, looks.TRIES, bool(called[0, k])) for k in range(7)]
    assert looks.planned_recycled(called)[0] == looks.ALPHA * share_of_look(8, looks.TRIES, before)


def test_the_places_in_the_benchmark_are_what_the_rules_give() -> None:
    plan = tuple(range(10))
    assert openings.places([openings.Recipe("f", k, plan) for k in plan]) == list(range(1, 11))
    assert openings.judged([openings.Recipe("f", k, plan) for k in plan], list(plan)) == (True, 0.05)
    assert openings.judged([openings.Recipe("f", k, plan) for k in plan], [0, 1, 2])[0] is False
    rolls = [openings.Recipe("f", k, plan) for _ in range(2) for k in plan]
    assert openings.judged(rolls, list(range(10, 20))) == (True, 0.025), "a whole roll is the second try"
    assert openings.judged(rolls, [*range(9), 19])[0] is False, "seeds of two rolls are picked"


def test_looks_by_other_names_take_a_place_each() -> None:
    shown = openings.Look("shown")
    assert openings.place_after([shown]) == 1
    assert openings.place_after([*openings.AS_BASES, shown]) == 11
    assert openings.place_after([*openings.COPIES, shown]) == 12


def test_no_recorded_attack_went_unremarked() -> None:
    found = json.loads((ROOT / "benchmarks/results/verdict_attacks.json").read_text())
    assert found["honest"]["verdict"] == "IMPROVED" and found["unremarked"] == 0
    assert len(found["attacks"]) >= 15 and all(each["remarked"] for each in found["attacks"])
    for each in found["attacks"]:
        assert each["verdict"] not in GAINS or each["said"], (
            "a gain is answered by a code of the attack's own"
        )
