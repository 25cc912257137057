"""Two logs of trainings: the first step and link that differ are found, and a log that was changed is
refused."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Container
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import RecordError
from assay.training.log.step_chain import LINKS, START, chain_of, check_chain, first_difference, first_numbers


def chained(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with chains that follow from each other."""
    chain, made = START, []
    for row in rows:
        chain = chain_of(chain, row)
        made.append(row | {"chain": chain})
    return made


def log(n: int, changed: Container[tuple[int, str]] = ()) -> list[dict[str, Any]]:
    """Return a log of n steps; the named (step, link) pairs have digests of their own."""
    rows = []
    for step in range(1, n + 1):
        names = {link: f"{step} {link}{' changed' if (step, link) in changed else ''}" for link in LINKS}
        digests = {link: hashlib.sha256(name.encode()).hexdigest() for link, name in names.items()}
        rows.append({"step": step, "loss": 1 / step, "item_ids": [f"item{step}"], "digests": digests})
    return chained(rows)


def test_a_chain_is_the_sha256_of_the_one_before_and_the_row_as_canonical_json() -> None:
    row = {"step": 1, "loss": 0.5, "digests": {"b": "x", "a": "y"}, "retries": 3, "chain": "old"}
    text = f'["{START}",{{"digests":{{"a":"y","b":"x"}},"loss":0.5,"step":1}}]'
    assert chain_of(START, row) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("name", ["loss", "item_ids", "step"])
def test_a_number_that_was_changed_by_hand_breaks_the_chain(name: str) -> None:
    edited = log(5)
    edited[2][name] = 3 if name == "step" else 0.125
    if name == "step":
        edited[2] |= {"components": {"reward": 1.0}}
    with pytest.raises(RecordError, match="row 3 of A does not follow from row 2"):
        check_chain(edited, "A")


def test_equal_runs_have_no_difference() -> None:
    assert first_difference(log(7), log(7)) is None
    assert first_numbers(log(7), log(7)) is None


@given(
    n=st.integers(1, 8),
    step=st.integers(1, 8),
    link=st.sampled_from(LINKS),
    later=st.sampled_from([(), LINKS]),
)
def test_the_first_step_and_link_that_differ_are_found_whatever_differs_after(
    n: int, step: int, link: str, later: tuple[str, ...]
) -> None:
    step = min(step, n)
    changed = {(step, name) for name in LINKS[LINKS.index(link) :]} | {
        (s, k) for s in range(step + 1, n + 1) for k in later
    }
    for a, b in ((log(n), log(n, changed)), (log(n, changed), log(n))):
        found = first_difference(a, b)
        assert found is not None
        assert (found.step, found.link) == (step, link)
        assert found.still_equal == LINKS[: LINKS.index(link)]
        assert found.digests == (a[step - 1]["digests"][link], b[step - 1]["digests"][link])
        assert found.item_ids == (tuple(a[step - 1]["item_ids"]), tuple(b[step - 1]["item_ids"]))


def test_a_run_that_ends_earlier_is_told_with_the_first_step_it_lacks() -> None:
    for a, b in ((log(3), log(5)), (log(5), log(3))):
        found = first_difference(a, b)
        assert found is not None
        assert (found.step, found.link, found.n_steps) == (4, None, (len(a), len(b)))
        assert found.still_equal == ()
        assert found.item_ids == (((), ("item4",)) if len(a) == 3 else (("item4",), ()))


@pytest.mark.parametrize(("at", "expected"), [(2, 2), (4, 4), (6, 6)])
def test_the_first_other_number_that_differs_is_told_wherever_it_is(at: int, expected: int) -> None:
    b = log(6, {(4, "rewards")})
    b[at - 1] |= {"loss": 9.0, "kl_probe": 0.5}
    found = first_difference(log(6), chained(b))
    assert found is not None and found.numbers is not None
    assert (found.step, found.link) == (4, "rewards")
    assert (found.numbers.step, found.numbers.name, found.numbers.values) == (
        expected,
        "kl_probe",
        (None, 0.5),
    )
    assert found.numbers.others == 1


def test_equal_runs_with_another_number_are_equal_runs_with_another_number() -> None:
    a, b = log(3), log(3)
    b[1]["loss"] = 7.5
    assert first_difference(a, chained(b)) is None
    found = first_numbers(a, b)
    assert found is not None
    assert (found.step, found.name, found.values) == (2, "loss", (a[1]["loss"], 7.5))


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("number", [1, 17, 20])
def test_a_digest_that_was_changed_by_hand_is_named_with_its_row(link: str, number: int) -> None:
    edited = log(20)
    edited[number - 1]["digests"] |= {link: "f" * 64}
    before = "row 16" if number == 17 else "row 19" if number == 20 else "the start"
    with pytest.raises(RecordError, match=f"row {number} of A does not follow from {before}"):
        first_difference(edited, log(20))
    with pytest.raises(RecordError, match=f"row {number} of B does not follow from {before}"):
        first_difference(log(20), edited)


def test_a_row_that_was_changed_together_with_its_chain_shows_in_the_next_row() -> None:
    edited = log(20)
    edited[15]["digests"] |= {"rewards": "f" * 64}
    edited[15]["chain"] = chain_of(edited[14]["chain"], edited[15])
    with pytest.raises(RecordError, match="row 17 of A does not follow from row 16"):
        check_chain(edited, "A")


def _without(rows: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    return rows[: number - 1] + rows[number:]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (_without(log(5), 1), "row 1 of A: expected step 1, found 2"),
        (_without(log(5), 3), "row 3 of A: expected step 3, found 4"),
        ([*log(5), log(5)[4]], "row 6 of A: expected step 6, found 5"),
        ([{"step": True}], "expected step 1, found True"),
        ([["step", 1]], "expected step 1, found None"),
        ([{"step": 1, "loss": 0.5}], "expected digests and a chain, found none"),
        (
            [{"step": 1, "chain": START, "digests": {}}],
            "row 1 of A, digests: expected one sha256 each of prompts, ",
        ),
        ([{"step": 1, "chain": START, "digests": dict.fromkeys(LINKS, "F" * 64)}], "one sha256 each"),
        ([{"step": 1, "chain": START, "digests": dict.fromkeys(LINKS)}], "one sha256 each"),
        (
            [{"step": 1, "chain": 7, "digests": dict.fromkeys(LINKS, START)}],
            "row 1 of A does not follow from the start",
        ),
    ],
)
def test_a_log_that_is_not_whole_is_refused_with_its_row(rows: Any, words: str) -> None:
    with pytest.raises(RecordError) as caught:
        first_difference(rows, log(5))
    assert words in str(caught.value)
    assert "Fix: " in str(caught.value)


def test_any_change_of_any_link_changes_every_later_chain() -> None:
    plain = log(6)
    for step in range(1, 7):
        for link in LINKS:
            other = copy.deepcopy(plain)
            other[step - 1]["digests"][link] = "e" * 64
            chains = [row["chain"] for row in chained(other)]
            assert [one["chain"] == chain for one, chain in zip(plain, chains, strict=True)] == [
                n < step for n in range(1, 7)
            ]
