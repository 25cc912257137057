"""README.md shows the committed evidence, and names nothing that is not there."""

from __future__ import annotations

import re

import pytest

from assay.tools import readme
from tests.house import ROOT

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["claim", *(f"{task} seeds" for task in readme.TASKS)])
def test_a_generated_table_is_the_one_of_the_last_run(name: str) -> None:
    start, end = readme.marks(name)
    assert TEXT.split(start)[1].split(end)[0] == readme.blocks(ROOT)[name], "./run assay readme renews it"


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_link_and_every_path_of_ours_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    paths = re.findall(r"`((?:src|tests|configs|benchmarks|policy|training|stages|evidence)/[\w/.-]+\.(?:py|yaml))`", text)
    for name in links + paths:
        assert (ROOT / name).exists() or (ROOT / "src/assay" / name).exists(), f"{page} names {name}"
