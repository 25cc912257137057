"""What several tests of commands play in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.house import ROOT


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of settings, data and tasks, in which nothing was opened; the working directory."""
    root = tmp_path / "project"
    for name in ("configs", "data", "tasks"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "params.yaml", root)
    monkeypatch.chdir(root)
    return root
