"""What a terminal shows while something runs is true when it has ended."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from assay.core import console


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
