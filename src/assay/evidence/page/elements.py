"""The pieces of a page: sections, tables, lists, figures with the numbers behind them. Every text is escaped
here."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.core.counting import counted
from assay.evidence.formatting import MISSING
from assay.evidence.page.shell import escaped

MOST_CELLS = 420  # of the table behind a figure; a page has a size limit, the files have none
FEWEST_ROWS = 12
MOST_ROWS = 60


@dataclass(frozen=True, slots=True)
class Shown:
    """A figure as bytes of SVG, its caption, the numbers that were drawn, and the file of evidence/results
    that holds all."""

    name: str
    svg: bytes
    caption: str
    table: pd.DataFrame
    source: str


def cell_text(value: object) -> str:
    """Return what stands in a cell: numbers in four digits, whole ones whole, nothing as missing.

    >>> [cell_text(v) for v in (0.123456, 12345.0, None, float("nan"), "a", True)]
    ['0.1235', '12345', 'missing', 'missing', 'a', 'yes']
    """
    if value is None or value is pd.NA or value != value:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        whole = math.isfinite(value) and value == int(value) and abs(value) < 1e9
        return f"{value:.0f}" if whole else f"{value:.4g}"
    return str(value)


def rows_table(
    head: Sequence[object], rows: Iterable[Sequence[object]], caption: str, *, long: bool = False
) -> str:
    """Return rows as an HTML table with every cell escaped; missing cells say so; the first column heads its
    row.

    It scrolls by itself where it is wider than the page. `long` lets cells with long words break.

    >>> "&lt;b&gt;" in rows_table(["a"], [["<b>"]], "c")
    True
    """
    columns = "".join(f'<th scope="col">{escaped(name)}</th>' for name in head)
    body = []
    for row in rows:
        first, *rest = (escaped(cell_text(cell)) for cell in row)
        body.append(f'<tr><th scope="row">{first}</th>{"".join(f"<td>{text}</td>" for text in rest)}</tr>')
    if not body:
        return paragraph(f"{caption}: none.")
    kind = ' class="long"' if long else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escaped(caption)}"><table{kind}>'
        f"<caption>{escaped(caption)}</caption><thead><tr>{columns}</tr></thead><tbody>"
        + "\n".join(body)
        + "</tbody></table></div>"
    )


def html_table(frame: pd.DataFrame, caption: str, *, long: bool = False) -> str:
    """Return a frame as `rows_table` shows it."""
    return rows_table(list(frame.columns), frame.itertuples(index=False, name=None), caption, long=long)


def few_rows(frame: pd.DataFrame, source: str) -> tuple[pd.DataFrame, str]:
    """Return a frame short enough for a page, and what was left out in words; the last row always stays.

    >>> frame, said = few_rows(pd.DataFrame({"step": range(200)}), "log.csv")
    >>> len(frame), said
    (51, 'Every 4th of 200 rows, and the last; all of them: log.csv.')
    """
    n = len(frame)
    most = max(FEWEST_ROWS, min(MOST_ROWS, MOST_CELLS // max(1, len(frame.columns))))
    if n <= most:
        return frame, f"{counted(n, 'rows')}; source: {source}."
    every = math.ceil(n / most)
    kept = sorted({*range(0, n, every), n - 1})
    return frame.iloc[kept], f"Every {_ordinal(every)} of {n} rows, and the last; all of them: {source}."


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def figure(shown: Shown) -> str:
    """Return a figure, scrolling by itself on a narrow page, with its caption and the numbers behind it.

    It is a picture, not a part of the page: nothing in it can run, and its ids meet no others.
    """
    few, said = few_rows(shown.table, shown.source)
    picture = base64.b64encode(shown.svg).decode()
    drawn = f'<img alt="{escaped(shown.caption)}" src="data:image/svg+xml;base64,{picture}">'
    numbers = f"<p>No rows: nothing was drawn. Source: {escaped(shown.source)}.</p>"
    if len(few):
        numbers = html_table(few, f"{shown.caption} {said}")
    return (
        '<figure><div class="scroll" tabindex="0" role="region"'
        f' aria-label="{escaped(shown.name)}">{drawn}</div><figcaption>{escaped(shown.caption)}</figcaption><details><summary>The'
        f" numbers of this figure ({escaped(shown.name)})</summary>{numbers}</details></figure>"
    )


def section(name: str, heading: str, *blocks: str) -> str:
    """Return a section of the page under its heading; `name` is what links point to, a word of ours."""
    return (
        f'<section id="{name}" aria-labelledby="{name}-head"><h2 id="{name}-head">{escaped(heading)}</h2>\n'
        + ("\n".join(blocks) + "\n</section>")
    )


def paragraph(text: str, kind: str = "") -> str:
    """Return a text as a paragraph; `kind` is one of the style's classes."""
    return f"<p{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}>{escaped(text)}</p>"


def bullets(texts: Iterable[str]) -> str:
    """Return texts as a list; nothing for none."""
    inside = "".join(f"<li>{escaped(text)}</li>" for text in texts)
    return f"<ul>{inside}</ul>" if inside else ""


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """Return (what, value) as a row of small boxes."""
    return (
        '<dl class="facts">'
        + "".join(f"<div><dt>{escaped(a)}</dt><dd>{escaped(b)}</dd></div>" for a, b in pairs)
        + "</dl>"
    )


def commands(texts: Sequence[tuple[str, str]]) -> str:
    """Return (what it does, command) as a list of commands to type."""
    return "".join(
        f"<p>{escaped(said)}</p><pre><code>{escaped(command)}</code></pre>" for said, command in texts
    )
