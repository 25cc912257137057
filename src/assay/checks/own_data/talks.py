"""Conversations that are written as one text, with marks of who speaks."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any

# By how a text marks who speaks, what each mark looks like; its group is the role.
_MARKS = {
    "chatml": re.compile(r"<\|im_start\|>[ \t]*(\w+)[ \t]*\n?"),
    "Llama 3": re.compile(r"<\|start_header_id\|>[ \t]*(\w+)[ \t]*<\|end_header_id\|>"),
    "Llama 2": re.compile(r"(<<SYS>>|<</SYS>>|\[INST\]|\[/INST\])"),
    "Gemma": re.compile(r"<start_of_turn>[ \t]*(\w+)[ \t]*\n?"),
    "Zephyr": re.compile(r"<\|(system|user|assistant|tool)\|>[ \t]*\n?"),
    "hh": re.compile(r"(?:\A|\n\n)(Human|Assistant|System):[ \t]?"),
    "Vicuna": re.compile(r"(?:\A|\n)[ \t]*(SYSTEM|USER|ASSISTANT|FUNCTION RESPONSE):[ \t]?"),
    "headings": re.compile(r"(?:\A|\n)###? ?(Human|User|Assistant|System|Instruction|Response):?[ \t]*"),
}
CONTROL_TOKENS = frozenset({"chatml", "Llama 3", "Llama 2", "Gemma", "Zephyr"})  # the other marks are words
_ROLES = {"[inst]": "user", "[/inst]": "assistant", "<<sys>>": "system", "<</sys>>": "user"}
_ROLES |= {"instruction": "user", "response": "assistant", "function response": "tool"}
_ENDS = re.compile(
    r"<\|(?:im_end|eot_id|endoftext|end_of_text|begin_of_text|end)\|>|</?s>|<(?:end_of_turn|eos|bos)>"
)
# What a tokenizer may put before all; anything else there, and control tokens are spoken of, not used.
_BEGIN = re.compile(r"(?:\s|\[gMASK\]|<[^<>\s]{1,40}>)*")
_CALL = re.compile(r"<functioncall>\s*(\{.*\})", re.DOTALL)
_QUOTED = re.compile(r"\"arguments\":\s*'(.*)'\s*\}", re.DOTALL)


def name_marks(text: Any) -> str | None:
    """Return how a text marks who speaks; None where it is no conversation in one text.

    >>> name_marks("\\n\\nHuman: 1 + 1?\\n\\nAssistant: 2"), name_marks("Human: who?")
    ('hh', None)
    """
    if not isinstance(text, str):
        return None
    for name, mark in _MARKS.items():
        found = [*islice(mark.finditer(text), 2)]
        bare = name not in CONTROL_TOKENS or _BEGIN.fullmatch(text, 0, found[0].start() if found else 0)
        if len(found) > 1 and bare:
            return name
    return None


def read_talk(text: str) -> list[dict[str, Any]]:
    """Return the messages of a conversation in one text, without its marks and the tokens that end a turn;
    what stands before the first is what a system message says."""
    name = name_marks(text)
    if name is None:
        return [{"role": "user", "content": text}]
    marks = list(_MARKS[name].finditer(text))
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    before = "" if name in CONTROL_TOKENS else _ENDS.sub("", text[: marks[0].start()]).strip()
    messages = [{"role": "system", "content": before}] if before else []
    for mark, end in zip(marks, ends, strict=True):
        role, said = mark[1].lower(), _ENDS.sub("", text[mark.end() : end]).strip()
        if said:
            messages.append(_message(_ROLES.get(role, role), said))
    return messages


def _message(role: str, said: str) -> dict[str, Any]:
    """Return a message; a call as glaive writes it, with its arguments in single quotes, is a call."""
    if (found := _CALL.search(said)) is None:
        return {"role": role, "content": said}
    call = found[1]
    if (quoted := _QUOTED.search(call)) is not None:
        call = f'{call[: quoted.start()]}"arguments": {quoted[1]}}}'
    try:
        written = json.loads(call, strict=False)
    except (ValueError, RecursionError):
        return {"role": role, "content": said}
    return {"role": role, "content": None, "tool_calls": [written]}


def functions_in(text: Any) -> list[dict[str, Any]]:
    """Return the functions that a system message lists as JSON, one after the other; none for other texts.

    >>> functions_in('SYSTEM: with these functions -\\n{"name": "f", "parameters": {}}')
    [{'name': 'f', 'parameters': {}}]
    """
    found, decoder = list[dict[str, Any]](), json.JSONDecoder(strict=False)
    position = text.find("{") if isinstance(text, str) else -1
    while position >= 0:
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, dict) or not {"name", "parameters"} <= value.keys():
            return []
        found.append(value)
        position = text.find("{", end)
    return found
