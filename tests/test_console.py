"""What a terminal shows while something runs is true when it has ended."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from assay.cli.tools import stage_times
from assay.core import console
from assay.core.config.reading import parse_params
from tests.composed import composed


def shown(monkeypatch: pytest.MonkeyPatch, *, total: int, done: int) -> str:
    """Return the last line that a terminal shows of a bar of which so many steps were made."""
    terminal = Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)
    monkeypatch.setattr(console, "_ERR", terminal)
    with console.progress("base: drills", total) as advance:
        for _ in range(done):
            advance(1, "loss 1.2")
    return terminal.file.getvalue().split("\r")[-1]  # type: ignore[attr-defined, no-any-return]


def test_a_bar_that_ends_before_its_time_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    early, whole = shown(monkeypatch, total=1500, done=200), shown(monkeypatch, total=200, done=200)
    assert "200/200" in early and "left 0:00:00" in early
    assert "200/200" in whole and "left 0:00:00" in whole


def test_a_bar_of_what_failed_stays_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)
    monkeypatch.setattr(console, "_ERR", terminal)
    with pytest.raises(ValueError), console.progress("base: drills", 1500) as advance:
        advance(200)
        raise ValueError
    assert "200/1500" in terminal.file.getvalue().split("\n")[-2]  # type: ignore[attr-defined]


def test_without_a_terminal_there_is_a_line_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    log, clock = Console(file=io.StringIO(), width=120), iter([0.0, 30.0, 61.0, 90.0, 125.0])
    monkeypatch.setattr(console, "_ERR", log)
    monkeypatch.setattr("assay.core.console.time.monotonic", lambda: next(clock))
    with console.progress("train: steps", 100, done=20) as advance:
        for _ in range(4):
            advance(10, "reward +0.5")
    assert log.file.getvalue().splitlines() == [  # type: ignore[attr-defined]
        "train: steps ...",
        "train: steps 40 of 100, about 3 min left: reward +0.5",
        "train: steps 60 of 100, about 2 min left: reward +0.5",
        "train: steps done: reward +0.5",
    ]


def test_the_time_to_the_end_is_that_of_the_last_time_and_none_where_a_stage_was_not_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params, said = parse_params(composed("tiny", "collider")), list[str]()
    monkeypatch.setattr(stage_times, "say", said.append)
    tell = partial(stage_times.tell_place, "post_eval", tmp_path)
    tell(params)
    monkeypatch.setenv("DVC_STAGE", "post_eval")
    for stage, seconds in (("post_eval", 40.0), ("render_evidence", 75.0)):
        stage_times.note_seconds(stage, tmp_path, params, seconds)
    tell(params)
    stage_times.note_seconds("package", tmp_path, params, 5.0)
    stage_times.note_seconds("post_eval", tmp_path, params, 3.0)  # it went on from what was kept
    tell(params.model_copy(update={"seed": 7}))
    tell(params.model_copy(update={"threads": 2}))
    monkeypatch.setenv("RANK", "1")
    tell(params)
    place = "post_eval: stage 6 of 8"
    assert said == [place, f"{place}; at most 2 min 00 s left, if it goes as the last time", place]
