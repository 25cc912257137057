"""Pages in Markdown: templates into which any text is put as one line that means nothing there."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from assay.verdict.evidence.escape import fenced, inline, one_line, visible


def _make_plain(value: object) -> object:
    """Return what was marked as Markdown as it is, and any other value as text of one line."""
    return value if isinstance(value, Markup) else one_line(str(value))


def make_pages(folder: Path) -> Environment:
    """Return the Markdown templates of a folder."""
    pages = Environment(
        loader=FileSystemLoader(folder),
        autoescape=False,  # Markdown: `_make_plain` escapes
        undefined=StrictUndefined,
        finalize=_make_plain,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    pages.filters |= {
        "fenced": lambda text: Markup(fenced(text)),
        "inline": lambda text: Markup(inline(text)),
        "visible": lambda text: Markup(visible(text)),
    }
    return pages


MARKDOWN = make_pages(Path(__file__).with_name("templates"))
