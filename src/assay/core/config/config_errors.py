"""What pydantic finds wrong in settings: in its words, with the place, what is there, and what was meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from assay.core.config.forms import known_names, shown_form
from assay.core.config.places import place
from assay.core.errors import ConfigError

NO_DEEPSPEED = (
    "whose optimizer step happens within the backward pass, where no poisoned step could be held back any"
    " more"
)
_ENGINE = "distributed.engine"
_SHOWN = 80  # characters of a value that a message quotes


def explained(error: ValidationError, raw: Mapping[str, Any], where: str | None) -> ConfigError:
    """Return what is wrong first, and how many other places are.

    Args:
        error: What the settings were refused with.
        raw: The settings.
        where: Name of their file; None where they were composed of several.
    """
    errors = error.errors(include_url=False)
    paths = [_path(each, raw) for each in errors]
    first, steps, kind = errors[0], paths[0], errors[0]["type"]
    also = f" ({len(set(paths)) - 1} more like it)" if len(set(paths)) > 1 else ""
    path = ".".join(steps)
    # What is wrong by a rule of ours has its form; of all else that is no single value it is shown.
    form = None if kind == "value_error" else shown_form(steps)
    of_record = any(step.isdigit() for step in steps)  # in a list, whose form is shown whole
    if kind == "extra_forbidden":
        expected, found, fix = "a known setting", f"unknown key {steps[-1]!r}", _fix_of_key(steps)
        fix = form if form and of_record else fix
    elif kind == "missing":
        expected, found, fix = "a value", "nothing", f"add {path} to your preset{f': {form}' if form else ''}"
        fix = form if form and of_record else fix
    else:
        # Of a setting that may be one of two kinds of thing, each kind has an error of its own.
        same = [each for each, its in zip(errors, paths, strict=True) if its == steps]
        expected = " or ".join(dict.fromkeys(map(_expected, same)))
        value = first["input"][steps[-1]] if kind == "union_tag_invalid" else first.get("input")
        choices = [word for each in same for word in _expected(each).split("'")[1::2]]
        found = quoted(value)
        near = difflib.get_close_matches(value.lower(), choices, n=1) if isinstance(value, str) else []
        fix = "; ".join([*(f"did you mean {name!r}?" for name in near), *([form] if form else [])])
        if path == _ENGINE and "deepspeed" in str(value).lower():
            found += f", {NO_DEEPSPEED}"
            fix = f"set {_ENGINE}: ddp, or fsdp where the base does not fit one GPU"
    if path == "task.name":  # a package of a task whose settings are not here
        fix = fix or "correct it, or put that task's folder into tasks/ of this checkout (docs/own-task.md)"
    fix = fix or "correct the value in configs/"
    return ConfigError(expected, found=f"{found}{also}", where=place(path, where), fix=fix)


def _path(error: Mapping[str, Any], raw: Any) -> tuple[str, ...]:
    """Return the keys that lead to a place in the file, without the names of alternatives that pydantic puts
    between them."""
    steps, here = list[str](), raw
    for step in error["loc"]:
        if (isinstance(here, Mapping) and step in here) or (isinstance(here, list) and isinstance(step, int)):
            steps, here = [*steps, str(step)], here[step]
    if error["type"] == "missing":
        steps.append(str(error["loc"][-1]))
    if error["type"] == "union_tag_invalid":
        steps.append(error["ctx"]["discriminator"].strip("'").removesuffix("()"))  # a name, or a function's
    return tuple(steps)


def _expected(error: Mapping[str, Any]) -> str:
    if error["type"] == "union_tag_invalid":
        return str(error["ctx"]["expected_tags"]).replace(", ", " or ")
    if error["type"] in ("model_type", "model_attributes_type"):
        return "a section with settings of its own"
    said = str(error["msg"]).removeprefix("Value error, ")
    return re.sub(r"^\w+ should (be|have) | after validation.*$", "", said)


def _fix_of_key(steps: Sequence[str]) -> str:
    known = sorted(known_names(steps[:-1]))
    if steps[-1] in known:
        return f"remove it: it is a setting of another kind of {'.'.join(steps[:-1])}"
    near = difflib.get_close_matches(steps[-1], known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"remove it; known here: {known}"


def quoted(value: object) -> str:
    """Return a value as the file says it, in short; a section is not repeated."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "something else"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
