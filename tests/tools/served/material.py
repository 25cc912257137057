"""Projects in which a served model is measured, and the command that does it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from assay.cli import app
from assay.cli.tools import evaluate, evaluate_served
from assay.core.errors import AssayError
from assay.core.records import Episode
from assay.core.storage.json import read_records
from tests.house import ROOT
from tests.tools.served.stand_in import Body

WORDS = ("--tasks", "data/words/validation.jsonl", "--task", "words")
COLLIDER = ("--tasks", "data/collider/validation.jsonl", "--task", "collider")


def write_project(root: Path) -> Path:
    """Copy what the command line needs of the shipped project: settings, the tasks' data, and own tasks."""
    for name in ("configs", "data", "tasks"):
        shutil.copytree(ROOT / name, root / name)
    shutil.copy(ROOT / "params.yaml", root)
    return root


def starred(body: Body) -> str:
    """Say the word with the star: right in every item of `words`."""
    return re.findall(r"\*(\w+)", body["messages"][-1]["content"])[0]


def by_chance(body: Body) -> str:
    """Say something that hangs on the seed and on all that was said before."""
    letters = sum(len(message["content"]) for message in body["messages"])
    return f"w{(body['seed'] + letters) % 97}"


def evaluated(url: str, *arguments: str | Path | int) -> Result:
    """Evaluate what is served."""
    words = ["evaluate", "--served", url, "--model", "tiny", *map(str, arguments)]
    return CliRunner().invoke(app, words)


def done(url: str, *arguments: str | Path | int) -> str:
    """Evaluate, and return all that was said."""
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        for module in (evaluate, evaluate_served):
            patched.setattr(module, "say", said.append)
            patched.setattr(module, "complain", said.append)
        result = evaluated(url, *arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return "\n".join(said)


def refused(url: str, *arguments: str | Path | int) -> str:
    """Evaluate, and return the one message in which it ends."""
    result = evaluated(url, *arguments)
    assert result.exit_code == 1 and isinstance(result.exception, AssayError), (
        result.output,
        result.exception,
    )
    return str(result.exception)


def episodes(out: Path) -> list[Episode]:
    """Return what was played."""
    return read_records(out / "episodes.jsonl", Episode, fix="")


def facts(out: Path) -> dict[str, Any]:
    """Return what is known of who played."""
    found: dict[str, Any] = json.loads((out / "served.json").read_text())
    return found
