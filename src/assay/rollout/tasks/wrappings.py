"""What models write around an answer, and how it is cut off before a task grades what is left.

Each wrapping is a function from a text to what it holds. One that is not there leaves the text as it is, to
the byte; where something is cut, white space at the ends goes with it. Every one looks at a text once.

Sources: chat templates of Qwen3, DeepSeek, Magistral, Command A, Kimi, Gemma 4, Granite, Apertus and Apriel;
Hermes function calling (https://github.com/NousResearch/Hermes-Function-Calling); harmony
(https://github.com/openai/harmony); mistral-common. What a call of a tool holds is `tool_calls.py`.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from assay.core.config.tasks import Wrapping
from assay.rollout.tasks.tool_calls import calls_as_text, read_bare_calls, read_calls

# In the order in which all of them are cut to see what an answer holds.
EVERY: tuple[Wrapping, ...] = get_args(Wrapping)
REASONING: tuple[Wrapping, ...] = ("channels", "think")

_BAR = "[|｜]"
_THOUGHT = r"(?:longcat_)?(?:think|thinking|thoughts?|thought_process|reasoning|reflection|scratch_?pad)"
_SAID = r"(?:answer|final_answer|response|solution|output)"
_CALL = r"(?:longcat_)?(?:tool_?calls?|function_?calls?|python_tag)"
_MOST_LOOKS = 32  # for JSON values in one text: each may read all of it


def _tags(name: str, *further: str) -> re.Pattern[str]:
    """Return what finds the tags of a name: `<name>`, `<|name|>`, `<|begin_of_name|>`, `<start_name>`,
    `<|name>` with `<name|>`, and further forms; bars may be wide and `_` may be `▁`, as DeepSeek has both. A
    closing tag has something in a group."""
    plain = rf"<(/|end_)?(?:start_)?\s*(?:\w+:|{_BAR}{{1,2}}DSML{_BAR}{{1,2}})?{name}\s*(\|)?>"
    piped = (
        rf"<(/)?{_BAR}(/|end_(?:of_)?)?(?:(?:start|begin)_(?:of_)?)?{name}(?:_section)?(?:_start|_begin|(_end))?"
        rf"(?:{_BAR})?>"
    )
    forms = "|".join((plain, piped, *(each.format(name) for each in further)))
    return re.compile(forms.replace("_", "[_▁]"), re.IGNORECASE)


def _ends(tag: re.Match[str]) -> bool:
    return any(tag.groups())


_BRACKETS = r"\[(/)?{}\]"
_GEMMA = (r"<\|channel>\s*thought\n?", r"<channel(\|)>")
_THINK = _tags(_THOUGHT, _BRACKETS, "◁(/)?{}▷", *_GEMMA, r"<\|inner_prefix\|>", r"<\|inner(_suffix)\|>")
_ANSWER = _tags(_SAID, r"\[BEGIN FINAL RESPONSE\]", r"\[(END) FINAL RESPONSE\]")
_CALLED = _tags(
    _CALL,
    _BRACKETS,
    *(r"<\|python_start\|>", r"<\|python(_end)\|>"),  # of Llama 4
    *(r"<\|(?:start_)?action(?:_start)?\|>(?:\s*<\|plugin\|>)?", r"<\|(?:(end_)action|action(_end))\|>"),
    *(
        r">>>(?:(all)\n|(?=[\w.-]+\n\s*\{{))",
        r"<\|recipient\|>\s*(all\b)?",
        r"<\|(from|stop)\|>",
    ),  # of functionary
    *(
        r"functools(?=\[)",
        r"(?m:^)Action:(?=\s*[\w.-]+\s+Action Input:)",
        r"✿FUNCTION✿:",
        r"✿(RESULT|RETURN)✿",
    ),
)
# Of Granite 3.2, which thinks without tags.
_GRANITE = re.compile(
    r"\A\s*Here(?: is|'s) my thought process:.*?(?:Here(?: is|'s) my response:|\Z)", re.DOTALL
)


def _think(text: str) -> str:
    """Return what stands outside of thought. Of a closing tag alone, whose opening one the prompt had, all
    before it is thought; of an opening one alone, all behind it."""
    text = _GRANITE.sub("", text)
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


_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BRACE = re.compile(r"(?<!\\)[{}]")


def _boxed(text: str) -> str:
    """Return what the last box of LaTeX holds, up to its own brace or the end."""
    opened = [each.end() for each in _BOXED.finditer(text)]
    if not opened:
        return text
    held, depth = text[opened[-1] :], 1
    for brace in _BRACE.finditer(held):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return held[: brace.start()]
    return held


_OPENED = re.compile(r"\s*[{\[]")
_CONTROL = re.compile(rf"(?:<{_BAR}[\w▁]{{1,40}}{_BAR}>|</s>|<eos>|<end_of_turn>|<turn\|>)\Z")
_MOST_CONTROL = 8  # tokens at the end of a text
_TOOL_CODE = re.compile(r"^```tool_(?:code|calls?)[ \t]*\n(.*?)(?:^```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)


def _tool_call(text: str) -> str:
    """Return the call that a text holds as JSON, or the list of several; what stands around it is no call."""
    blocks = _TOOL_CODE.findall(text) or _call_blocks(text)
    if blocks:
        calls = [call for block in blocks if block.strip() for call in read_calls(_fence(block))]
    elif not (calls := read_bare_calls(_without_control(text))):
        return text
    return calls[0] if len(calls) == 1 else f"[{', '.join(calls)}]" if calls else ""


def _call_blocks(text: str) -> list[str]:
    """Return what each pair of tags of calls holds; a tag inside JSON is a part of it."""
    found, since, looks = list[str](), -1, 0
    behind = 0
    for tag in _CALLED.finditer(text):
        if tag.start() < behind:
            continue
        if since >= 0:
            found.append(text[since : tag.start()])
        since = -1 if _ends(tag) else tag.end()
        opened = _OPENED.match(text, since) if since >= 0 else None
        if opened is not None and (looks := looks + 1) <= _MOST_LOOKS:
            with contextlib.suppress(ValueError, RecursionError):
                _, behind = _LOOSE.raw_decode(text, opened.end() - 1)
    found += [text[since:]] if since >= 0 else []
    return [_without_control(block) for block in found]


def _without_control(text: str) -> str:
    """Return a text without the control tokens at its end."""
    text = text.strip()
    for _ in range(_MOST_CONTROL):
        if (end := _CONTROL.search(text, max(0, len(text) - 50))) is None:
            break
        text = text[: end.start()].rstrip()
    return text


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
    r"(?:assistant)?(?P<channel>analysis|commentary|final)(?=[^\sa-z_.,;:!?)]|json[{\[])(?:json)?"
)


_GEMMA_CHANNEL = re.compile("|".join(_GEMMA))


def _channels(text: str) -> str:
    """Return what stands in the last channel `final`; without one the call of a tool; else nothing is
    said. Of Gemma, whose one channel is thought, what stands outside of it."""
    heads, whole = list(_HEADER.finditer(text)), text
    if heads:
        said = [(head, _TURN_ENDS.split(text[head.end() :], maxsplit=1)[0]) for head in heads]
    else:
        text = text.lstrip()
        begin = _BARE_BEGIN.match(text)
        if begin is None:
            return _think(whole) if _GEMMA_CHANNEL.search(whole) else whole
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
    r"(?<![`~])(?P<sign>`{3,9}|~{3,9})[ \t]*+[\w+#.-]{0,40}+[ \t]*+\r?\n"
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


_LOOSE = json.JSONDecoder()
_BEGINS = re.compile(r"[{\[]")
_INLINE = re.compile(r"(?<!`)```(?:json\b)?([^`\r\n]+)```(?!`)")


def _prose(text: str) -> str:
    """Return the one fenced block, or the one JSON object or list, that stands among words."""
    fenced = [each["held"] for each in _FENCED.finditer(text)] or _INLINE.findall(text)
    if len(fenced) == 1:
        return fenced[0]
    found, position, looks = list[str](), 0, 0
    for opened in _BEGINS.finditer(text):
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
    "boxed": _boxed,
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
    thought = "\n".join(
        each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in thoughts
    )
    if not isinstance(content, str) and not calls and not thought:
        return None, ""
    text = content if isinstance(content, str) else ""
    return "\n".join(part for part in (text, calls_as_text(calls)) if part), thought
