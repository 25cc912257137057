"""One record of a tasks file, and one answer to it: what the model may read, what is right, and what an
answer amounts to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from assay.core.records import ParseOutcome

from .golds import Call, Calls, Gold


@dataclass(frozen=True, slots=True)
class Request:
    """The public part: instruction, what it is about, and the schema as the model is shown it.

    `before` is what was said before the instruction in a conversation, as (role, text); `answer` is what the
    model is asked for: an object, or a value of another kind where the schema wants one.
    """

    prompt: str
    context: str | None
    schema_text: str
    chars_cut: int
    before: tuple[tuple[str, str], ...] = ()
    answer: Literal["object", "value"] = "object"

    @property
    def told(self) -> str:
        """All that the model is told besides the schema."""
        return "\n".join([*(text for _, text in self.before), f"{self.prompt}\n{self.context or ''}"])


@dataclass(frozen=True, slots=True)
class Reference:
    """The hidden part.

    `schema` is canonical JSON of (schema, resources, uri), so that equal schemas compile once; any of `golds`
    is right, and an answer may have any of the kinds in `wanted`. `counting` is what of the golds is graded:
    the fields, or arguments of calls, that `graded` names, or all.
    """

    schema: str
    golds: tuple[Gold, ...]
    wanted: frozenset[str]
    counting: tuple[Gold, ...]
    graded: tuple[str, ...] | None

    @property
    def has_gold(self) -> bool:
        """Whether anything that counts is known to be right."""
        return bool(self.counting)

    @property
    def is_call(self) -> bool:
        """Whether calls are asked for."""
        return any(isinstance(gold, Call | Calls) for gold in self.golds)


@dataclass(frozen=True, slots=True)
class Grade:
    """What one completion amounts to; `action` is the canonical text of the value it was read as."""

    outcome: ParseOutcome
    reason: str | None
    action: str | None
    parts: Mapping[str, float]
    success: bool
    flags: Mapping[str, bool | None]
    metrics: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class StructuredState:
    """An episode: asked while `grade` is None, answered after."""

    item_id: str
    request: Request
    reference: Reference = field(repr=False)  # a printed state must not tell what is right
    grade: Grade | None
