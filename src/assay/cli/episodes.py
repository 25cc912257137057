"""Look again at episodes that are stored: show one, grade completions, score all under another reward."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.naming import CUT, make_request


def replay(
    episode: Annotated[
        Path,
        typer.Argument(
            metavar="EPISODES", help="A file of episodes, a folder of results, a project, or a package."
        ),
    ],
    item: Annotated[
        str | None, typer.Argument(metavar="[ITEM]", help="Id of its item; the first if not given.")
    ] = None,
    draw: Annotated[int | None, typer.Option(min=0, help="Which draw; the first if not given.")] = None,
    arm: Annotated[
        str, typer.Option(metavar="NAME", help="Of a project or package: whose episodes, such as pre_eval.")
    ] = "post_eval",
    step: Annotated[int | None, typer.Option(min=0, help="Of a validation: at which step.")] = None,
    task: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Preset of configs/task/; that of params.yaml if not given."),
    ] = None,
    tasks: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Records that were played, if not the project's.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the worlds that were played.")] = None,
    page: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write it as a page too.")] = None,
) -> None:
    """Walk through one stored episode: what was asked, each turn with its reward, and what was right."""
    from assay.tools.replay import command as tool

    tool.run(Path.cwd(), episode, make_request(tool.ReplayRequest, locals()))


def grade(
    tasks: Annotated[Path, typer.Argument(metavar="TASKS", help="Tasks file that was answered, JSONL.")],
    completions: Annotated[
        Path,
        typer.Argument(
            metavar="COMPLETIONS",
            help="JSONL, CSV or Parquet with an item and completion, completions or messages.",
        ),
    ],
    task: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Preset of configs/task/; that of params.yaml if not given."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose completions these are, in your words.")
    ] = None,
    items: Annotated[
        int | None, typer.Option(min=1, help="So many of the items, as in evaluate; all if not given.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the worlds that were played.")] = None,
    surface: Annotated[
        str | None, typer.Option(help="compact or json: how the environment spoke; as in the settings.")
    ] = None,
    cut: CUT = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="MEANING=COLUMN,...",
            help="Which column is item, completion, draw, ...; or a YAML file of them.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")] = Path("graded"),
) -> None:
    """Grade completions that you have by a task's own grader: episodes that judge takes."""
    from assay.tools.grade import command as tool

    tool.run(Path.cwd(), tasks, completions, make_request(tool.GradeRequest, locals()))


def rescore(
    logs: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG...",
            help="Episodes of assay, its validation.jsonl, or a log of another trainer with reward parts.",
        ),
    ],
    weights: Annotated[
        str | None, typer.Option(metavar="PART=N,...", help="What each part counts; or a YAML file of them.")
    ] = None,
    entry: Annotated[
        str | None,
        typer.Option(metavar="FILE:FUNCTION", help="Another reward function, for a task of your own."),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Preset of configs/task/; that of params.yaml if not given."),
    ] = None,
    tasks: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Records of the episodes, if not the project's data.")
    ] = None,
    success: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of another trainer's log: what says what is right.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")] = Path("rescored"),
) -> None:
    """Score stored episodes and groups under another reward, without a model: which order changes, which
    advantages flip, and whether it agrees better with success."""
    from assay.tools.rescore import command as tool

    tool.run(Path.cwd(), logs, make_request(tool.RescoreRequest, locals()))
