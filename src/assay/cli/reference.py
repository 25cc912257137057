"""docs/cli.md: every command with its arguments and options, as the command line itself knows them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

WIDTH = 108
KINDS = {int: "N", float: "NUMBER", str: "TEXT", Path: "PATH"}
HEAD = """\
# Commands

This page is written by `./run assay publish readme` from the command line itself; an edit by hand would not
last. Call every command through `./run`, which sets up the environment; where `.venv/bin` is on your PATH,
`assay --install-completion` lets your shell complete them. Exit codes are in
[recovery.md](recovery.md#exit-codes).
"""


def reference(app: typer.Typer) -> str:
    """Return the text of docs/cli.md."""
    return "\n".join([HEAD, *_of("assay", typer.main.get_command(app), level=1)])


def _of(name: str, command: Any, *, level: int) -> Iterator[str]:
    if level > 1:
        yield f"{'#' * level} `{name}`\n"
        yield _filled(" ".join((command.help or "").split()), "") + "\n"
    subcommands = getattr(command, "commands", None)
    if subcommands is not None:
        for each in subcommands.values():
            yield from _of(f"{name} {each.name}", each, level=level + 1)
        return
    parameters = [_parameter(each) for each in command.params if each.name != "help"]
    if parameters:
        yield "\n".join(parameters) + "\n"
    about, _, example = (command.epilog or "").partition(": ")
    yield f"{about}: `{example}`\n"


def _parameter(parameter: Any) -> str:
    metavar = parameter.metavar or ""
    if parameter.param_type_name == "argument":
        called = f"`{metavar or parameter.name.upper()}`"
        optional = "" if parameter.required or metavar.startswith("[") else " (optional)"
    else:
        names = [*parameter.opts, *parameter.secondary_opts]
        value = "" if parameter.is_flag else f" {metavar or KINDS[parameter.type_descriptor.annotation]}"
        called = " or ".join(f"`{name}{value}`" for name in names)
        optional = " (required)" if parameter.required else ""
    said = parameter.show_default if isinstance(parameter.show_default, str) else None
    default = said or parameter.default
    shown = not (parameter.required or default is None or isinstance(default, bool) or callable(default))
    ended = f" Default: `{default}`." if shown and str(default) else ""
    return _filled(f"{called}{optional}: {parameter.help or ''}{ended}", "* ")


def _filled(text: str, mark: str) -> str:
    return textwrap.fill(
        text.replace("<", r"\<"),
        WIDTH,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )
