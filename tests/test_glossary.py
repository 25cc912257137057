"""Each word of docs/glossary.md is used, and words that it replaces are not, but for names in files."""

from __future__ import annotations

import re
from pathlib import Path

from tests.house import ROOT

GLOSSARY = ROOT / "docs/glossary.md"
# Commands and codes of claims, whose pages are made of the code.
GENERATED = {ROOT / "docs/cli.md", ROOT / "docs/internals/claim.md"}
PAGES = [ROOT / "README.md", *(path for path in (ROOT / "docs").rglob("*.md") if path != GLOSSARY)]
REPLACED = {"rival": "baseline", "checkpoint dir": "checkpoint", "heldout": "held-out suite"}


def prose_of(path: Path) -> str:
    """Return the text of a page without blocks, code and the addresses of links."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return " ".join(re.sub(r"`[^`]*`|\]\([^)]*\)", "", text).split()).lower()


def test_the_glossary_has_forty_words_in_order_each_of_which_is_used() -> None:
    rows = re.findall(r"^\| (.+?) \| (.+) \| (.+) \| (.+) \|$", GLOSSARY.read_text(encoding="utf-8"), re.M)
    terms = [term.lower() for term, *_ in rows[1:]]
    assert len(terms) == 40 and terms == sorted(terms)
    prose = " ".join(map(prose_of, PAGES))
    assert [term for term in terms if not re.search(rf"\b{term}(s|es)?\b", prose)] == []


def test_no_page_says_a_word_that_the_glossary_replaces() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {old}, which is {new}"
        for path in PAGES
        if path not in GENERATED
        for old, new in REPLACED.items()
        if re.search(rf"\b{old}s?\b", prose_of(path))
    ]
    assert found == []


def test_an_opening_is_a_look_at_held_out_records_and_never_a_prompt() -> None:
    """The rooms that render and play prompts know nothing of the ledger, so the word has no place there."""
    rooms = (ROOT / "src/assay/rollout" / room for room in ("policy", "evaluation"))
    lines = [
        (path, line)
        for room in rooms
        for path in sorted(room.rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    assert any("prompt" in line for _, line in lines)
    assert [path.name for path, line in lines if re.search(r"openings?\b", line, re.IGNORECASE)] == []
