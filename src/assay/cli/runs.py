"""Examine trainings and policies: before one, between several, on any file of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.naming import CUT, make_request, name_settings_of, takes


def doctor(
    device_memory: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=100_000,
            metavar="GIB",
            help="Forecast memory for a device of so much, which need not be here.",
        ),
    ] = None,
) -> None:
    """Check before a training what would make it useless or break it hours later; exit code 1 for a fault.

    Example: assay doctor --device-memory 24
    """
    from assay.checks.doctor import command as tool

    raise typer.Exit(tool.run(Path.cwd(), device_memory))


def diff(
    a: Annotated[Path, typer.Argument(metavar="A", help="train_log.jsonl, or a folder that has one.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another.")],
) -> None:
    """Name the first step, and the first link in it, at which two trainings part; exit code 1 if they do.

    Example: assay runs diff one/train_log.jsonl other/train_log.jsonl
    """
    from assay.cli.tools.logs import diff_runs as tool

    raise typer.Exit(tool.run(a, b))


def compare(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help=(
                "Folders, DVC experiments, git revisions; if none, all experiments of this commit and the"
                " workspace."
            ),
        ),
    ] = None,
    one_sided: Annotated[
        bool,
        typer.Option(
            "--one-sided", help="Ask only whether it improves: 5 seeds are enough; two-sided needs 6."
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write record, table, text and figures there.")
    ] = None,
) -> None:
    """Say whether a recipe improves, from trainings with several seeds; and which of several recipes is
    better.

    Example: assay runs compare seed-3 seed-4
    """
    from assay.package.recipe import compare as tool

    tool.run(Path.cwd(), runs or [], one_sided=one_sided, out=out)


def seeds(
    seeds: Annotated[
        str | None,
        typer.Argument(
            metavar="[SEEDS]", help="Those of the plan (claim.seeds) if not given; 0..5, or 0,3,7."
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Preset of configs/task/; the selected one if not given."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Trainings to run at a time.")] = 1,
    bases: Annotated[
        str | None,
        typer.Option(metavar="SEEDS", help="Also build bases from these base seeds, and say which pass."),
    ] = None,
    one_sided: Annotated[
        bool, typer.Option("--one-sided", help="As for compare: 5 seeds are enough.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Train seeds that are too few for a verdict over them.")
    ] = False,
) -> None:
    """Train on several seeds from one base, and write recipe.json; exit code 1 if one failed or is NOT
    EVALUABLE.

    Example: assay seeds 0..7 --jobs 2
    """
    from assay.package.recipe import seeds as tool

    further = () if bases is None else tool.parse_seeds(bases)
    asked = tool.planned_seeds(Path.cwd()) if seeds is None else tool.parse_seeds(seeds)
    failed = tool.run(Path.cwd(), asked, bases=further, task=task, jobs=jobs, one_sided=one_sided, few=yes)
    raise typer.Exit(failed)


def report(
    revision: Annotated[str, typer.Argument(metavar="REV", help="The commit to compare with.")],
) -> None:
    """Show what changed in settings, numbers and figures since a commit, as Markdown.

    Example: assay runs report main
    """
    from assay.cli.tools import changes as tool

    tool.run(Path.cwd(), revision)


@dataclass(frozen=True)
class EvaluateOptions:
    """Options of `assay evaluate`."""

    tasks: Annotated[Path, typer.Option(metavar="FILE", help="Tasks file, one record a line.")]
    policy: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A model folder, models/base, or an adapter folder.")
    ] = None
    player: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A scripted player of the task, in the place of --policy."),
    ] = None
    draws: Annotated[int | None, typer.Option(min=1, help="Episodes for each item.")] = None
    best_of: Annotated[
        int | None, typer.Option(min=1, help="Also the best of so many draws; all if not given.")
    ] = None
    greedy: Annotated[bool, typer.Option("--greedy", help="Greedy decoding: one draw at temperature 0.")] = (
        False
    )
    task: Annotated[
        str | None, typer.Option(help="Preset of configs/task/; that of params.yaml if not given.")
    ] = None
    items: Annotated[
        int | None, typer.Option(min=1, help="Number of items, strata in proportion; all if not given.")
    ] = None
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of sampling and of worlds.")] = None
    temperature: Annotated[float | None, typer.Option(help="Sampling temperature, above 0.")] = None
    max_new_tokens: Annotated[int | None, typer.Option(min=1, help="Most tokens of one completion.")] = None
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Episodes held at once; changes no result.")
    ] = None
    surface: Annotated[
        str | None, typer.Option(help="compact for a policy of the preset tiny, json for others.")
    ] = None
    blocklist: Annotated[
        Path | None, typer.Option(help="Blocklist to use instead of the task's, one term a line.")
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="MEANING=FIELD,...",
            help="Which field of a record is item, prompt or reference; or a YAML file of them.",
        ),
    ] = None
    cut: CUT = None
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the results; in .scratch/evaluate/ if not given."),
    ] = None
    served: Annotated[
        str | None, typer.Option(metavar="URL", help="An OpenAI-compatible server, in the place of --policy.")
    ] = None
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Of the served model.")] = None
    key_variable: Annotated[
        str | None,
        typer.Option(metavar="NAME", show_default="ASSAY_API_KEY", help="Variable with the server's key."),
    ] = None
    in_flight: Annotated[
        int | None, typer.Option(min=1, max=1024, show_default="8", help="Requests at once.")
    ] = None
    timeout: Annotated[float | None, typer.Option(show_default="600", help="Seconds for an answer.")] = None
    retries: Annotated[
        int | None, typer.Option(min=0, show_default="8", help="How often a request is made again.")
    ] = None
    requests_per_minute: Annotated[int | None, typer.Option(min=1, help="Most requests a minute.")] = None
    tokens_per_minute: Annotated[int | None, typer.Option(min=1, help="Most tokens a minute.")] = None
    price_in: Annotated[float | None, typer.Option(help="Price of a million tokens that are read.")] = None
    price_out: Annotated[float | None, typer.Option(help="Price of a million tokens written.")] = None
    extra: Annotated[
        str | None, typer.Option(metavar="JSON", help="Further fields of each request; null leaves one out.")
    ] = None


@takes
def evaluate(options: EvaluateOptions) -> None:
    """Measure any policy on any tasks file, as the stages do; what is not given is as in the settings.

    Example: assay evaluate --tasks tasks.jsonl --policy models/base
    """
    from assay.cli.tools import evaluate as tool

    asked = make_request(tool.EvaluationRequest, vars(options))
    from assay.rollout.policy.served.request import served_model

    if (model_asked := served_model(vars(options))) is None:
        tool.run(Path.cwd(), asked) if options.player is None else tool.run_player(
            Path.cwd(), asked, options.player
        )
        return
    from assay.cli.tools import evaluate_served

    evaluate_served.run(Path.cwd(), asked, model_asked)


def sweep(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="A run of .scratch/train, a project, or a folder of adapters checkpoint-N."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the results; in .scratch/sweep/ if not given."),
    ] = None,
    heldout: Annotated[
        bool,
        typer.Option("--held-out", help="On the held-out suite: logged as an opening, and never a claim."),
    ] = False,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Episodes an item; as in the settings if not given.")
    ] = None,
    items: Annotated[
        int | None, typer.Option(min=1, help="So many of the suite's file, strata in proportion.")
    ] = None,
    skip_damaged: Annotated[
        bool,
        typer.Option("--skip-damaged", help="Go on without damaged checkpoints, and say in the table which."),
    ] = False,
) -> None:
    """Measure every checkpoint of a run on the validation suite, each beside step 0: a table and a figure.

    Example: assay runs sweep .
    """
    from assay.cli.tools.sweep import command as tool
    from assay.cli.tools.sweep.sources import SweepRequest

    if (path / "params.yaml").is_file():
        name_settings_of(path)
    tool.run(Path.cwd(), make_request(SweepRequest, locals()))
