"""Commands that stand in a group: who types one without it is told where it is."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from assay.core.console import complain

# Those that had another name at the top level.
MOVED = {"new-task": "task new", "envcheck": "task check"}
NO_SUCH_COMMAND = 2  # the exit code of a command that does not exist


class TopLevel(TyperGroup):
    """The commands of `assay`, which knows those of its groups too."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that was asked for; end with a message if it is one of a group."""
        asked = args[0]
        if asked not in self.commands and (places := self._places(asked)):
            complain(f"assay: expected a command of `assay --help`, found {asked}, which is in a group.")
            complain("Fix: " + ", or ".join(f"./run assay {place}" for place in places))
            raise typer.Exit(NO_SUCH_COMMAND)
        return super().resolve_command(ctx, args)

    def _places(self, asked: str) -> list[str]:
        groups = {name: group for name, group in self.commands.items() if isinstance(group, TyperGroup)}
        renamed = [MOVED[asked]] if asked in MOVED else []
        return renamed + [f"{name} {asked}" for name, group in groups.items() if asked in group.commands]
