"""What commands share: whose settings one is about, and what it was given as one request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from assay.core.config.places import located
from assay.core.console import name_places

R = TypeVar("R")
# What a task cuts off completions, in the place of what its settings say.
CUT = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,...",
        help="Cut off before grading, in your order: channels, think, answer, boxed, tool_call, fence, prose;"
        " none.",
    ),
]


def make_request(kind: type[R], given: Mapping[str, Any]) -> R:
    """Return a dataclass of what the options of its fields' names were given; None is not given."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: given[name] for name in names if given.get(name) is not None})


def takes(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take each field of its last parameter, a dataclass, as an option of its own."""
    *own, last = signature(command, eval_str=True).parameters.values()
    kind = last.annotation
    hints = get_type_hints(kind, include_extras=True)
    options = [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(kind)
    ]

    @wraps(command)
    def run(**given: Any) -> None:
        values = {option.name: given.pop(option.name) for option in options}
        command(**given, **{last.name: kind(**values)})

    run.__signature__ = Signature([*own, *options])  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in (*own, *options)}
    return run


def name_settings_of(root: Path) -> None:
    """Let every message from now on name the place of a setting as it is edited in a project.

    Args:
        root: The project, or a folder with nothing but params.yaml.
    """
    name_places(partial(located, find=partial(_place, root)))


def _place(root: Path, name: str) -> str:
    from assay.core.config.composition import place_of  # only once there is a setting to be named
    from assay.core.config.settings import Params

    if name.partition(".")[0] not in Params.model_fields:
        return f"setting {name}"  # a sentence that has the word

    place = place_of(root, name)
    return place if root.resolve() == Path.cwd() else f"{root}/{place}"
