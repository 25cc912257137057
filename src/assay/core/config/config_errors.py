"""What pydantic finds wrong in settings, said in our words: what is taken there, what stands there, and what
was meant."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from assay.core.config.forms import shown_form
from assay.core.config.places import place
from assay.core.config.settings import Params
from assay.core.errors import ConfigError

NO_DEEPSPEED = (
    "whose optimizer step happens within the backward pass, where no poisoned step could be held back any"
    " more"
)
_ENGINE = "distributed.engine"
# By the name of pydantic's error; what is not here is said in its words.
_KINDS = {
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a text",
    "list_type": "a list",
    "model_type": "a section with settings of its own",
    "too_short": "a list with an entry",
    "model_attributes_type": "a section with settings of its own",
    "string_too_short": "a text that is not empty",
    "invalid_key": "a name of a setting",
}
_BOUNDS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
    "string_pattern_mismatch": ("a text of the form", "pattern"),
}
_SHOWN = 80  # characters of a value that a message quotes


def explained(error: ValidationError, raw: Mapping[str, Any], where: str | None) -> ConfigError:
    """Return what is wrong first, and how many other places are.

    Args:
        error: What the settings were refused with.
        raw: The settings.
        where: Name of their file; None where they were composed of several.
    """
    errors = error.errors(include_url=False)
    paths = [_path(each["loc"], raw, missing=each["type"] == "missing") for each in errors]
    first, steps = errors[0], paths[0]
    more = len(set(paths)) - 1
    also = f" ({more} more like it)" if more else ""
    if first["type"] == "union_tag_invalid":
        steps = (*steps, first["ctx"]["discriminator"].strip("'"))
    path = ".".join(steps)
    at = place(path, where)
    # What is wrong by a rule of ours has its form; of anything else that is no single value the form is
    # shown.
    form = None if first["type"] == "value_error" else shown_form(steps)
    of_record = any(
        step.isdigit() for step in steps
    )  # in a list: whoever writes one wrongly may not know how it begins
    if first["type"] == "extra_forbidden":
        fix = _fix_of_key(steps) if form is None or not of_record else form
        return ConfigError("a known setting", found=f"unknown key {steps[-1]!r}{also}", where=at, fix=fix)
    if first["type"] == "missing":
        fix = form if form and of_record else f"add {path} to your preset{f': {form}' if form else ''}"
        return ConfigError("a value", found=f"nothing{also}", where=at, fix=fix)
    # Of a setting that may be one of two kinds of thing, each kind has an error of its own.
    same = [each for each, its in zip(errors, paths, strict=True) if its == paths[0]]
    expected = " or ".join(dict.fromkeys(_expected(each) for each in same))
    value = first["input"][steps[-1]] if first["type"] == "union_tag_invalid" else first.get("input")
    choices = [choice for each in same for choice in _choices(each)]
    found, near = quoted(value), _nearest(value, choices)
    fix = "; ".join(filter(None, (near, form))) or "correct the value in configs/"
    if path == _ENGINE and "deepspeed" in str(value).lower():
        found += f", {NO_DEEPSPEED}"
        fix = f"set {_ENGINE}: ddp, or fsdp where the base does not fit one GPU"
    return ConfigError(expected, found=f"{found}{also}", where=at, fix=fix)


def _path(location: Sequence[int | str], raw: Mapping[str, Any], *, missing: bool) -> tuple[str, ...]:
    """Return the keys that lead to a place in the file, without what pydantic puts between them.

    Those are the names of alternatives, such as "scratch" for a base and "list[str]" for a setting.
    """
    steps, here = list[str](), raw
    for step in location[:-1] if missing else location:
        if isinstance(here, Mapping | list):
            inside = step in here if isinstance(here, Mapping) else isinstance(step, int) and step < len(here)
            if inside:
                steps, here = [*steps, str(step)], here[step]  # type: ignore[index]
    return (*steps, str(location[-1])) if missing else tuple(steps)


def _known_keys(model: type[BaseModel] = Params, prefix: str = "") -> dict[str, set[str]]:
    """Return for each dotted section the names that are allowed in it."""
    keys: dict[str, set[str]] = {prefix: set(model.model_fields)}
    for name, field in model.model_fields.items():
        path = f"{prefix}.{name}" if prefix else name
        for candidate in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                for section, names in _known_keys(candidate, path).items():
                    keys[section] = keys.get(section, set()) | names
    return keys


def _fix_of_key(steps: Sequence[str]) -> str:
    section, key = ".".join(steps[:-1]), steps[-1]
    known = sorted(_known_keys().get(section, set()))
    if key in known:
        return f"remove it: it is a setting of another kind of {section}"
    near = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"remove it; known here: {known}"


def _choices(error: Mapping[str, Any]) -> list[str]:
    """Return the texts that a setting may be, none where it is no choice of texts."""
    listed = str(
        error.get("ctx", {}).get("expected_tags" if error["type"] == "union_tag_invalid" else "expected", "")
    )
    return [word.strip("'") for word in listed.replace(" or ", ", ").split(", ")] if "'" in listed else []


def _nearest(value: object, choices: Sequence[str]) -> str | None:
    near = difflib.get_close_matches(value.lower(), choices, n=1) if isinstance(value, str) else []
    return f"did you mean {near[0]!r}?" if near else None


def _expected(error: Mapping[str, Any]) -> str:
    kind, told = error["type"], error.get("ctx", {})
    if kind == "union_tag_invalid":
        return " or ".join(told["expected_tags"].split(", "))
    if kind == "literal_error":
        return str(told["expected"])
    if kind in _BOUNDS:
        words, name = _BOUNDS[kind]
        return f"{words} {told[name] if name == 'pattern' else format(told[name], 'g')}"
    return _KINDS.get(kind) or str(error["msg"]).removeprefix("Value error, ").removeprefix(
        "Input should be "
    )


def quoted(value: object) -> str:
    """Return a value as the file says it, in short; a section is not repeated."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "something else"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
