"""A judgement says how completions were written, where files hold them: empty, thought alone, or wrapped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from assay.cli import judging
from assay.core.storage.json import dumps
from assay.verdict.judge.command import JudgeRequest
from assay.verdict.judge.forms import Asked
from assay.verdict.judge.reading import read_arm
from assay.verdict.judge.written import texts_in
from tests.house import ROOT

BARE = ["Oslo", "Rome", "Paris", "Bonn"]


def table(path: Path, texts: Sequence[Any], right: int = 0) -> Path:
    """Write a table of completions, the first few of them right."""
    rows = [{"item": f"r{k}", "score": float(k < right), "completion": text} for k, text in enumerate(texts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def written(path: Path) -> tuple[str, ...]:
    return read_arm(path, "before", Asked(), None).record.written


WRAPPED = ["<think>x</think>Oslo", "```\nRome\n```", "y</think>Paris", "Bonn"]
CASES: dict[str, tuple[list[Any], int, str, int]] = {
    # texts, how many are right, the counts, and how many warnings
    "bare": (BARE, 2, "0 of 4 completions empty, 0 of 2 failures in a wrapping", 0),
    "empty": (["", " ", "Oslo", "Rome"], 0, "2 of 4 completions empty, 0 of 4 failures in a wrapping", 1),
    "thought": (["<think>x", "Oslo", "Rome", "Bonn"], 0, "1 of 4 completions empty (1 reasoning only)", 2),
    "wrapped": (WRAPPED, 0, "3 of 4 failures in a wrapping (fence 1; think 2)", 1),
    "wrapped and right": (WRAPPED, 4, "0 of 0 failures in a wrapping", 0),
    "a list is an answer": (["[1, 2]", "see [1]", "a < b", "finally"], 0, "0 of 4 failures in a wrapping", 0),
    "some": ([None, "Oslo", "Rome", "Bonn"], 0, "0 of 3 failures in a wrapping, of 3 whose", 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_completions_are_counted_where_a_file_has_them(name: str, tmp_path: Path) -> None:
    texts, right, line, warnings = CASES[name]
    told = written(table(tmp_path / "before.jsonl", texts, right))
    assert line in told[0] and len(told) == 1 + warnings


def test_a_file_without_texts_is_not_called_empty(tmp_path: Path) -> None:
    rows = [{"item": f"r{k}", "score": 0.0, "tokens": 3} for k in range(3)]
    path = tmp_path / "before.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert written(path) == ()


FORMS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "lm-eval": ([["Oslo"]], ("Oslo",)),
    "messages": ([{"role": "user", "content": "?"}, {"role": "assistant", "content": "Oslo"}], ("Oslo",)),
    "parts": ([{"role": "assistant", "content": [{"type": "text", "text": "Oslo"}]}], ("Oslo",)),
    "thought in parts": (
        [{"role": "assistant", "content": [{"type": "reasoning", "reasoning": "?"}]}],
        ("",),
    ),
    "a call": (
        [{"content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}],
        ('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>',),
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_texts_are_found_in_every_form(name: str) -> None:
    value, texts = FORMS[name]
    assert texts_in(value) == texts


@pytest.mark.long
def test_it_is_said_first_and_no_package_holds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(judging, "say", said.append)
    before = table(tmp_path / "before.jsonl", [""] * 12)
    after = table(tmp_path / "after.jsonl", ["<think>x</think>Oslo"] * 12, right=6)
    judging.run(before, [after], JudgeRequest(out=tmp_path / "judged"))
    assert said[0] == "WARNING: before: 12 of 12 completions are empty"
    assert said[1].startswith("WARNING: after: 6 failures stand in a wrapping")
    assert "6 of 6 failures in a wrapping (think 6)" in next(
        line for line in said if line.startswith("after:")
    )
    record = read_arm(after, "after", Asked(), None).record
    assert record.written and "written" not in dumps(record)
    episodes = ROOT / "evidence/results/pre_eval/pre_eval.jsonl"
    few = tmp_path / "few.jsonl"
    few.write_text("".join(episodes.read_text().splitlines(keepends=True)[:20]))
    assert written(few)[0].startswith("0 of ")


def test_arms_that_were_cut_differently_say_so(tmp_path: Path) -> None:
    lines = (ROOT / "evidence/results/pre_eval/pre_eval.jsonl").read_text().splitlines(keepends=True)[:8]
    cuts: dict[str, list[str]] = {"bare": [], "cut": ["think", "fence"]}
    settings = {}
    for name, cut in cuts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "episodes.jsonl").write_text("".join(lines))
        (tmp_path / name / "grade.json").write_text(json.dumps({"written": {"cut": cut}}))
        settings[name] = read_arm(tmp_path / name, name, Asked(), None).record.files[0].settings
    assert settings == {"bare": {}, "cut": {"task.cut": "think,fence"}}
