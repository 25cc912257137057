"""Every line of a tasks file is a row, blank, or refused with its number and reason; nothing is lost, nothing
is endless."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.checks.own_data import audit as tool
from assay.core.errors import DataError
from assay.rollout.audit.audit import Audited
from assay.rollout.dataset.source import MAX_LINE_BYTES, LinesRead, read_lines, read_tasks
from assay.stages import fingerprint
from tests import own_data
from tests.house import ROOT
from tests.own_data import jsonl, row


def reading(content: bytes, **more) -> LinesRead:  # type: ignore[no-untyped-def]
    return read_lines(content.split(b"\n"), where="x.jsonl", **more)


def test_line_ends_of_windows_are_read() -> None:
    found = reading(b'{"a": "x"}\r\n{"a": "y"}\r\n')
    assert [line.row for line in found.lines] == [{"a": "x"}, {"a": "y"}]
    assert not found.refused


def test_separators_inside_a_string_do_not_split_a_record() -> None:
    text = "a\u2028b\u2029c\u0085d"
    assert reading(json.dumps({"t": text}, ensure_ascii=False).encode()).lines[0].row == {"t": text}


def test_blank_lines_are_counted_and_line_numbers_stay_those_of_the_file() -> None:
    found = reading(b'\n \t\r\n{"a": 1}\n\n{"a": 2}')
    assert (found.n_blank, found.first_blank) == (3, [1, 2, 4])
    assert [line.number for line in found.lines] == [3, 5]


def test_a_byte_order_mark_is_passed_over_and_told() -> None:
    found = reading(b'\xef\xbb\xbf{"a": 1}')
    assert found.byte_order_mark
    assert found.lines[0].row == {"a": 1}


def test_lines_left_out_by_the_audit_are_not_even_parsed() -> None:
    found = reading(b'{"a": 1}\nNaN\n{"a": 2}', skip=[2])
    assert [line.number for line in found.lines] == [1, 3]
    assert not found.refused


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
def test_a_file_in_another_encoding_is_refused_as_a_whole_with_the_command_that_converts_it(
    encoding: str,
) -> None:
    content = ("\ufeff" if encoding == "utf-16-be" else "").encode(encoding) + '{"a": 1}'.encode(encoding)
    with pytest.raises(DataError, match="iconv"):
        reading(content)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "Infinity"),
        (b'{"a": 1e999}', "1e999"),
        (b'{"a": 1, "a": 2}', "duplicate"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"\\ud800": 1}', "surrogate"),
        (b'\xef\xbb\xbf{"a": 1}', "Expecting value"),
        (b'{"a": "\xed\xa0\x80"}', "UTF-8"),
        (b'{"a": "\xff"}', "UTF-8"),
        (b'{"a": "\x00"}', "control"),
        (b"[1]", "a list"),
        (b'"text"', "a string"),
        (b"null", "null"),
        (b"12", "a number"),
        (b'{"a": 1} {"b": 2}', "Extra data"),
        (b'{"a": 1', "delimiter"),
        (b"{'a': 1}", "quotes"),
        (b"id,prompt", "Expecting value"),
        (b"[" * 100_000, "nested"),
        (b'{"a":' * 100_000, "nested"),
        (b"9" * 5000, "beyond a double"),
    ],
)
def test_what_is_no_strict_object_is_refused_with_number_and_reason(line: bytes, word: str) -> None:
    found = reading(b'{"ok": 1}\n' + line)
    assert [refused.number for refused in found.refused] == [2]
    assert word in found.refused[0].reason
    assert len(found.lines) == 1


def test_the_body_of_a_row_knows_neither_the_order_of_keys_nor_the_schema_path() -> None:
    one, other = reading(b'{"a": 1, "b": 2, "schema_path": "x"}\n{"schema_path": "y", "b": 2, "a": 1}').lines
    assert one.body == other.body


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused_by_line_and_never_fail_otherwise(content: bytes) -> None:
    try:
        found = reading(content)
    except DataError:
        return
    assert len(found.lines) + len(found.refused) + found.n_blank == content.count(b"\n") + 1


def test_the_digest_is_that_of_the_file_even_where_a_line_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n' + b" " * (MAX_LINE_BYTES + 5) + b"\n" + b'{"a": 2}')
    found = read_tasks(path, where="x", fix="")
    assert found.file_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert [line.number for line in found.lines] == [1, 3]
    assert "8,000,000" in found.refused[0].reason


@pytest.mark.long
def test_one_line_of_half_a_gigabyte_costs_no_more_memory_than_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    with path.open("wb") as stream:
        stream.truncate(500_000_000)
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from assay.rollout.dataset.source import read_tasks\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "found = read_tasks(Path(sys.argv[1]), where='x', fix='')\n"
        "assert found.refused[0].number == 1 and not found.lines\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, env=environment, check=True
    )
    assert int(done.stdout) * 1024 < 10 * MAX_LINE_BYTES


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.jsonl")
    with pytest.raises(DataError, match="pipe"):
        read_tasks(tmp_path / "x.jsonl", where="x", fix="")


def test_a_missing_file_and_a_folder_are_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="name a file"):
        read_tasks(tmp_path / "none.jsonl", where="x", fix="name a file")
    with pytest.raises(DataError, match="a folder"):
        read_tasks(tmp_path, where="x", fix="")


def test_an_empty_file_holds_no_record(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").touch()
    found = read_tasks(tmp_path / "x.jsonl", where="x", fix="")
    assert not found.lines and not found.refused and not found.n_blank


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
    told = audited(tmp_path, jsonl([*rows[1:], rows[7]]), duplicate_record="drop")
    assert told.report.n_records == MANY
    assert told.report.kept == {"tasks": MANY - 1} and told.report.dropped == {"tasks": 1}
    rows[1234] = row(1234, gold={"name": "", "age": 1})  # which breaks the schema
    with pytest.raises(DataError, match="1235"):
        audited(tmp_path, jsonl(rows[:2000]), gold_breaks_schema="refuse")


@pytest.mark.long
def test_twenty_thousand_records_are_fingerprinted_and_come_out_as_items(tmp_path: Path) -> None:
    rows = jsonl([row(number) for number in range(MANY)])
    held = [row(number) for number in range(MANY, MANY + 8)]
    own_data.write_data(tmp_path, {"train": rows, "validation": jsonl(held[:4]), "heldout": jsonl(held[4:])})
    project = own_data.project(tmp_path)
    fingerprint.run(project)
    items = project.items("train")
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
        found.append([project.items(split) for split in own_data.SPLITS])
    assert found[0] == found[1]
