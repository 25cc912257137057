"""Openings are counted by record, whatever suite asked it; ledgers merge in any order without losing or
inventing one."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from assay.core.storage.json import dumps
from assay.pipeline.heldout_ledger import (
    NOTHING,
    HeldoutLedger,
    key_of,
    merged,
    noted,
    opened,
    policies_that_saw,
)

RECORDS = st.frozensets(st.sampled_from("uvwxyz"), min_size=1)
ONES = st.builds(
    opened,
    stage=st.sampled_from(["pre_eval", "post_eval"]),
    policy_digest=st.sampled_from("pq"),
    suite_digest=st.sampled_from("st"),
    records=RECORDS,
    data=st.just("mine"),
    split=st.just("heldout"),
    copy_id=st.sampled_from(["here", "there"]),
)
LEDGERS = st.lists(ONES, max_size=6).map(lambda ones: reduce(noted, ones, NOTHING))


def one(policy: str, records: str, *, stage: str = "post_eval", copy_id: str = "here") -> HeldoutLedger:
    return opened(
        stage, policy, f"suite of {records}", records, data="mine", split="heldout", copy_id=copy_id
    )


@given(LEDGERS, LEDGERS, LEDGERS)
def test_merging_is_the_same_in_any_order_and_as_often_as_one_likes(
    a: HeldoutLedger, b: HeldoutLedger, c: HeldoutLedger
) -> None:
    assert merged(a, b) == merged(b, a)
    assert merged(a, merged(b, c)) == merged(merged(a, b), c)
    assert merged(a, a) == merged(a, NOTHING) == a


@given(st.lists(ONES, min_size=1, max_size=8), RECORDS)
def test_who_saw_what_is_what_the_openings_say_one_by_one(
    ones: list[HeldoutLedger], asked: frozenset[str]
) -> None:
    ledger = reduce(noted, ones, NOTHING)
    expected: dict[str, set[str]] = {}
    for each in ones:
        (opening,) = each.openings
        expected.setdefault(opening.policy_digest, set()).update(asked & {*each.record_sets[opening.records]})
    seen = policies_that_saw(ledger, asked)
    assert {policy: found.n_records for policy, found in seen.items()} == {
        p: len(r) for p, r in expected.items() if r
    }
    assert sum(opening.times for opening in ledger.openings) == len(ones), "every call is counted"


@given(LEDGERS)
def test_each_set_of_records_stands_in_it_once_and_none_that_nothing_names(ledger: HeldoutLedger) -> None:
    assert {opening.records for opening in ledger.openings} == ledger.record_sets.keys()
    assert len({*ledger.record_sets.values()}) == len(ledger.record_sets)
    assert HeldoutLedger.model_validate_json(dumps(ledger)) == ledger


def test_a_suite_of_another_size_shares_records_and_counts() -> None:
    ledger = noted(one("small", "uv"), one("large", "uvwxyz"))
    seen = policies_that_saw(ledger, "uvwxyz")
    assert {policy: found.n_records for policy, found in seen.items()} == {"large": 6, "small": 2}
    assert policies_that_saw(ledger, "z").keys() == {"large"} and not policies_that_saw(ledger, "a")


def test_the_same_policy_on_the_same_records_is_one_opening_made_more_often() -> None:
    again = noted(noted(one("p", "uv"), one("p", "uv")), one("p", "uv", copy_id="there"))
    assert [(each.copy_id, each.times) for each in again.openings] == [("here", 2), ("there", 1)]
    assert policies_that_saw(again, "u")["p"].copies == {"here", "there"}


def test_the_records_of_a_set_cannot_be_changed_or_lost_unseen() -> None:
    whole = one("p", "uv").model_dump(mode="json")
    (key,) = whole["record_sets"]
    for sets in ({key: ["u"]}, {key: ["u", "w"]}, {}, {key_of("uw"): ["u", "w"]}):
        with pytest.raises(ValidationError, match="record_sets"):
            HeldoutLedger.model_validate_json(dumps(whole | {"record_sets": sets}))


@pytest.mark.parametrize("other", ["assay-openings/2", "assay-openings/4", None])
def test_a_ledger_of_another_format_is_none(other: str | None) -> None:
    whole = one("p", "uv").model_dump(mode="json") | {"format": other}
    with pytest.raises(ValidationError, match="format"):
        HeldoutLedger.model_validate_json(dumps(whole))
