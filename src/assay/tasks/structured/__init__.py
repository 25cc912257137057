"""Structured output: one prompt, one JSON object that must satisfy a schema and, where there is a gold, be right."""

from assay.tasks.structured.blocklist import parse_blocklist
from assay.tasks.structured.settings import StructuredSettings, Weights
from assay.tasks.structured.task import Structured

__all__ = ["Structured", "StructuredSettings", "Weights", "parse_blocklist"]
