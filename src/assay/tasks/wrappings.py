"""What models write around an answer, and how it is cut off before a task grades what is left.

Each wrapping is a function from a text to what it holds. One that is not there leaves the text as it is, to
the byte; where something is cut, white space at the ends goes with it. Every one looks at a text once.

Sources: chat templates of Qwen3, DeepSeek-R1, Magistral, Command A and Kimi; Hermes function calling
(https://github.com/NousResearch/Hermes-Function-Calling); harmony (https://github.com/openai/harmony);
mistral-common.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from assay.core.config.tasks import Wrapping

# In the order in which all of them are cut to see what an answer holds.
EVERY: tuple[Wrapping, ...] = get_args(Wrapping)
REASONING: tuple[Wrapping, ...] = ("channels", "think")

_THOUGHT = r"(?:think|thinking|thought|reasoning|reflection|scratchpad)"
_SAID = r"(?:answer|final_answer|response|solution|output)"
_CALL = r"(?:tool_calls?|function_?calls?|python_tag)"
_MOST_LOOKS = 32  # for JSON values in one text: each may read all of it


def _tags(name: str, *further: str) -> re.Pattern[str]:
    """Return what finds the tags of a name: `<name>`, `<|name|>`, `<|begin_of_name|>`, and further forms. A
    closing tag has something in a group."""
    plain = rf"<(/)?\s*(?:\w+:)?{name}\s*>"
    piped = rf"<(/)?\|(/|end_(?:of_)?)?(?:(?:start|begin)_(?:of_)?)?{name}(?:_start|(_end))?\|>"
    return re.compile("|".join((plain, piped, *(each.format(name) for each in further))), re.IGNORECASE)


def _ends(tag: re.Match[str]) -> bool:
    return any(tag.groups())


_BRACKETS = r"\[(/)?{}\]"
_THINK, _ANSWER = _tags(_THOUGHT, _BRACKETS, "◁(/)?{}▷"), _tags(_SAID)
_CALLED = _tags(_CALL, _BRACKETS)


def _think(text: str) -> str:
    """Return what stands outside of thought. Of a closing tag alone, whose opening one the prompt had, all
    before it is thought; of an opening one alone, all behind it."""
    kept, since, inside = list[str](), 0, False
    for tag in _THINK.finditer(text):
        if _ends(tag):
            kept = kept if inside else []
            inside, since = False, tag.end()
        elif not inside:
            kept.append(text[since : tag.start()])
            inside = True
    return "".join(kept if inside else [*kept, text[since:]])


def _blocks(tags: re.Pattern[str], text: str) -> list[str]:
    """Return what each opening tag holds, up to a closing one, the next one, or the end."""
    found, since = list[str](), -1
    for tag in tags.finditer(text):
        if since >= 0:
            found.append(text[since : tag.start()])
        since = -1 if _ends(tag) else tag.end()
    return found if since < 0 else [*found, text[since:]]


def _answer(text: str) -> str:
    """Return what the last pair of answer tags holds."""
    blocks = _blocks(_ANSWER, text)
    return blocks[-1] if blocks else text


_NAMED = re.compile(r"\s*([\w.-]+)\s*(?:\[CALL_ID\][^\[{]*)?(?:\[ARGS\]\s*)?(\{.*)", re.DOTALL)  # of Mistral
_CONTROL = re.compile(r"(?:<\|[a-z_]+\|>|</s>)\s*\Z")


def _tool_call(text: str) -> str:
    """Return the call that a text holds as JSON, or the list of several; what stands around it is no call."""
    blocks = _blocks(_CALLED, text)
    calls = [call for block in blocks for call in _calls_in(_CONTROL.sub("", block).strip())]
    if not calls:
        return text
    return calls[0] if len(calls) == 1 else f"[{', '.join(calls)}]"


def _calls_in(block: str) -> list[str]:
    """Return the calls of a block as texts: a list's one by one, and Mistral's name before its arguments."""
    if (named := _NAMED.fullmatch(block)) is not None:
        return [f'{{"name": {json.dumps(named[1])}, "arguments": {named[2].strip()}}}']
    try:
        value = json.loads(block)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, list) or not value:
        return [block]
    return [block[1:-1].strip()] if len(value) == 1 else [_written(each) for each in value]


_HEADER = re.compile(
    r"(?:<\|start\|>)?(?P<role>assistant|developer|system|tool|user)?[^<]{0,200}"
    r"<\|channel\|>(?P<channel>\w+)(?P<head>(?:[^<]|<\|constrain\|>){0,200})<\|message\|>"
)
_TURN_ENDS = re.compile(r"<\|(?:end|return|call|start|channel)\|>")
_TO = re.compile(r"to=(?:functions\.)?([\w.-]+)")
# The same without its control tokens, as a decoder that skips them leaves it: analysisWe need ...
_BARE = re.compile(
    r"assistant(?P<channel>final|commentary)(?P<head>\s+to=[\w.=]+(?:\s*json)?)?(?:json(?=[{\[]))?"
)
_BARE_BEGIN = re.compile(
    r"(?:assistant)?(?P<channel>analysis|commentary|final)(?=[^\sa-z.,;:!?)]|json[{\[])(?:json)?"
)


def _channels(text: str) -> str:
    """Return what stands in the last channel `final`; without one the call of a tool; else nothing is
    said."""
    heads, whole = list(_HEADER.finditer(text)), text
    if heads:
        said = [(head, _TURN_ENDS.split(text[head.end() :], maxsplit=1)[0]) for head in heads]
    else:
        text = text.lstrip()
        begin = _BARE_BEGIN.match(text)
        if begin is None:
            return whole
        heads = [begin, *_BARE.finditer(text, begin.end())]
        stops = [*(head.start() for head in heads[1:]), len(text)]
        said = [(head, text[head.end() : stop]) for head, stop in zip(heads, stops, strict=True)]
    finals = [body for head, body in said if head["channel"] == "final"]
    if finals:
        return finals[-1]
    for head, body in reversed(said):
        if (to := _TO.search(head.group(0))) is not None:
            return f'{{"name": {json.dumps(to[1])}, "arguments": {body.strip()}}}'
    return ""


_FENCED = re.compile(
    r"(?<![`~])(?P<sign>`{3,9}|~{3,9})[ \t]*[\w+#.-]{0,40}[ \t]*\r?\n"
    r"(?P<held>(?:(?!^[ \t]*(?P=sign)).)*)(?:^[ \t]*(?P=sign)[ \t]*)?",
    re.DOTALL | re.MULTILINE,
)
_ONE_LINE = re.compile(r"(`{1,9})(?:json\b)?([^`\r\n]+)\1")


def _fence(text: str) -> str:
    """Return what a code fence, or backticks, hold, if nothing stands around them; a fence may lack its
    end."""
    bare = text.strip()
    if (found := _FENCED.fullmatch(bare)) is not None:
        return found["held"]
    return text if (found := _ONE_LINE.fullmatch(bare)) is None else found[2]


_OPENED, _LOOSE = re.compile(r"[{\[]"), json.JSONDecoder()


def _prose(text: str) -> str:
    """Return the one fenced block, or the one JSON object or list, that stands among words."""
    fenced = list(_FENCED.finditer(text))
    if len(fenced) == 1:
        return fenced[0]["held"]
    found, position, looks = list[str](), 0, 0
    for opened in _OPENED.finditer(text):
        start = opened.start()
        if start < position:
            continue
        if (looks := looks + 1) > _MOST_LOOKS or len(found) > 1:
            return text
        try:
            _, position = _LOOSE.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        found.append(text[start:position])
    return found[0] if len(found) == 1 else text


_CUTS: Mapping[Wrapping, Callable[[str], str]] = {
    "channels": _channels,
    "think": _think,
    "answer": _answer,
    "tool_call": _tool_call,
    "fence": _fence,
    "prose": _prose,
}


def cut_off(text: str, wrappings: Sequence[Wrapping]) -> str:
    """Return what is left of a completion once each of some wrappings is cut off, one after the other.

    >>> cut_off("<think>\\nOslo?\\n</think>\\n\\n```json\\n{}\\n```", ["think", "fence"])
    '{}'
    >>> [cut_off(text, ["think"]) for text in ("Oslo?</think>Rome", "<think>Oslo", " Rome")]
    ['Rome', '', ' Rome']
    """
    for name in wrappings:
        if (left := _CUTS[name](text)) != text:
            text = left.strip()
    return text


def found_around(text: str, wrappings: Sequence[Wrapping] = EVERY) -> tuple[Wrapping, ...]:
    """Return which of some wrappings stand around an answer, in the order in which they are cut.

    >>> found_around("<think>Oslo?</think>\\n```\\nRome\\n```")
    ('think', 'fence')
    """
    found = []
    for name in wrappings:
        left = cut_off(text, [name])
        if left != text:
            found.append(name)
        text = left
    return tuple(found)


def only_reasons(text: str) -> bool:
    """Return whether a completion says something, and nothing but reasoning.

    >>> only_reasons("<think>Rome, or"), only_reasons("Rome"), only_reasons("")
    (True, False, False)
    """
    return bool(text.strip()) and not cut_off(text, REASONING).strip()


def calls_as_text(calls: Sequence[Any]) -> str:
    """Return calls of tools, as an API gives them, as a model writes them: a JSON object in tags for each.

    >>> calls_as_text([{"type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}])
    '<tool_call>\\n{"name": "f", "arguments": {"x": 1}}\\n</tool_call>'
    """
    return "\n".join(f"<tool_call>\n{_written(_call_of(call))}\n</tool_call>" for call in calls)


def _call_of(call: Any) -> Any:
    """Return name and arguments of a call, which an API may hold as JSON text."""
    said = call.get("function", call) if isinstance(call, Mapping) else call
    if not isinstance(said, Mapping) or "name" not in said:
        return said
    arguments = said.get("arguments", said.get("input", said.get("args", {})))
    if isinstance(arguments, str):
        # What a model wrote that is no JSON stays a text, which no gold equals.
        with contextlib.suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
    return {"name": said["name"], "arguments": arguments}


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# By which names servers and files hold thought beside a message's content: vLLM, SGLang and DeepSeek, then
# OpenRouter and Ollama, then Ollama's own.
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")


def read_message(message: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return what a message of an API says, calls of tools behind its text, and the thought beside it; None
    where it holds no text, no call and no thought.

    >>> read_message({"content": None, "reasoning_content": "Rome?"}), read_message({"content": None})
    (('', 'Rome?'), (None, ''))
    """
    content, found = message.get("content"), message.get("tool_calls") or message.get("function_call") or []
    calls = list(found) if isinstance(found, list) else [found]
    thoughts = [message[name] for name in _THOUGHTS if message.get(name)][:1]
    if isinstance(content, list):  # of Anthropic, Mistral and Gemini, in parts
        parts = [part for part in content if isinstance(part, Mapping)]
        calls += [part for part in parts if part.get("type") == "tool_use"]
        calls += [part["functionCall"] for part in parts if part.get("functionCall")]
        thoughts += [part[name] for part in parts for name in _THOUGHTS if part.get(name)]
        texts, aside = (
            [
                part["text"]
                for part in parts
                if isinstance(part.get("text"), str) and bool(part.get("thought")) is of
            ]
            for of in (False, True)
        )
        thoughts += aside
        content = "".join(texts) if texts else None
    thought = "\n".join(each if isinstance(each, str) else _written(each) for each in thoughts)
    if not isinstance(content, str) and not calls and not thought:
        return None, ""
    text = content if isinstance(content, str) else ""
    return "\n".join(part for part in (text, calls_as_text(calls)) if part), thought
