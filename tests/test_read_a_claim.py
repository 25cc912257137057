"""The page that derives a claim from its files holds for the committed evidence, and for a run of another
task and other numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from assay.verdict.evidence.claim.claim import Claim
from tests.house import ROOT
from tests.verification.made_run import made_run

PAGE = (ROOT / "docs/read-a-claim.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|")
][2:]
# Fields that no row is about: names of policies, and what method.md has.
BESIDE = {"before_policy", "after_policy", "decoding", "cross_check", "gain_split", "tokens_per_completion"}
BESIDE |= {"smallest_detectable_points", "planned_detectable_points"}
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.S)


def run_page() -> dict[str, Any]:
    """Run every block of the page in turn and return what it has named."""
    names: dict[str, Any] = {}
    for number, block in enumerate(BLOCKS):
        exec(compile(block, f"block {number} of read-a-claim.md", "exec"), names)
    return names


def test_the_page_derives_the_shipped_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert run_page()["claim"]["verdict"]


def test_the_page_derives_another_claim_and_not_an_edited_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = made_run(tmp_path / "run").root
    monkeypatch.chdir(root)
    # Few items: the ends of the interval hang on luck and are looked at in the shipped claim alone.
    few = [block for block in BLOCKS if "dirichlet" not in block]
    assert len(few) == len(BLOCKS) - 1
    monkeypatch.setattr("tests.test_read_a_claim.BLOCKS", few)
    run_page()
    path = root / "evidence/results/report/claim.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r'("better": )(\d+)', r"\g<1>1\2", text), encoding="utf-8")
    with pytest.raises(AssertionError):
        run_page()


def test_the_page_imports_nothing_of_assay() -> None:
    imported = re.findall(r"^(?:import|from) (.+?)(?: import .*)?$", "\n".join(BLOCKS), re.M)
    names = {name.strip() for each in imported for name in each.split(",")}
    assert names == {"gzip", "json", "collections", "pathlib", "statistics", "numpy", "hashlib"}


def test_every_field_that_the_table_names_is_one_of_the_claim() -> None:
    named = {name for _, fields, _ in ROWS for name in re.findall(r"`(\w+)`", fields)}
    assert named <= set(Claim.model_fields)


def test_what_decides_and_what_is_said_is_in_the_table() -> None:
    named = {name for row in ROWS for cell in row for name in re.findall(r"`(\w+)`", cell)}
    assert set(Claim.model_fields) - BESIDE <= named
