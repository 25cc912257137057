"""Model text is hostile: shown, never obeyed. Invisible and direction-changing characters become visible
escapes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd  # takes half a second to load, and most commands make no table

_NOT_PLAIN = re.compile(r"[^\n\t -~]")  # all ASCII that is printed is plain


def visible(text: str) -> str:
    r"""Return the text with control, format (bidi, zero-width), separator, private and unassigned characters
    escaped.

    Newlines and tabs stay; a carriage return does not.

    >>> visible("a\u202eb\x1b[31m")
    'a\\u202eb\\x1b[31m'
    """
    return _NOT_PLAIN.sub(lambda found: _escaped(found[0]), text)


def _escaped(char: str) -> str:
    category, code = unicodedata.category(char), ord(char)
    if category[0] != "C" and category not in ("Zs", "Zl", "Zp"):
        return char
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def plain_name(name: str) -> str:
    """Return a name out of the data, such as a stratum's, without what a page could take for markup.

    >>> plain_name("tier=[few](x)<b>")
    'tier=_few__x__b_'
    """
    return re.sub(r"[^\w=.,:+ -]", "_", name)[:60]


def fenced(text: str) -> str:
    """Return a Markdown code block that the text inside cannot close.

    >>> fenced("a ``` b").splitlines()[0]
    '````text'
    """
    shown = visible(text)
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"


def inline(text: str) -> str:
    """Return a Markdown code span on one line that the text inside cannot close; safe in a table cell.

    >>> inline("a|b"), inline("`x`")
    ('`a\\\\|b`', '`` `x` ``')
    """
    shown = visible(text).replace("\n", "\\n").replace("\t", "\\t").replace("|", "\\|")
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    if not longest:
        return f"`{shown}`" if shown.strip() else "(empty)"
    fence = "`" * (longest + 1)
    return f"{fence} {shown} {fence}"


def markdown_table(frame: pd.DataFrame) -> str:
    """Return a frame of text as a GitHub table; bars and line breaks in cells are neutralised.

    >>> import pandas as pd
    >>> print(markdown_table(pd.DataFrame({"a": ["x|y"], "b": [1]})))
    | a | b |
    | --- | --- |
    | x\\|y | 1 |
    """

    def line(cells: Sequence[object]) -> str:
        texts = [
            re.sub(r"<(?! )", "&lt;", visible(str(cell))).replace("\n", " ").replace("|", "\\|")
            for cell in cells
        ]
        return "| " + " | ".join(texts) + " |"

    lines = [line(list(frame.columns)), line(["---"] * len(frame.columns))]
    return "\n".join([*lines, *(line(list(row)) for row in frame.itertuples(index=False, name=None))])


def one_line(text: str) -> str:
    r"""Return text on one line in which Markdown and HTML mean nothing.

    >>> print(one_line("<b>a</b>\n*b*"))
    &lt;b&gt;a&lt;/b&gt; \*b\*
    """
    flat = visible(text).replace("\n", " ").replace("\t", " ").replace("\\", "\\\\")
    for sign in "<>[]`*_|":
        flat = flat.replace(sign, {"<": "&lt;", ">": "&gt;"}.get(sign, f"\\{sign}"))
    return flat
