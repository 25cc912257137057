"""Data as large or as oddly written as they come: another dataset of 20,000 records, prompts of 500,000
characters, CRLF."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.audit.audit import Audited
from assay.core.errors import DataError
from assay.pipeline.inputs import items_of
from assay.stages import fingerprint
from assay.tools.own_data import audit as tool
from tests import own_data
from tests.own_data import jsonl, row

MANY, LONG = 20_000, 500_000


def audited(root: Path, content: bytes, **actions: str) -> Audited:
    """Return what the audit makes of a tasks file beside its schema files."""
    own_data.write_data(root)
    project = own_data.project(root, **actions)
    (root / own_data.DATA / "tasks.jsonl").write_bytes(content)
    return tool.run(project, root / own_data.DATA / "tasks.jsonl", root / "report")


def report_of(root: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads((root / "report/audit.json").read_bytes())
    return found


@pytest.mark.long
def test_another_dataset_of_twenty_thousand_records_is_counted_to_the_last(tmp_path: Path) -> None:
    rows = [row(number) for number in range(MANY)]
    rows[12_345] = row(12_345, gold={"name": "", "age": 1})  # which breaks the schema
    with pytest.raises(DataError, match="12346"):
        audited(tmp_path, jsonl(rows), gold_breaks_schema="refuse")
    told = audited(tmp_path, jsonl([*rows[:12_345], *rows[12_346:], rows[7]]), duplicate_record="drop")
    assert told.report.n_records == MANY
    assert told.report.kept == {"tasks": MANY - 1} and told.report.dropped == {"tasks": 1}


@pytest.mark.long
def test_twenty_thousand_records_are_fingerprinted_and_come_out_as_items(tmp_path: Path) -> None:
    rows = jsonl([row(number) for number in range(MANY)])
    held = [row(number) for number in range(MANY, MANY + 8)]
    own_data.write_data(tmp_path, {"train": rows, "validation": jsonl(held[:4]), "heldout": jsonl(held[4:])})
    project = own_data.project(tmp_path)
    fingerprint.run(project)
    items = items_of(project, "train")
    assert len(items) == len({item.id for item in items}) == MANY


def test_prompts_of_half_a_million_characters_are_counted_and_refused_by_line(tmp_path: Path) -> None:
    rows = [row(0), row(1, prompt="x" * LONG), row(2, prompt="語" * LONG), row(3)]
    with pytest.raises(DataError, match="long_prompt"):
        audited(tmp_path, jsonl(rows), long_prompt="refuse")
    found = report_of(tmp_path)["kinds"]["long_prompt"]
    assert isinstance(found, dict) and found["count"] == 2
    assert [each["line"] for each in found["first"]] == [2, 3]


def test_prompts_of_half_a_million_characters_are_dropped_where_that_is_asked_for(tmp_path: Path) -> None:
    told = audited(tmp_path, jsonl([row(0), row(1, prompt="x" * LONG), row(3)]), long_prompt="drop")
    assert told.report.kept == {"tasks": 2} and told.report.dropped == {"tasks": 1}


def test_crlf_files_are_the_same_records(tmp_path: Path) -> None:
    rows = jsonl([row(number) for number in range(20)])
    plain = audited(tmp_path / "plain", rows).report
    crlf = audited(tmp_path / "crlf", rows.replace(b"\n", b"\r\n")).report
    assert crlf.kept == plain.kept == {"tasks": 20}
    assert {name: kind.count for name, kind in crlf.kinds.items()} == {
        name: kind.count for name, kind in plain.kinds.items()
    }


def test_a_dataset_of_crlf_files_gives_the_items_of_the_plain_one(tmp_path: Path) -> None:
    found = []
    for name, end in (("plain", b"\n"), ("crlf", b"\r\n")):
        splits = {
            split: jsonl([row(number) for number in numbers]).replace(b"\n", end)
            for split, numbers in own_data.SPLITS.items()
        }
        own_data.write_data(tmp_path / name, splits)
        project = own_data.project(tmp_path / name)
        fingerprint.run(project)
        found.append([items_of(project, split) for split in own_data.SPLITS])
    assert found[0] == found[1]
