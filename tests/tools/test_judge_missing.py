"""What becomes of results that are missing or failed is somebody's to say; the claim says it and counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import pytest

from assay.core.errors import ConfigError
from assay.core.storage.json import digest, dumps
from assay.verdict import compare, read
from assay.verdict.judge.command import JudgeRequest, judge_files
from assay.verdict.judge.missing import settle
from assay.verdict.judge.plan import Missing, plan_text, read_plan
from assay.verdict.judge.planning import PlanRequest, run
from assay.verdict.judge.rows import JudgedRow, read_rows
from assay.verdict.judge.sources import Judgement
from assay.verdict.judge.verdict import Judged, judge
from tests.tools.judged_files import Result, as_csv, results

N = 40
GONE = (0, 3, 5)  # draws of three items
Change = Callable[[list[Result]], list[dict[str, Any]]]


def _same(rows: list[Result]) -> list[dict[str, Any]]:
    return rows


def _without_items(rows: list[Result]) -> list[dict[str, Any]]:
    return rows[8:]


def _without_draws(rows: list[Result]) -> list[dict[str, Any]]:
    return [row for k, row in enumerate(rows) if k not in GONE]


def _without_scores(rows: list[Result]) -> list[dict[str, Any]]:
    return [{**row, "score": None if k < 8 else row["score"]} for k, row in enumerate(rows)]


def _failed(rows: list[Result]) -> list[dict[str, Any]]:
    return [
        {**row, "error": "HTTP 503" if k < 8 else "", "score": 0.0 if k < 8 else row["score"]}
        for k, row in enumerate(rows)
    ]


def judged(
    folder: Path, before: Change, after: Change, rates: tuple[float, float] = (0.3, 0.7), **asked: Any
) -> Judged:
    """Return what came of two arms that were changed; it is derived from its record again."""
    paths = [
        as_csv(folder / f"{name}.csv", change(results(name, rate, items=N)))
        for name, rate, change in zip(("before", "after"), rates, (before, after), strict=True)
    ]
    told, texts, found = judge_files(paths[0], paths[1], JudgeRequest(**asked))
    again = judge(
        Judgement.model_validate_json(dumps(told)),
        {name: read_rows(text, name) for name, text in texts.items()},
    )
    assert again.claim == found.claim
    return found


@pytest.mark.parametrize(
    ("change", "n", "items"),
    [(_without_items, 8, 4), (_without_draws, 3, 3), (_without_scores, 8, 4), (_failed, 8, 4)],
)
@pytest.mark.parametrize("lacks", ["before", "after"])
def test_what_is_missing_is_refused_or_the_worst_or_left_out_as_was_asked(
    change: Change, n: int, items: int, lacks: str, tmp_path: Path
) -> None:
    changes = (change, _same) if lacks == "before" else (_same, change)
    refused = judged(tmp_path, *changes).claim
    assert (refused.verdict == "NOT EVALUABLE") == (change is not _failed)
    assert "--missing worst" in refused.reason or "--missing worst" in " ".join(map(str, refused.warnings))
    whole = {name: results(name, rate, items=N) for name, rate in (("before", 0.3), ("after", 0.7))}
    worst = judged(tmp_path, *changes, missing="worst").claim
    note = next(each for each in worst.warnings if each.code == "missing_counted_worst")
    assert [(row["arm"], row["n"]) for row in note.values["arms"]] == [(lacks, n)]  # type: ignore[union-attr,index,call-overload,misc]
    assert worst.n_items == N and worst.before is not None and worst.after is not None
    gone = [whole[lacks][k] for k in (GONE if change is _without_draws else range(8))]
    right = sum(row["score"] for row in whole[lacks]) - sum(row["score"] for row in gone)
    found = worst.before.value if lacks == "before" else worst.after.value
    assert found == pytest.approx((right + (len(gone) if lacks == "before" else 0)) / (2 * N))
    common = judged(tmp_path, *changes, missing="common").claim
    note = next(each for each in common.warnings if each.code == "missing_left_out")
    assert common.n_items == N - items and (note.values["n"], note.values["of"]) == (items, N)


def test_the_worst_is_no_better_than_whatever_the_missing_would_have_been() -> None:
    def rows(scores: Mapping[str, tuple[float | None, ...]]) -> list[JudgedRow]:
        return [
            JudgedRow(item, d, item, score, score, score == 1.0)
            for item, each in scores.items()
            for d, score in enumerate(score for score in each if score is not None)
            if score is not None
        ]

    before, after = {"a": (1.0, None), "b": (0.0, 0.0)}, {"a": (1.0, 1.0), "b": (None, 1.0), "c": (1.0, 1.0)}
    for lower in (False, True):
        arms = {"before": rows(before), "after": rows(after), "same": rows({"a": (0.0, 1.0)})}
        found = settle(arms, "worst", (0.0, 1.0), lower_is_better=lower, unscored={})
        sums = {name: sum(row.reward for row in each) for name, each in found.arms.items()}
        best = 0.0 if lower else 1.0
        assert sums == {"before": 1 + 3 * best, "after": 5 + (1 - best), "same": 1 + 4 * best}
        assert all(sorted(row.draw for row in each) == [0, 0, 0, 1, 1, 1] for each in found.arms.values())
        assert found.n_missing == 3 + 1 + 4


def test_a_loss_has_to_stand_though_what_is_missing_counted_for_after(tmp_path: Path) -> None:
    lost = judged(tmp_path, _same, lambda rows: rows[40:], (0.5, 0.5), missing="worst").claim
    assert lost.verdict == "NOT EVALUABLE" and [each.code for each in lost.reasons] == ["loss_is_missing"]
    sure = judged(tmp_path, _same, lambda rows: rows[4:], (0.8, 0.1), missing="worst").claim
    assert sure.effect is not None and sure.effect.direction == "worse"
    common = judged(tmp_path, _same, lambda rows: rows[40:], (0.5, 0.5), missing="common").claim
    assert common.verdict != "NOT EVALUABLE" and common.n_items == 20


def test_other_numbers_of_draws_are_nobodys_missing_results(tmp_path: Path) -> None:
    for policy in ("worst", "common"):
        claim = judged(tmp_path, _same, lambda rows: rows[::2], missing=policy).claim
        assert "other_draws" in {each.code for each in claim.reasons}


def test_a_plan_says_what_becomes_of_missing_results_and_holds_judgements_to_it(tmp_path: Path) -> None:
    pilot = as_csv(tmp_path / "pilot.csv", results("before", 0.3, items=N))
    plans = {policy: tmp_path / f"{policy}.yaml" for policy in get_args(Missing)}
    run(PlanRequest(pilot=pilot, missing="worst", made="2026-01-02", out=plans["worst"]))
    for policy in ("refuse", "common"):
        made = read_plan(plans["worst"]).model_copy(update={"missing": policy})
        plans[policy].write_text(plan_text(made), encoding="utf-8")
    assert "missing" not in plans["refuse"].read_text(encoding="utf-8")
    assert len({digest(read_plan(path)) for path in plans.values()}) == 3
    for policy in ("worst", "common"):
        found = judged(tmp_path, _without_items, _same, plan=plans[policy]).claim
        assert found.verdict != "NOT EVALUABLE", found.reason
        with pytest.raises(ConfigError, match=f"--missing refuse, where the plan has {policy}"):
            judged(tmp_path, _same, _same, plan=plans[policy], missing="refuse")
    with pytest.raises(ConfigError, match="expected refuse or worst or common, found 'drop'"):
        judged(tmp_path, _same, _same, missing="drop")


def test_the_python_face_takes_it_too() -> None:
    frames = [pd.DataFrame(results(name, rate, items=N)) for name, rate in (("before", 0.3), ("after", 0.8))]
    before, after = read(frames[0]), read(frames[1].iloc[4:])
    assert compare(before, after).verdict == "NOT EVALUABLE"
    assert compare(before, after, missing="common").n_items == N - 2
    assert compare(before, after, missing="worst").n_items == N
