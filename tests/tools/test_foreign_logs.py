"""`assay runs health` on logs of other trainers: hacks ring by the rule that names them, sound trainings do
not, and a bad log is one message."""

from __future__ import annotations

import io
import json
import os
import time
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped,unused-ignore]
import pytest
from benchmarks import log_alarms
from rich.console import Console

from assay.cli.results import health
from assay.cli.tools.watch.foreign import run
from assay.core import console
from assay.core.errors import ConfigError, DataError
from assay.health.logs.answers import hedges, read_fields
from assay.health.logs.judging import judge_log
from assay.health.logs.reading import read_foreign
from assay.rollout.tables.columns import Columns
from assay.rollout.tables.lines import json_rows
from assay.verdict.judge.forms import Asked
from assay.verdict.judge.reading import read_arm
from tests.house import ROOT
from tests.tools.log_shapes import CLEAN, HACKS, Record, play


def written(path: Path, records: list[Record]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", sorted(CLEAN))
def test_a_sound_training_rings_no_rule(name: str, tmp_path: Path) -> None:
    judged = judge_log(read_foreign(written(tmp_path / "log.jsonl", play(CLEAN[name], steps=40))))
    assert judged.findings == () and len(judged.measured) >= 6


@pytest.mark.parametrize("name", sorted(HACKS))
def test_a_hack_rings_the_rule_that_names_it(name: str, tmp_path: Path) -> None:
    draw, rule = HACKS[name]
    judged = judge_log(read_foreign(written(tmp_path / "log.jsonl", play(draw, steps=40))))
    assert rule in [each.rule for each in judged.findings], judged.findings


def test_the_table_names_what_rang_and_what_could_not_be_measured_and_the_code_is_the_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(console, "_OUT", Console(file=shown, soft_wrap=True, highlight=False, markup=False))
    records = play(HACKS["hedged"][0], steps=40)
    for each in records:
        del each["success"]
    assert run(written(tmp_path / "log.jsonl", records)) == 4
    said = shown.getvalue()
    assert "of the completions at the end hedge" in said and "RED: 1 of" in said
    assert "reward_vs_success (rewards, and a column that tells right" in said
    assert "entropy, kl, clip, grad_norm (a column by step)" in said and said.count("not measured") == 1


def test_a_log_too_short_to_compare_is_not_called_green(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(console, "_OUT", Console(file=shown, soft_wrap=True, highlight=False, markup=False))
    assert run(written(tmp_path / "log.jsonl", play(CLEAN["learned"], steps=3))) == 5
    assert (
        "NOT MEASURED" in shown.getvalue()
        and "too short" in shown.getvalue()
        and "GREEN" not in shown.getvalue()
    )


GOOD = {"step": 1, "item": "a", "completion": "x", "reward": 1.0}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "an empty file"),
        (b"\xff\xfe{}", "line 1: expected UTF-8, found UTF-16"),
        (b"[1, 2]\n[3]\n", "line 1: expected a JSON object a line, found list"),
        (b'{"step": 1}\n{"step": 2}\n', "found only step"),
        (b'{"completion": "x", "reward": 1}\n', "step = None"),
        (b'{"step": 1.5, "completion": "x", "reward": 1}\n', "step = 1.5"),
        (b'{"step": 1, "completion": "x", "reward": NaN}\n', "reward = NaN, no finite number"),
        (b'{"step": 1, "completion": "x", "reward": "high"}\n', "reward = 'high', no finite number"),
        (b'{"step": 1,\n{"step": 2}\n', "line 1: expected JSON, found one that ends too early"),
        (b'{"step": 1e999, "completion": "x", "reward": 1}\n', "step = inf"),
        (b'{"step": 1, "completion": "x", "reward": -1e308}\n', "no finite number"),
        (b'{"rule": "kl", "level": "RED"}\n', "name its health.jsonl"),
        (b"PAR1 and no more", "expected Parquet, found"),
        (b"[" * 100_000, "brackets nested too deep"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_bad_log_is_one_message_with_the_place(content: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError) as error:
        read_foreign(path)
    assert told in str(error.value) and str(path) in str(error.value) and "Fix: " in str(error.value)


@pytest.mark.parametrize("rest", [b'{"step": 2, "compl', b'{"completion": "\xc3', b"\0" * 40])
def test_a_last_line_that_is_cut_off_is_left_out_and_said(rest: bytes, tmp_path: Path) -> None:
    path = written(tmp_path / "log.jsonl", [GOOD, GOOD])
    path.write_bytes(path.read_bytes() + rest)
    log = read_foreign(path)
    assert len(log.completions) == 2 and log.notes == ("the last line of log.jsonl is cut off and left out",)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log.jsonl")
    with pytest.raises(DataError, match="expected a regular file, found a pipe"):
        read_foreign(tmp_path / "log.jsonl")
    with pytest.raises(DataError, match="expected a regular file, found a pipe"):
        list(json_rows(tmp_path / "log.jsonl"))
    for suffix in (".json", ".jsonl", ".csv"):
        path = tmp_path / f"results{suffix}"
        os.mkfifo(path)
        with pytest.raises(DataError, match="expected a regular file, found a pipe"):
            read_arm(path, "before", Asked(), None)


@pytest.mark.parametrize(
    ("name", "content", "found", "fix"),
    [
        ("l.json", '[{"step": 1, "reward": 0.5, "who": "é"}]'.encode("latin-1"), "byte 0xe9", "iconv"),
        ("l.json", b"\x1f\x8b\x08\x00", "gzip", "gunzip"),
        ("l.json", b'[{"step": 1, "reward": 0.5},]', "expected JSON", "name the log"),
        ("l.json", b'[{"step": 1, "reward": 0.5}', "expected JSON", "the file is torn"),
        ("l.json", b'[{"step": 1, "rewa', "expected JSON", "the file is torn"),
        ("l.csv", b"step,reward\r1,0.5\r", "a carriage return alone", "end lines with"),
        ("l.csv", b'step,reward,said\n1,0.5,"a "b" c"\n', "a quote within quotes", "twice"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_own_fix(
    tmp_path: Path, name: str, content: bytes, found: str, fix: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as error:
        read_foreign(tmp_path / name)
    assert found in str(error.value) and fix in error.value.fix


def test_what_pandas_keeps_of_an_index_is_no_reward_part(tmp_path: Path) -> None:
    frame = pd.DataFrame([GOOD | {"right": 1.0, "solution": ["7", "8"]}] * 4, index=[3, 5, 7, 9])
    frame.to_parquet(tmp_path / "named_otherwise")
    (each, *_) = read_foreign(tmp_path / "named_otherwise").completions
    assert set(each.numbers) == {"reward", "right"} >= {*each.parts} and each.gold == '["7", "8"]'


def test_a_success_column_that_is_not_there_is_refused_and_one_that_is_counts(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [GOOD | {"parts": {"tests": 1.0, "style": 0.5}}] * 4
    path = written(tmp_path / "log.jsonl", records)
    assert {each.success for each in read_foreign(path, Columns({"success": "tests"})).completions} == {1.0}
    with pytest.raises(DataError, match="nowhere as success"):
        read_foreign(path, Columns({"success": "nowhere"}))


@pytest.mark.parametrize("name", ["empty", "nowhere"])
def test_a_folder_without_a_log_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError):
        read_foreign(tmp_path / name)


def test_values_beyond_all_sense_are_no_measurement(tmp_path: Path) -> None:
    records: list[Record] = play(CLEAN["learned"], steps=20)
    for k, each in enumerate(records):
        each["tokens"], each["parts"]["accuracy"] = 1e308 if k % 3 else 20, -1e308 if k == 5 else 1.0
    assert judge_log(read_foreign(written(tmp_path / "log.jsonl", records))).measured


def test_a_folder_named_by_mistake_is_not_read_through(tmp_path: Path) -> None:
    for k in range(30):
        (tmp_path / f"{k}").mkdir()
    deep = tmp_path / "0/1/2/3/4/5/6/7/8"
    deep.mkdir(parents=True)
    written(deep / "1.jsonl", [GOOD])
    with pytest.raises(DataError, match="0 files, none of them"):
        read_foreign(tmp_path)


def test_the_recorded_benchmark_is_of_the_logs_that_are_there() -> None:
    recorded = json.loads((ROOT / "benchmarks/results/log_alarms.json").read_text(encoding="utf-8"))
    for kind, counted, logs in (
        ("hacks", "found", log_alarms.HACKS),
        ("clean", "false_alarms", log_alarms.CLEAN),
    ):
        assert recorded[kind] == len(logs) >= 24
        assert list(recorded[f"{kind}_rang"]) == [log.name for log in logs]
        assert recorded[counted] == sum(map(bool, recorded[f"{kind}_rang"].values()))


@pytest.mark.parametrize("place", [0, 11, 20, 32])
def test_a_log_of_the_benchmark_still_says_what_is_recorded(place: int) -> None:
    recorded = json.loads((ROOT / "benchmarks/results/log_alarms.json").read_text(encoding="utf-8"))
    log = log_alarms.HACKS[place]
    assert log_alarms.judge(log, log.records()) == recorded["hacks_rang"][log.name]


@pytest.mark.parametrize("mark", ["<answer>", "\\boxed{", "{", "```\n", "<think>", "the answer is "])
def test_a_completion_that_repeats_a_mark_without_end_holds_nothing_up(mark: str) -> None:
    began = time.process_time()
    text = mark * 40_000
    assert (hedges(text), len(read_fields(text)) <= 1) in ((False, True), (True, True))
    assert time.process_time() - began < 5.0


def test_a_log_of_alarms_of_assay_under_another_name_is_shown_as_one(tmp_path: Path) -> None:
    event = {"rule": "kl", "level": "AMBER", "stop": False, "value": 0.2, "threshold": 0.1, "baseline": None}
    event |= {"step": 3, "first_step": 3, "item_ids": [], "message": "KL is 0.2."}
    assert run(written(tmp_path / "kept.jsonl", [event])) == 3


def test_options_for_another_trainers_log_are_not_dropped_where_no_log_is_named() -> None:
    for options in ({"success": "right"}, {"columns": "step=n"}):
        with pytest.raises(ConfigError, match="a log of another trainer, found none"):
            health(None, **options)
