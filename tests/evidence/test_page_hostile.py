"""No text of a model, a data set or a run becomes markup: a hostile page has the elements of the harmless
one, no more."""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
import warnings
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from assay.core.errors import EvidenceError
from assay.verdict.evidence.escape import visible
from assay.verdict.evidence.figures.drawing import render
from assay.verdict.evidence.figures.forest_figure import cluster_gains, forest
from assay.verdict.evidence.page.shell import escaped, shell
from conftest import make_claim
from hostile import PAYLOADS
from made_pages import Tags, made_page
from made_pages import arms as made_arms


def policy(text: str) -> dict[str, str]:
    """Return the rules of a page by their names."""
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert found is not None
    rules = [rule.strip().split(" ", 1) for rule in found[1].split(";")]
    return {name: value for name, value in rules}


def test_the_policy_names_script_and_style_by_their_digests() -> None:
    text = shell(title="t", body="<main id='main'></main>", script="'use strict';\n", style="b{color:red}")
    rules = policy(text)
    assert rules["default-src"] == "'none'" and "unsafe" not in str(rules)
    for tag in ("script", "style"):
        inside = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert inside is not None
        digest = base64.b64encode(hashlib.sha256(inside[1].encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"


def test_without_a_script_none_may_run_and_a_served_page_may_ask_its_server() -> None:
    assert policy(shell(title="t", body=""))["script-src"] == "'none'"
    rules = policy(shell(title="t", body="", served=True, refresh_seconds=5))
    assert rules["connect-src"] == "'self'" and rules["img-src"] == "data: 'self'"
    assert 'http-equiv="refresh" content="5"' in shell(title="t", body="", refresh_seconds=5)
    assert "connect-src" not in policy(shell(title="t", body=""))


@pytest.mark.parametrize("text", ["</script>", "</SCRIPT x", "a<!--b"])
def test_a_script_that_would_end_early_is_refused(text: str) -> None:
    with pytest.raises(EvidenceError, match="would end it"):
        shell(title="t", body="", script=text)


def test_a_style_that_would_end_early_is_refused() -> None:
    with pytest.raises(EvidenceError, match="would end it"):
        shell(title="t", body="", style="a{}</style>")


def test_the_title_is_text() -> None:
    assert "<title>&lt;/title&gt;\\u2028</title>" in shell(title="</title>\u2028", body="")
    assert escaped("\u202e\"'&") == "\\u202e&quot;&#x27;&amp;"


PICTURE = "data:image/svg+xml;base64,"  # in which a browser runs nothing


def test_the_corpus_is_large_and_each_payload_another() -> None:
    assert len(set(PAYLOADS)) == len(PAYLOADS) >= 40


@pytest.fixture(scope="module")
def harmless() -> Tags:
    """Return the elements of a page that says nothing bad."""
    return Tags(made_page("plain"))


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_a_payload_in_every_place_adds_no_element_no_attribute_and_no_invisible_character(
    payload: str, harmless: Tags
) -> None:
    text = made_page(payload)
    tags = Tags(text)
    assert tags.seen == harmless.seen and tags.open == []
    # What a browser would obey stands in attributes: of those that may, none holds a word of a stranger.
    for (name, value), (_, known) in zip(tags.attributes, harmless.attributes, strict=True):
        assert (
            value == known or name in ("aria-label", "alt") or (name == "src" and value.startswith(PICTURE))
        )
    hidden = {each for each in text if unicodedata.category(each) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")}
    assert hidden <= {"\n", "\t"}
    text.encode("utf-8")


def test_hostile_text_would_be_found_if_it_were_let_through(harmless: Tags) -> None:
    text = made_page("plain").replace(">plain<", "><b>plain</b><", 1)
    assert Tags(text).seen != harmless.seen


@pytest.mark.parametrize("payload", [p for p in PAYLOADS if "\ud800" not in p])
def test_hostile_words_inside_a_figure_are_words(payload: str) -> None:
    figure = Figure()
    figure.text(0.5, 0.5, payload, parse_math=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that the font lacks
        drawn = ElementTree.fromstring(
            render(figure)["svg"]
        )  # which a browser could not draw if it were no XML
    assert {element.tag.split("}")[1] for element in drawn.iter()} <= {
        "svg",
        "metadata",
        "RDF",
        "Work",
        "type",
        "format",
        "g",
        "path",
        "use",
        "text",
        "tspan",
        "defs",
        "style",
        "clipPath",
        "rect",
    }
    assert not [name for element in drawn.iter() for name in element.attrib if name.startswith("on")]


@pytest.mark.parametrize(
    "name", ["$\\frac{$", "$x", "a$b$c", "</text><script>", "\x1b[31m", "\u202e", "{0} %s"]
)
def test_a_stratum_with_any_name_is_drawn_as_it_is_called(name: str) -> None:
    arms = [[e.model_copy(update={"strata": {"tier": name}}) for e in each] for each in made_arms()]
    figure = forest(make_claim(*arms), cluster_gains(*arms, "success_rate"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that the font lacks
        drawn = ElementTree.fromstring(render(figure)["svg"])
    assert f"tier: {visible(name)}" in ["".join(element.itertext()).strip() for element in drawn.iter()]
