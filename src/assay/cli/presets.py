"""`assay config`: choose and check the presets of configs/."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.core.console import say

app = typer.Typer(no_args_is_help=True, help="Choose and check presets.")


@app.command("use")
def config_use(
    settings: Annotated[list[str] | None, typer.Argument(help="grpo=… task=… seed=…")] = None,
) -> None:
    """Select presets and write params.yaml from configs/."""
    from assay.core.config.composition import use
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
    if seed is not None and not seed.isdecimal():
        raise ConfigError("a whole number", found=repr(seed), where="assay config use, seed", fix="seed=0")
    lines = use(
        Path.cwd(), grpo=chosen.get("grpo"), task=chosen.get("task"), seed=None if seed is None else int(seed)
    )
    for line in lines or ["nothing changed: params.yaml already is what configs/ compose to"]:
        say(line)


@app.command("check")
def config_check() -> None:
    """Fail if params.yaml is not what configs/ compose to."""
    from assay.core.config.composition import check

    check(Path.cwd())
    say("params.yaml is what configs/ compose to")
