"""What the model is told: the instruction, the context, the schema, and what to answer with."""

from __future__ import annotations

from assay.tasks.protocol import Message
from assay.tasks.structured.records import Request

CLOSING = "\nAnswer with one JSON object that satisfies this schema: "


def opening(request: Request) -> list[Message]:
    """Return the one user message that opens an episode; no system message, since some templates know none.

    >>> opening(Request("Who?", "Ana came.", "{}", 0))[0]["content"]
    'Who?\\nAna came.\\nAnswer with one JSON object that satisfies this schema: {}'
    """
    told = request.prompt if request.context is None else f"{request.prompt}\n{request.context}"
    return [{"role": "user", "content": f"{told}{CLOSING}{request.schema_text}"}]
