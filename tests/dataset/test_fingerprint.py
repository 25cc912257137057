"""A fingerprint says what the data are; where they lie and in which order does not matter, content does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.config.settings import AuditSettings
from assay.core.errors import DataError
from assay.core.storage.json import dumps, read_record
from assay.rollout.audit.audit import Audited, audit, refuse_unusable
from assay.rollout.dataset.fingerprint import Fingerprint, dataset_sha256, enforce, fingerprint
from assay.rollout.dataset.schema_files import SchemaFiles
from assay.rollout.dataset.source import DataFile, read_lines, resolved
from assay.rollout.dataset.verified import check_sums, covered, parse_sums, sums_text
from assay_tasks.collider import Collider, ColliderSettings, generate
from tests import own_data
from tests.house import ROOT

TASK = Collider(ColliderSettings(surface="compact", max_turns=8, shaping=0.0, gamma=1.0))
ROWS = generate("train", 6, max_turns=8, labels=("test",))
OTHER = generate("heldout", 6, max_turns=8, labels=("test",))
STRICT = AuditSettings.model_validate(dict.fromkeys(AuditSettings.model_fields, "refuse"))


def source(rows: Sequence[Mapping[str, Any]], folder: Path = ROOT) -> DataFile:
    reading = read_lines([json.dumps(row).encode() for row in rows], where="x")
    schemas = SchemaFiles(folder, folder)
    return DataFile([resolved(line, schemas) for line in reading.lines], reading.refused, reading)


def audited(**splits: Sequence[Mapping[str, Any]]) -> Audited:
    return audit(TASK, {name: source(rows) for name, rows in splits.items()}, STRICT)


def of(train: Sequence[Mapping[str, Any]], heldout: Sequence[Mapping[str, Any]] = OTHER) -> Fingerprint:
    sources = {"train": source(train), "heldout": source(heldout)}
    found = audit(TASK, sources, STRICT)
    return fingerprint("collider", sources, found.kept, found.dropped, None, 0.6)


def test_the_order_of_records_and_keys_does_not_change_the_fingerprint() -> None:
    turned = [dict(reversed(row.items())) for row in reversed(ROWS)]
    assert of(turned).dataset_sha256 == of(ROWS).dataset_sha256


def test_one_record_less_changes_the_fingerprint() -> None:
    assert of(ROWS[1:]).dataset_sha256 != of(ROWS).dataset_sha256


def test_the_shipped_collider_data_are_what_they_were_in_the_committed_evidence() -> None:
    committed = json.loads((ROOT / "evidence/results/data/fingerprint.json").read_text())
    if committed["task"] != "collider":
        pytest.skip("the committed evidence is of another task")
    splits = {
        path.stem: source([json.loads(line) for line in path.read_text().split("\n") if line])
        for path in sorted((ROOT / "data/collider").glob("*.jsonl"))
    }
    found = audit(TASK, splits, STRICT)
    assert (
        fingerprint("collider", splits, found.kept, found.dropped, None, 0.6).dataset_sha256
        == committed["dataset_sha256"]
    )


def test_a_scenario_in_two_splits_is_a_leak_and_refused() -> None:
    checked = audited(train=ROWS, heldout=[*OTHER, ROWS[0]]).report
    assert checked.kinds["leak"].count == 1
    with pytest.raises(DataError, match=ROWS[0]["id"]):
        refuse_unusable(checked, "data")


def test_a_repeated_record_is_refused() -> None:
    checked = audited(train=[*ROWS, ROWS[0]], heldout=OTHER).report
    assert checked.kinds["duplicate_record"].count == 1
    with pytest.raises(DataError, match="duplicate_record"):
        refuse_unusable(checked, "data")


def test_an_unexpected_fingerprint_is_refused_where_one_is_expected() -> None:
    found = of(ROWS)
    enforce(found, found.dataset_sha256, "data")
    enforce(found, None, "data")
    with pytest.raises(DataError, match="expected_dataset_sha256"):
        enforce(found, "f" * 64, "data")


def test_a_blocklist_is_part_of_what_the_data_are() -> None:
    records = {"train": "1" * 64}
    assert (
        len(
            {
                dataset_sha256(records, None),
                dataset_sha256(records, "2" * 64),
                dataset_sha256(records, "3" * 64),
            }
        )
        == 3
    )


def digests(root: Path, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted(entry.digest for entry in source(rows, root).entries)


def test_where_schema_files_lie_does_not_change_a_record(tmp_path: Path) -> None:
    own_data.write_data(tmp_path)
    shutil.move(tmp_path / "data/mine/schemas", tmp_path / "data/mine/moved")
    moved = digests(tmp_path / "data/mine", [own_data.row(1, schema_path="moved/person.json")])
    own_data.write_data(tmp_path)
    assert digests(tmp_path / "data/mine", [own_data.row(1)]) == moved


@pytest.mark.parametrize("name", list(own_data.SCHEMAS))
def test_every_schema_file_that_a_record_reaches_is_part_of_it(tmp_path: Path, name: str) -> None:
    folder = own_data.write_data(tmp_path)
    before = digests(folder, [own_data.row(1)])
    path = folder / name
    path.write_bytes(path.read_bytes() + b"\n")
    assert digests(folder, [own_data.row(1)]) != before


@given(st.permutations(range(5)), st.randoms(use_true_random=False))
def test_no_order_of_records_or_keys_changes_any_digest(order: list[int], chance: Any) -> None:
    rows = [own_data.row(number, schema_path=None, schema={"type": "object"}) for number in order]
    shuffled = []
    for row in rows:
        items = list(row.items())
        chance.shuffle(items)
        shuffled.append(dict(items))
    straight = [own_data.row(number, schema_path=None, schema={"type": "object"}) for number in range(5)]
    assert digests(ROOT, shuffled) == digests(ROOT, straight)


def test_a_fingerprint_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    found = of(ROWS).model_copy(update={"cached": {"a": "0"}})
    (tmp_path / "f.json").write_text(dumps(found))
    assert read_record(tmp_path / "f.json", Fingerprint, fix="") == found


@pytest.mark.parametrize(
    "line",
    [
        "xyz  a.jsonl",
        "0" * 63 + "  a.jsonl",
        "0" * 64 + "  ",
        "0" * 64 + " a.jsonl",
        "0" * 64 + "  a\n" + "1" * 64 + "  a",
    ],
)
def test_a_damaged_checksum_file_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(DataError, match=f"line {line.count(chr(10)) + 1}"):
        parse_sums(line + "\n", "SHA256SUMS")


def test_checksums_are_read_as_windows_and_sha256sum_with_a_dot_write_them() -> None:
    assert parse_sums("0" * 64 + "  ./schemas/a.json\r\n", "x") == {"schemas/a.json": "0" * 64}


def test_checksums_are_read_back_as_they_were_written() -> None:
    sums = {"b c.jsonl": "0" * 64, "a/b.json": "1" * 64}
    assert parse_sums(sums_text(sums), "x") == sums


def test_checksums_name_the_file_that_differs() -> None:
    with pytest.raises(DataError, match=r"b\.jsonl"):
        check_sums({"a.jsonl": "1", "b.jsonl": "2"}, {"a.jsonl": "1", "b.jsonl": "3"}, "data")


def test_every_file_needs_a_checksum_but_what_tells_of_the_data_and_what_editors_leave() -> None:
    names = [
        "SHA256SUMS",
        "README.md",
        "a.jsonl",
        "schemas/a.json",
        "schemas/README.md",
        ".DS_Store",
        "s/.hidden.json",
    ]
    assert covered(names, ["s/.hidden.json"]) == [
        "a.jsonl",
        "s/.hidden.json",
        "schemas/README.md",
        "schemas/a.json",
    ]
