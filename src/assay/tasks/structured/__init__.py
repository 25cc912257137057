"""Structured output: one prompt, one JSON object that must satisfy a schema and, where there is a gold, be right."""

from assay.tasks.structured.reading.blocklist import parse_blocklist
from assay.tasks.structured.task import Structured

__all__ = ["Structured", "parse_blocklist"]
