"""The command line, in panels by what a person wants, the stages of `./run repro` last.

Heavy imports wait until they are needed.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from assay.cli import config, data, episodes, results, runs, stages, task
from assay.cli.moved import Command, Group, TopLevel
from assay.cli.naming import name_settings_of
from assay.core.beside import beside
from assay.core.console import complain, say
from assay.core.errors import AssayError, EnvironmentFailure, Interrupted, TrainingStopped

# A new command is a function in the module of its kind, whose docstring ends with an example, and its place
# in a panel, which is its place in --help.
PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Start": (runs.doctor,),
    "Train and look": (results.verdict, runs.seeds),
    "Judge and measure": (results.judge, results.plan, runs.evaluate),
    "Share and check": (results.verify,),
    "Stages of ./run repro": (
        stages.fingerprint,
        stages.base,
        stages.pre_eval,
        stages.train,
        stages.control,
        stages.post_eval,
        stages.render_evidence,
        stages.package,
    ),
}
# Group → its panel, what it is about, its commands.
GROUPS: dict[str, tuple[str, str, tuple[Callable[..., None], ...]]] = {
    "config": (
        "Start",
        "Choose, show and check presets; fetch the weights that one names; print the digest of an adapter or"
        " model to be named in one.",
        (config.use, config.show, config.check, config.digest, config.fetch),
    ),
    "task": (
        "Start",
        "Make a task of your own, check it, audit its records.",
        (task.new, task.check, task.import_, task.audit, task.make_data),
    ),
    "data": ("Start", "Draw held-out records that nobody has seen.", (data.fresh,)),
    "runs": (
        "Train and look",
        "Look at trainings: one, or several beside each other.",
        (results.watch, results.serve, results.health, runs.diff, runs.compare, runs.sweep, runs.report),
    ),
    "episodes": (
        "Judge and measure",
        "Grade completions that you have; no model is loaded.",
        (episodes.grade,),
    ),
    "publish": (
        "Share and check",
        "Hand on a policy or a package; renew the generated pages.",
        (results.push, results.sign, results.wandb, results.merge, results.readme),
    ),
}

app = typer.Typer(
    cls=TopLevel,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Train a language model with GRPO, and say whether it got better. `./run repro` runs the stages,"
    " which come last below.",
    epilog="Each command has its own --help, with an example.",
)


def _say_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        say(f"assay {version('assay-grpo')}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and end."),
    ] = False,
) -> None:
    pass


def _add(to: typer.Typer, command: Callable[..., None], panel: str | None = None) -> None:
    about, _, example = (inspect.getdoc(command) or "").partition("\n\nExample: ")
    about = " ".join(about.split())  # not broken where the source is
    first = re.split(r"[;.] ", about)[0].removesuffix(".")
    shown = to.command(
        cls=Command, help=about, short_help=f"{first}.", epilog=f"Example: {example}", rich_help_panel=panel
    )
    shown(command)


for panel, commands in PANELS.items():
    for command in commands:
        _add(app, command, panel)
for name, (panel, about, commands) in GROUPS.items():
    group = typer.Typer(cls=Group, no_args_is_help=True, pretty_exceptions_enable=False, help=about)
    for command in commands:
        _add(group, command)
    app.add_typer(group, name=name, rich_help_panel=panel)


def main() -> None:
    """Run the command line; our own errors become one message and exit code 1."""
    if (
        sys.flags.optimize
    ):  # without asserts and docstrings checks of ours and --help would be empty, unnoticed
        complain(
            "assay: expected Python with asserts and docstrings, found that it leaves them out"
            " (PYTHONOPTIMIZE or -O)."
        )
        complain("Fix: unset PYTHONOPTIMIZE, and call again")
        raise SystemExit(1)
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    logging.getLogger("bitsandbytes").setLevel(
        logging.CRITICAL
    )  # it warns of a 4-bit CPU kernel that nobody asked for
    # transformers renames gradient_checkpointing while peft and TRL still ask for the old name.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    name_settings_of(Path.cwd())
    try:
        app()
    except AssayError as error:
        # What all processes of a training raise, one of them says.
        if os.environ.get("RANK", "0") == "0" or not isinstance(error, Interrupted | TrainingStopped):
            complain(f"assay: {error}")
        raise SystemExit(error.exit_code) from None
    except EnvironmentFailure as error:
        complain(f"assay: the environment failed: {type(error).__name__}: {error}")
        complain("Fix: see to the environment and call again; what is finished is kept")
        raise SystemExit(1) from None
    except ModuleNotFoundError as error:
        package = (error.name or "assay").partition(".")[0]
        if package == "assay":
            raise
        complain(f"assay: this command expected the package {package}, found that it is not installed.")
        wanted, pins = (beside(name) or name for name in ("requirements.txt", "constraints.txt"))
        complain(
            f"Fix: pip install -r {wanted} -c {pins}; without, plan, judge, episodes, runs health,"
            " evaluate --served, and verify of judgements work"
        )
        raise SystemExit(1) from None
    except OSError as error:
        where = error.filename or "the disk"
        complain(
            f"assay: {where}: expected a file system that can be read and written, found {error.strerror}."
        )
        complain(
            "Fix: make room or set the permissions right, then call again; files are replaced whole or not"
            " at all"
        )
        raise SystemExit(1) from None
