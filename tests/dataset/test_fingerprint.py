"""A fingerprint says what the data are; order does not matter, content does; splits must be apart."""

from __future__ import annotations

import pytest

from assay.dataset.checksums import check_sums, parse_sums
from assay.dataset.fingerprint import audit, enforce, fingerprint
from assay.errors import DataError
from assay.tasks.collider import Collider, ColliderSettings, generate

TASK = Collider(ColliderSettings(surface="compact", max_turns=8, shaping=0.0, gamma=1.0))
ROWS = generate("train", 6, max_turns=8, labels=("test",))
OTHER = generate("heldout", 6, max_turns=8, labels=("test",))


def of(train, heldout=OTHER):  # type: ignore[no-untyped-def]
    return fingerprint(TASK, {"train": ("0" * 64, train), "heldout": ("1" * 64, heldout)})


def items(**splits):  # type: ignore[no-untyped-def]
    return audit({name: [TASK.item(row) for row in rows] for name, rows in splits.items()})


def test_the_order_of_records_and_keys_does_not_change_the_fingerprint() -> None:
    turned = [dict(reversed(row.items())) for row in reversed(ROWS)]
    assert of(turned).dataset_sha256 == of(ROWS).dataset_sha256


def test_one_record_less_changes_the_fingerprint() -> None:
    assert of(ROWS[1:]).dataset_sha256 != of(ROWS).dataset_sha256


def test_a_scenario_in_two_splits_is_a_leak_and_refused() -> None:
    checked = items(train=ROWS, heldout=[*OTHER, ROWS[0]])
    assert checked.n_leaks == 1
    with pytest.raises(DataError, match=ROWS[0]["id"]):
        enforce(of(ROWS), checked, None, "data")


def test_a_repeated_record_is_refused() -> None:
    checked = items(train=[*ROWS, ROWS[0]], heldout=OTHER)
    assert checked.n_duplicate_ids == 1
    with pytest.raises(DataError, match="duplicate"):
        enforce(of(ROWS), checked, None, "data")


def test_an_unexpected_fingerprint_is_refused_where_one_is_expected() -> None:
    found, checked = of(ROWS), items(train=ROWS, heldout=OTHER)
    enforce(found, checked, found.dataset_sha256, "data")
    with pytest.raises(DataError, match="expected_sha256"):
        enforce(found, checked, "f" * 64, "data")


@pytest.mark.parametrize("line", ["xyz  a.jsonl", "0" * 63 + "  a.jsonl", "0" * 64 + "  ", "0" * 64 + " a.jsonl"])
def test_a_damaged_checksum_file_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(DataError, match="line 1"):
        parse_sums(line + "\n", "SHA256SUMS")


def test_checksums_name_the_file_that_differs() -> None:
    with pytest.raises(DataError, match=r"b\.jsonl"):
        check_sums({"a.jsonl": "1", "b.jsonl": "2"}, {"a.jsonl": "1", "b.jsonl": "3"}, "data")
