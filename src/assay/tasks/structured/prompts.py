"""What the model is told: the conversation if there is one, the instruction, the context, the schema, and
what to answer."""

from __future__ import annotations

from assay.tasks.protocol import Message
from assay.tasks.structured.reading.records import Request

CLOSING = "\nAnswer with one JSON object that satisfies this schema: "
CLOSING_FOR_VALUES = "\nAnswer with one JSON value that satisfies this schema: "


def opening(request: Request) -> list[Message]:
    """Return what opens an episode: one user message, behind the earlier ones of a conversation.

    Context and schema stand in the last message, the user's, since some templates know no system message.

    >>> opening(Request("Who?", "Ana came.", "{}", 0))[0]["content"]
    'Who?\\nAna came.\\nAnswer with one JSON object that satisfies this schema: {}'
    """
    told = request.prompt if request.context is None else f"{request.prompt}\n{request.context}"
    closing = CLOSING if request.answer == "object" else CLOSING_FOR_VALUES
    last = f"{told}{closing}{request.schema_text}"
    return [{"role": role, "content": content} for role, content in (*request.before, ("user", last))]
