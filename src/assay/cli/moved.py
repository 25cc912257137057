"""How the command line reads and shows words: its help has no types of Python, and whoever types a command
without its group, a word of ./run, or an option of another command is told where it is."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from assay.core.console import complain

# Those that had another name at the top level.
MOVED = {"new-task": "task new", "envcheck": "task check"}
OF_RUN = ("repro", "test", "smoke", "week", "bench")  # words of ./run alone
NEARLY = 0.8  # of the letters in common: a slip of the hand
NO_SUCH_COMMAND = 2  # the exit code of a command that does not exist


def _hide_types(parameters: list[Any]) -> list[Any]:
    """Let the help of an option say what its value is called, and not which type of Python it has."""
    for each in parameters:
        if each.metavar is None or each.param_type_name == "argument":
            vars(each)["display_type_rich"] = lambda ctx: None
    return parameters


class Command(TyperCommand):
    """A command of `assay`."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return arguments and options."""
        return _hide_types(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands, or all of them."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return arguments and options."""
        return _hide_types(super().get_params(ctx))


class TopLevel(Group):
    """The commands of `assay`, which knows those of its groups too."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that was asked for; end with a message if it stands elsewhere."""
        asked = args[0]
        if asked in self.commands:
            return super().resolve_command(ctx, args)
        if asked in OF_RUN:
            complain(f"assay: expected a command of `assay --help`, found {asked}, which is a word of ./run.")
            complain(f"Fix: ./run {asked}")
            raise typer.Exit(NO_SUCH_COMMAND)
        if places := self._places(asked):
            complain(f"assay: expected a command of `assay --help`, found {asked}, which is in a group.")
            complain("Fix: " + ", or ".join(f"./run assay {place}" for place in places))
            raise typer.Exit(NO_SUCH_COMMAND)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; of an option that it lacks say whose it is, if it is nearly another one's."""
        try:
            return super().invoke(ctx)
        except Exception as error:  # the class of such an error is typer's own secret
            asked, own = getattr(error, "option_name", ""), getattr(error, "possibilities", None) or ()
            owners = dict[str, list[str]]()
            for command, option in _options(self.commands, "assay") if asked else ():
                owners.setdefault(option, []).append(command)
            for option in difflib.get_close_matches(asked, owners, n=1, cutoff=NEARLY):
                if option not in own:
                    complain(f"assay: {option} is an option of {', '.join(owners[option])}")
            raise

    def _places(self, asked: str) -> list[str]:
        groups = {name: group for name, group in self.commands.items() if isinstance(group, TyperGroup)}
        renamed = [MOVED[asked]] if asked in MOVED else []
        return renamed + [f"{name} {asked}" for name, group in groups.items() if asked in group.commands]


def _options(commands: Mapping[str, Any], before: str) -> Iterator[tuple[str, str]]:
    """Yield each command, by all its words, with each of its options."""
    for name, command in commands.items():
        yield from _options(getattr(command, "commands", {}), f"{before} {name}")
        for parameter in command.params:
            yield from ((f"{before} {name}", option) for option in parameter.opts if option.startswith("--"))
