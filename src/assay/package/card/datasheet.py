"""What a data folder's README.md says of itself, where it says it in a form that can be read without
guessing."""

from __future__ import annotations

import re

KNOWN: tuple[tuple[str, str], ...] = (
    (r"CC0(?:[ -]1\.0)?", "CC0 1.0"),
    (r"CC[ -]BY[ -]4\.0", "CC BY 4.0"),
    (r"CC[ -]BY[ -]SA[ -]4\.0", "CC BY-SA 4.0"),
    (r"CC[ -]BY[ -]NC[ -]4\.0", "CC BY-NC 4.0"),
    (r"MIT(?: Licen[cs]e)?", "MIT"),
    (r"Apache(?: Licen[cs]e)?,?(?: version)?[ -]2\.0", "Apache 2.0"),
    (r"ODC[ -]By(?: 1\.0)?", "ODC-By 1.0"),
    (r"ODbL(?: 1\.0)?", "ODbL 1.0"),
)
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.M)
DATASHEET = "README.md"  # of a folder of data: its page
_LONGEST = 100_000  # of a page that is read; what stands behind it is not looked at


def stated_licence(page: str) -> str | None:
    """Return the licence that the page states for the data; None where it states none, or one nobody can tell
    from another.

    It is read from the first sentence below a heading Licence or License that names exactly one known licence
    as a word.

    >>> stated_licence("# Data\\n\\n## Licence\\n\\nThe files are under CC BY 4.0. The code is under MIT.\\n")
    'CC BY 4.0'
    >>> stated_licence("## License\\n\\nMIT or Apache 2.0, as you like.\\n") is None
    True
    """
    text = _section(page[:_LONGEST], ("licence", "license"))
    for sentence in re.split(r"(?<=[.;])\s+(?=[A-Z])", " ".join(text.split())):
        named = [
            known
            for pattern, known in KNOWN
            if re.search(rf"(?<![\w-]){pattern}(?![\w-]|\.\d)", sentence, re.I)
        ]
        if named:
            return named[0] if len(named) == 1 else None
    return None


def _section(page: str, names: tuple[str, ...]) -> str:
    """Return what stands below the first heading of one of these names, up to the next heading."""
    headings = list(_HEADING.finditer(page))
    for place, heading in enumerate(headings):
        if heading.group(1).strip().casefold() in names:
            end = headings[place + 1].start() if place + 1 < len(headings) else len(page)
            return page[heading.end() : end]
    return ""
