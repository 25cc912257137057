"""One mapping of columns for judge, grade, health and evaluate: known names, named ones, what is said."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from assay.cli.tools import evaluate_served
from assay.cli.tools.tasks_file import items_of, open_project
from assay.core.errors import ConfigError, DataError
from assay.pipeline.inputs import task_with
from assay.rollout.tables.columns import MEANINGS, NAMES, Columns, Meaning, look_up, read_step
from tests.house import ROOT
from tests.tools.judged_files import as_jsonl

FOUND: list[tuple[str, Meaning, str | None]] = [
    ("task_id passed", "item", "task_id"),
    ("Question ID,Score", "item", "Question ID"),
    ("Question ID,Score", "score", "Score"),
    ("problem_id,candidate_index,completion_text", "draw", "candidate_index"),
    ("problem_id,candidate_index,completion_text", "completion", "completion_text"),
    ("Step,train/reward", "step", "Step"),
    ("global_step/max_steps,reward", "step", "global_step/max_steps"),
    ("item,id,score,reward", "item", "item"),  # the documented name, whatever stands beside it
    ("item,id,score,reward", "score", "score"),
    ("task_id,solution,passed", "completion", "solution"),
    ("task_id,solution,passed", "reference", None),
    ("item,completion,solution", "reference", "solution"),
    ("item,output,solution", "completion", "output"),
    ("id,result", "success", "result"),
    ("id,passed,result", "success", "passed"),
    ("id,text", "score", None),
]


@pytest.mark.parametrize(("head", "meaning", "name"), FOUND)
def test_a_known_name_is_found_whatever_its_case_and_spaces(
    head: str, meaning: Meaning, name: str | None
) -> None:
    row = dict.fromkeys(head.split("," if "," in head else " "), "x")
    assert Columns().find(meaning, row, "here") == name


def test_two_known_names_of_one_meaning_are_said_and_either_fix_leads_on() -> None:
    row = {"item": "a", "em": 1, "f1": 0.5}
    with pytest.raises(DataError, match="one column as score, found em, f1") as told:
        Columns().find("score", row, "line 1")
    for fix in told.value.fix.split(" or "):
        asked = Columns.read(fix.removeprefix("--columns "))
        assert asked.find("score", row, "line 1") in ("em", "f1")


def test_a_name_that_was_given_wins_and_no_other_meaning_takes_it() -> None:
    row = {"item": "group 1", "task_id": "a", "response": "text", "solution": "text"}
    asked = Columns.read("item=task_id,completion=solution")
    assert [asked.find(m, row, "") for m in ("item", "completion", "reference")] == [
        *("task_id", "solution", None)
    ]
    with pytest.raises(DataError, match="the column task_id, found a, b"):
        asked.find("item", {"a": 1, "b": 2}, "line 1")


def test_a_name_with_dots_reaches_into_nested_values() -> None:
    row = {"response": {"body": {"choices": [{"text": "4"}]}}, "a.b": 1, "a": {"b": 2}}
    assert Columns.read("completion=response.body.choices.0.text").value("completion", row, "") == "4"
    assert (look_up(row, "a.b"), look_up(row, "response.body.choices.1.text")) == (1, None)


def test_the_mapping_is_read_from_a_file_as_from_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "lr=1e-5/names.yaml"
    file.parent.mkdir()
    file.write_text("item: task_id\nreward: exact_match,flexible-extract\n", encoding="utf-8")
    asked = Columns.read(str(file))
    assert asked == Columns.read("item=task_id,score=exact_match,flexible-extract")
    file.write_text(asked.text(), encoding="utf-8")
    assert asked == Columns.read(str(file))
    assert Columns.read(f"score={'f1' * 5000}").named == {"score": "f1" * 5000}


@pytest.mark.parametrize(
    "text", ["names.yaml", "item", "item=", "metric=f1", "item=a,item=b", "item=a,id=b", "=a"]
)
def test_what_is_no_mapping_is_refused_with_the_meanings_there_are(text: str) -> None:
    with pytest.raises(ConfigError, match="--columns") as told:
        Columns.read(text)
    assert "completion" in told.value.fix


def test_what_is_missing_is_said_with_the_columns_and_the_option_that_leads_on() -> None:
    row = {"problem": "a", "canonical_correct": True, "scalar_reward": 1.2}
    told = Columns().missing((("item",), ("score", "success")), row, "line 1")
    assert "problem, canonical_correct, scalar_reward" in told.found
    asked = Columns.read(told.fix.removeprefix("--columns ").removesuffix(", if that is it"))
    assert asked.named == {"item": "problem", "score": "scalar_reward"}


def test_steps_are_read_as_tools_write_them() -> None:
    assert [read_step(each) for each in (3, 3.0, "3", "3/60", "1.5", "", None, True, -1, "nan")] == [
        *(3, 3, 3, 3), *([None] * 6)
    ]  # fmt: skip


def test_each_meaning_is_its_own_first_name() -> None:
    assert {meaning: NAMES[meaning][0] for meaning in MEANINGS} == {m: m for m in MEANINGS}


def test_records_with_other_names_are_the_same_items_once_these_are_named(tmp_path: Path) -> None:
    project = open_project(ROOT, "words")
    task, own = task_with(project.root, project.params, None), ROOT / "data/words/validation.jsonl"
    rows = [json.loads(line) for line in own.read_text(encoding="utf-8").splitlines()[:6]]
    names = {"id": "task_id", "prompt": "question", "answer": "solution"}
    file, other = (as_jsonl(tmp_path / f"{name}.jsonl", rows) for name in ("own", "other"))
    as_jsonl(other, [{names.get(name, name): value for name, value in row.items()} for row in rows])
    named = Columns.read("item=task_id,prompt=question,reference=solution")
    assert items_of(project, task, other, named)[0] == items_of(project, task, file)[0]
    with pytest.raises(DataError, match="line 1: expected the column text, found"):
        items_of(project, task, other, Columns.read("prompt=text"))
    with pytest.raises(ConfigError, match="expected item, prompt, reference, found draw") as told:
        items_of(project, task, other, Columns.read("draw=k"))
    assert items_of(project, task, other, Columns.read(told.value.fix.removeprefix("--columns ")))[0]


def test_a_wait_for_the_last_answer_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    heard: list[int] = []
    monkeypatch.setattr(evaluate_served, "complain", said.append)
    with evaluate_served.say_waiting(3, 8, heard.append, seconds=0.02) as hear:
        hear(2)
        time.sleep(0.3)
        hear(1)
    assert (said, heard) == (["evaluate: waiting for 1 answer"], [2, 1])
