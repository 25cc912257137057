"""The alarms of a training are shown with what to try, and the worst of them is the exit code."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from assay.cli.tools.watch.health import rows, run
from assay.core import console
from assay.core.errors import RecordError
from assay.core.records import HealthEvent
from assay.core.storage.json import write_jsonl


def event(rule: str, level: str, step: int, **changes: Any) -> HealthEvent:
    known = {"stop": False, "value": 0.25, "threshold": 0.1, "baseline": None, "first_step": step}
    named = {"rule": rule, "level": level, "step": step, "message": f"{rule} at {step}.", "item_ids": ()}
    return HealthEvent(**known | named | changes)  # type: ignore[arg-type]


AMBER = [event("kl", "AMBER", 3), event("kl", "GREEN", 5), event("kl", "AMBER", 9)]
RED = [
    *AMBER,
    event("entropy", "AMBER", 10),
    event("entropy", "RED", 14, first_step=10, value=0.1, baseline=0.5),
]


@pytest.mark.parametrize(
    ("events", "code"), [([], 0), (AMBER, 3), (AMBER[:2], 3), (RED, 4)], ids=["none", "amber", "over", "red"]
)
def test_the_exit_code_is_the_worst_level_of_the_whole_training(
    tmp_path: Path, events: list[HealthEvent], code: int
) -> None:
    write_jsonl(tmp_path / "health.jsonl", events)
    assert run(tmp_path, tmp_path / "health.jsonl") == code


def test_the_last_training_of_the_project_is_shown_if_no_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(console, "_OUT", Console(file=shown, soft_wrap=True, highlight=False, markup=False))
    write_jsonl(tmp_path / "evidence/results/train/health.jsonl", AMBER)
    assert run(tmp_path, None) == 3
    assert "kl at 3." in shown.getvalue() and "AMBER: 1 of 16 rules raised an alarm" in shown.getvalue()


def test_the_worst_rule_comes_first_with_the_event_that_made_it_so() -> None:
    entropy, kl = rows(RED)
    assert entropy == ["entropy", "RED", "RED", "10", "14", "1", "0.1", "0.1", "0.5", "entropy at 14."]
    assert kl == ["kl", "AMBER", "AMBER", "3", "3", "2", "0.25", "0.1", "", "kl at 3."]


def test_an_alarm_that_ended_the_training_says_so() -> None:
    told = [event("zero_variance", "RED", 4), event("zero_variance", "RED", 6, stop=True)]
    ((_, worst, *_, message),) = rows(told)
    assert (worst, message) == ("RED, stopped", "zero_variance at 6.")


@pytest.mark.parametrize(
    "damage", ['{"rule":"kl"}', '{"rule":', '{"rule":"kl","rule":"kl"}'], ids=["short", "torn", "twice"]
)
def test_a_damaged_line_is_refused_with_its_number(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "health.jsonl"
    write_jsonl(path, AMBER)
    path.write_text(path.read_text() + damage + "\n")
    with pytest.raises(RecordError, match=r"health\.jsonl, (line|record) 4"):
        run(tmp_path, path)


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="repro"):
        run(tmp_path, None)
