"""A claim pays for the openings before it, by a level that falls; one that does not know of them is none."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.records import OpenedRecords, OtherPolicy
from assay.verdict.evidence.claim.openings import level_of, opening_obstacles, opening_warnings, openings_of
from assay.verdict.evidence.claim.plan import ClaimPlan
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.evidence.words.sentences import opening_said

PLAN = ClaimPlan.model_construct(alpha=0.05, seeds=(0, 1, 2))


def others(n: int, **changes: Any) -> tuple[OtherPolicy, ...]:
    known: dict[str, Any] = {"stages": ("post_eval",), "n_records": 4, "same_recipe": False} | changes
    return tuple(OtherPolicy(policy_digest=f"{k}" * 64, place=k + 1, **known) for k in range(n))


def records(**changes: Any) -> OpenedRecords:
    values: dict[str, Any] = {
        "policy_digest": "p" * 64,
        "records": "r",
        "n_records": 4,
        "place": 1,
        "recipe_place": 1,
        "family": "f",
        "first_family": "f",
        "seed": 0,
        "seeds": (0, 1, 2),
        "left_out": (),
        "others": (),
        "restored": 0,
    }
    return OpenedRecords(**values | changes)


def bars(found: OpenedRecords, **changes: Any) -> list[str]:
    asked: dict[str, Any] = {"policy": "p" * 64, "records": "r", "seed": 0} | changes
    return [each.code for each in opening_obstacles(found, PLAN, **asked)]


def test_the_first_opening_is_tested_at_alpha_and_nothing_is_held_against_it() -> None:
    opened = openings_of(records(), "0" * 64)
    assert level_of(opened, PLAN) == 0.05 and opened.registered
    assert bars(records()) == [] and opening_warnings(opened, records()) == []
    assert "the first try at" in opening_said(opened, 0.05, PLAN)


@pytest.mark.parametrize(("place", "level"), [(2, 0.025), (3, 0.05 / 6), (10, 0.05 / 90)])
def test_a_later_opening_has_a_smaller_level_and_says_so(place: int, level: float) -> None:
    found = records(place=place, others=others(place - 1))
    opened = openings_of(found, "0" * 64)
    assert level_of(opened, PLAN) == pytest.approx(level)
    assert f"number {place}" in opening_said(opened, level, PLAN) and f"{level:.2g}" in opening_said(
        opened, level, PLAN
    )
    said = str(*opening_warnings(opened, found))
    assert f"{place - 1} tr" in said and f"number {place}" in said


def test_of_planned_looks_each_has_an_equal_share_and_beyond_the_last_there_is_no_claim() -> None:
    plan = PLAN.model_copy(update={"looks": 4})

    def found(place: int, **changes: Any) -> OpenedRecords:
        return records(place=place, others=others(place - 1, looks=4, called=False), **changes)

    for place in (1, 2, 4):
        opened = openings_of(found(place), "0" * 64, 4)
        assert level_of(opened, plan) == 0.05 / 4
        assert "4 looks were planned" in opening_said(opened, 0.0125, plan)
    spent = openings_of(found(5), "0" * 64, 4)
    assert spent.share == 0 and level_of(spent, plan) == 0.05 / 4
    asked = {"policy": "p" * 64, "records": "r", "seed": 0}
    (bar,) = opening_obstacles(found(5), plan, **asked)  # type: ignore[arg-type]
    assert bar == remark("looks_used_up", place=5, looks=4)
    assert opening_obstacles(found(4), plan, **asked) == []  # type: ignore[arg-type]
    # Planning fewer looks once the policy has seen the records gains it nothing.
    assert level_of(openings_of(found(1, looks=4), "0" * 64, 1), plan) == 0.05 / 4


def test_an_unknown_number_of_openings_is_never_read_as_one() -> None:
    assert bars(records(place=None)) == ["openings_lost"]
    assert "not known" in opening_said(openings_of(records(place=None), "0" * 64), 0.05, PLAN)
    with pytest.raises(ValueError, match="place 2, behind 3 others"):
        records(place=2, others=others(3))


@pytest.mark.parametrize(
    "changes", [{"policy": "q" * 64}, {"records": "other"}, {"seed": 1}], ids=lambda each: next(iter(each))
)
def test_openings_of_something_else_bar_the_claim(changes: dict[str, Any]) -> None:
    assert bars(records(), **changes) == ["other_opening"]
    assert bars(records(seeds=(0, 1))) == ["other_opening"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"restored": 2}, remark("ledger_restored", n=2)),
        ({"put_back": 2}, remark("ledger_put_back", n=2)),
        ({"seed": 9}, remark("seed_not_planned", seed=9)),
        ({"left_out": (7, 8)}, remark("seeds_left_out", seeds=[7, 8])),
        ({"first_family": "g"}, remark("seed_planned_late", seed=0)),
        ({"rolls": 2}, remark("rolled_before", seed=0, n=2)),
    ],
)
def test_what_was_done_to_ledger_and_seeds_is_said(changes: dict[str, Any], said: Remark) -> None:
    found = records(**changes)
    opened = openings_of(found, "0" * 64)
    assert opening_warnings(opened, found)[0] == said
    assert opened.registered == (next(iter(changes)) in ("restored", "put_back", "rolls"))
