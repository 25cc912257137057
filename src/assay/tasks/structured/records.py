"""One record of a tasks file, and one answer to it: what the model may read, what is right, and what an answer amounts to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.records import ParseOutcome


@dataclass(frozen=True, slots=True)
class Request:
    """The public part: instruction, what it is about, and the schema as the model is shown it."""

    prompt: str
    context: str | None
    schema_text: str
    chars_cut: int


@dataclass(frozen=True, slots=True)
class Reference:
    """The hidden part. `schema` is canonical JSON of (schema, resources, uri), so that equal schemas compile once."""

    schema: str
    has_gold: bool
    gold: Any
    is_call: bool


@dataclass(frozen=True, slots=True)
class Grade:
    """What one completion amounts to; `action` is the canonical text of the object it was read as."""

    outcome: ParseOutcome
    reason: str | None
    action: str | None
    parts: Mapping[str, float]
    success: bool
    flags: Mapping[str, bool | None]
    metrics: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class State:
    """An episode: asked while `grade` is None, answered after."""

    item_id: str
    request: Request
    reference: Reference = field(repr=False)  # a printed state must not tell what is right
    grade: Grade | None
