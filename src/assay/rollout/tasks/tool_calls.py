"""How models and APIs write calls of tools, read as one form: `{"name": …, "arguments": {…}}`.

Where a form does not tell texts from other values (`<parameter=zip>12345</parameter>`), what JSON reads as a
number, truth value, null, list or object is one, as the chat templates write them.

Sources: chat templates of DeepSeek V3 to V3.2, Kimi K2, GLM 4.5, Qwen3-Coder, Llama 3 and 4, Mistral,
functionary, Gemma 3 and 4, FunctionGemma, Granite, Command R, MiniMax, Seed-OSS, Olmo 3 and LFM2; the tool
parsers of vLLM (https://github.com/vllm-project/vllm) and SGLang.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_BAR, _NAME = "[|｜]", r"[A-Za-z_][\w.-]*"
_LOOSE = json.JSONDecoder(strict=False)
_ARGUMENTS = ("arguments", "parameters", "input", "args", "tool_input")
_CALLED = ("name", "tool_name")
_BESIDE = frozenset({"id", "index", "type", "tool_call_id", *_ARGUMENTS, *_CALLED})

# Between a name and its arguments: a control token, [ARGS] or [CALL_ID]x, a word of ReAct or of Qwen.
_BETWEEN = rf"(?:<{_BAR}?[\w▁]{{1,40}}{_BAR}?>|\[[A-Z_]+\][\w-]*|Action Input:|✿ARGS✿:)"
_NAMED = re.compile(
    rf"(?:function\s*{_BETWEEN}\s*)?(?:functions\.)?({_NAME})(?::\d+)?\s*(?:{_BETWEEN}\s*){{0,3}}"
    r"(?:```\w*\s*)?(\{.*)",
    re.DOTALL,
)
_OWN = rf"(?:\w+:|{_BAR}{{1,2}}DSML{_BAR}{{1,2}})?"  # what some put before the names of their tags
_HEAD = re.compile(
    rf"""<{_OWN}(?:function|invoke)(?:=|\s+name=)["']?({_NAME})["']?\s*>|\A\s*({_NAME})\s*"""
    r"(?:<tool_sep>\s*)?(?=<arg_key>)"
)
_VALUE = re.compile(
    rf"""<{_OWN}param(?:eter)?(?:=|\s+name=)["']?(?P<key>[^<>"'\s]{{1,200}})["']?(?P<of>[^<>]{{0,100}})>"""
    rf"(?P<value>.*?)(?=</{_OWN}(?:param(?:eter)?|function|invoke)>|<{_OWN}param(?:eter)?(?:=|\s+name=)|\Z)"
    r"|<arg_key>(?P<arg>[^<>]{1,200})</arg_key>\s*<arg_value>(?P<held>.*?)(?=</arg_value>|<arg_key>|\Z)",
    re.DOTALL,
)
_SPELLED = re.compile(
    # A text without its end goes on to the end of all: else each quote in it would be tried for another.
    r"""<\|"\|>(?P<piped>.*?)<\|"\|>|<escape>(?P<escaped>.*?)<escape>|"(?:[^"\\]|\\.)*+(?:"|\Z)"""
    rf"""|'(?P<single>(?:[^'\\]|\\.)*+)(?:'|\Z)|(?P<called>{_NAME})\(|(?P<key>{_NAME})\s*[=:]"""
    r"|\b(?P<word>True|False|None)\b|(?P<close>\))",
    re.DOTALL,
)
_WORDS = {"True": "true", "False": "false", "None": "null"}
_GEMMA = re.compile(rf"call:\s*({_NAME})\s*(\{{.*\}})", re.DOTALL)
_PRINTED = re.compile(r"print\((.*)\)", re.DOTALL)
_LISTED = re.compile(rf"\[\s*{_NAME}\(.*\)\s*\]", re.DOTALL)
_BARE_NAMED = re.compile(rf"functions\.{_NAME}(?::\d+)?\s*\{{.*\}}|(?!json\b){_NAME}\n\s*\{{.*\}}", re.DOTALL)


def read_calls(text: str) -> list[str]:
    """Return the calls that a text between tags of calls holds, each as JSON; the text itself where it is
    none.

    >>> read_calls("f\\n<arg_key>a</arg_key>\\n<arg_value>1</arg_value>"), read_calls("call:f{a:1}")
    (['{"name": "f", "arguments": {"a": 1}}'], ['{"name": "f", "arguments": {"a": 1}}'])
    """
    text = text.strip()
    if re.fullmatch(_NAME, text):
        return [_written(_of(text, {}))]
    return _as_json(text) or _as_name(text) or _as_tags(text) or _as_spelled(text) or [text]


def read_bare_calls(text: str) -> list[str]:
    """Return the calls of a whole text without tags of calls, as some models write them; else nothing.

    >>> read_bare_calls("<function=f>{}</function>"), read_bare_calls("[f(a=1)]"), read_bare_calls("f(x)")
    (['{"name": "f", "arguments": {}}'], ['{"name": "f", "arguments": {"a": 1}}'], [])
    """
    bare = text.strip()
    if (head := _HEAD.search(bare)) is not None:
        return _as_tags(bare[head.start() :])
    if _LISTED.fullmatch(bare):
        return _as_spelled(bare)
    if _BARE_NAMED.fullmatch(bare):
        return _as_name(bare)
    # As Llama 3 writes it; other objects with a name may be answers.
    values, rest = _values_in(bare)
    llama = all(isinstance(each, dict) and {"name", "parameters"} == {*each} - {"type"} for each, _ in values)
    return _as_json(bare) if values and llama and not rest else []


def call_of(value: Any) -> Any:
    """Return name and arguments of a call, which an API may wrap, name otherwise, or hold as JSON text; what
    is no call as it is.

    >>> call_of({"type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}})
    {'name': 'f', 'arguments': {'x': 1}}
    """
    said = value.get("function", value) if isinstance(value, Mapping) else value
    name = next((said[key] for key in _CALLED if key in said), None) if isinstance(said, Mapping) else None
    if name is None:
        return said
    arguments: Any = next((said[key] for key in _ARGUMENTS if key in said), {})
    if isinstance(arguments, str):
        # What a model wrote that is no JSON stays a text, which no gold equals.
        with contextlib.suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
    return _of(name, arguments)


def calls_as_text(calls: Sequence[Any]) -> str:
    """Return calls of tools, as an API gives them, as a model writes them: a JSON object in tags for each.

    >>> calls_as_text([{"type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}])
    '<tool_call>\\n{"name": "f", "arguments": {"x": 1}}\\n</tool_call>'
    """
    return "\n".join(f"<tool_call>\n{_written(call_of(call))}\n</tool_call>" for call in calls)


def _of(name: Any, arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def _values_in(text: str) -> tuple[list[tuple[Any, str]], str]:
    """Return JSON objects and lists that stand one after the other, with their texts; and what follows."""
    values, position = list[tuple[Any, str]](), 0
    while (start := _after(text, position)) < len(text) and text[start] in "{[":
        try:
            value, position = _LOOSE.raw_decode(text, start)
        except (ValueError, RecursionError):
            break
        values.append((value, text[start:position]))
    return values, text[position:].strip()


def _after(text: str, position: int) -> int:
    """Return where what separates values ends."""
    while position < len(text) and text[position] in " \t\r\n,;":
        position += 1
    return position


def _as_json(text: str) -> list[str]:
    """Return calls that are written as JSON: a list's one by one."""
    calls = []
    for value, said in _values_in(text)[0]:
        if isinstance(value, list):
            calls += [_told(each, said[1:-1].strip() if len(value) == 1 else None) for each in value]
        else:
            calls.append(_told(value, said))
    return calls


def _told(value: Any, said: str | None) -> str:
    """Return a call as it was written, unless names other than those of a call are to be changed."""
    if isinstance(value, dict):
        inner = value.get("function")
        other = {*value} <= _BESIDE and any(name in value for name in _ARGUMENTS)
        if isinstance(inner, dict) or (other and {*value} != {"name", "arguments"}):
            return _written(call_of(value))
        if {*value} == {"name", "arguments"} and isinstance(value["arguments"], str):
            return _written(call_of(value))
    return _written(value) if said is None else said


def _as_name(text: str) -> list[str]:
    """Return a call whose name stands before its arguments, which are JSON."""
    if (found := _NAMED.fullmatch(text)) is None:
        return []
    values, rest = _values_in(found[2])
    if len(values) != 1 or "{" in rest:
        return []
    return [f'{{"name": {json.dumps(found[1])}, "arguments": {values[0][1]}}}']


def _as_tags(text: str) -> list[str]:
    """Return calls whose name and arguments stand in tags; JSON may stand instead of arguments."""
    heads, calls = list(_HEAD.finditer(text)), []
    ends = [head.start() for head in heads[1:]] + [len(text)] * bool(heads)
    for head, end in zip(heads, ends, strict=True):
        held, name = text[head.end() : end], head[1] or head[2]
        pairs = {
            (each["key"] or each["arg"]).strip(): _typed(each["value"] or each["held"] or "", each["of"])
            for each in _VALUE.finditer(held)
        }
        values = [] if pairs else _values_in(held)[0]
        said = values[0][1] if values else _written(pairs)
        calls.append(f'{{"name": {json.dumps(name)}, "arguments": {said}}}')
    return calls


def _typed(text: str, attributes: str | None) -> Any:
    """Return the value of an argument in a tag: of texts one line break at each end is the tag's."""
    plain = text.removeprefix("\n").removesuffix("\n")
    if 'string="true"' in (attributes or ""):
        return plain
    bare = plain.strip()
    try:
        value = json.loads(_WORDS.get(bare, bare), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return plain
    return plain if isinstance(value, str) else value


def _refuse(word: str) -> Any:
    raise ValueError(word)


def _as_spelled(text: str) -> list[str]:
    """Return calls that are written as a program calls functions, by keyword, or as Gemma does."""
    if (found := _GEMMA.fullmatch(text)) is not None:
        values, rest = _values_in(_SPELLED.sub(_spell, found[2]))
        return [_written(_of(found[1], values[0][0]))] if len(values) == 1 and not rest else []
    printed = _PRINTED.fullmatch(text)
    values, rest = _values_in(_SPELLED.sub(_spell, printed[1] if printed else text))
    calls = [part for value, _ in values for part in (value if isinstance(value, list) else [value])]
    read = not rest and all(isinstance(each, dict) and {*each} == {"name", "arguments"} for each in calls)
    return [_written(each) for each in calls] if read else []


def _spell(token: re.Match[str]) -> str:
    """Return a token of a call as JSON has it."""
    for kind in ("piped", "escaped", "single"):
        if (text := token[kind]) is not None:
            return _written(_unescaped(text) if kind == "single" else text)
    if token["called"] is not None:
        return f'{{"name": "{token["called"].removesuffix(".call")}", "arguments": {{'
    if token["key"] is not None:
        return f'"{token["key"]}": '
    if token["word"] is not None:
        return _WORDS[token["word"]]
    return "}}" if token["close"] is not None else token[0]


def _unescaped(text: str) -> str:
    """Return what a text of Python in single quotes says, whose escapes are mostly those of JSON."""
    told = re.sub(
        r"""\\.|\"""", lambda each: {"\\'": "'", '"': '\\"'}.get(each[0], each[0]), text, flags=re.DOTALL
    )
    try:
        return str(_LOOSE.decode(f'"{told}"'))
    except ValueError:
        return text


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
