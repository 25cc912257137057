"""From a row of a tasks file to an item; a row that is broken is refused with its id and field, and by no
other error."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urldefrag

from assay.core.errors import TaskError
from assay.core.storage.json import MAX_DEPTH, digest, dumps, parse_strict
from assay.rollout.tasks.protocol import Item
from assay.rollout.tasks.references import translate_types
from assay.rollout.tasks.schema import compile_schema, parameters_of, schema_from_functions, schema_key

from ..prompts import fitting
from ..settings import StructuredTask
from .blocklist import normalised
from .golds import Call, Calls, Gold, gold_of, graded_gold
from .records import Reference, Request
from .shapes import OBJECT, kind_of, wanted_kinds

ROLES = ("system", "user", "assistant")
RULE = (
    "messages {role, content}: a system's first if at all, then user and assistant in turn, the user's last"
)


class NoConversation(ValueError):
    """A list of messages that no chat template would render as it is meant; says what was found."""


def read_conversation(messages: Any) -> tuple[tuple[tuple[str, str], ...], str]:
    """Return what was said before, as (role, text), and the user's last message.

    A field that is null counts as none, as exports write it.

    >>> read_conversation([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}])
    ((('system', 'Be brief.'),), 'Who?')

    Raises:
        NoConversation: The messages are no conversation, or one that does not end with the user.
    """
    if not isinstance(messages, list) or not messages:
        raise NoConversation(ascii(messages)[:80])
    said = [_message(message, number) for number, message in enumerate(messages, start=1)]
    turns = said[1:] if said[0][0] == "system" else said
    for number, (role, _) in enumerate(turns, start=len(said) - len(turns) + 1):
        expected = "user" if (number - (len(said) - len(turns))) % 2 else "assistant"
        if role != expected:
            raise NoConversation(f"message {number} is the {role}'s where the {expected}'s is due")
    if not turns or turns[-1][0] != "user":
        raise NoConversation(
            "the last message is not the user's (what the assistant should say belongs into gold)"
        )
    return tuple(said[:-1]), said[-1][1]


def _message(message: Any, number: int) -> tuple[str, str]:
    if not isinstance(message, Mapping):
        raise NoConversation(f"message {number} is no object")
    given = {name: value for name, value in message.items() if value is not None}
    role, content = given.pop("role", None), given.pop("content", None)
    if role not in ROLES:
        raise NoConversation(
            f"message {number} has the role {ascii(role)[:40]}; there are {', '.join(ROLES)}"
        )
    if not isinstance(content, str) or not content.strip():
        raise NoConversation(
            f"message {number} has {'no text' if content is None else ascii(content)[:40]} as content"
        )
    if given:
        raise NoConversation(f"message {number} has {ascii(sorted(given)[0])[:40]}, which would not be shown")
    return role, content


MAX_ROW_CHARS = 8_000_000
_MAX_ID, _MAX_SHOWN = 200, 160
_MAX_CALLS = 64
_FIX = "correct the record, or let the audit drop it (dataset.audit.unreadable: drop)"


@dataclass(frozen=True, slots=True)
class RowReading:
    """A row as it was read: the whole request, the one the model is shown, and how many types were
    respelt."""

    id: str
    cluster: str
    strata: Mapping[str, str]
    whole: Request
    request: Request
    reference: Reference
    n_spellings: int

    def item(self) -> Item:
        """Return the row as an item."""
        return Item(self.id, self.cluster, self.strata, self.request, self.reference, self.request.chars_cut)


def read(row: Mapping[str, Any], settings: StructuredTask) -> RowReading:
    """Read one row.

    Raises:
        TaskError: The row is broken; names its id and the field.
    """
    name = row.get("id") if isinstance(row, Mapping) else None
    label = f"record {ascii(name)[:80]}" if name is not None else "record without id"
    try:
        return _read(_plain(row), settings)
    except TaskError as error:
        where = f"{label}, {error.where}"
        raise TaskError(error.expected, found=error.found, where=where, fix=error.fix) from None
    except RecursionError:
        raise TaskError(
            "a record of sane depth", found="one nested too deep", where=label, fix=_FIX
        ) from None


def _broken(field: str, expected: str, found: Any) -> TaskError:
    shown = "nothing" if found is None else ascii(found)[:_MAX_SHOWN]
    return TaskError(expected, found=shown, where=f"field {field}", fix=_FIX)


def _plain(row: Any) -> dict[str, Any]:
    """Return the row as strict JSON has it.

    A schema that stands in the row is shown to the model with its keys sorted, since the fingerprint of a
    record does not know their order; one from a file keeps the file's, whose bytes are fingerprinted.
    """
    try:
        text = json.dumps(dict(row), ensure_ascii=False, allow_nan=False)
        plain: dict[str, Any] = parse_strict(text, max_chars=MAX_ROW_CHARS, max_depth=MAX_DEPTH)
    except (ValueError, TypeError) as error:
        raise _broken("(all)", "a strict JSON object", str(error)) from None
    for name in ("functions",) if plain.get("schema_uri") else ("functions", "schema"):
        if name in plain:
            plain[name] = json.loads(dumps(plain[name]))
    return plain


def _read(given: dict[str, Any], settings: StructuredTask) -> RowReading:
    row = {
        name: value for name, value in given.items() if value is not None
    }  # null is how exports write "absent"
    before, prompt = _asked(row)
    context = row.get("context")
    if context is not None and not isinstance(context, str):
        raise _broken("context", "a text", context)
    written = _written_golds(row)
    # Several calls at once are a list of them.
    schema, resources, uri, n_spellings = _schema(
        row, several=any(isinstance(gold, list) for gold in written)
    )
    key = schema_key(schema, resources, uri)
    compiled = compile_schema(key)
    golds = _golds(row, written)
    wanted = wanted_kinds(compiled, [gold.written for gold in golds])
    for gold in golds:
        if kind_of(gold.written) not in wanted:
            raise _broken(
                "gold",
                f"a gold of the kind that the schema wants ({', '.join(sorted(wanted))})",
                gold.written,
            )
    graded = None if settings.grade is None else tuple(settings.grade)
    # A gold that has none of the graded fields says nothing that counts: it is no gold.
    counting = tuple(gold for gold in (graded_gold(each, graded) for each in golds) if gold is not None)
    text = _schema_text(schema, resources, uri)
    if "schema" in row and "functions" in row:
        text = _with_functions(text, row["functions"])
    whole = Request(prompt, context, text, 0, before, "object" if wanted == OBJECT else "value")
    said = " ".join([*(content for _, content in before), prompt, *([] if context is None else [context])])
    return RowReading(
        id=_id(row),
        cluster=f"p-{digest(normalised(said))[:16]}",
        strata={name: _label(row[name]) for name in settings.strata if isinstance(row.get(name), str | int)},
        whole=whole,
        request=(fitting(whole, settings.max_prompt_chars) if settings.truncate_prompts else None) or whole,
        reference=Reference(key, golds, wanted, counting, graded),
        n_spellings=n_spellings,
    )


def _asked(row: Mapping[str, Any]) -> tuple[tuple[tuple[str, str], ...], str]:
    """Return what was said before, and the instruction: `prompt`, a text or a conversation, or `messages`, a
    conversation."""
    if "messages" in row and "prompt" in row:
        raise _broken("prompt", "prompt or messages", "both")
    name = "messages" if "messages" in row else "prompt"
    asked = row.get(name)
    if name == "prompt" and not isinstance(asked, list):
        if not isinstance(asked, str) or not asked.strip():
            raise _broken("prompt", "a text that is not empty, or a list of messages", asked)
        return (), asked
    try:
        return read_conversation(asked)
    except NoConversation as error:
        raise TaskError(RULE, found=str(error), where=f"field {name}", fix=_FIX) from None


def _written_golds(row: Mapping[str, Any]) -> list[Any]:
    """Return `gold` alone, or all of `golds`."""
    if "golds" in row and "gold" in row:
        raise _broken("golds", "gold or golds", "both")
    if "golds" not in row:
        return [row["gold"]] if "gold" in row else []
    written = row["golds"]
    if not isinstance(written, list) or not written:
        raise _broken("golds", "a list of accepted golds that is not empty", written)
    return written


def _golds(row: Mapping[str, Any], written: Sequence[Any]) -> tuple[Gold, ...]:
    def faults(function: str, name: str, value: Any) -> list[tuple[str | int, ...]]:
        schema = parameters_of(row["functions"]).get(function)
        places = [] if schema is None else compile_schema(schema_key(schema, {}, None)).faults({name: value})
        return [place[1:] for place in places if place[:1] == (name,)]

    golds = tuple(gold_of(each, calls="functions" in row, faults=faults) for each in written)
    for gold in golds:
        calls = gold.calls if isinstance(gold, Calls) else (gold,) if isinstance(gold, Call) else ()
        if not all(
            accepted
            for call in calls
            for arguments in call.written.values()
            for accepted in arguments.values()
        ):
            raise _broken("gold", "at least one accepted value for each argument", gold.written)
        if len(calls) > _MAX_CALLS:
            raise _broken("gold", f"at most {_MAX_CALLS} calls", f"{len(calls)} of them")
    return golds


def _id(row: Mapping[str, Any]) -> str:
    name = row.get("id")
    if name is None:
        # Where the schema lay is no content; what it says is.
        content = {
            key: value for key, value in row.items() if key not in ("id", "schema_uri", "schema_resources")
        }
        further = [document for _, document in sorted((row.get("schema_resources") or {}).items())]
        return f"r-{digest([content, further])[:16]}"
    if isinstance(name, int) and not isinstance(name, bool):
        name = str(name)
    if not isinstance(name, str) or not name.strip() or len(name) > _MAX_ID:
        raise _broken("id", f"a text of 1 to {_MAX_ID} characters, or a whole number", name)
    return name


def _label(value: str | int) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _schema(row: Mapping[str, Any], *, several: bool) -> tuple[Any, dict[str, Any], str | None, int]:
    """Return the root document, the documents by URI, where the schema stands, and how many types were
    respelt."""
    if "schema_path" in row:
        raise _broken(
            "schema_path", "the schema itself in its place, for a task opens no file", row["schema_path"]
        )
    if "schema" not in row:
        if "functions" not in row:
            raise _broken("schema", "schema, schema_path or functions", None)
        schema, count = _of_functions(row["functions"])
        return {"type": "array", "items": schema} if several else schema, {}, None, count
    schema, resources, uri = row["schema"], row.get("schema_resources") or {}, row.get("schema_uri")
    if not isinstance(schema, dict | bool):
        raise _broken("schema", "an object, true or false", schema)
    if not isinstance(resources, dict):
        raise _broken("schema_resources", "documents by URI", resources)
    if uri is not None and not isinstance(uri, str):
        raise _broken("schema_uri", "a text", uri)
    schema, count = translate_types(schema)
    translated = {}
    for place, document in resources.items():
        translated[place], respelt = translate_types(document)
        # The root may be among the documents: it is one file, and its spellings count once.
        count += respelt if uri is None or place != urldefrag(uri).url else 0
    return schema, translated, uri, count


def _of_functions(functions: Any) -> tuple[Any, int]:
    schema = schema_from_functions(functions)
    count = 0
    for function in functions:
        function = function.get("function") if isinstance(function.get("function"), dict) else function
        count += translate_types(function.get("parameters"))[1]
    return schema, count


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _schema_text(schema: Any, resources: Mapping[str, Any], uri: str | None) -> str:
    """Return what the model is shown: the root, then each further document under its name."""
    home, fragment = urldefrag(uri or "")
    further = {place: document for place, document in resources.items() if place != home or fragment}
    if fragment:
        further.setdefault(home, schema)
        schema = {"$ref": uri}
    return _compact(schema) + "".join(
        f"\n{place.removeprefix('file:///')}: {_compact(document)}"
        for place, document in sorted(further.items())
    )


def _with_functions(text: str, functions: Any) -> str:
    """Return the schema's text with the functions behind it, unless it names them all itself."""
    wanted = schema_from_functions(functions)
    names = [call["properties"]["name"]["const"] for call in wanted.get("anyOf", [wanted])]
    if all(json.dumps(name, ensure_ascii=False) in text for name in names):
        return text
    return f"{text}\nFunctions: {_compact(functions)}"
