"""The report of a whole run in a real browser: what stands where, and how long it is."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.core.evidence_files import place_of
from tests.evidence.browser import AXE, CHROMIUM, NO_AXE, Browser, browser
from tests.house import ROOT

FIRST = "document.querySelector('figure img').getBoundingClientRect().bottom"
HEIGHT = "document.documentElement.scrollHeight"
WIDTH = "document.documentElement.scrollWidth"
# A word that stands on two lines; what has no place to break, such as a digest, may.
BROKEN = """(() => {
  const found = [], range = document.createRange();
  const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.parentElement.closest('pre, code')) continue;
    for (const word of node.data.matchAll(/(?<![\\p{L}\\p{N}_])[\\p{L}\\p{N}_]{1,24}(?![\\p{L}\\p{N}_])/gu)) {
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (range.getClientRects().length > 1) found.push(word[0]);
    }
  }
  return found;
})()"""
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
    findings += re.findall(r'<details class="fold"><summary>(.*?)</summary>\s*<figure>', text)
    assert len(findings) == text.count("<figure>") - 1 >= 7  # the first one's is the lead
    assert all(re.search(r"\d", said) for said in findings)
    assert (
        text.index("<figure>")
        < text.index('<h3 id="limits"')
        < text.index('id="rivals"')
        < text.index('id="compared"')
    )
    assert len(text.encode()) <= 1_200_000


def test_the_first_figure_is_in_the_first_window_and_the_page_is_short(page: Path, chromium: Browser) -> None:
    chromium.open(page)
    assert chromium.value(FIRST) <= 900 and chromium.value(HEIGHT) <= 8_000
    assert chromium.requested() == [] and chromium.complaints() == []


def test_it_prints_on_twenty_pages_of_paper(page: Path, chromium: Browser) -> None:
    chromium.open(page)
    printed = chromium.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"]  # inches of A4
    assert 1 < len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed))) <= 20


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_off_the_screen_even_with_everything_open(
    page: Path, chromium: Browser, width: int
) -> None:
    chromium.open(page, width=width)
    assert chromium.value(WIDTH) == width
    chromium.value(OPEN_ALL)
    assert chromium.value(WIDTH) == width
    assert chromium.value(BROKEN) == []
    wide = chromium.value(
        "[...document.querySelectorAll('figure img')].map(each => each.getBoundingClientRect().right)"
    )
    assert wide and max(wide) <= width


@pytest.mark.long
@pytest.mark.skipif(AXE is None, reason=NO_AXE)
@pytest.mark.parametrize(
    ("width", "dark", "shipped"), [(1280, False, True), (1280, True, False), (390, False, True)]
)
def test_no_rule_of_accessibility_is_broken_in_the_report_and_the_viewer_of_its_pairs(
    page: Path, chromium: Browser, width: int, dark: bool, shipped: bool
) -> None:
    chromium.open(ROOT / place_of("report.html") if shipped else page, width=width, dark=dark)
    chromium.value("document.getElementById('viewer').open = true")
    assert chromium.barriers() == []


@pytest.mark.long
@pytest.mark.skipif(AXE is None, reason=NO_AXE)
def test_a_broken_rule_of_accessibility_is_seen(chromium: Browser, tmp_path: Path) -> None:
    bare = tmp_path / "bare.html"
    bare.write_text("<!DOCTYPE html><html><body><img src='x'><p style='color: #ddd'>pale</p></body></html>")
    chromium.open(bare)
    rules = {said.partition(":")[0] for said in chromium.barriers()}
    assert {"image-alt", "color-contrast", "html-has-lang", "document-title"} <= rules
