"""Like is compared with like: what a score measures and how the model was asked is read of every form, and
what differs, or is not known, is said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import DataError
from assay.core.storage.json import dumps
from assay.verdict.evidence.words.remarks import Remark
from assay.verdict.judge.alike import asked_otherwise, measured_otherwise, not_known
from assay.verdict.judge.command import JudgeRequest, judge_files, read_arms
from assay.verdict.judge.sources import Judgement
from tests.tools.judged_conditions import (
    ASKED,
    MEASURED,
    Facts,
    Write,
    csv,
    inspect,
    lm_eval,
    nested,
    parquet,
    verifiers,
)
from tests.tools.judged_files import as_csv, results


def written(write: Write, folder: Path, before: Facts, after: Facts) -> list[Path]:
    """Return the files of two arms that one tool wrote."""
    arms = (("before", 0.3, before), ("after", 0.8, after))
    return [write(folder / name, results(name, rate, items=20), facts) for name, rate, facts in arms]


def told_of(paths: Sequence[Path]) -> list[Remark]:
    """Return what is said of the conditions of two arms, derived from the record as a package holds it."""
    arms = read_arms({"before": paths[0], "after": paths[1]}, JudgeRequest())
    told = Judgement(
        assay="x", before=arms["before"].record, after=arms["after"].record, rivals={}, bounds=(0, 1),
        smallest_effect_points=10, lower_is_better=False, title="x",
    )  # fmt: skip
    again = Judgement.model_validate_json(dumps(told))
    rows = {name: arm.rows for name, arm in arms.items()}
    return [*measured_otherwise(again), *asked_otherwise(again), *not_known(again, rows)]


def named(told: Sequence[Remark], code: str, key: str) -> list[Any]:
    """Return what the remarks of a code name."""
    rows: Any = [row for each in told if each.code == code for row in each.values[key]]  # type: ignore[union-attr]
    return [row.get("name", row.get("names")) for row in rows]


@pytest.mark.parametrize("k", range(len(MEASURED)), ids=lambda k: f"{MEASURED[k][0].__name__} {k}")
def test_what_was_not_measured_alike_is_said(k: int, tmp_path: Path) -> None:
    write, what, before, after = MEASURED[k]
    told = told_of(written(write, tmp_path, before, after))
    assert what in named(told, "measured_otherwise", "differences")


@pytest.mark.parametrize("k", range(len(ASKED)), ids=lambda k: f"{ASKED[k][0].__name__} {k}")
def test_another_way_of_asking_is_said_and_bars_nothing(k: int, tmp_path: Path) -> None:
    write, what, before, after = ASKED[k]
    told = told_of(written(write, tmp_path, before, after))
    assert what in named(told, "decoded_differently", "settings")
    assert not named(told, "measured_otherwise", "differences")


@pytest.mark.parametrize("write", [inspect, lm_eval, verifiers, csv, nested, parquet])
def test_of_arms_that_were_measured_alike_nothing_is_said(write: Write, tmp_path: Path) -> None:
    facts = {"temperature": 1, "metric": "f1", "grader": "a/b"} if write in (csv, nested, parquet) else {}
    told = told_of(written(write, tmp_path, facts, facts))
    assert not {"measured_otherwise", "decoded_differently"} & {each.code for each in told}


@pytest.mark.parametrize(
    ("write", "before", "after", "unknown"),
    [
        (csv, {}, {}, {"metric", "filter", "grader", "temperature"}),
        (csv, {"metric": "f1"}, {}, {"metric"}),
        (csv, {}, {"judge_model": "a"}, {"grader"}),
        (lm_eval, {"beside": False}, {}, {"task version", "scorer"}),
        (verifiers, {}, {}, {"grader"}),
    ],
)
def test_what_a_file_does_not_say_is_one_warning_that_names_it(
    write: Write, before: Facts, after: Facts, unknown: set[str], tmp_path: Path
) -> None:
    (names,) = named(told_of(written(write, tmp_path, before, after)), "not_known_alike", "unknown")
    assert unknown <= {*names}


def test_what_was_not_measured_alike_is_not_evaluable_until_it_is_scored_in_one_way(tmp_path: Path) -> None:
    rows = {name: results(name, rate) for name, rate in (("before", 0.3), ("after", 0.8))}
    sieves = [{"name": name, "filter": [{"function": "take_first"}]} for name in rows]
    facts = {"task": {"filter_list": sieves}}
    paths = [lm_eval(tmp_path / name, rows[name], {**facts, "filter": name}) for name in rows]
    told, _, found = judge_files(paths[0], paths[1], JudgeRequest())
    assert found.claim.verdict == "NOT EVALUABLE" and "filter (before, then after)" in found.claim.reason
    assert told.after.files[0].measured["filter"] == "after" and told.after.files[0].made == "2026-01-01"
    both = [path.read_text(encoding="utf-8") for path in paths]
    for path, text in zip(paths, both, strict=True):  # a file with the answers of both filters
        other = "after" if path is paths[0] else "before"
        path.write_text(text + text.replace(f'"filter": "{path.parent.name}"', f'"filter": "{other}"'))
    assert "--metric NAME" in found.claim.reason
    claim = judge_files(paths[0], paths[1], JudgeRequest(metric="exact_match,after"))[2].claim
    assert claim.verdict != "NOT EVALUABLE" and claim.difference is not None


@pytest.mark.parametrize(
    ("metric", "way"), [("brier_score", False), ("ter", None), ("my_own", False), ("exact_match", True)]
)
def test_a_score_of_which_lower_is_better_is_not_judged_the_other_way(
    metric: str, way: bool | None, tmp_path: Path
) -> None:
    facts: Facts = {"metric": metric, "options": {} if way is None else {"higher_is_better": way}}
    paths = written(lm_eval, tmp_path, facts, facts)
    for lower in (False, True):
        request = JudgeRequest(lower=lower)
        if lower == (way is not True):
            claim = judge_files(paths[0], paths[1], request)[2].claim
            assert claim.plan.direction == ("lower" if lower else "higher") and claim.effect is not None
            assert claim.effect.direction != ("better" if lower else "worse")
        else:
            with pytest.raises(DataError, match="--lower-is-better"):
                judge_files(paths[0], paths[1], request)


def test_draws_that_never_disagree_say_no_more_than_one(tmp_path: Path) -> None:
    def p_of(name: str, k: int) -> float | None:
        arms = []
        for arm, right in (("before", 5), ("after", 11)):
            rows = [{"id": i, "draw": d, "score": int(i < right)} for i in range(16) for d in range(k)]
            arms.append(as_csv(tmp_path / f"{name}_{arm}.csv", rows))
        return judge_files(arms[0], arms[1], JudgeRequest())[2].claim.p

    assert p_of("one", 1) == p_of("sixteen", 16)


def test_verdicts_of_a_grader_are_not_taken_for_its_name(tmp_path: Path) -> None:
    paths = []
    for name, rate in (("before", 0.3), ("after", 0.9)):
        rows = [{**row, "grader": "C" if row["score"] else "I"} for row in results(name, rate)]
        paths.append(as_csv(tmp_path / f"{name}.csv", rows))
    assert judge_files(paths[0], paths[1], JudgeRequest())[2].claim.verdict != "NOT EVALUABLE"


@pytest.mark.parametrize("cut", [0.0, 0.5])
def test_another_limit_decides_where_one_arm_was_cut_off_at_it(cut: float, tmp_path: Path) -> None:
    paths = []
    for name, rate, limit in (("before", 0.3, 64), ("after", 0.8, 4096)):
        rows = results(name, rate)
        told = [
            {**row, "max_tokens": limit, "truncated": name == "before" and k < cut * len(rows)}
            for k, row in enumerate(rows)
        ]
        paths.append(as_csv(tmp_path / f"{name}.csv", told))
    claim = judge_files(paths[0], paths[1], JudgeRequest())[2].claim
    assert ("limit_decides" in {each.code for each in claim.reasons}) == (cut > 0)
