"""What `assay judge` cannot read it refuses with one message: what was expected, what was found, where, and a
way out."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import AssayError
from assay.rollout.tables import lines
from assay.verdict.judge.command import JudgeRequest, judge_files
from tests.tools.judged_files import (
    as_csv,
    as_inspect_eval,
    as_inspect_json,
    as_jsonl,
    as_parquet,
    as_traces,
    results,
)

GOOD = [{"item": f"q{k}", "score": k % 2} for k in range(20)]
LINE = b'{"item": "q0", "score": 1}\n'
FILES: dict[str, tuple[str, bytes, str]] = {
    "torn": (
        "jsonl",
        LINE + b'{"item": "q1", "sco',
        "line 2: expected JSON, found one that ends too early.\nFix: the file is torn",
    ),
    "no json": (
        "jsonl",
        LINE + b"hello\n",
        "from column 1 on: 'hello\\n'.\nFix: correct it there, or name a file",
    ),
    "no object": ("jsonl", b"[1, 2]\n", "expected a JSON object a line, found list"),
    "nan": (
        "jsonl",
        LINE + b'{"item": "q1", "score": NaN}\n',
        "line 2: expected a finite number as score, found nan",
    ),
    "infinite": ("csv", b"item,score\nq0,inf\n", "line 2: expected a finite number as score, found 'inf'"),
    "beyond a double": (
        "jsonl",
        b'{"item": "q1", "score": 1' + b"0" * 400 + b"}\n",
        "expected a finite number",
    ),
    "digits of another script": ("csv", "item,score\nq0,١\n".encode(), "a finite number as score, found '١'"),
    "full-width digits": ("csv", "item,score\nq0,１\n".encode(), "a finite number as score, found '１'"),
    "digits with underscores": ("csv", b"item,score\nq0,1_0\n", "a finite number as score, found '1_0'"),
    "a word": ("csv", b"item,score\nq0,good\n", "expected a finite number as score, found 'good'"),
    "twice": (
        "csv",
        b"item,score\nq0,1\nq1,1\nq0,0\n",
        "line 4: expected each item once, or a column draw, found 'q0' again",
    ),
    "a draw twice": (
        "csv",
        b"item,draw,score\nq0,1,1\nq0,1,1\n",
        "each draw of an item once, found draw 1 of 'q0' twice",
    ),
    "latin": (
        "csv",
        "item,score\ncaf\u00e9,1\n".encode("latin-1"),
        "line 2: expected UTF-8, found byte 0xe9",
    ),
    "utf-16": ("csv", "item,score\nq0,1\n".encode("utf-16"), "expected UTF-8, found UTF-16"),
    "gzip": ("jsonl", gzip.compress(LINE), "line 1: expected UTF-8, found gzip.\nFix: unpack it first"),
    "gzip by its name": ("jsonl.gz", gzip.compress(LINE), "found .gz.\nFix: unpack it first"),
    "a name twice": (
        "jsonl",
        b'{"item": "q0", "score": 1, "score": 0}\n',
        "line 1: expected JSON, found 'score' twice in one object",
    ),
    "half a character": (
        "jsonl",
        LINE + b'{"item": "\\ud800", "score": 1}\n',
        "line 2: expected whole characters, found half a character",
    ),
    "half a character in a label": (
        "jsonl",
        b'{"item": "q0", "score": 1, "task": "\\udc00"}\n',
        "line 1: expected whole characters, found half a character",
    ),
    "zero bytes": ("jsonl", LINE + b"\0\0\0\n", "line 2: expected text, found a zero byte"),
    "long": (
        "jsonl",
        LINE + b'{"item": "' + b"x" * 70_000 + b'", "score": 1}\n',
        "line 2: expected lines of at most",
    ),
    "deep": ("jsonl", b'{"item": ' + b"[" * 60_000, "line 1: expected JSON"),
    "cells": ("csv", b"item,score\nq0,1,2\n", "line 2: expected 2 cells, as in the head, found 3"),
    "a quote": ("csv", b'item,score\n"q0,1\n', "expected CSV"),
    "columns twice": ("csv", b"item,item\nq0,1\n", "expected columns with names of their own"),
    "other columns": (
        "csv",
        b"name,value\nq0,1\n",
        "a column for the success or score, found the columns name, value",
    ),
    "no item": ("csv", b"item,score\n,1\n", "line 2: expected an item on every row"),
    "two models": (
        "csv",
        b"item,score,model\nq0,1,a\nq1,1,b\n",
        "expected the results of one model in each arm, found a, b",
    ),
    "two kinds": ("jsonl", LINE + b'{"doc_id": 1}\n', "line 2: expected an item on every row"),
    "empty": ("csv", b"", "expected at least one result, found none"),
    "a head alone": ("csv", b"item,score\n", "expected at least one result, found none"),
    "a draw of a half": ("csv", b"item,draw,score\nq0,0.5,1\n", "expected a whole number from 0 on as draw"),
    "torn eval": ("eval", b"PK\x03\x04 torn", "expected a log of inspect"),
    "torn parquet": ("parquet", b"PAR1 torn", "expected Parquet"),
    "torn log": ("json", b'{"version": 2, "eval": {"task"', "expected JSON"),
    "another ending": ("txt", b"item,score\n", "expected a file that ends in"),
}


def refused(path: Path, tmp_path: Path, **asked: object) -> str:
    """Return the one message about a file as the second arm."""
    before = as_csv(tmp_path / "before.csv", GOOD)
    with pytest.raises(AssayError) as error:
        judge_files(before, path, JudgeRequest(**asked))  # type: ignore[arg-type]
    assert "Fix: " in str(error.value) and len(str(error.value)) < 1000
    return str(error.value)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_read_gets_one_message(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 65_536)
    ending, content, told = FILES[name]
    path = tmp_path / f"after.{ending}"
    path.write_bytes(content)
    assert told in refused(path, tmp_path)


def test_nothing_there_and_folders_without_results_are_said(tmp_path: Path) -> None:
    assert "expected a file or folder of results, found nothing" in refused(tmp_path / "none.csv", tmp_path)
    (tmp_path / "folder").mkdir()
    assert "expected a file that ends in" in refused(tmp_path / "folder", tmp_path)


def test_several_scores_in_a_file_have_to_be_chosen_from(tmp_path: Path) -> None:
    log = as_inspect_json(tmp_path / "log.json", results("after", 0.5))
    value = json.loads(log.read_text(encoding="utf-8"))
    value["eval"]["scorers"].append({"name": "judge"})
    for sample in value["samples"]:
        sample["scores"]["judge"] = {"value": {"style": 1, "truth": 0}}
    log.write_text(json.dumps(value), encoding="utf-8")
    assert "expected one scorer, found match, judge" in refused(log, tmp_path)
    before = log.rename(tmp_path / "first.json")
    found = judge_files(before, before, JudgeRequest(metric="judge.truth"))[2].claim
    assert found.after is not None and found.after.value == 0.0
    with pytest.raises(AssayError, match="expected the scorer truth, found match, judge"):
        judge_files(before, before, JudgeRequest(metric="truth"))
    samples = as_jsonl(
        tmp_path / "samples_sums_1.jsonl",
        [
            {
                "doc_id": 0,
                "doc": {},
                "filtered_resps": [],
                "metrics": ["acc", "acc_norm"],
                "acc": 1,
                "acc_norm": 0,
                "filter": "none",
            }
        ],
    )
    assert "expected one metric, found acc, acc_norm" in refused(samples, tmp_path)
    row = {"doc_id": 0, "doc": {}, "filtered_resps": [], "metrics": ["acc"], "acc": 1, "filter": "strict"}
    both = as_jsonl(tmp_path / "samples_both_1.jsonl", [row, {**row, "acc": 0, "filter": "loose"}])
    with pytest.raises(
        AssayError,
        match=r"expected the answers of one filter, found strict and loose(.|\n)*--metric acc,strict",
    ):
        judge_files(both, both, JudgeRequest())
    found = judge_files(both, both, JudgeRequest(metric="acc,loose"))[2].claim
    assert found.after is not None and found.after.value == 0.0


@pytest.mark.parametrize("part", ["header.json", "samples/q000_epoch_1.json"])
def test_a_log_of_inspect_with_a_damaged_part_is_refused(part: str, tmp_path: Path) -> None:
    whole = as_inspect_eval(tmp_path / "whole.eval", results("after", 0.5))
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(tmp_path / "after.eval", "w") as new:
        for name in old.namelist():
            new.writestr(name, b'{"torn' if name == part else old.read(name))
    assert "expected JSON, found one that ends too early" in refused(tmp_path / "after.eval", tmp_path)


def test_a_log_of_inspect_with_a_flipped_bit_is_refused(tmp_path: Path) -> None:
    after = as_inspect_eval(tmp_path / "after.eval", results("after", 0.5))
    whole = after.read_bytes()
    for place in (100, 150, 200, 250):
        after.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        assert "expected" in refused(after, tmp_path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda row: row["traces"][0]["rewards"]["exact"].update(score=float("nan")),
            "a finite number as exact",
        ),
        (lambda row: row["traces"][0]["rewards"]["exact"].pop("weight"), "found one without weight"),
        (lambda row: row["traces"][0].update(nodes=["x"]), "found one of another shape"),
        (lambda row: row.update(traces=None), "found one of another shape"),
        (lambda row: row["traces"].append(row["traces"][0]), "expected rollouts of one agent"),
    ],
    ids=["nan", "no weight", "odd nodes", "no traces", "two agents"],
)
def test_a_damaged_trace_of_verifiers_is_refused(
    change: Callable[[dict[str, Any]], object], told: str, tmp_path: Path
) -> None:
    path = as_traces(tmp_path / "after.jsonl", results("after", 0.5))
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    change(rows[2])
    as_jsonl(path, rows)
    message = refused(path, tmp_path)
    assert "line 3: expected" in message and told in message


def test_rows_of_parquet_are_refused_like_others(tmp_path: Path) -> None:
    path = as_parquet(
        tmp_path / "after.parquet", [{"item": "q0", "score": 1.0}, {"item": "q1", "score": float("nan")}]
    )
    assert "row 2: expected a finite number as score, found nan" in refused(path, tmp_path)


@pytest.mark.parametrize(
    "asked",
    [
        {"bounds": "1"},
        {"bounds": "1,0"},
        {"rival": ["x"]},
        {"rival": ["after=a.csv"]},
        {"rival": ["x=none.csv"]},
    ],
    ids=str,
)
def test_what_is_asked_for_and_makes_no_sense_is_refused(asked: dict[str, object], tmp_path: Path) -> None:
    refused(as_csv(tmp_path / "after.csv", GOOD), tmp_path, **asked)


ODD: dict[str, tuple[str, object]] = {
    "a number of scorers": ("json", {"eval": {"task": "x", "scorers": 3}, "samples": [{"id": 1}]}),
    "a number for a plan": (
        "json",
        {"eval": {"task": "x", "model": "m", "config": 3, "task_args": [1]}, "plan": {"steps": 3},
         "status": "success", "samples": [{"id": 1, "scores": {"m": {"value": "C"}}}]},
    ),
    "traces by number": ("jsonl", {"task": 3, "traces": 3, "env": 3}),
    "a document by number": ("jsonl", {"doc": 3, "metric": 3, "model_response": 3}),
    "settings of traces by number": (
        "jsonl", {"task": {"data": {}}, "traces": [{"ok": True, "rewards": 3}], "env": 3, "ok": True}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_what_no_tool_writes_so_is_refused(name: str, tmp_path: Path) -> None:
    suffix, value = ODD[name]
    path = tmp_path / f"after.{suffix}"
    path.write_text(json.dumps(value), encoding="utf-8")
    assert "expected" in refused(path, tmp_path)


def test_a_path_that_no_file_system_takes_is_refused(tmp_path: Path) -> None:
    assert "expected a file or folder of results" in refused(tmp_path / ("x" * 5000), tmp_path)
