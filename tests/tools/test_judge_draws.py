"""Draws that were chosen by their scores are found by their numbers, by their order, or by what a row says of
how often was tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from assay.core.errors import ConfigError
from assay.verdict.judge.forms import Asked
from assay.verdict.judge.reading import read_arm
from tests.tools.judged_files import Result, as_jsonl, results

ITEMS = 40


def numbered(number: Callable[[int, Result], int], draws: int = 2) -> list[Result]:
    rows = results("draws", 0.5, items=ITEMS, draws=draws)
    return [{**row, "draw": number(k, row)} for k, row in enumerate(rows)]


def by_score(rows: Sequence[Result], kept: int) -> list[Result]:
    """Keep the best draws of each item, the best first, numbered anew."""
    drawn: dict[str, list[Result]] = {}
    for row in rows:
        drawn.setdefault(row["item"], []).append(row)
    best = [sorted(own, key=lambda row: -row["score"])[:kept] for own in drawn.values()]
    return [{**row, "draw": k} for own in best for k, row in enumerate(own)]


DRAWS: dict[str, tuple[list[Result], int | None, set[str]]] = {
    "from 0": (numbered(lambda k, row: row["draw"]), None, set()),
    "from 1": (numbered(lambda k, row: row["draw"] + 1), None, set()),
    "with one gap in all": (numbered(lambda k, row: 3 * row["draw"]), None, set()),
    "through the file": (numbered(lambda k, row: k), None, set()),
    "in turn through the file": (numbered(lambda k, row: k // 2 + ITEMS * row["draw"]), None, set()),
    "by seeds": (numbered(lambda k, row: 7919 * k % 104729), None, set()),
    "one of each, all alike": (numbered(lambda k, row: 0, draws=1), None, set()),
    "one of each, of eight": (numbered(lambda k, row: k * k % 7, draws=1), None, {"draws_picked"}),
    "two of each, of eight": (
        numbered(lambda k, row: k // 2 % 3 + (1 + k // 2 % 2) * row["draw"]), None, {"draws_picked"}
    ),
    "the first two of four": (numbered(lambda k, row: row["draw"], draws=4), 2, {"draws_left_out"}),
    "the best two of four, put first": (
        by_score(results("draws", 0.5, items=ITEMS, draws=4), 4), 2, {"draws_left_out", "draws_in_order"}
    ),
    "tried until it is right": (
        [{**row, "n_attempts": 1 + k % 5} for k, row in enumerate(numbered(lambda k, row: row["draw"]))],
        None,
        {"answers_not_scored"},
    ),
    "never tried again": (
        [{**row, "n_attempts": "1"} for row in numbered(lambda k, row: row["draw"])], None, set()
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWS)
def test_draws_that_were_chosen_are_said_and_no_others(name: str, tmp_path: Path) -> None:
    rows, most, wanted = DRAWS[name]
    record = read_arm(as_jsonl(tmp_path / "after.jsonl", rows), "after", Asked(), most).record
    assert {each.code for each in (*record.notes, *record.blockers)} == wanted


@pytest.mark.parametrize("most", [0, -1])
def test_no_draws_at_all_are_refused(most: int, tmp_path: Path) -> None:
    path = as_jsonl(tmp_path / "after.jsonl", numbered(lambda k, row: row["draw"]))
    with pytest.raises(ConfigError, match=f"a number of draws from 1 on, found {most}"):
        read_arm(path, "after", Asked(), most)
