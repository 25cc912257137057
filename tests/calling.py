"""How tests call assay: in a process of its own, as a person does, or in this one, which costs no imports."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from assay.cli import main
from assay.core import console
from assay.core.config.composition import IN_EXPERIMENT
from tests.house import ROOT

Done = subprocess.CompletedProcess[str]


def assay(root: Path, *words: str, **more: str) -> Done:
    """Call a command in a folder, in a process of its own, whose environment has more."""
    return subprocess.run(
        [sys.executable, "-m", "assay.cli", *words],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name != IN_EXPERIMENT}
        | {"PYTHONPATH": str(ROOT / "src")}
        | more,
    )


def called(root: Path, *words: str) -> Done:
    """Call a command in a folder, in this process."""
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.delenv(IN_EXPERIMENT, raising=False)
        patch.setattr(sys, "argv", ["assay", *words])
        patch.setattr(console, "_places", [])  # which the command fills for its folder
        for name, file in (("_OUT", out), ("_ERR", err)):
            plain = Console(file=file, soft_wrap=True, highlight=False, markup=False, emoji=False)
            patch.setattr(console, name, plain)
        with pytest.raises(SystemExit) as ended:
            main()
    return Done(words, int(ended.value.code or 0), out.getvalue(), err.getvalue())


def refused(done: Done, *words: str) -> None:
    """Ask for one message of ours with these words."""
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "Fix: " in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def until(true: Callable[[], Any], what: str, seconds: float = 120) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
