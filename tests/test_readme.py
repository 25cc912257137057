"""README.md shows the committed evidence, and names nothing that is not there."""

from __future__ import annotations

import re

import pytest

from tests.house import ROOT

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("claim", "evidence/results/summary.md"),
        ("collider seeds", "benchmarks/results/seeds_collider.md"),
        ("structured seeds", "benchmarks/results/seeds_structured.md"),
    ],
)
def test_a_generated_table_is_the_one_of_the_last_run(name: str, source: str) -> None:
    shown = TEXT.split(f"<!-- {name}: generated, do not edit -->\n")[1].split(f"<!-- end of {name} -->")[0]
    assert shown == (ROOT / source).read_text(encoding="utf-8"), "./run assay readme renews it"


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_link_and_every_path_of_ours_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    paths = re.findall(r"`((?:src|tests|configs|benchmarks|policy|training|stages|evidence)/[\w/.-]+\.(?:py|yaml))`", text)
    for name in links + paths:
        assert (ROOT / name).exists() or (ROOT / "src/assay" / name).exists(), f"{page} names {name}"
