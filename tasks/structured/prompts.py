"""What the model is told, and how the middle of a context is cut where it is too long; nothing else is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import regex  # type: ignore[import-untyped]

from assay.rollout.tasks.protocol import Message

from .reading.records import Request

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


MARK = " […] "
_GRAPHEME = regex.compile(r"\X")


def opening_chars(request: Request) -> int:
    """Return the length of the message that opens an episode."""
    return sum(len(message["content"]) for message in opening(request))


def shortened(request: Request, chars: int) -> Request | None:
    r"""Return the request with at least so many characters less in its opening; None if the context has not
    so many.

    A context that was cut before is cut further around its mark. In a conversation without a context it is
    the longest of the earlier messages that is cut; a system's message and the last one, which asks, never
    are.

    >>> cut = shortened(Request("Who?", "abcdefghijkl", "{}", 0), 4)
    >>> cut.context, cut.chars_cut
    ('ab […] l', 9)
    >>> shortened(Request("Who?", "abc", "{}", 0), 2) is None
    True
    """
    if chars <= 0:
        return request
    if request.context is None:
        return _shortened_before(request, chars)
    head, tail, before = _halves(request)
    budget = before - chars - len(MARK)
    if budget < 2:
        return None
    kept_head = _prefix(head, max((budget + 1) // 2, budget - len(tail)))
    kept_tail = _prefix_backwards(tail, budget - len(kept_head))
    if not kept_head and not kept_tail:
        return None
    gone = len(head) + len(tail) - len(kept_head) - len(kept_tail)
    return replace(request, context=f"{kept_head}{MARK}{kept_tail}", chars_cut=request.chars_cut + gone)


def _shortened_before(request: Request, chars: int) -> Request | None:
    """Return the request with its longest earlier message cut, as if that were the context."""
    lengths = [(len(text), -place) for place, (role, text) in enumerate(request.before) if role != "system"]
    if not lengths:
        return None
    place = -max(lengths)[1]
    role, text = request.before[place]
    cut = shortened(replace(request, context=text, before=()), chars)
    if cut is None or cut.context is None:
        return None
    before = (*request.before[:place], (role, cut.context), *request.before[place + 1 :])
    return replace(request, before=before, chars_cut=cut.chars_cut)


def fitting(request: Request, max_chars: int) -> Request | None:
    """Return the request cut to so many characters of opening; as it is if it fits, None if it cannot be made
    to."""
    return shortened(request, opening_chars(request) - max_chars)


def _halves(request: Request) -> tuple[str, str, int]:
    """Return what stands before and behind the place of the cut, and the length of the context as it is."""
    context = request.context or ""
    middle = len(context) // 2
    if request.chars_cut:
        # The text itself may hold the mark too: ours is the one nearest to the middle.
        places = [found.start() for found in regex.finditer(regex.escape(MARK), context)]
        if places:
            at = min(places, key=lambda place: abs(place + len(MARK) // 2 - middle))
            return context[:at], context[at + len(MARK) :], len(context)
    graphemes = _GRAPHEME.findall(context)
    at, taken = 0, 0
    while taken < len(graphemes) and at + len(graphemes[taken]) <= middle:
        at += len(graphemes[taken])
        taken += 1
    return context[:at], context[at:], len(context)


def _prefix(text: str, budget: int) -> str:
    return "".join(_within(_GRAPHEME.findall(text), budget))


def _prefix_backwards(text: str, budget: int) -> str:
    return "".join(reversed(_within(_GRAPHEME.findall(text)[::-1], budget)))


def _within(graphemes: Sequence[str], budget: int) -> list[str]:
    """Return the first graphemes that together have no more characters than the budget."""
    taken, length = 0, 0
    while taken < len(graphemes) and length + len(graphemes[taken]) <= budget:
        length += len(graphemes[taken])
        taken += 1
    return list(graphemes[:taken])


def bundled(schema_text: str, uri: str | None) -> str:
    r"""Return a schema as it is shown, root and further documents by name, as one document.

    >>> bundled(  # doctest: +NORMALIZE_WHITESPACE
    ...     '{"$ref":"b.json"}\nb.json: {"type":"null"}', "file:///a.json"
    ... )
    '{"$id": "file:///a.json", "$ref": "b.json",
    "$defs": {"b.json": {"$id": "file:///b.json", "type": "null"}}}'

    Args:
        schema_text: As `Request` has it.
        uri: Where the root stands, from which its references lead; None where it names nothing outside.
    """
    root, end = json.JSONDecoder().raw_decode(schema_text)
    if not isinstance(root, dict):
        return json.dumps(root)
    further = {}
    for line in schema_text[end:].splitlines():
        name, _, text = line.partition(": ")
        if text.startswith("{"):
            further[name] = {"$id": f"file:///{name}"} | json.loads(text)
    defined = dict(root.get("$defs") or {})
    home = {"$id": (uri or "file:///schema.json").partition("#")[0]} | root
    return json.dumps(home | {"$defs": {**defined, **further}} if further else home)
