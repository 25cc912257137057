"""What a setting looks like: an example that can be pasted, made of the very model that refused a value."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from assay.core.config.settings import Params

LONGEST = 200  # characters of an example; a larger section is told by the names of its settings
_PLAIN = re.compile(r"[A-Za-z_][\w./-]*(?:,? [\w./-]+)*")
_WORDS = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")


def form_of(steps: Sequence[str]) -> FieldInfo | None:
    """Return what is declared of a setting, by the keys that lead to it; None where there is no such
    setting."""
    found = [FieldInfo.from_annotation(Params)]
    for step in steps:
        found = [inner for each in found for choice in _choices(each) for inner in _inside(choice, step)]
    return found[0] if found else None


def known_names(steps: Sequence[str]) -> set[str]:
    """Return the names of the settings in a section, whichever of its kinds it is."""
    form = form_of(steps)
    return set() if form is None else {name for choice in _choices(form) for name in _fields(choice)}


def shown_form(steps: Sequence[str]) -> str | None:
    """Return what to write for a setting of a wrong form, with an example; None for one in which nothing
    stands.

    Of a record in a list the whole list is shown, since that is what a person edits.

    >>> shown_form(["validation", "suite"]) is None
    True
    >>> shown_form(["claim", "controls", "0"])  # doctest: +ELLIPSIS
    'write it as controls: [aa]   (aa: base against base, always; ...; each is one of aa, random_reward)'
    """
    places = [n for n, step in enumerate(steps) if step.isdigit()]
    steps = steps[: places[0]] if places else steps
    form = form_of(steps)
    if not steps or form is None or not any(_parts(each) for each in _choices(form)):
        return None
    text = f"{steps[-1]}: {flow(example(form))}"
    kinds = [each for each in _choices(form) if _fields(each)]
    if kinds and (len(kinds) > 1 or len(text) > LONGEST):
        names = [name for each in kinds for name in _fields(each)]
        return (
            f"write it as a section with {', '.join(dict.fromkeys(names))}, as the presets in configs/"
            " have it"
        )
    notes = "; ".join(_words(form))
    return f"write it as {text}{f'   ({notes})' if notes else ''}"


def example(form: FieldInfo) -> Any:
    """Return a value of a form, as YAML would give it; where nothing better is declared, by its type and
    bounds."""
    if form.examples:
        return form.examples[0]
    chosen = next(each for each in _choices(form) if each.annotation is not type(None))
    if chosen is not form and chosen.examples:
        return chosen.examples[0]
    kind, inner = get_origin(chosen.annotation), get_args(chosen.annotation)
    if fields := _fields(chosen):
        return {name: example(field) for name, field in fields.items()}
    if kind is Literal:
        return inner[0]
    if kind is list:
        return [example(FieldInfo.from_annotation(inner[0]))]
    if kind is dict:
        names = get_args(inner[0]) if get_origin(inner[0]) is Literal else ("name",)
        return {name: example(FieldInfo.from_annotation(inner[1])) for name in names}
    if chosen.annotation in (bool, str):
        return True if chosen.annotation is bool else "text"
    low = max(_bounds(form, "ge", "gt"), default=0)
    if chosen.annotation is int:
        return int(low)
    high = min(_bounds(form, "le", "lt"), default=low + 1)
    low = max(low, 0) if high > 0 else low
    return (low + min(high, low + 1)) / 2  # bounds that only keep numbers sane are no example


def flow(value: Any) -> str:
    """Return a value as YAML in one line.

    >>> flow({"a": [1, "x y"], "b": {"c": True}})
    '{a: [1, x y], b: {c: true}}'
    """
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}: {flow(part)}' for name, part in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(flow, value))}]"
    if (
        isinstance(value, str)
        and _PLAIN.fullmatch(value)
        and "," not in value
        and value.lower() not in _WORDS
    ):
        return value
    return json.dumps(value, ensure_ascii=False)


def _choices(form: FieldInfo) -> list[FieldInfo]:
    """Return the kinds of thing that a setting may be; itself where there is one."""
    if get_origin(form.annotation) not in (Union, types.UnionType):
        return [form]
    return [FieldInfo.from_annotation(each) for each in get_args(form.annotation)]


def _fields(form: FieldInfo) -> dict[str, FieldInfo]:
    kind = form.annotation
    if not isinstance(kind, type) or not issubclass(kind, BaseModel):
        return {}
    return {field.alias or name: field for name, field in kind.model_fields.items()}


def _parts(form: FieldInfo) -> bool:
    return bool(_fields(form)) or get_origin(form.annotation) in (list, dict)


def _inside(form: FieldInfo, step: str) -> Iterator[FieldInfo]:
    """Yield what stands under a key, or at a place of a list."""
    kind, inner = get_origin(form.annotation), get_args(form.annotation)
    if step in _fields(form):
        yield _fields(form)[step]
    elif kind is dict or (kind is list and step.isdigit()):
        yield FieldInfo.from_annotation(inner[-1])


def _words(form: FieldInfo) -> Iterator[str]:
    """Yield what an example cannot show: what it is about, and which words there are to choose from."""
    if form.description:
        yield form.description
    for choice in _choices(form):
        if get_origin(choice.annotation) is list:
            part = FieldInfo.from_annotation(get_args(choice.annotation)[0])
            for name, field in ({"each": part} | _fields(part)).items():
                words = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
                if len(words) > 1:
                    yield f"{name} is one of {', '.join(map(str, words))}"


def _bounds(form: FieldInfo, *names: str) -> list[float]:
    found = (getattr(each, name, None) for each in form.metadata for name in names)
    return [bound for bound in found if bound is not None]
