"""Grade completions that are stored."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.naming import CUT, make_request, takes


@dataclass(frozen=True)
class GradeOptions:
    """Options of `assay episodes grade`."""

    task: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Preset of configs/task/; that of params.yaml if not given."),
    ] = None
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose completions these are, in your words.")
    ] = None
    items: Annotated[
        int | None, typer.Option(min=1, help="So many of the items, as in evaluate; all if not given.")
    ] = None
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the worlds that were played.")] = None
    surface: Annotated[
        str | None, typer.Option(help="compact or json: how the environment spoke; as in the settings.")
    ] = None
    cut: CUT = None
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="MEANING=COLUMN,...",
            help="Which column is item, completion, draw, ...; or a YAML file of them.",
        ),
    ] = None
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")] = Path("graded")


@takes
def grade(
    tasks: Annotated[Path, typer.Argument(metavar="TASKS", help="Tasks file that was answered, JSONL.")],
    completions: Annotated[
        Path,
        typer.Argument(
            metavar="COMPLETIONS",
            help="JSONL, CSV or Parquet with an item and completion, completions or messages.",
        ),
    ],
    options: GradeOptions,
) -> None:
    """Grade completions that you have by a task's own grader: episodes that judge takes.

    Example: assay episodes grade tasks.jsonl completions.jsonl --model mine
    """
    from assay.cli.tools.grade import command as tool

    tool.run(Path.cwd(), tasks, completions, make_request(tool.GradeRequest, vars(options)))
