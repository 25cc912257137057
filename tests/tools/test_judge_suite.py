"""A suite of several tasks has one verdict, and a row a task with its own score and filter."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from assay.cli import judging
from assay.core.storage.json import dumps
from assay.verdict import compare, read
from assay.verdict.judge.command import JudgeRequest, judge_files
from assay.verdict.judge.page import report_of, summary_of
from assay.verdict.judge.rows import read_rows
from assay.verdict.judge.sources import Judgement
from assay.verdict.judge.suite import rows_by_task
from assay.verdict.judge.verdict import Judged, judge
from tests.tools.judged_conditions import inspect, lm_eval
from tests.tools.judged_files import as_csv, results

RATES = {"arc": (0.3, 0.8), "drop": (0.4, 0.45), "sums": (0.9, 0.5)}
FACTS = {
    "arc": {"metric": "acc", "filter": "none"},
    "drop": {"metric": "f1", "filter": "none"},
    "sums": {"metric": "exact_match", "filter": "strict-match"},
}


def suite(folder: Path, changed: Mapping[str, Any] | None = None, n: int = 60) -> list[Path]:
    """Write two folders of lm-eval's samples: one task gains, one stays, one falls."""
    for k, arm in enumerate(("before", "after")):
        (folder / arm).mkdir()
        for task, rates in RATES.items():
            facts = {**FACTS[task], "beside": False, **((changed or {}).get(task, {}) if k else {})}
            written = lm_eval(folder / f"{arm} {task}", results(f"{arm} {task}", rates[k], items=n), facts)
            written.rename(folder / arm / f"samples_{task}_2026.jsonl")
    return [folder / "before", folder / "after"]


def judged(paths: Sequence[Path], **asked: Any) -> tuple[Judgement, Judged]:
    """Return a judgement and what came of it, which follows from its record again."""
    told, texts, found = judge_files(paths[0], paths[1], JudgeRequest(**asked))
    again = Judgement.model_validate_json(dumps(told))
    rows = {name: read_rows(text, name) for name, text in texts.items()}
    assert judge(again, rows).claim == found.claim
    return told, found


def test_a_suite_has_one_verdict_and_a_row_a_task_and_the_loss_of_one_is_in_its_word(tmp_path: Path) -> None:
    told, found = judged(suite(tmp_path))
    claim, rows = found.claim, {row["task"]: row for row in rows_by_task(told, found.claim)}
    assert claim.n_items == 180 and claim.plan.tasks == "task"
    assert {task: (row["measured"], row["items"], row["shown"]) for task, row in rows.items()} == {
        "arc": ("acc", "60", "better"),
        "drop": ("f1", "60", "nothing"),
        "sums": ("exact_match, strict-match", "60", "worse"),
    }
    for task, row in rows.items():
        arm = [row["score"] for row in results(f"before {task}", RATES[task][0]) if row["draw"] == 0]
        assert float(row["before, %"]) == pytest.approx(100 * sum(arm) / 60, abs=0.06)
        assert claim.strata[f"task={task}"].p_holm is not None
    assert {"worse_on_suite"} <= {each.code for each in claim.reasons}
    assert not {"strata_worse"} & {each.code for each in claim.warnings}
    page = report_of(told, found)  # which says names as words
    for text, measured in ((summary_of(told, found), "exact_match"), (page, "exact match")):
        assert f"{measured}, strict-match" in text and "p (Holm)" in text
    assert json.loads(dumps(claim))["strata"]["task=sums"]["difference"]["value"] < 0


def test_a_gain_of_the_suite_with_a_task_that_got_worse_is_no_plain_gain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RATES, "drop", (0.2, 0.9))
    rival = tmp_path / "rival"
    rival.mkdir()
    paths = suite(tmp_path)
    for task in RATES:
        told = lm_eval(tmp_path / f"r {task}", results(f"r {task}", 0.1), {**FACTS[task], "beside": False})
        told.rename(rival / f"samples_{task}_2026.jsonl")
    claim = judged(paths, rival=[f"always the same={rival}"])[1].claim
    assert claim.effect is not None and claim.effect.direction == "better"
    assert "WITH REGRESSIONS" in claim.verdict and "sums" in claim.reason


def test_a_task_that_was_measured_otherwise_bars_the_suite_and_is_named(tmp_path: Path) -> None:
    claim = judged(suite(tmp_path, {"drop": {"filter": "loose"}}))[1].claim
    assert [each.values["task"] for each in claim.reasons] == ["drop"] and claim.verdict == "NOT EVALUABLE"


def test_a_task_that_one_arm_lacks_bars_the_suite(tmp_path: Path) -> None:
    paths = suite(tmp_path)
    (paths[1] / "samples_drop_2026.jsonl").unlink()
    claim = judged(paths)[1].claim
    assert "60 items only in before ('drop/" in claim.reason


def _table(folder: Path) -> list[Path]:
    paths = []
    for k, arm in enumerate(("before", "after")):
        rows = [
            {**row, "task": task, "metric": FACTS[task]["metric"]}
            for task, rates in RATES.items()
            for row in results(f"{arm} {task}", rates[k])
        ]
        paths.append(as_csv(folder / f"{arm}.csv", rows))
    return paths


def _logs(folder: Path) -> list[Path]:
    for k, arm in enumerate(("before", "after")):
        (folder / arm).mkdir()
        for task, rates in RATES.items():
            facts = {"eval": {"task": task, "model": arm}, "scorer": f"score of {task}"}
            written = inspect(folder / f"{arm} {task}", results(f"{arm} {task}", rates[k]), facts)
            written.rename(folder / arm / f"{task}.json")
    return [folder / "before", folder / "after"]


@pytest.mark.parametrize("write", [_table, _logs])
def test_several_tasks_are_read_of_one_table_and_of_logs(
    write: Callable[[Path], list[Path]], tmp_path: Path
) -> None:
    told, found = judged(write(tmp_path))
    assert {row["task"]: row["shown"] for row in rows_by_task(told, found.claim)} == {
        "arc": "better",
        "drop": "nothing",
        "sums": "worse",
    }
    assert found.claim.n_items == 180 and found.claim.draws == 2


@pytest.mark.long
def test_the_command_prints_a_line_a_task_and_the_python_face_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(judging, "say", said.append)
    paths = suite(tmp_path)
    judging.run(paths[0], [paths[1]], JudgeRequest(out=tmp_path / "out"))
    lines = [line for line in said if line.startswith("task ")]
    assert len(lines) == 3 and lines[2].startswith("task sums (exact_match, strict-match): ")
    claim = compare(read(paths[0]), read(paths[1]))
    assert {"task=arc", "task=drop", "task=sums"} == {*claim.record.strata}
