"""docs/internals/verification.md tells of forgeries of runs and judgements as they came out."""

from __future__ import annotations

import json
import re

import pytest

from tests.house import ROOT
from tests.pages import text_of

FOUND = json.loads((ROOT / "benchmarks/results/tamper.json").read_text(encoding="utf-8"))
PAGE = text_of("docs/internals/verification.md")


@pytest.mark.parametrize("kind", ["run", "judgement"])
def test_the_table_of_forgeries_by_level_is_what_was_measured(kind: str) -> None:
    levels = ("V0", "V1", "V2", "V3", "none")
    rows = [
        f"| {kind}: {name} | {sum(row.values())} | {' | '.join(str(row[level] or '') for level in levels)} |"
        for name, row in FOUND[f"{kind}_designs_by_kind_and_level"].items()
    ]
    table = re.sub(r" +", " ", PAGE)
    assert [row for row in rows if re.sub(r" +", " ", row) not in table] == []
    late = [each["design"] for each in FOUND[f"{kind}_designs_otherwise"] if each["level"] == "none"]
    assert late == [], "found by nothing, and due"
    assert f"{FOUND[f'{kind}_designs_n']} of a {kind}" in " ".join(PAGE.split())


def test_the_table_of_forged_seeds_is_what_was_measured_in_both_forms() -> None:
    now, older = FOUND["seeds_designs_by_kind_and_level"].values()
    levels = ("V1", "V3", "none")
    rows = [
        [
            f"seeds: {kind}",
            sum(row.values()),
            *(each[level] or "" for each in (row, older[kind]) for level in levels),
        ]
        for kind, row in now.items()
    ]
    table = re.sub(r" +", " ", PAGE)
    lines = [re.sub(r" +", " ", f"| {' | '.join(map(str, row))} |") for row in rows]
    assert [line for line in lines if line not in table] == []
    late = [each["design"] for each in FOUND["seeds_designs_otherwise"] if each["level"] == "none"]
    assert late == [], "found by nothing, and due"
    assert f"{FOUND['seeds_designs_n']} forgeries of seeds" in " ".join(PAGE.split())


def test_enough_were_tried() -> None:
    assert sum(FOUND[f"{kind}_designs_n"] for kind in ("run", "judgement")) >= 100
    assert FOUND["seeds_designs_n"] >= 35


def test_the_counts_in_sentences_are_what_was_measured() -> None:
    said, n = " ".join(PAGE.split()), FOUND["tamperings"]
    depths = [
        sum(count for name, count in FOUND["by_level"].items() if name.startswith(depth))
        for depth in ("as is:", "re-sealed:", "re-locked:")
    ]
    assert f"Of {n} random tamperings, V0 to V3 found {FOUND['caught']}: {depths[0]} were left" in said
    assert f"{depths[1]} had all lists made anew, and {depths[2]} had `dvc.lock`" in said
    assert f"Of {FOUND['clean']} honest packages ({FOUND['distinct_clean_packages']} distinct)" in said
    assert FOUND["false_alarms"] == 0 and "they called none tampered with" in said
    assert f"Beside these stand {FOUND['designs_n']} designs" in said


def test_the_table_of_designs_is_what_was_measured() -> None:
    rows = [
        [cell.strip() for cell in line.split("|")[2:-1]] for line in PAGE.split("\n") if line.startswith("| ")
    ]
    for row in FOUND["designs_by_kind_and_level"].values():
        levels = ("V0", "V1", "V3", "V4", "V5", "none")
        assert [str(sum(row.values())), *(str(row[level] or "") for level in levels)] in rows, row
