"""Structured output: one prompt, one JSON object that must satisfy a schema and, where there is a gold, be
right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.core.faces import load_lazily

if TYPE_CHECKING:
    from .reading.blocklist import parse_blocklist
    from .task import Structured

__all__ = ["Structured", "parse_blocklist"]
__getattr__ = load_lazily(
    __name__,
    {
        "Structured": f"{__name__}.task:Structured",
        "parse_blocklist": f"{__name__}.reading.blocklist:parse_blocklist",
    },
)
