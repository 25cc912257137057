"""Forms in which people have training data, as records of a task: what is asked as `prompt`, what is right as
`gold` beside a schema or functions, and else as `answer`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.checks.own_data.tables import keys_of_rows
from assay.checks.own_data.talks import CONTROL_TOKENS, functions_in, name_marks, read_talk
from assay.core.errors import AssayError
from assay.core.storage.json import MAX_DEPTH, parse_strict
from assay.rollout.dataset.source import MAX_LINE_BYTES
from assay.rollout.tables.columns import Columns
from assay.rollout.tables.transcripts import ROLES
from assay.rollout.tasks.schema import compile_schema, parameters_of, schema_key, translate_types

TALKS = ("conversations", "conversation", "messages", "dialogue", "contents")
TEXTS = (*TALKS, "chat", "text", "chatml")  # that may hold one as one text
PAIR, RIGHT = {"chosen", "rejected"}, {"gold", "golds", "answer"}
PYTHON_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array"}
PYTHON_TYPES |= {"dict": "object"} | {name: name for name in PYTHON_TYPES.values()}
_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_VALUES = frozenset({"enum", "const", "default", "examples"})  # of a schema: null there says something


class NotConverted(ValueError):
    """A row that cannot be made a record; says why, and what to do if there is something."""

    def __init__(self, why: str, fix: str = "") -> None:
        super().__init__(f"{why} ({fix})" if fix else why)
        self.why, self.fix = why, fix


@dataclass(frozen=True, slots=True)
class Turn:
    """What one says in a conversation: text, or calls of functions as (name, arguments)."""

    role: str
    text: str
    calls: Sequence[tuple[str, Any]] = field(default=())


def name_form(row: Mapping[str, Any]) -> str | None:
    """Return the form of a row that has to be imported; None where none is known.

    >>> name_form({"instruction": "Add.", "input": "1 2", "output": "3"}), name_form({"prompt": "x"})
    ('Alpaca (instruction, input, output)', None)
    """
    row = {name: value for name, value in row.items() if value is not None}
    if PAIR.issubset(row) and RIGHT.isdisjoint(row):
        return "pairs of answers, one preferred (chosen, rejected)"
    if (name := _marked(row)) is not None and ("prompt" not in row or RIGHT.isdisjoint(row)):
        if {"system", "chat"} <= {*row}:
            return "glaive (system, chat)"
        return f"a conversation as one text ({name}, with the marks of {name_marks(row[name])})"
    if isinstance(row.get("contents"), list):
        return "Gemini (contents of role and parts)"
    if isinstance(row.get("question"), list):
        return "BFCL (question, function, ground_truth)"
    talk = next((_read_json(row[name]) for name in TALKS if name in row), None)
    if isinstance(talk, list) and talk and isinstance(talk[0], Mapping):
        if "from" in talk[0]:
            return "ShareGPT (conversations of from and value)"
        calls = any(isinstance(part, Mapping) and part.get("tool_calls") for part in talk)
        if calls or "tools" in row:
            return "chat messages with tools and tool_calls (OpenAI)"
        last = talk[-1].get("role") if isinstance(talk[-1], Mapping) else None
        return "chat messages that hold the answer" if last == "assistant" else None
    if "tools" in row:
        return "a prompt with tools (OpenAI)"
    if isinstance(row.get("reward_model"), Mapping) and "ground_truth" in row["reward_model"]:
        return "verl (prompt, reward_model.ground_truth)"
    if "instruction" in row and {"output", "response"} & set(row):
        return "Alpaca (instruction, input, output)"
    if "prompt" in row and "completion" in row:
        return "prompt and completion (TRL)"
    if _is_filled(row.get("schema")) or _is_filled(row.get("functions")):
        return "a schema in which absent keywords are null (Arrow, Parquet)"
    if keys := keys_of_rows(row):
        return f"one JSON object with its records under {' and '.join(map(repr, keys))}"
    known = Columns().candidates(row)
    if "prompt" not in row and known.get("prompt") and known.get("reference"):
        return f"{known['prompt'][0]} and {known['reference'][0]} in columns of other names"
    return None


def _marked(row: Mapping[str, Any]) -> str | None:
    """Return which column is a conversation in one text; a prompt is one only if its marks are control
    tokens, since words of a template may be meant."""
    known = Columns().candidates(row)
    # Where what is asked and what is right have columns of their own, a text is both once more.
    apart = known["prompt"] and (known["reference"] or known["completion"])
    texts = TALKS if apart else TEXTS
    found = (name for name in texts if name_marks(row.get(name)) is not None)
    token = name_marks(row.get("prompt")) in CONTROL_TOKENS
    return next(found, "prompt" if token else None)


def _is_filled(value: Any) -> bool:
    return value is not None and without_nulls(value) != value


def convert(row: Mapping[str, Any], columns: Columns, schema_path: str | None = None) -> dict[str, Any]:
    """Return a row as a record.

    Args:
        row: As it stands in its file.
        columns: Names of those that hold prompt and reference, where they are not known ones.
        schema_path: Of the schema of rows that have none.

    Raises:
        NotConverted: It has no prompt, or an answer that no record can have.
    """
    rest = {name: value for name, value in row.items() if value is not None}
    _take_preferred(rest, columns)
    functions = _take_functions(rest)
    if functions is not None and "gold" not in rest and "answer" not in rest and "answers" in rest:
        rest["answer"] = rest.pop("answers")  # xLAM's calls
    prompt, said, calls = _asked(rest, columns)
    if functions is not None:
        rest["functions"] = _functions(functions)
    if "schema" in rest:
        rest["schema"] = without_nulls(_read_json(rest["schema"]))
    elif schema_path is not None and "schema_path" not in rest and functions is None:
        rest["schema_path"] = schema_path
    record = {"prompt": prompt, **{name: without_nulls(value) for name, value in rest.items()}}
    if "gold" in rest:
        record["gold"] = rest["gold"]
    elif calls:
        record["gold"] = _gold_of_calls(calls, record.get("functions"))
    elif said is not None and "functions" in record:
        record["gold"] = _gold_of_calls(_calls_in_text(said), record["functions"])
    elif said is not None and {"schema", "schema_path"} & set(record):
        record["gold"] = _read_json(said)
    elif said is not None:
        record["answer"] = said
    if isinstance(record.get("gold"), dict | list) and isinstance(record.get("schema"), dict | bool):
        record["gold"] = _fitted(record["gold"], record["schema"])
    return record


def _take_preferred(rest: dict[str, Any], columns: Columns) -> None:
    """Of a pair of answers put the preferred one in the place of what is right, if somebody says so."""
    if not PAIR.issubset(rest) or not RIGHT.isdisjoint(rest):
        return
    if columns.named.get("reference") != "chosen":
        why = "of a pair of answers one is preferred, and none is the right one"
        raise NotConverted(why, "--columns reference=chosen, if the preferred one is right")
    del rest["rejected"]
    chosen = _read_json(rest.pop("chosen"))
    asked = rest.pop("prompt", None)
    if isinstance(chosen, list):
        rest["messages"] = chosen
    elif name_marks(chosen) is not None:
        rest["messages"] = read_talk(chosen)
    else:
        rest |= {"prompt": asked, "chosen": chosen}


def _take_functions(rest: dict[str, Any]) -> Any:
    """Take the functions out of a row, by whatever name; None where it has none."""
    found = [_read_json(rest.pop(name, None)) for name in ("functions", "tools", "function")]
    functions = next((each for each in found if each), None)
    if isinstance(rest.get("question"), list):  # of BFCL: a list of turns, each of messages
        turns = rest["question"] or [[]]
        if len(turns) > 1 and isinstance(turns[0], list):
            raise NotConverted("a task of several turns, where a record asks once", "leave such rows out")
        rest["messages"] = turns[0] if isinstance(turns[0], list) else turns
        del rest["question"]
        right = _read_json(rest.pop("ground_truth", None))
        if right is None:
            why = "a question without ground_truth, which BFCL has in possible_answer/"
            raise NotConverted(why, "put the ground_truth of each id into its row")
        rest["gold"] = right[0] if isinstance(right, list) and len(right) == 1 else right
    if functions is None and (listed := functions_in(rest.get("system"))):  # of glaive
        functions = listed
        del rest["system"]
    return functions


def _asked(rest: dict[str, Any], columns: Columns) -> tuple[Any, Any, Sequence[tuple[str, Any]]]:
    """Take out of a row what is asked, what is right as it is written, and the calls that are right."""
    right, judge = None, rest.get("reward_model")
    if isinstance(judge, Mapping) and "ground_truth" in judge:
        extra = rest.get("extra_info")
        if "id" not in rest and isinstance(extra, Mapping) and extra.get("index") is not None:
            rest["id"] = f"{extra.get('split') or 'row'}-{extra['index']}"
        right = rest.pop("reward_model")["ground_truth"]
    if (name := _marked(rest)) is not None:
        rest["messages"] = read_talk(rest.pop(name))
    talk = next((name for name in TALKS if name in rest), None)
    if talk is None and isinstance(_read_json(rest.get("prompt")), list):
        talk = "prompt"
    if talk is not None:
        turns = _turns(_read_json(rest.pop(talk)))
        system = rest.pop("system", rest.pop("systemInstruction", rest.pop("system_instruction", None)))
        system = _text(system["parts"]) if isinstance(system, Mapping) and "parts" in system else system
        if isinstance(system, str) and system.removeprefix("SYSTEM:").strip():
            turns.insert(0, Turn("system", system.removeprefix("SYSTEM:").strip()))
        done = _read_json(rest.pop("completion", None))
        turns += _turns(done) if isinstance(done, list) else []
        right = done if isinstance(done, str) and right is None else right
        asked, said, calls = _of_talk(turns, right)
        if said is None and not calls and "gold" not in rest:
            there = columns.candidates(rest)
            named = there["reference"] or there["completion"]
            said = rest.pop(named[0]) if len(named) == 1 else None
        beside = columns.named.get("reference", "answer")
        if not calls and beside in rest and "gold" not in rest:
            # What a record says is right was checked; what is said in the talk has the way there in it too
            said = rest.pop(beside)
        elif "gold" not in rest:
            rest.pop("prompt", None)  # the talk's first question, and what is right is said after its last
        return asked, said, calls
    if "instruction" in rest and {"output", "response"} & set(rest):
        return _of_alpaca(rest)
    try:
        asked = columns.find("prompt", rest, "the row")
        known = None if right is not None else columns.find("reference", rest, "the row")
    except AssayError as error:
        raise NotConverted(f"{error.expected}: {error.found}", error.fix) from None
    if asked is None or not isinstance(rest[asked], str):
        fix = "--columns prompt=NAME,reference=NAME with names of these"
        raise NotConverted(f"no prompt among {', '.join(rest)[:120]}", fix)
    if right is not None:
        return rest.pop(asked), right, ()
    if known in ("gold", "answer") and "gold" in rest:
        known = None
    liked = known is not None and known not in columns.named.values() and isinstance(rest[known], bool)
    if liked and "completion" in rest:
        raise NotConverted(f"{known} says whether a completion was liked, and none is the right answer")
    done = rest.pop("completion", None) if known is None else None
    return rest.pop(asked), done if known is None else rest.pop(known), ()


def _of_alpaca(rest: dict[str, Any]) -> tuple[Any, Any, Sequence[tuple[str, Any]]]:
    right = rest.pop("output") if "output" in rest else rest.pop("response")
    parts = (str(rest.pop(name, "")).strip() for name in ("instruction", "input", "context"))
    turns = [Turn("user", "\n\n".join(part for part in parts if part))]
    history = _read_json(rest.pop("history", None)) or []
    if not isinstance(history, list) or not all(
        isinstance(pair, list) and len(pair) == 2 for pair in history
    ):
        raise NotConverted("a history that is no list of pairs, of what was asked and what was said")
    for asked, said in reversed(history):
        turns[:0] = [Turn("user", str(asked)), Turn("assistant", str(said))]
    if isinstance(system := rest.pop("system", None), str) and system.strip():
        turns.insert(0, Turn("system", system))
    return _prompt(turns), right, ()


def _of_talk(turns: Sequence[Turn], right: Any) -> tuple[Any, Any, Sequence[tuple[str, Any]]]:
    """Return what is asked before the first call, or else before the last answer; and what is right."""
    calling = next((n for n, turn in enumerate(turns) if turn.calls), None)
    if calling is not None:
        return _prompt(turns[:calling]), None, turns[calling].calls
    if right is None and turns and turns[-1].role == "assistant":
        return _prompt(turns[:-1]), turns[-1].text, ()
    return _prompt(turns), right, ()


def _prompt(turns: Sequence[Turn]) -> Any:
    """Return what is asked: a text, or a conversation that ends with the user."""
    if not turns or turns[-1].role != "user":
        raise NotConverted("a conversation in which no user asks for what is answered")
    if any(turn.role == "tool" for turn in turns):
        raise NotConverted("what a tool said, before any call")
    if any(not turn.text.strip() for turn in turns):
        raise NotConverted("an empty message")
    if len(turns) == 1:
        return turns[0].text
    return [{"role": turn.role, "content": turn.text} for turn in turns]


def _turns(talk: Any) -> list[Turn]:
    if not isinstance(talk, list) or not all(isinstance(part, Mapping) for part in talk):
        raise NotConverted("no list of messages")
    return [_turn(part) for part in talk]


def _turn(part: Mapping[str, Any]) -> Turn:
    named = str(part.get("role") or part.get("from") or "").lower()
    if named not in ROLES:
        raise NotConverted(f"a message of {ascii(named)[:40]}; known are {', '.join(ROLES)}")
    content = next((part[name] for name in ("content", "value", "parts") if part.get(name) is not None), None)
    called = _read_json(part.get("tool_calls")) or []
    if not isinstance(called, list):
        raise NotConverted("tool_calls that are no list")
    calls = [_call(each) for each in called]
    if isinstance(content, list):  # of Anthropic: a call is a part of what is said
        calls += [_call(each.get("functionCall", each)) for each in content if _is_call(each)]
        told = any(isinstance(each, Mapping) and "functionResponse" in each for each in content)
        named = "tool" if told else named
        content = [each for each in content if not _is_call(each) and not told]
    text = _text(content)
    if isinstance(part.get("function_call"), Mapping):
        calls.append(_call(part["function_call"]))
    if named == "function_call" or (ROLES[named] == "assistant" and _CALL.search(text)):
        calls += _calls_in_text(text)
    return Turn(ROLES[named], text, calls)


def _is_call(part: Any) -> bool:
    return isinstance(part, Mapping) and (part.get("type") == "tool_use" or "functionCall" in part)


def _text(content: Any) -> str:
    if isinstance(content, Mapping):
        content = content.get("parts", [content])
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) < len(parts):
            raise NotConverted("a message with other parts than text")
        return "\n".join(texts)
    return "" if content is None else str(content)


def _calls_in_text(text: Any) -> list[tuple[str, Any]]:
    """Return the calls that a text writes down: as JSON, also in tool_call tags."""
    found = _CALL.findall(text) if isinstance(text, str) else []
    values = [_read_json(each) for each in found] or [_read_json(text)]
    calls = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    return [_call(each) for each in calls]


def _call(written: Any) -> tuple[str, Any]:
    """Return name and arguments of a call as chat APIs write one."""
    inner = written.get("function") if isinstance(written, Mapping) else None
    call = inner if isinstance(inner, Mapping) else written
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        raise NotConverted("an answer in words where a call of a function is due")
    given = next(
        (call[name] for name in ("arguments", "parameters", "input", "args") if call.get(name) is not None),
        None,
    )
    arguments = _read_json(given) if given is not None else {}
    if not isinstance(arguments, Mapping):
        raise NotConverted(f"arguments of {call['name']} that are no JSON object")
    return call["name"], arguments


def _functions(written: Any) -> list[Any]:
    """Return the functions of a record, from a list or its JSON text, each bare or wrapped."""
    listed = _read_json(written)
    listed = [listed] if isinstance(listed, Mapping) else listed
    if not isinstance(listed, list):
        raise NotConverted("tools that are no list of functions")
    found = []
    for each in _declared(map(_read_json, listed)):
        inner = each.get("function") if isinstance(each, Mapping) else None
        function = without_nulls(inner if isinstance(inner, Mapping) else each)
        if not isinstance(function, dict) or not function.get("name"):
            raise NotConverted("a tool without a name")
        if "input_schema" in function:  # as Anthropic calls it
            function.setdefault("parameters", function.pop("input_schema"))
        if "parameters" in function:
            function["parameters"] = _as_schema(
                _in_lower_case(without_nulls(_read_json(function["parameters"])))
            )
        found.append(function)
    return found


def _declared(listed: Iterable[Any]) -> Iterator[Any]:
    """Yield functions one by one, also those that Gemini declares together."""
    for each in listed:
        several = (
            each.get("functionDeclarations", each.get("function_declarations"))
            if isinstance(each, Mapping)
            else None
        )
        yield from several if isinstance(several, list) else [each]


def _in_lower_case(schema: Any) -> Any:
    """Return a schema with the types of Gemini, which are in capitals, as JSON Schema has them."""
    if isinstance(schema, Mapping):
        return {
            name: part.lower()
            if name == "type" and isinstance(part, str) and part.isupper()
            else _in_lower_case(part)
            for name, part in schema.items()
        }
    return [_in_lower_case(part) for part in schema] if isinstance(schema, list) else schema


def _as_schema(parameters: Any) -> Any:
    """Return parameters as a schema, also where they are one by one with types of Python, as xLAM has them.

    >>> _as_schema({"n": {"type": "int"}, "to": {"type": "List[str], optional"}})["properties"]
    {'n': {'type': 'integer'}, 'to': {'type': 'array'}}
    """
    if not isinstance(parameters, Mapping) or not parameters or {"type", "properties"} <= parameters.keys():
        return parameters
    if not all(
        isinstance(each, Mapping) and isinstance(each.get("type"), str) for each in parameters.values()
    ):
        return parameters
    words = {name: re.findall(r"\w+", each["type"].lower()) for name, each in parameters.items()}
    properties = {}
    for name, each in parameters.items():
        known = PYTHON_TYPES.get(words[name][0] if words[name] else "")
        rest = {key: value for key, value in each.items() if key not in ("type", "default")}
        properties[name] = ({"type": known} if known else {}) | rest
    due = [
        name for name, each in parameters.items() if "optional" not in words[name] and "default" not in each
    ]
    return {"type": "object", "properties": properties, "required": due}


def _gold_of_calls(calls: Sequence[tuple[str, Any]], functions: Any) -> Any:
    """Return calls as a gold: what each argument may be."""
    if functions is None:
        raise NotConverted("a call, and no tools that say which functions there are")
    try:
        schemas = parameters_of(functions)
    except AssayError as error:
        raise NotConverted(f"{error.where}: {error.found}") from None
    golds = []
    for name, arguments in calls:
        if name not in schemas:
            raise NotConverted(f"a call of {ascii(name)[:60]}, which is not among the tools")
        kept = _fitted(arguments, schemas[name])
        golds.append({name: {argument: [value] for argument, value in kept.items()}})
    return golds[0] if len(golds) == 1 else golds


def without_nulls(value: Any) -> Any:
    """Return a value without the fields that are null, which is how Arrow fills what is absent; what a schema
    lists as values stays.

    >>> without_nulls({"type": "string", "items": None, "enum": ["a", None]})
    {'type': 'string', 'enum': ['a', None]}
    """
    if isinstance(value, Mapping):
        return {
            name: part if name in _VALUES else without_nulls(part)
            for name, part in value.items()
            if part is not None or name == "const"
        }
    return [without_nulls(part) for part in value] if isinstance(value, list) else value


def _fitted(value: Any, schema: Any) -> Any:
    """Return a gold without the null fields that its schema wants absent; as it is where there is no such
    schema."""
    try:
        return compile_schema(schema_key(translate_types(schema)[0], {}, None)).without_nulls(value)
    except AssayError:
        return value


def _read_json(value: Any) -> Any:
    """Return what a JSON text of an object or list says; anything else as it is."""
    if isinstance(value, str) and value.strip()[:1] in ("{", "["):
        try:
            return parse_strict(value, max_chars=MAX_LINE_BYTES, max_depth=MAX_DEPTH)
        except ValueError:
            return value
    return value
