"""The page in a real browser with the network off: it asks for nothing, the console stays empty, and keys are
enough."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.verdict.evidence.page.shell import shell
from browser import CHROMIUM, Browser, browser
from hostile import PAYLOADS
from made_pages import arms, made_page, plain_claim

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium, which is not installed")
ELEMENTS = """[...document.querySelectorAll('*')]
    .map(e => e.tagName + ' ' + e.getAttributeNames().filter(name => name !== 'open')).join('\\n')"""
SHOWN = "[...document.querySelectorAll('article')].filter(each => each.checkVisibility()).length"
OPENED = "document.querySelectorAll('#pairs, #viewer').forEach(each => { each.open = true; })"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Give one browser to all tests."""
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def written(folder: Path, text: str) -> Path:
    """Return the page on disk."""
    (folder / "page.html").write_text(text, encoding="utf-8")
    return folder / "page.html"


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_asks_for_nothing_and_fits_the_window(
    chromium: Browser, tmp_path: Path, width: int, dark: bool
) -> None:
    chromium.open(written(tmp_path, made_page(["plain"] * 12)), width=width, dark=dark)
    assert chromium.requested() == [] and chromium.complaints() == []
    assert chromium.value("document.documentElement.scrollWidth") == width
    paper = chromium.value("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(22, 22, 22)" if dark else "rgb(255, 255, 255)")
    widths = chromium.value("[...document.querySelectorAll('figure img')].map(each => each.naturalWidth)")
    assert widths and all(found > 100 for found in widths), "every figure is drawn"


def test_the_verdict_and_the_first_figure_stand_in_the_first_window_and_the_page_is_short(
    chromium: Browser, tmp_path: Path
) -> None:
    page = written(tmp_path, made_page(["plain"] * 12, claim=plain_claim()))
    chromium.open(page)
    places = "[...document.querySelectorAll('.verdict, .lead, figure img')].slice(0, 3)"
    bottoms = chromium.value(f"{places}.map(each => each.getBoundingClientRect().bottom)")
    assert len(bottoms) == 3 and bottoms == sorted(bottoms) and bottoms[-1] <= 900
    assert chromium.value("document.documentElement.scrollHeight") <= 9000
    chromium.value("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert chromium.value("document.documentElement.scrollWidth") == 1280
    chromium.open(page, width=390)
    narrow = (
        "[...document.querySelectorAll('tbody th')].filter(e => e.checkVisibility()).map(e => e.clientWidth)"
    )
    assert min(chromium.value(narrow), default=90) >= 90, "names of rows are not broken letter by letter"
    chromium.value("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert chromium.value("document.documentElement.scrollWidth") == 390


def test_nothing_hostile_runs_loads_or_becomes_an_element(chromium: Browser, tmp_path: Path) -> None:
    chromium.open(written(tmp_path, made_page([f"plain{k}" for k in range(len(PAYLOADS))])))
    harmless = chromium.value(ELEMENTS)
    chromium.open(written(tmp_path, made_page(PAYLOADS)))
    chromium.value("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert chromium.value("window.__ran") is None
    assert chromium.requested() == [] and chromium.complaints() == []
    assert chromium.value(ELEMENTS) == harmless


def test_the_browser_of_these_tests_sees_a_request_and_a_breach_of_the_policy(
    chromium: Browser, tmp_path: Path
) -> None:
    body = '<main id="main"><img src="http://evil.invalid/x.png" onerror="window.__ran=1"></main>'
    chromium.open(written(tmp_path, shell(title="t", body=body)))
    assert chromium.value("window.__ran") is None
    assert "Content Security Policy" in "".join(chromium.complaints())
    bare = (
        "<!DOCTYPE html><img src='http://evil.invalid/x.png'"
        " onerror='window.__ran=1'><script>console.log(1)</script>"
    )
    chromium.open(written(tmp_path, bare))
    assert chromium.requested() == ["http://evil.invalid/x.png"]
    assert chromium.value("window.__ran") == 1 and "consoleAPICalled" in "".join(chromium.complaints())


def test_all_pairs_are_looked_through_by_outcome_words_and_keys_and_what_differs_is_marked(
    chromium: Browser, tmp_path: Path
) -> None:
    ask = {"prompts": {"item-003": "a prompt of 003"}}
    chromium.open(written(tmp_path, made_page("plain", **ask)))
    chromium.value("document.getElementById('viewer').open = true")
    said = "document.querySelector('#viewer form + div p').textContent"
    change = (
        "(() => {{ const f = document.querySelector('#viewer form').elements; f.{0}.value = {1};"
        " f.{0}.dispatchEvent(new Event('input', {{bubbles: true}})); }})()"
    )
    first, second = arms()
    n = sum(not one.success and other.success for one, other in zip(first, second, strict=True))
    assert chromium.value(said).startswith(f"Pair 1 of {len(first)}.")
    chromium.value(change.format("outcome", "'01'"))
    assert chromium.value(said).startswith(f"Pair 1 of {n}.")
    chromium.value("document.querySelector('#viewer button[name=next]').focus()")
    chromium.key("n", 78, "n")
    assert chromium.value(said).startswith(f"Pair 2 of {n}.")
    chromium.key("p", 80, "p")
    assert chromium.value(said).startswith(f"Pair 1 of {n}.")
    heads = "[...document.querySelectorAll('#viewer h3')].map(each => each.textContent.split(',')[0])"
    assert chromium.value(heads) == ["Before: no success", "After: success"]
    chromium.value(change.format("outcome", "''"))
    chromium.value(change.format("words", "'PROMPT of 003'"))
    assert chromium.value(said).startswith("Pair 1 of 4. Item item-003,")
    chromium.value(change.format("words", "'not there'"))
    assert chromium.value(said) == "No pair is like that."
    marked = "[...document.querySelectorAll('#viewer mark')].map(each => each.textContent)"
    chromium.value(change.format("words", "''"))
    one, other = (" ".join(turn.completion for turn in each[0].turns) for each in (first, second))
    assert bool(chromium.value(marked)) == (one != other)


def test_a_table_is_sorted_by_the_head_of_a_column(chromium: Browser, tmp_path: Path) -> None:
    chromium.open(
        written(tmp_path, made_page(["10.5 [9, 12]", "9", "\u2212300", "missing words", "< .0001"]))
    )
    chromium.value("document.querySelector('#data thead button').click()")
    cells = "[...document.querySelectorAll('#data tbody tr')].map(r => r.cells[0].textContent)"
    assert chromium.value(cells) == ["\u2212300", "< .0001", "9", "10.5 [9, 12]", "last", "missing words"]
    assert chromium.value("document.querySelector('#data th').getAttribute('aria-sort')") == "ascending"
    chromium.value("document.querySelector('#data thead button').click()")
    assert chromium.value(cells)[0] == "10.5 [9, 12]"


def test_without_script_everything_is_there_and_no_dead_control(chromium: Browser, tmp_path: Path) -> None:
    chromium.open(written(tmp_path, made_page(["plain"] * 12)), script=False)
    chromium.call("Emulation.setScriptExecutionDisabled", value=False)
    chromium.value(OPENED)
    assert chromium.value(SHOWN) == 12
    assert (
        chromium.value(
            "[...document.querySelectorAll('form, th button')].filter(e => e.checkVisibility()).length"
        )
        == 0
    )


def test_the_tab_key_reaches_everything_in_the_order_of_reading(chromium: Browser, tmp_path: Path) -> None:
    chromium.open(written(tmp_path, made_page("plain")))
    chromium.value(OPENED)
    places, names = [], set()
    for _ in range(400):
        chromium.key("Tab", 9)
        at = chromium.value(
            "(() => { const e = document.activeElement; return e === document.body ? null : [e.tagName, "
            "[...document.querySelectorAll('*')].indexOf(e), getComputedStyle(e).outlineStyle]; })()"
        )
        if at is None or (places and at[1] <= places[-1]):
            break
        places.append(at[1])
        names.add(at[0])
        assert at[2] != "none"
    assert {"A", "DIV", "SUMMARY", "SELECT", "INPUT", "BUTTON"} <= names
    # Of a group of radio buttons a tab reaches the one that is chosen, and arrows the others.
    inputs = "input:not([type=radio]), input:checked"
    reachable = f"document.querySelectorAll('a[href], summary, select, {inputs}, button, [tabindex=\"0\"]')"
    visible = f"[...{reachable}].filter(e => e.checkVisibility()).length"
    assert len(places) == chromium.value(visible)


def test_the_first_key_skips_to_the_content(chromium: Browser, tmp_path: Path) -> None:
    chromium.open(written(tmp_path, made_page("plain")))
    chromium.key("Tab", 9)
    chromium.key("Enter", 13, "\r")
    assert chromium.value("document.activeElement.id") == "main"


TURN = """[...document.querySelectorAll('.step')]
    .filter(e => e.checkVisibility()).map(e => e.querySelector('h3').textContent)"""


def test_arrow_keys_step_through_an_episode_without_a_script_and_paper_shows_all_of_it(
    chromium: Browser, tmp_path: Path
) -> None:
    chromium.open(written(tmp_path, made_page("plain")), width=390, script=False)
    chromium.call("Emulation.setScriptExecutionDisabled", value=False)
    assert chromium.value(TURN) == ["Before, turn 1 of 2"]
    chromium.value("document.getElementById('step-1-1').focus()")
    chromium.key("ArrowRight", 39)
    assert chromium.value(TURN) == ["Before, turn 2 of 2"]
    assert chromium.value("document.documentElement.scrollWidth") == 390
    drawn = (
        "[...document.querySelectorAll('.step svg')].filter(e => e.checkVisibility()).map(e => e.clientWidth)"
    )
    assert len(chromium.value(drawn)) == 2 and min(chromium.value(drawn)) > 100
    chromium.call("Emulation.setEmulatedMedia", media="print")
    assert chromium.value(TURN) == ["Before, turn 1 of 2", "Before, turn 2 of 2"]
    chromium.call("Emulation.setEmulatedMedia", media="")
