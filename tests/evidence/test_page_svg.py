"""Figures inside a page stay what they were, in fewer bytes, and follow light and dark."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import EvidenceError
from assay.evidence.figures import new_figure, render
from assay.evidence.page.paths import LONG, compact, thinned
from assay.evidence.page.svg import Figures, darkened
from made_pages import figures

POINTS = st.lists(st.tuples(st.floats(-900, 900), st.floats(-900, 900)), min_size=2, max_size=30)
NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)")


def walked(path: str) -> list[tuple[float, float]]:
    """Return where a path of relative steps goes."""
    steps = [float(text) for text in NUMBER.findall(path)]
    return list(zip(np.cumsum(steps[::2]), np.cumsum(steps[1::2]), strict=True))


@given(POINTS)
def test_a_path_in_short_steps_goes_where_it_went(points: list[tuple[float, float]]) -> None:
    text = "M " + " L ".join(f"{x:.6f} {y:.6f}" for x, y in points)
    rounded = [(round(x * 10), round(y * 10)) for x, y in points]
    kept = [rounded[0], *(b for a, b in pairwise(rounded) if a != b or len(points) <= 3)]
    found = walked(compact(text))
    assert [(round(x * 10), round(y * 10)) for x, y in found] == kept


def test_a_closed_path_goes_on_from_its_start_and_a_curve_from_its_end() -> None:
    assert compact("M 1 1 L 3 1 z M 2 2 L 4 4") == "m1 1 2 0zm1 1 2 2"
    assert compact("M 0 0 C 1 0 2 1 2 2 L 3 3") == "m0 0c1 0 2 1 2 2l1 1"
    assert compact("M 0 0 A 1 1 0 0 1 2 2") == "M 0 0 A 1 1 0 0 1 2 2"


def test_a_long_line_keeps_its_extremes_and_its_ends() -> None:
    x = np.linspace(0, 300, 5000)
    y = np.random.default_rng(0).normal(size=5000)
    line = list(zip(x.tolist(), y.tolist(), strict=True))
    found = thinned(line)
    heights = [b for _, b in found]
    assert len(found) <= 2 * (300 / 1.5 + 2) and min(heights) == y.min() and max(heights) == y.max()
    assert found[0] == line[0] and found[-1] == line[-1]
    there_and_back = thinned([*line, *line[::-1]])
    assert there_and_back[0] == there_and_back[-1] == line[0] and len(there_and_back) > len(found)
    assert thinned(line[: LONG - 1]) == line[: LONG - 1]


def test_a_figure_gets_smaller_and_keeps_its_words() -> None:
    page = Figures()
    for shown in figures():
        drawn = page.inline(shown.svg, "caption")
        assert len(drawn) < 0.45 * len(shown.svg)
        before = re.findall(r"<text[^>]*>([^<]*)</text>", shown.svg.decode())
        assert re.findall(r"<text[^>]*>([^<]*)</text>", drawn) == before != []
        assert "style=" not in drawn and "#" not in re.sub(r'href="#|url\(#', "", drawn)


def test_every_class_and_colour_has_its_rule_in_light_and_dark() -> None:
    page = Figures()
    drawn = "".join(page.inline(shown.svg, "caption") for shown in figures())
    style = page.style()
    for name in set(re.findall(r'class="(\w+)"', drawn)):
        assert f".{name}{{" in style
    light, dark = style.split("@media")[0], style.split("@media")[1]
    for name in set(re.findall(r"var\((--c\d+)\)", style)):
        assert f"{name}:#" in light and f"{name}:#" in dark


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, 1 to 21. Source: WCAG 2.2, relative luminance."""

    def luminance(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colour", ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#000000", "#b00000"])
def test_every_colour_of_a_line_is_seen_on_dark_paper(colour: str) -> None:
    assert contrast(darkened(colour), "#161616") >= 4.0


def test_a_shape_without_a_colour_is_black_on_light_and_light_on_dark() -> None:
    assert "figure svg{fill:var(--ink)" in Figures().style()


def test_what_is_no_svg_is_refused() -> None:
    with pytest.raises(EvidenceError, match="an SVG file"):
        Figures().inline(b"<svg><path></svg>", "caption")


def test_a_link_out_of_a_figure_is_cut() -> None:
    svg = b'<svg viewBox="0 0 9 9" xmlns:xlink="http://www.w3.org/1999/xlink"><use xlink:href="http://evil.invalid/#a"/></svg>'
    assert "evil" not in Figures().inline(svg, "caption")


def test_a_hatched_bar_stays_small() -> None:
    figure, (axes,) = new_figure(1, 1, width=3, height=2)
    axes.bar([0, 1], [1, 2], hatch="....")
    svg = render(figure)["svg"]
    assert len(svg) > 50_000 and len(Figures().inline(svg, "caption")) < 20_000
