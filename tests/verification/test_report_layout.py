"""The report of a whole run in a real browser: what stands where, and how long it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.evidence.browser import CHROMIUM, Browser, browser

FIRST = "document.querySelector('figure img').getBoundingClientRect().bottom"
HEIGHT = "document.documentElement.scrollHeight"
WIDTH = "document.documentElement.scrollWidth"
OPEN_ALL = "document.querySelectorAll('details').forEach(d => { d.open = true; })"


@pytest.fixture(scope="module")
def page(pristine: Path) -> Path:
    return pristine / "evidence/results/report/report.html"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium, which is not installed")
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def test_every_figure_says_what_it_shows_with_its_numbers_and_stands_before_the_tables(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    findings = re.findall(r"<figcaption><h3>(.*?)</h3>", text)
    assert len(findings) == text.count("<figure>") >= 8
    assert all(re.search(r"\d", said) for said in findings)
    assert (
        text.index("<figure>")
        < text.index('id="limits"')
        < text.index('id="rivals"')
        < text.index('id="compared"')
    )
    assert len(text.encode()) <= 1_200_000


def test_the_first_figure_is_in_the_first_window_and_the_page_is_short(page: Path, chromium: Browser) -> None:
    chromium.open(page)
    assert chromium.value(FIRST) <= 900 and chromium.value(HEIGHT) <= 11_000
    assert chromium.requested() == [] and chromium.complaints() == []


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_off_the_screen_even_with_everything_open(
    page: Path, chromium: Browser, width: int
) -> None:
    chromium.open(page, width=width)
    assert chromium.value(WIDTH) == width
    chromium.value(OPEN_ALL)
    assert chromium.value(WIDTH) == width
    wide = chromium.value(
        "[...document.querySelectorAll('figure img')].map(each => each.getBoundingClientRect().right)"
    )
    assert wide and max(wide) <= width
