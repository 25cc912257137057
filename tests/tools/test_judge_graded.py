"""Equal answers have equal scores, one thing in two spellings is one thing, and what voids a claim closes a
gate."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.core.records import Interval
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.voids import VOIDS, gate_code, voided
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.evidence.words.sentences import heading, warned
from assay.verdict.judge import planning
from assay.verdict.judge.command import JudgeRequest, judge_arms, judge_files, read_arms, read_asked
from assay.verdict.judge.contents import content_of, differ, passages, prints_of
from assay.verdict.judge.gate import gate_of
from assay.verdict.judge.graded import compare_grading
from assay.verdict.judge.page import summary_of
from assay.verdict.judge.plan import JudgePlan
from assay.verdict.judge.planning import PlanRequest, make_plan
from assay.verdict.judge.reading import read_arm
from assay.verdict.judge.rows import JudgedRow
from tests.house import ROOT
from tests.tools.judged_files import Result, as_csv, as_inspect_json, as_jsonl, results

Rows = list[Result]


def codes(found: Iterable[Remark]) -> set[str]:
    return {each.code for each in found}


def judged(folder: Path, before: Rows, after: Rows, **asked: Any) -> Claim:
    """Return the claim of a CSV and a JSONL, beside no baseline."""
    files = as_csv(folder / "before.csv", before), as_jsonl(folder / "after.jsonl", after)
    return judge_files(*files, JudgeRequest(**asked))[2].claim


def drawn(scores: Sequence[Sequence[int]], text: str = "same") -> list[JudgedRow]:
    """Return rows of one text, an item a list of scores of its draws."""
    return [
        JudgedRow(f"q{k}", d, f"q{k}", float(x), float(x), bool(x), completion=text)
        for k, each in enumerate(scores)
        for d, x in enumerate(each)
    ]


def mixed(n: int, flipped: Iterable[int]) -> list[list[int]]:
    """Return one draw of n items, half of them right, some of them flipped."""
    odd = set(flipped)
    return [[(k % 2) ^ (k in odd)] for k in range(n)]


TOSSED = [[k % 2] * 3 + [(k % 2) ^ (k % 9 == 0)] for k in range(90)]


@pytest.mark.parametrize(
    ("before", "after", "by_model", "wanted"),
    [
        (mixed(60, ()), mixed(60, ()), False, ""),
        (mixed(60, ()), mixed(60, (1, 2)), False, "scored_twice"),
        (mixed(60, ()), mixed(60, range(10)), False, "graded_otherwise"),  # no one draws lots, as is known
        (mixed(60, ()), mixed(60, range(10)), True, "scored_twice"),  # as often kinder as stricter
        (mixed(60, ()), mixed(60, range(0, 20, 2)), True, "graded_otherwise"),  # always kinder
        (TOSSED, TOSSED[1:] + TOSSED[:1], True, "graded_otherwise"),  # inside an arm hardly any is other
        (TOSSED, [[k % 2] * 4 for k in range(90)], True, "scored_twice"),
        ([[0, 1]] * 60, [[1, 1]] * 60, False, "score_beyond_text"),  # the text says nothing of the score
    ],
    ids=[
        *("equal", "two of sixty", "many, and nobody named a sampled grader", "as often kinder as stricter"),
        *(
            "always kinder",
            "more than inside an arm",
            "as often as inside an arm",
            "the text settles nothing",
        ),
    ],
)
def test_a_change_of_the_grader_is_told_from_one_that_draws_lots(
    before: list[list[int]], after: list[list[int]], by_model: bool, wanted: str
) -> None:
    bars, notes = compare_grading(drawn(before), drawn(after), "after", "success", by_model=by_model)
    assert codes([*bars, *notes]) == ({wanted} if wanted else set())
    assert bool(bars) == (wanted == "graded_otherwise")


def test_answers_that_differ_are_no_sign_of_the_grader() -> None:
    told = compare_grading(drawn([[0]] * 60), drawn([[1]] * 60, "other"), "after", "success", by_model=False)
    assert told == ([], [])


@pytest.mark.parametrize("fixed", [{"grader": "a/judge"}, {"completion": ""}], ids=["named", "left out"])
def test_what_is_said_to_do_about_graders_leads_on(fixed: dict[str, str], tmp_path: Path) -> None:
    before = [
        {"item": f"q{k}", "score": k % 2, "completion": f"says {k}", "prompt": f"{k}?"} for k in range(60)
    ]
    after = [{**row, "score": (k % 2) ^ (k < 10)} for k, row in enumerate(before)]
    barred = judged(tmp_path, before, after)
    assert barred.verdict == "NOT EVALUABLE" and "(a column grader)" in barred.reason
    again = judged(tmp_path, *([{**row, **fixed} for row in arm] for arm in (before, after)))
    assert again.verdict == "NO EVIDENCE"


SAME: dict[str, tuple[Callable[[Result], Mapping[str, Any]], Callable[[Result], Mapping[str, Any]]]] = {
    "a newline at the end": (lambda row: {"prompt": f"{row['prompt']}\n"}, lambda row: {}),
    "lines that end as on Windows": (
        lambda row: {"prompt": f"Look:\r\n{row['prompt']}"}, lambda row: {"prompt": f"Look:\n{row['prompt']}"}
    ),
    "42 and 42.0": (lambda row: {"target": row["target"]}, lambda row: {"target": float(row["target"])}),
    "a truth in a table and in JSON": (lambda row: {"target": "True"}, lambda row: {"target": True}),
    "a list with one target": (lambda row: {}, lambda row: {"target": [row["target"]]}),
    "a list as pandas writes it": (lambda row: {"target": "['a', 'b']"}, lambda row: {"target": ["a", "b"]}),
    "a record as pandas writes it": (lambda row: {"target": "{'a': 1}"}, lambda row: {"target": {"a": 1}}),
    "letters and their accents apart": (
        lambda row: {"prompt": f"\u00e9 {row['item']}"}, lambda row: {"prompt": f"e\u0301 {row['item']}"}
    ),
    "other ids, and a target in one file alone": (
        lambda row: {}, lambda row: {"item": f"x{row['item']}", "target": ""}
    ),
    "scores that were rounded": (
        lambda row: {"score": 0.33, "completion": row["item"]},
        lambda row: {"score": 0.333333, "completion": row["item"]},
    ),
    "a target in one file alone": (lambda row: {}, lambda row: {"target": ""}),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_one_question_in_two_spellings_bars_nothing(name: str, tmp_path: Path) -> None:
    arms = [
        [{**row, **change(row)} for row in results(arm, rate, items=24, draws=1)]
        for arm, rate, change in zip(("before", "after"), (0.1, 0.9), SAME[name], strict=True)
    ]
    found = judged(tmp_path, *arms)
    assert found.p is not None and not codes(found.warnings) & {"other_prompts", "prompts_not_held"}


@pytest.mark.parametrize(
    ("one", "other"),
    [(("Who?", "1"), ("Whom?", "1")), (("Who?", "a"), ("Who?", "A")), (("", "7"), ("", "07"))],
)
def test_other_questions_and_targets_stay_others(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert differ(str(content_of(*one)), str(content_of(*other)))


@pytest.mark.parametrize(
    ("change", "wanted"),
    [({"judge_model": "hub/a", "model": "A"}, "graded_by_itself"), ({"truncated": True}, "cut_off_in_both")],
)
def test_what_both_arms_have_is_said(change: dict[str, Any], wanted: str, tmp_path: Path) -> None:
    arms = [
        [{**row, **change} for row in results(arm, 0.5, items=20, draws=1)] for arm in ("before", "after")
    ]
    found = judged(tmp_path, *arms)
    assert wanted in codes(found.warnings)
    assert "max_new_tokens" not in " ".join(map(str, found.warnings))


def test_of_an_agent_the_whole_transcript_is_what_is_compared(tmp_path: Path) -> None:
    files = []
    for name, rate in (("before", 0.2), ("after", 0.8)):
        path = as_inspect_json(tmp_path / f"{name}.json", results(name, rate, items=40, draws=1))
        log = json.loads(path.read_text(encoding="utf-8"))
        for sample in log["samples"]:
            call = {
                "id": "1",
                "function": "run",
                "arguments": {"code": sample["output"]["choices"][0]["message"]},
            }
            sample["messages"] += [
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "content": "ran"},
                {"role": "assistant", "content": "Done."},
            ]
            sample["output"]["choices"][0]["message"] = {"role": "assistant", "content": "Done."}
        path.write_text(json.dumps(log), encoding="utf-8")
        files.append(path)
    found = judge_files(files[0], files[1], JudgeRequest())[2].claim
    assert found.p is not None and "one_answer" not in codes(found.warnings)


def test_a_copy_is_called_one_and_no_two_policies_with_equal_scores_are(tmp_path: Path) -> None:
    rows = results("before", 0.5, items=20)
    other = [{**row, "completion": f"so {row['completion']}"} for row in rows]
    copied = [{**row, "draw": 1 - row["draw"]} for row in rows]
    assert "same_results" in codes(judged(tmp_path, rows, copied).warnings)
    assert not {"same_results", "same_policy"} & codes(judged(tmp_path, rows, other).warnings)


def text_of(passage: int, length: int = 60) -> str:
    return " ".join(f"word{passage}of{n}" for n in range(length))


def test_questions_on_one_passage_are_found_whatever_they_are_called_and_templates_are_none() -> None:
    template = text_of(99, 200)
    texts = {
        f"{name}{k}": f"{template} {text_of(k // 4)} Question {k}?" for name in ("x",) for k in range(20)
    } | {"short": "What is 3?", "alone": f"{template} {text_of(50)}"}
    prints = {name: prints_of(text) for name, text in texts.items()}
    found = passages(prints)
    assert sorted(map(len, _groups(found))) == [4] * 5 and not {"short", "alone"} & found.keys()
    again = passages({f"{k:03d}": prints[name] for k, name in enumerate(reversed(texts))})
    assert sorted(map(len, _groups(again))) == [4] * 5
    assert passages({f"q{k}": prints_of(f"{template} What is {k}?") for k in range(9)}) == {}
    assert passages({}) == {} and len(prints_of("too short")) == 0


@pytest.mark.long
@pytest.mark.parametrize("column", ["", "cluster"])
def test_a_plan_says_that_items_share_passages_until_clusters_are_named(
    column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(planning, "say", said.append)
    rows = [
        {"item": f"q{k}", "score": k % 2, "prompt": f"{text_of(k // 3)} Who {k}?", **{column: k // 3}}
        for k in range(36)
    ]
    path = as_jsonl(tmp_path / "pilot.jsonl", rows)
    planning.run(PlanRequest(pilot=path, out=tmp_path / "plan.yaml"))
    assert any("36 items share long passages" in line for line in said) == (column == "")


def _groups(homes: Mapping[str, str]) -> list[list[str]]:
    return [[name for name, home in homes.items() if home == each] for each in set(homes.values())]


# What voids a claim with 10 points at the lower end of its interval, and what of the same code does not.
CLOSING: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "same_results": ({"n": 9, "texts": True}, None),
    "one_answer": ({"before": 0.2, "after": 1.0}, None),
    "rival_no_result": ({"rival": "zero", "silent": False, "scores": [0.0], "n": 9, "of": 9}, None),
    "draws_picked": ({"arm": "after", "examples": ["q1: 0, 3", "q2: 1, 7"]}, None),
    "best_of_answers": ({"arm": "after", "answers": ["8"]}, {"arm": "always B", "answers": ["8"]}),
    "answers_not_scored": (
        {"arm": "before", "n": 9, "answers": 4}, {"arm": "always B", "n": 9, "answers": 4}
    ),
    "failed_counts_as_right": (
        {"fault": "empty", "counts": [0, 12], "of": [100, 100], "points": 12.0},
        {"fault": "empty", "counts": [12, 0], "of": [100, 100], "points": 12.0},
    ),
    "scores_edited": ({"arm": "after", "n": 12, "of": 100}, {"arm": "after", "n": 3, "of": 100}),
    "bounds_not_reached": ({"bounds": [0.0, 100.0], "least": 0.0, "most": 1.0}, None),
    "target_in_prompt": ({"counts": [0, 9], "of": [9, 9]}, None),
    "target_repeated": ({"counts": [0, 9], "of": [9, 9]}, None),
    "failed_in_one_arm": (
        {"fault": "error", "counts": [12, 0], "of": [100, 100], "points": 12.0},
        {"fault": "error", "counts": [0, 12], "of": [100, 100], "points": 12.0},
    ),
    "cut_off_in_one_arm": ({"shares": [0.3, 0.1]}, {"shares": [0.1, 0.05]}),
    "scored_twice": (
        {"arm": "after", "n": 9, "k": 2, "higher": 2, "lower": 0, "points": 11.0, "again": 0, "drawn": 0},
        {"arm": "after", "n": 9, "k": 2, "higher": 2, "lower": 0, "points": 2.0, "again": 0, "drawn": 0},
    ),
    "target_counts_as_wrong": (
        {"counts": [9, 0], "of": [9, 9], "points": 10.0}, {"counts": [0, 9], "of": [9, 9], "points": -10.0}
    ),
    "missing_left_out": ({"n": 10, "of": 100, "arms": []}, {"n": 5, "of": 100, "arms": []}),
    "items_share_passages": (
        {"n": 9, "passages": 3, "p": None, "difference": None}, {"n": 9, "passages": 3, "p": 0.01,
         "difference": Interval(value=0.2, low=0.1, high=0.3, n=9)}
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def better(tmp_path_factory: pytest.TempPathFactory) -> Claim:
    """A claim of a gain that nothing voids."""
    folder = tmp_path_factory.mktemp("better")
    arms = [results(name, rate, items=40) for name, rate in (("before", 0.2), ("after", 0.9))]
    rival = as_csv(folder / "rival.csv", results("rival", 0.1, items=40))
    found = judged(folder, *arms, rival=[f"always B={rival}"])
    assert found.verdict == "BETTER" and found.difference is not None and not voided(found)
    return found.model_copy(
        update={"difference": found.difference.model_copy(update={"low": 0.1}), "warnings": ()}
    )


@pytest.mark.parametrize("code", VOIDS)
def test_a_gate_closes_on_every_warning_that_voids(code: str, better: Claim) -> None:
    closing, open_ = CLOSING[code]
    closed = better.model_copy(update={"warnings": (remark(code, **closing),)})
    assert gate_code(better, strict=True) == 0 and gate_code(closed, strict=True) == 7
    assert gate_code(closed, strict=False) == 0
    if open_ is not None:
        still = better.model_copy(update={"warnings": (remark(code, **open_),)})
        assert gate_code(still, strict=True) == 0


@pytest.mark.parametrize(("low", "closes"), [(-0.2, True), (-0.02, False)])
def test_passages_close_a_gate_of_no_loss_where_they_leave_the_loss_open(
    low: float, closes: bool, better: Claim
) -> None:
    gap = Interval(value=0.0, low=low, high=0.3, n=9)
    told = remark("items_share_passages", n=9, passages=3, p=0.9, difference=gap)
    assert bool(voided(better.model_copy(update={"warnings": (told,)}), 0.05)) == closes


def test_the_page_has_the_table_of_what_voids() -> None:
    page = (ROOT / "docs/judge.md").read_text(encoding="utf-8")
    part = page.partition("## What closes a gate")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| `")]
    assert {code.strip("`"): when for code, _, when in rows} == VOIDS


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> JudgePlan:
    """A plan of 40 items with two draws."""
    path = as_csv(tmp_path_factory.mktemp("plan") / "before.csv", results("before", 0.3, items=40))
    asked = PlanRequest(made="2026-01-02")
    return make_plan(asked, read_arm(path, "pilot", read_asked(None, None, None), None))


@pytest.mark.long
def test_what_a_plan_can_show_does_not_depend_on_names_or_order(plan: JudgePlan, tmp_path: Path) -> None:
    rows = [{**row, "item": f"{7 * int(row['item'][1:]) % 41:b}"} for row in results("before", 0.3, items=40)]
    path = as_jsonl(tmp_path / "named.jsonl", rows[::-1])
    made = make_plan(
        PlanRequest(made="2026-01-02"), read_arm(path, "pilot", read_asked(None, None, None), None)
    )
    assert made.power == plan.power


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "before", "after", "wanted"),
    [
        ({"show": "no worse"}, lambda row: {}, lambda row: {**row, "draw": 1 - row["draw"]}, "same_results"),
        ({}, lambda row: {}, lambda row: {"completion": "B", "score": 1.0}, "one_answer"),
        (
            {"missing": "common"},
            lambda row: {},
            lambda row: {"score": "" if int(row["item"][1:]) % 2 else 1.0},
            "missing_left_out",
        ),
    ],
    ids=["a copy", "a constant answer", "half left out"],
)
def test_what_voids_is_not_shown_as_planned(
    changes: dict[str, Any],
    before: Callable[[Result], Mapping[str, Any]],
    after: Callable[[Result], Mapping[str, Any]],
    wanted: str,
    plan: JudgePlan,
    tmp_path: Path,
) -> None:
    made = results("before", 0.3, items=40)
    source = {"same_results": made}.get(wanted, results("after", 0.9, items=40))
    files = [
        as_csv(tmp_path / f"{name}.csv", [{**row, **change(row)} for row in rows])
        for name, rows, change in (("before", made, before), ("after", source, after))
    ]
    told = plan.model_copy(update={"smallest_effect_points": 60.0, **changes})
    asked = JudgeRequest(effect=told.smallest_effect_points, missing=told.missing)
    arms = read_arms(dict(zip(("before", "after"), files, strict=True)), asked)
    found = judge_arms(arms, asked, plan=told)[2]
    assert wanted in codes(voided(found.claim, 0.01))
    gate = gate_of(found.claim, told)
    assert gate.code == 7 and str(next(e for e in found.claim.warnings if e.code == wanted)) in gate.why


def test_the_summary_begins_as_the_terminal_does_and_what_is_on_trust_is_one_line(tmp_path: Path) -> None:
    plain = [
        as_csv(
            tmp_path / f"{name}.csv",
            [{"item": row["item"], "score": row["score"]} for row in results(name, rate, items=30, draws=1)],
        )
        for name, rate in (("before", 0.1), ("after", 0.9))
    ]
    told, _, found = judge_files(plain[0], plain[1], JudgeRequest())
    assert heading(found.claim) == "NO SKILL SHOWN (a gain that matters)"
    summary = summary_of(told, found)
    assert f"**{heading(found.claim)}.**" in summary
    lines = warned(found.claim)
    trusted = codes(found.claim.warnings) & {"plan_afterwards", "not_known_alike", "control_not_run"}
    assert len(trusted) == 3 and len(lines) == len(found.claim.warnings) - 2
    assert lines[-1].count("taken on trust") == 1 and np.all([line in summary for line in lines])
