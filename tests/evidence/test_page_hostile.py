"""No text of a model, a data set or a run becomes markup: a hostile page has the elements of the harmless
one, no more."""

from __future__ import annotations

import unicodedata
import warnings
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from assay.evidence.claim.differences import deltas
from assay.evidence.escape import visible
from assay.evidence.figures.comparison_figures import before_after_summary
from assay.evidence.figures.drawing import render
from conftest import make_claim, make_report
from hostile import PAYLOADS
from made_pages import Tags, made_page
from made_pages import arms as made_arms

PICTURE = "data:image/svg+xml;base64,"  # in which a browser runs nothing


def test_the_corpus_is_large_and_each_payload_another() -> None:
    assert len(set(PAYLOADS)) == len(PAYLOADS) >= 40


@pytest.fixture(scope="module")
def harmless() -> Tags:
    """Return the elements of a page that says nothing bad."""
    return Tags(made_page("plain"))


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_a_payload_in_every_place_adds_no_element_and_no_attribute(payload: str, harmless: Tags) -> None:
    text = made_page(payload)
    tags = Tags(text)
    assert tags.seen == harmless.seen and tags.open == []
    # What a browser would obey stands in attributes: of those that may, none holds a word of a stranger.
    for (name, value), (_, known) in zip(tags.attributes, harmless.attributes, strict=True):
        assert (
            value == known or name in ("aria-label", "alt") or (name == "src" and value.startswith(PICTURE))
        )


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_no_invisible_character_of_a_payload_is_left(payload: str) -> None:
    text = made_page(payload)
    bad = {char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")} - {
        "\n",
        "\t",
    }
    assert bad == set()
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
    claim, reports = make_claim(*arms), [make_report(each) for each in arms]
    figure = before_after_summary(claim, *reports, deltas(*arms, ["success_rate"], 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that the font lacks
        drawn = ElementTree.fromstring(render(figure)["svg"])
    assert f"tier {visible(name)}" in ["".join(element.itertext()).strip() for element in drawn.iter()]
