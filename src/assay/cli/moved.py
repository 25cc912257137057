"""Commands that stand in a group now: who types one as before is told where it is."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from assay.core.console import complain

# As it was at the top level → as it is.
MOVED = {
    "replay": "episodes replay",
    "grade": "episodes grade",
    "rescore": "episodes rescore",
    "serve": "runs serve",
    "readme": "publish readme",
    "digest": "config digest",
    "new-task": "task new",
    "envcheck": "task check",
    "audit": "task audit",
    "make-data": "task make-data",
}
NO_SUCH_COMMAND = 2  # the exit code of a command that does not exist


class TopLevel(TyperGroup):
    """The commands of `assay`, which knows those that moved."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that was asked for; end with a message if it moved."""
        if (now := MOVED.get(args[0])) is not None:
            complain(f"assay: expected a command of `assay --help`, found {args[0]}, which has moved.")
            complain(f"Fix: ./run assay {now}")
            raise typer.Exit(NO_SUCH_COMMAND)
        return super().resolve_command(ctx, args)
