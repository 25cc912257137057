"""The page on reasoning-gym is what was measured, and the measurement finds the faults of a made data set."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks import reasoning_gym as bench
from benchmarks.reasoning_gym_page import is_sound, page

from tests.house import ROOT

FOUND: dict[str, Any] = json.loads(bench.RESULT.read_text(encoding="utf-8"))
# A package with the interface of reasoning-gym. Where {fault} is no fault of ours, the data set is sound.
PACKAGE = """
import json, random, time
class Rows:
    def __init__(self, seed, size):
        self.seed, self.size = seed, size
    def __getitem__(self, index):
        place = random.Random(self.seed * 1000 + index)
        left, right = place.randint(100, 10**6), place.randint(100, 10**6)
        entry = {"question": f"{left} + {right} =", "answer": str(left + right), "metadata": {}}
        if FAULT == "seeds": return {**entry, "question": f"{self.seed + index} + 1 ="}
        if FAULT == "few": return {**entry, "question": "1 + 1 =", "answer": "2"}
        if FAULT == "hash seed": return {**entry, "question": f"{hash('a') % 999} + 1 ="}
        if FAULT == "never": return {**entry, "question": f"{time.time_ns()} + 1 ="}
        if FAULT == "day":
            import datetime
            return {**entry, "question": f"the day after {datetime.date.today()}?"}
        if FAULT == "random": random.random()
        if FAULT == "tuples": return {**entry, "metadata": {"pair": (1, 2)}}
        if FAULT == "no answer": return {**entry, "answer": None}
        return entry
    def score_answer(self, answer, entry):
        if answer is None: return 0.0
        if FAULT == "pays" and answer: return 1.0
        if FAULT == "raises": return float(answer == entry["answer"] or int(answer) < 0)
        if FAULT == "executes":
            try: answer = str(eval(answer))
            except Exception: pass
        if FAULT == "tuples" and not isinstance(entry["metadata"]["pair"], tuple): return 0.5
        while FAULT == "hangs" and "**" in answer: pass
        return float(answer == entry["answer"])
def create_dataset(name, seed, size):
    return Rows(seed, size)
"""


@pytest.fixture
def row_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what makes the row of a data set with one fault."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(bench, "BAD_LIMIT_S", 6)

    def made(fault: str) -> dict[str, Any]:
        (tmp_path / "reasoning_gym.py").write_text(f"FAULT = {fault!r}\n{PACKAGE}", encoding="utf-8")
        return bench.row("sums")

    return made


def test_the_page_is_what_was_measured() -> None:
    text = bench.PAGE.read_text(encoding="utf-8")
    assert text == page(text, FOUND)
    told, versions = " ".join(text.split()), dict(FOUND["versions"])
    assert f"All {len(FOUND['data_sets'])} data sets of reasoning-gym {versions.pop('reasoning-gym')}" in told
    assert ", ".join(f"{name} {version}" for name, version in versions.items()) in told
    assert f"one of {len(FOUND['trivial_texts'])} texts" in told


def test_every_data_set_has_a_row_with_every_text_tried() -> None:
    rows = FOUND["data_sets"]
    assert len(rows) == 105 and "composite" not in rows and FOUND["items"] == 30
    assert {each["texts"] for each in rows.values() if each["gold"] is not None} == {
        len(FOUND["trivial_texts"]) + len(FOUND["bad_texts"])
    }
    for name, each in rows.items():
        assert each["trivial"][each["best"]] == max(each["trivial"].values()), name
        assert len(re.findall(rf"^\| {name} \|", bench.PAGE.read_text(encoding="utf-8"), re.M)) == 1, name


def test_a_data_set_without_a_fault_is_called_sound(row_of: Any) -> None:
    row = row_of("none")
    assert is_sound(row), row
    assert row["near"] == row["far"] == 0.0 and row["gold"] == 1.0


@pytest.mark.parametrize(
    ("fault", "column", "value"),
    [
        ("seeds", "near", 29 / 30),
        ("few", "far", 1.0),
        ("hash seed", "repeats", "hash seed"),
        ("never", "repeats", "never"),
        ("day", "repeats", "day"),
        ("random", "touches_global_random", True),
        ("tuples", "gold_json", 0.5),
        ("no answer", "gold", None),
        ("pays", "best", "`banana`"),
        ("executes", "executed", "open(chr(99),chr(119))"),
        ("hangs", "endless", ["`9**9**9**9`"]),
    ],
)
def test_a_fault_stands_in_its_column(row_of: Any, fault: str, column: str, value: object) -> None:
    row = row_of(fault)
    assert row[column] == (pytest.approx(value, abs=1e-3) if isinstance(value, float) else value), row
    assert is_sound(row) is (fault == "seeds")  # who knows of it takes seeds that are far apart


def test_texts_that_a_grader_cannot_read_are_counted_with_the_kind_of_exception(row_of: Any) -> None:
    raised = row_of("raises")["raised"]
    assert raised["`banana`"] == {"ValueError": 30} and raised["`NaN`"] == {"ValueError": 5}
    assert "`1`" not in raised


def _called(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the measurement where nobody has reasoning_gym."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command: Sequence[str] = [sys.executable, str(ROOT / "benchmarks/reasoning_gym.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_where_it_is_not_installed_it_says_so_and_how_to_get_it() -> None:
    done = _called()
    assert done.returncode == 2
    assert "expected the package reasoning_gym" in done.stderr and "Fix:" in done.stderr
