"""What may make a gain of something else than the model is said by a code of its own, and of honest pairs
nothing is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.attack import Attack
from benchmarks.judge_attacks import CODES, HONEST, KINDS, attacks

from assay.core.errors import DataError
from assay.verdict.judge.command import JudgeRequest, judge_files
from tests.house import ROOT
from tests.tools.judged_files import as_csv, results


@pytest.mark.long
@pytest.mark.parametrize("attack", KINDS, ids=lambda attack: attack.name)
def test_an_attack_is_answered_by_a_code_of_its_own(attack: Attack) -> None:
    verdict, remarks = attack.make()
    codes = {each.code for each in remarks}
    assert attack.own & codes or (verdict == "REFUSED" and not attack.own), (verdict, codes)


@pytest.mark.long
@pytest.mark.parametrize("name", HONEST)
def test_of_an_honest_pair_nothing_of_that_is_said(name: str) -> None:
    verdict, remarks = HONEST[name]()
    assert not CODES & {each.code for each in remarks} and verdict not in ("NOT EVALUABLE", "NO EVIDENCE")


def test_every_recorded_attack_on_a_judgement_has_a_code_of_its_own_and_no_honest_pair_has() -> None:
    found = json.loads((ROOT / "benchmarks/results/verdict_attacks.json").read_text(encoding="utf-8"))
    rows = {row["name"]: row for row in found["attacks"] if row["kind"] == "judge"}
    own = {attack.name: attack.own for attack in attacks()}
    assert rows.keys() == own.keys()
    assert all(row["said"] or (row["verdict"] == "REFUSED" and not own[name]) for name, row in rows.items())
    assert [row["name"] for row in found["honest_pairs"]] == [*HONEST] and found["honest_remarked"] == 0


def test_clusters_that_were_named_and_are_nowhere_are_refused(tmp_path: Path) -> None:
    path = as_csv(tmp_path / "results.csv", results("before", 0.5, items=8))
    with pytest.raises(DataError, match="the column family, found item, draw, score"):
        judge_files(path, path, JudgeRequest(columns="cluster=family"))
