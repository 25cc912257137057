"""What a data folder's README.md says of itself, where it says it in a form that can be read without guessing."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Licence:
    """A licence that is known by name, and where its text stands."""

    name: str
    url: str


_SPDX = "https://spdx.org/licenses/"
KNOWN: tuple[tuple[str, Licence], ...] = (
    (r"CC0(?:[ -]1\.0)?", Licence("CC0 1.0", f"{_SPDX}CC0-1.0")),
    (r"CC[ -]BY[ -]4\.0", Licence("CC BY 4.0", f"{_SPDX}CC-BY-4.0")),
    (r"CC[ -]BY[ -]SA[ -]4\.0", Licence("CC BY-SA 4.0", f"{_SPDX}CC-BY-SA-4.0")),
    (r"CC[ -]BY[ -]NC[ -]4\.0", Licence("CC BY-NC 4.0", f"{_SPDX}CC-BY-NC-4.0")),
    (r"MIT(?: Licen[cs]e)?", Licence("MIT", f"{_SPDX}MIT")),
    (r"Apache(?: Licen[cs]e)?,?(?: version)?[ -]2\.0", Licence("Apache 2.0", f"{_SPDX}Apache-2.0")),
    (r"ODC[ -]By(?: 1\.0)?", Licence("ODC-By 1.0", f"{_SPDX}ODC-By-1.0")),
    (r"ODbL(?: 1\.0)?", Licence("ODbL 1.0", f"{_SPDX}ODbL-1.0")),
)
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.M)
_ROW = re.compile(r"^\|\s*((?:`[^`|\n]+`(?:,\s*)?)+)\s*\|\s*([^|\n]+?)\s*\|\s*$", re.M)
_LONGEST = 100_000  # of a page that is read; what stands behind it is not looked at


def stated_licence(page: str) -> Licence | None:
    """Return the licence that the page states for the data; None where it states none, or one nobody can tell from another.

    It is read from the first sentence below a heading Licence or License that names exactly one known licence as a word.

    >>> stated_licence("# Data\\n\\n## Licence\\n\\nThe files are under CC BY 4.0. The code is under MIT.\\n").name
    'CC BY 4.0'
    >>> stated_licence("## License\\n\\nMIT or Apache 2.0, as you like.\\n") is None
    True
    """
    text = _section(page[:_LONGEST], ("licence", "license"))
    for sentence in re.split(r"(?<=[.;])\s+(?=[A-Z])", " ".join(text.split())):
        named = [known for pattern, known in KNOWN if re.search(rf"(?<![\w-]){pattern}(?![\w-]|\.\d)", sentence, re.I)]
        if named:
            return named[0] if len(named) == 1 else None
    return None


def heading_and_lead(page: str) -> tuple[str, str]:
    """Return the first heading of the page and the paragraph below it, each empty where there is none.

    >>> heading_and_lead("# Shop\\n\\nSmall jobs,\\nmade up.\\n\\n## Files\\n")
    ('Shop.', 'Small jobs, made up.')
    """
    page = page[:_LONGEST]
    found = _HEADING.search(page)
    if found is None:
        return "", ""
    below = page[found.end() :].strip("\n").split("\n\n", 1)[0]
    lead = "" if below.startswith(("#", "|", "```")) else " ".join(below.split())
    return f"{found.group(1)}.", lead


def column_meanings(page: str) -> dict[str, str]:
    """Return what the table below a heading Columns (or Fields) says of them, by name; its rows have two cells.

    >>> column_meanings("## Columns\\n| column | meaning |\\n|---|---|\\n| `a`, `b.c` | two things |\\n")
    {'a': 'two things', 'b.c': 'two things'}
    """
    found: dict[str, str] = {}
    for row in _ROW.finditer(_section(page[:_LONGEST], ("columns", "fields"))):
        for name in re.findall(r"`([^`]+)`", row.group(1)):
            found.setdefault(name, row.group(2))
    return found


def _section(page: str, names: tuple[str, ...]) -> str:
    """Return what stands below the first heading of one of these names, up to the next heading."""
    headings = list(_HEADING.finditer(page))
    for place, heading in enumerate(headings):
        if heading.group(1).strip().casefold() in names:
            end = headings[place + 1].start() if place + 1 < len(headings) else len(page)
            return page[heading.end() : end]
    return ""
