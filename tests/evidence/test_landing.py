"""evidence/README.md says the verdict, names every file there is, and holds no markup of a stranger."""

from __future__ import annotations

import re

import pytest
from tests.house import ROOT

from assay.core.evidence_files import FILES, RESULTS
from assay.core.records import Episode
from assay.evidence.claim.claim import Claim
from assay.evidence.tables.evidence_readme import VERIFY, landing_page
from conftest import make_claim
from hostile import PAYLOADS

FIGURE = ("before_after_summary", "Before and after.")


@pytest.mark.parametrize("folder", [folder for folder in FILES if folder.startswith(RESULTS)])
def test_a_folder_of_the_evidence_holds_the_files_that_are_named_and_explained_and_no_other(
    folder: str,
) -> None:
    assert {path.name for path in (ROOT / folder).iterdir()} == set(FILES[folder])


def test_every_name_of_a_file_is_in_one_folder_alone_and_on_the_page(claim: Claim) -> None:
    names = [name for found in FILES.values() for name in found]
    assert len(names) == len(set(names))
    text = landing_page(claim, FIGURE, [], data="mine")
    assert not [name for name in names if f"/{name}" not in text]


def test_the_page_says_verdict_figure_files_checks_and_limits(claim: Claim) -> None:
    text = landing_page(claim, FIGURE, ["One run."], data="mine")
    figure = "](results/report/figures/before_after_summary.png)"
    words = ("**IMPROVED.** " + claim.sentence, figure, "(results/report/claim.json)")
    places = [text.index(word) for word in (*words, "## Check it", VERIFY[0][1], "## Limits", "One run.")]
    assert places == sorted(places)
    assert all(target.startswith(("results/", "observed/")) for target in re.findall(r"\]\(([^)]*)\)", text))


def test_what_is_not_evaluable_shows_its_reason_and_no_figure(
    before: list[Episode], after: list[Episode]
) -> None:
    text = landing_page(make_claim(before, after, blockers=["an edited plan"]), FIGURE, [], data="mine")
    assert text.startswith("# Evidence: mine\n\n**NOT EVALUABLE.**")
    assert "an edited plan" in text and "figures/" not in text.split("##")[0]


def test_text_of_a_stranger_is_neither_markup_nor_a_link(claim: Claim) -> None:
    bad = [
        *PAYLOADS,
        "[click](http://evil.invalid)",
        "![x](http://evil.invalid/x.png)",
        "# Head\n\n| a |",
        "`code`",
    ]
    text = landing_page(claim.model_copy(update={"warnings": tuple(bad)}), FIGURE, bad, data=bad[0])
    plain = ("plain",) * len(bad)
    harmless = landing_page(claim.model_copy(update={"warnings": plain}), FIGURE, plain, data="mine")
    assert len(text.splitlines()) == len(harmless.splitlines())
    assert "<" not in text.replace("&lt;", "") or not re.search(r"<[a-zA-Z/!?]", text)
    assert not re.search(r"(?<!\\)\]\(http", text)
