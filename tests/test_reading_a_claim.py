"""The page that goes through a claim names what claim.json has, and every line that is said first."""

from __future__ import annotations

import re

from assay.verdict.evidence.claim.claim import Claim
from tests.house import ROOT

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/reading-a-claim.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("|")
][2:]


def test_every_field_that_the_page_names_is_one_of_the_claim() -> None:
    named = {name for _, fields, _ in ROWS for name in re.findall(r"`(\w+)`", fields)}
    assert named <= set(Claim.model_fields)


def test_what_decides_and_what_is_said_is_on_the_page() -> None:
    named = {name for row in ROWS for cell in row for name in re.findall(r"`(\w+)`", cell)}
    beside = {
        "before_policy",
        "after_policy",
        "decoding",
        "cross_check",
        "gain_split",
        "tokens_per_completion",
    }
    beside |= {"smallest_detectable_points", "planned_detectable_points"}
    assert set(Claim.model_fields) - beside <= named
