"""The frame of every page of ours, its templates and their parts. Every text is escaped here.

A page is one file with nothing from elsewhere, and a policy that lets nothing but our own script run.
"""

from __future__ import annotations

import base64
import hashlib
import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from assay.core.counting import counted
from assay.core.errors import EvidenceError
from assay.verdict.evidence.escape import visible
from assay.verdict.evidence.formatting import MISSING
from assay.verdict.evidence.labels import labelled, with_labels

TEMPLATES = Path(__file__).parent / "templates"
STYLE, SCRIPT = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("style.css", "script.js"))
MOST_CELLS = 420  # of the table behind a figure; the files have all of them
FEWEST_ROWS, MOST_ROWS = 12, 60


@dataclass(frozen=True, slots=True)
class Shown:
    """A figure as bytes of SVG, its caption, the numbers that were drawn, the file of evidence/results that
    holds all, what it shows in one sentence with its numbers, and whether only that is shown at first."""

    name: str
    svg: bytes
    caption: str
    table: pd.DataFrame
    source: str
    finding: str = ""
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Tick:
    """One check: its name, whether it held (None: it was not made), and what was checked with what came of
    it."""

    name: str
    held: bool | None
    said: str


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
    end = "th" if every % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(every % 10, "th")
    return frame.iloc[kept], f"Every {every}{end} of {n} rows, and the last; all of them: {source}."


def _make_visible(value: object) -> object:
    """Return markup of the templates as it is, and any other value as text that hides nothing."""
    return value if hasattr(value, "__html__") else visible(str(value))


ENVIRONMENT = Environment(
    loader=FileSystemLoader(TEMPLATES),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_make_visible,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.globals |= {"counted": counted, "few_rows": few_rows}
ENVIRONMENT.filters |= {
    "cell_text": cell_text,
    "base64": lambda data: base64.b64encode(data).decode(),
    "with_labels": with_labels,
}
ENVIRONMENT.filters["labelled"] = labelled


def fill(template: str, **values: Any) -> str:
    """Return a template of this folder with the values in it, each as escaped text."""
    return ENVIRONMENT.get_template(template).render(values)


def escaped(value: object) -> str:
    """Return any value as text of a page: markup is escaped, control and direction-changing characters are
    made visible.

    It may stand between tags and in a quoted attribute.

    >>> escaped("<b title='x'>")
    '&lt;b title=&#x27;x&#x27;&gt;'
    """
    return html.escape(visible(str(value)), quote=True)


def paragraph(text: str) -> str:
    """Return a text as a paragraph."""
    return f"<p>{escaped(text)}</p>"


def rows_table(head: Sequence[object], rows: Iterable[Sequence[object]], caption: str) -> str:
    """Return rows as an HTML table that scrolls by itself; missing cells say so, the first column heads its
    row.

    >>> "&lt;b&gt;" in rows_table(["a"], [["<b>"]], "c")
    True
    """
    parts: Any = ENVIRONMENT.get_template("parts.html").module
    return str(parts.table(head, list(rows), caption))


def _digest(text: str, tag: str) -> str:
    """Return what a policy calls a script or style by; refuses text that would end its element.

    The parser of a browser ends either at its closing tag wherever it stands, and "<!--" changes how it reads
    on.
    """
    if f"</{tag}" in text.lower() or "<!--" in text:
        raise EvidenceError(
            f"a {tag} of ours", found="text that would end it", where="page.shell", fix="keep data out of it"
        )
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def shell(
    *,
    title: str,
    body: str,
    script: str = "",
    style: str = "",
    refresh_seconds: int | None = None,
    served: bool = False,
) -> str:
    """Return a whole page around `body`, which is markup already; ends with a newline.

    The policy names our style and our script by their digests: no attribute `style`, no other script, nothing
    from the network. `served` lets the page also load images and data from the server it came from.
    `refresh_seconds` makes the browser load it again, without any script.

    Raises:
        EvidenceError: `script` or `style` holds text that would end its element (the caller's fault).
    """
    rules = STYLE + style
    policy = [
        "default-src 'none'",
        f"style-src {_digest(rules, 'style')}",
        f"script-src {_digest(script, 'script')}" if script else "script-src 'none'",
        "img-src data: 'self'" if served else "img-src data:",
        *(["connect-src 'self'"] if served else []),
        "base-uri 'none'",
        "form-action 'none'",
    ]
    values = {"title": title, "body": body, "script": script, "refresh_seconds": refresh_seconds}
    return fill("page.html", **values, style=rules, policy="; ".join(policy)) + "\n"
