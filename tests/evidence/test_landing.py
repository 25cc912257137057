"""evidence/README.md says the verdict, names every file there is, and holds no markup of a stranger."""

from __future__ import annotations

import re

from tests.house import STAGES, reads_and_writes

from assay.core.records import Episode
from assay.evidence.claim.claim import Claim
from assay.evidence.tables.evidence_readme import RESULT_FILES, VERIFY, landing_page
from conftest import make_claim
from hostile import PAYLOADS

FIGURE = ("before_after_summary", "Before and after.")


def test_every_file_that_a_stage_writes_is_explained_and_no_other() -> None:
    written = {name for stage in STAGES for name in reads_and_writes(stage)[1]}
    results = {name.removeprefix("evidence/results/") for name in written if name.startswith("evidence/results/")}
    assert [name for name, _ in RESULT_FILES] == list(dict(RESULT_FILES)) and set(dict(RESULT_FILES)) == results
    assert "evidence/README.md" in written


def test_the_page_says_verdict_figure_files_checks_and_limits(claim: Claim) -> None:
    text = landing_page(claim, FIGURE, ["One run."], data="mine")
    words = ("**IMPROVED.** " + claim.sentence, "](results/figures/before_after_summary.png)", "(results/claim.json)")
    places = [text.index(word) for word in (*words, "## Check it", VERIFY[0][1], "## Limits", "One run.")]
    assert places == sorted(places)
    assert all(target.startswith(("results/", "observed/")) for target in re.findall(r"\]\(([^)]*)\)", text))


def test_what_is_not_evaluable_shows_its_reason_and_no_figure(before: list[Episode], after: list[Episode]) -> None:
    text = landing_page(make_claim(before, after, blockers=["an edited plan"]), FIGURE, [], data="mine")
    assert text.startswith("# Evidence: mine\n\n**NOT EVALUABLE.**")
    assert "an edited plan" in text and "figures/" not in text.split("##")[0]


def test_text_of_a_stranger_is_neither_markup_nor_a_link(claim: Claim) -> None:
    bad = [*PAYLOADS, "[click](http://evil.invalid)", "![x](http://evil.invalid/x.png)", "# Head\n\n| a |", "`code`"]
    text = landing_page(claim.model_copy(update={"warnings": tuple(bad)}), FIGURE, bad, data=bad[0])
    plain = ("plain",) * len(bad)
    harmless = landing_page(claim.model_copy(update={"warnings": plain}), FIGURE, plain, data="mine")
    assert len(text.splitlines()) == len(harmless.splitlines())
    assert "<" not in text.replace("&lt;", "") or not re.search(r"<[a-zA-Z/!?]", text)
    assert not re.search(r"(?<!\\)\]\(http", text)
