"""Files whole or not at all; strict JSON both ways; archives that depend on nothing but their members."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from assay.core.errors import RecordError
from assay.core.records import Interval
from assay.core.storage import files, json, tables
from assay.core.storage.yaml import read_yaml


def test_a_failed_write_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    files.write_text(path, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write_text(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('{"a": NaN}', "NaN"),
        ('{"a": 1, "a": 2}', "duplicate"),
        ("{", "Expecting"),
        ("[" * 100_000, "deeper than 64"),
        ('{"a": 1e400}', "beyond a double"),
        ('{"a": "\\ud800"}', "surrogate"),
        ("[" * 65 + "]" * 65, "deeper than 64"),
    ],
)
def test_what_is_not_strict_json_is_refused_with_its_line(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"ok": 1}\n' + text + "\n")
    with pytest.raises(RecordError) as caught:
        list(json.read_jsonl(path, fix="write it again"))
    assert "line 2" in str(caught.value)
    assert word.lower() in str(caught.value).lower()


def test_a_line_separator_inside_a_string_does_not_split_a_record(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    json.write_jsonl(path, [{"text": "a\u2028b\u0085c"}])
    assert list(json.read_jsonl(path, fix="")) == [{"text": "a\u2028b\u0085c"}]


def test_nan_never_reaches_disk(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"NaN|nan|Out of range"):
        json.write_json(tmp_path / "x.json", {"a": float("nan")})
    with pytest.raises(RecordError, match="finite"):
        tables.csv_text([{"a": float("inf")}], ["a"])


def test_a_record_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    json.write_json(tmp_path / "x.json", {"value": 1.0, "low": 0.5, "high": 1.5, "n": 3, "note": "?"})
    with pytest.raises(RecordError, match="note"):
        json.read_record(tmp_path / "x.json", Interval, fix="")


def test_records_written_and_read_are_equal(tmp_path: Path) -> None:
    record = Interval(value=0.1, low=None, high=0.3, n=4)
    json.write_jsonl(tmp_path / "x.jsonl", [record, record])
    assert json.read_records(tmp_path / "x.jsonl", Interval, fix="") == [record, record]


def test_a_float_in_a_table_reads_back_to_the_same_bits() -> None:
    assert tables.csv_text([{"x": 0.1 + 0.2}], ["x"]) == "x\n0.30000000000000004\n"


def test_yaml_reads_1e_minus_6_as_a_number(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("lr: 1e-6\n")
    assert read_yaml(tmp_path / "p.yaml", fix="") == {"lr": 1e-6}


def test_a_writer_that_is_killed_leaves_what_the_next_sweep_takes_and_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    tables.write_csv(path, [{"step": 1}], ["step"])
    child = os.fork()
    if child == 0:
        files.os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[attr-defined,assignment]
        tables.write_csv(path, [{"step": 2}], ["step"])
        os._exit(0)
    os.waitpid(child, 0)
    (left,) = (name.name for name in tmp_path.iterdir() if name != path)
    assert left.startswith(f".table.csv.{child}-") and left.endswith(".part")
    assert files.sweep(tmp_path, tmp_path / "nowhere") == [left]
    assert [name.name for name in tmp_path.iterdir()] == ["table.csv"] and path.read_text() == "step\n1\n"


def test_a_sweep_takes_nothing_that_is_not_a_dead_writers(tmp_path: Path) -> None:
    nobody, me = 2**22 + 1, os.getpid()
    kept = [
        f".a.json.{me}-abcdefgh.part",
        ".a.json.abcdefgh",
        f"a.json.{nobody}-abcdefgh.part",
        ".hidden",
        f".a.json.{nobody}-ABCDEFGH.part",
        f".a.json.{nobody}-abcdefg.part",
        f".x.{nobody}-abcdefgh.part.txt",
    ]
    gone = [f".a.json.{nobody}-abcdefgh.part", f".a.json.{me}-old_old_.part"]
    for name in kept + gone:
        (tmp_path / name).write_bytes(b"x")
    os.utime(tmp_path / gone[1], (1.0, 1.0))  # the number of its process is another's by now
    (tmp_path / f"folder/.deep.{nobody}-abcdefgh.part").parent.mkdir()
    (tmp_path / f"folder/.deep.{nobody}-abcdefgh.part").write_bytes(b"x")
    assert files.sweep(tmp_path) == sorted(gone)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, "folder"])
    assert len(list((tmp_path / "folder").iterdir())) == 1
