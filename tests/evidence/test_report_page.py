"""The page is one offline file: verdict first, nothing from the network, no text that acts."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pandas as pd

from assay.evidence.claim import Claim
from assay.evidence.comparison_figures import before_after_summary, reward_distribution
from assay.evidence.differences import deltas
from assay.evidence.figures import render
from assay.evidence.report import report_html
from assay.evidence.trajectories import Pair, choose_pairs
from assay.records import Episode
from assay.seeds import rng
from conftest import make_claim, make_report
from synthetic_episodes import episode

HOSTILE = "</pre><script>alert(1)</script><!-- \u202e\u2028 <img src=http://evil.test onerror=x>"


class Tags(HTMLParser):
    """Collects tags and attributes, and checks that they nest."""

    VOID = ("meta", "br", "img", "link")

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += attrs


def page(claim: Claim, before: list[Episode], after: list[Episode], pairs: list[Pair], *cells: str) -> str:
    """Return a page with two figures, a table and pairs."""
    first, second = make_report(before), make_report(after)
    gaps = deltas(before, after, list(first.measures), 0)
    figures = {
        "summary": (render(before_after_summary(claim, first, second, gaps))["svg"], "before and after"),
        "rewards": (render(reward_distribution(before, after))["svg"], "rewards"),
    }
    return report_html(
        claim,
        title="assay <test>",
        digests={"dataset": "d" * 64},
        figures=figures,
        tables={"a table": pd.DataFrame({"x": ["<b>", None, *cells]})},
        run=pd.DataFrame({"what": ["task"], "value": ["<collider>"]}),
        pairs=pairs,
        prompts={"item-000": HOSTILE + "x" * 9000},
        truths={"item-000": f"right {HOSTILE}"},
    )


def test_the_page_starts_with_the_verdict(before: list[Episode], after: list[Episode], claim: Claim) -> None:
    text = page(claim, before, after, choose_pairs(before, after, rng(0)))
    order = ("IMPROVED", "<h2>What was run", "&lt;collider&gt;", "<h2>Integrity", "<h2>Before and after", "<h2>Controls")
    places = [text.index(word) for word in order]
    assert places == sorted(places)
    assert "assay &lt;test&gt;" in text and claim.plan_digest in text and "missing" in text


def test_the_page_nests_and_loads_nothing(before: list[Episode], after: list[Episode], claim: Claim) -> None:
    text, tags = page(claim, before, after, choose_pairs(before, after, rng(0))), Tags()
    tags.feed(text)
    assert tags.open == []
    assert not {"script", "img", "link", "iframe", "object"} & set(tags.seen)
    assert "default-src 'none'" in text and "prefers-color-scheme" in text
    for name, value in tags.attributes:
        assert not name.startswith("on")
        if name in ("href", "xlink:href", "src"):
            assert value is not None and value.startswith("#")


def test_ids_are_unique_and_references_resolve(before: list[Episode], after: list[Episode], claim: Claim) -> None:
    tags = Tags()
    tags.feed(page(claim, before, after, []))
    ids = [value for name, value in tags.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for name, value in tags.attributes:
        for target in re.findall(r"url\(#([^)]+)\)", value or ""):
            assert target in ids
        if name == "xlink:href" and value:
            assert value[1:] in ids


def test_hostile_text_does_nothing(before: list[Episode], after: list[Episode], claim: Claim) -> None:
    bad = episode(0, 0, success=False, completion=HOSTILE)
    text, tags = page(claim, before, after, [Pair("random", bad, bad)]), Tags()
    tags.feed(text)
    assert "script" not in tags.seen and "img" not in tags.seen
    assert "\u202e" not in text and "\u2028" not in text and "<!--" not in text.split("<h2>Episodes")[1]


def test_prompt_and_truth_stand_above_the_answers_of_their_item(
    before: list[Episode], after: list[Episode], claim: Claim
) -> None:
    one, other = episode(0, 0, success=False), episode(1, 0, success=False)
    shown = page(claim, before, after, [Pair("random", one, one), Pair("best", other, other)]).split("<h2>Episodes")[1]
    places = [shown.index(word) for word in ("Prompt:", "characters left out", "right &lt;/pre&gt;", "<h4>Before")]
    assert places == sorted(places)
    assert shown.count("Prompt:") == 1 and "x" * 3000 not in shown


def test_the_digest_of_the_plan_is_not_taken_for_that_of_its_file(
    before: list[Episode], after: list[Episode], claim: Claim
) -> None:
    text = page(claim, before, after, [])
    assert f"gives another)</td><td>{claim.plan_digest}" in text


def test_a_missing_interval_is_explained_once_and_only_where_there_is_one(
    before: list[Episode], after: list[Episode], claim: Claim
) -> None:
    said = "[interval missing]: the scenarios do not differ"
    assert page(claim, before, after, [], "0.0 [interval missing]", "1.0 [interval missing]").count(said) == 1
    barred = make_claim(before, after, after_suite="x" * 64)
    for cell, n in (("0.0 [0.0, 1.0]", 0), ("0.0 [interval missing]", 1)):
        table = {"rates": pd.DataFrame({"rate": [cell]})}
        assert report_html(barred, title="t", digests={}, figures={}, tables=table).count(said) == n


def test_the_scope_reads_as_sentences_and_p_is_said_once(before: list[Episode], after: list[Episode], claim: Claim) -> None:
    text = page(claim, before, after, [])
    assert "<p>Held-out, sampled, checkpoint rule: highest validation success. Reason: the primary metric got better" in text
    assert "<td>training seed</td><td>7</td>" in text
    assert re.search(r"<td>p, two-sided sign flips over clusters</td><td>(&lt; )?\.\d+</td>", text)


def test_without_episodes_the_page_stays_small(before: list[Episode], after: list[Episode], claim: Claim) -> None:
    assert len(page(claim, before, after, []).encode()) < 300_000


def test_a_claim_that_is_not_evaluable_shows_no_numbers(before: list[Episode], after: list[Episode]) -> None:
    found = make_claim(before, after, after_suite="x" * 64)
    text = report_html(found, title="t", digests={}, figures={}, tables={})
    assert "NOT EVALUABLE" in text and "<h2>Before and after" not in text
