"""What each code of a claim says in English: the one place where remarks become sentences.

templates/english.txt has a line a code, below what it is about: a template of Jinja that uses the values of
the remark and no others. What bars a claim has below it, indented, what a headline says of it: no number
stands there. Without that line it is the text itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

BARS = "What bars a claim"  # how the head of a group begins whose codes do


def _read_groups(lines: list[str]) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Return the texts of each group by code, and of codes that bar a claim what a headline says."""
    groups, kinds, about, code = dict[str, dict[str, str]](), dict[str, str](), "", ""
    for line in filter(None, lines):
        if line.startswith("# "):
            about = line.removeprefix("# ")
            groups[about] = {}
        elif line.startswith("    "):
            kinds[code] = line.strip()
        else:
            code, _, text = line.partition(": ")
            groups[about][code] = text
            if about.startswith(BARS):
                kinds[code] = text
    return groups, kinds


_TEXT = Path(__file__).with_name("templates") / "english.txt"
GROUPS, KINDS = _read_groups(_TEXT.read_text(encoding="utf-8").split("\n"))
TEXTS: Mapping[str, str] = {code: text for group in GROUPS.values() for code, text in group.items()}
