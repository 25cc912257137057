"""The command line: one command a stage, in pipeline order, then the tools. Heavy imports wait until they are
needed."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from assay.cli import config, data, episodes, results, runs, stages, task
from assay.cli.moved import TopLevel
from assay.cli.naming import name_settings_of
from assay.core.console import complain, say
from assay.core.errors import AssayError, EnvironmentFailure, Interrupted, TrainingStopped

# A new command is a function in the module of its kind and its place in a list, which is the order of --help.
COMMANDS = (
    stages.fingerprint,
    stages.base,
    stages.pre_eval,
    stages.train,
    stages.control,
    stages.post_eval,
    stages.render_evidence,
    stages.package,
    results.verify,
    results.verdict,
    results.plan,
    results.judge,
    runs.doctor,
    runs.evaluate,
    runs.seeds,
)
GROUPS = {
    "runs": (
        "Look at trainings: one, or several beside each other.",
        (results.watch, results.serve, results.health, runs.diff, runs.compare, runs.sweep, runs.report),
    ),
    "episodes": ("Grade completions that you have; no model is loaded.", (episodes.grade,)),
    "task": (
        "Make a task of your own, check it, audit its records.",
        (task.new, task.check, task.import_, task.audit, task.make_data),
    ),
    "data": ("Draw held-out records that nobody has seen.", (data.fresh,)),
    "config": (
        "Choose, show and check presets; fetch the weights that one names; print the digest of an adapter or"
        " model to be named in one.",
        (config.use, config.show, config.check, config.digest, config.fetch),
    ),
    "publish": (
        "Hand on a policy or a package; renew the generated pages.",
        (results.push, results.sign, results.wandb, results.merge, results.readme),
    ),
}

app = typer.Typer(
    cls=TopLevel,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Train a language model with GRPO, and say whether it got better. `./run repro` runs the stages,"
    " which come first below; then come the tools.",
)


def _say_version(asked: bool) -> None:
    if asked:
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


for command in COMMANDS:
    app.command()(command)
for name, (about, members) in GROUPS.items():
    group = typer.Typer(
        no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=about
    )
    for member in members:
        group.command()(member)
    app.add_typer(group, name=name)


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
        complain(
            "Fix: pip install -r requirements.txt -c constraints.txt, as ./run does; pip install . alone is"
            " enough for plan, judge, episodes, runs health, evaluate --served, and verify of judgements"
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
