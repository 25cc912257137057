"""Transcripts in a table: whose words a message holds, and what a model was told before it first spoke."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any

ROLES = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human", "prompter"), "user"),
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "ai", "bot", "model", "function_call"), "assistant"),
    **dict.fromkeys(
        ("tool", "ipython", "function", "observation", "tool_response", "function_response"), "tool"
    ),
}
Transcript = list[Mapping[str, Any]]


def read_transcript(value: Any) -> Transcript | None:
    """Return messages with the roles and fields of OpenAI's, from a list of them or its text as JSON or
    Python writes it; None for anything else.

    >>> read_transcript('[{"from": "gpt", "value": "4"}]')
    [{'role': 'assistant', 'content': '4'}]
    >>> read_transcript("four"), read_transcript([]), read_transcript([{"role": "narrator"}])
    (None, None, None)
    """
    if isinstance(value, str):
        value = _list_in(value)
    if not isinstance(value, list) or not value:
        return None
    found: Transcript = []
    for each in value:
        role = (
            ROLES.get(str(each.get("role") or each.get("from")).lower()) if isinstance(each, dict) else None
        )
        if role is None:
            return None
        said = next(
            (each[name] for name in ("content", "value", "parts") if each.get(name) is not None), None
        )
        rest = {name: part for name, part in each.items() if name not in ("from", "value", "parts")}
        found.append({**rest, "role": role, "content": said})
    return found


def split_transcript(messages: Transcript) -> tuple[Transcript, Transcript]:
    """Return what a model was told before its first message, and the messages from there on."""
    first = next((n for n, each in enumerate(messages) if each["role"] == "assistant"), len(messages))
    return messages[:first], messages[first:]


def _list_in(text: str) -> Any:
    if text.lstrip()[:1] == "[":
        for read in (json.loads, ast.literal_eval):
            try:
                return read(text.strip())
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
    return None
