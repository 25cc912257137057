"""What of golds and answers counts where `task.grade` names fields: those, and arguments of calls by those
names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from assay.tasks.structured.grading.calls import Options
from assay.tasks.structured.reading.golds import Call, Calls, Gold, Plain


def graded_gold(gold: Gold, graded: Collection[str] | None) -> Gold | None:
    """Return what of a gold counts, None where nothing does; all of it where no fields are named.

    >>> graded_gold(Plain({"a": 1, "b": 2}), ["b"]), graded_gold(Plain({"a": 1}), ["b"]), graded_gold(Plain(3), ["b"])
    (Plain(written={'b': 2}), None, Plain(written=3))
    """
    if graded is None:
        return gold
    if isinstance(gold, Call):
        return _call(gold, graded)
    if isinstance(gold, Calls):
        written = [graded_part(each, graded, is_call=True) for each in gold.written]
        return Calls(written, tuple(_call(call, graded) for call in gold.calls))
    part = graded_part(gold.written, graded, is_call=False)
    return None if isinstance(gold.written, dict) and not part else Plain(part)


def _call(call: Call, graded: Collection[str]) -> Call:
    functions = {
        name: Options(
            {arg: values for arg, values in options.parts.items() if arg in graded},
            options.optional & set(graded),
        )
        for name, options in call.functions.items()
    }
    return Call(graded_part(call.written, graded, is_call=True), functions)


def graded_part(value: Any, graded: Collection[str] | None, *, is_call: bool) -> Any:
    """Return what of a value counts: its named fields, those of the objects in a list, or the named arguments
    of its calls.

    >>> graded_part([{"a": 1, "b": 2}], ["a"], is_call=False), graded_part({"f": {"a": 1, "b": 2}}, ["a"], is_call=True)
    ([{'a': 1}], {'f': {'a': 1}})
    """
    if graded is None:
        return value
    if isinstance(value, list):
        return [graded_part(part, graded, is_call=is_call) for part in value]
    if not isinstance(value, dict):
        return value
    if not is_call:
        return _named(value, graded)
    if isinstance(value.get("name"), str) and isinstance(value.get("arguments"), dict):
        return value | {"arguments": _named(value["arguments"], graded)}
    return {
        name: _named(given, graded) if isinstance(given, dict) else given for name, given in value.items()
    }


def _named(value: Mapping[str, Any], graded: Collection[str]) -> dict[str, Any]:
    return {name: part for name, part in value.items() if name in graded}
