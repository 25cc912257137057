"""What a manifest says of the checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path

from assay.provenance import git_state


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


def test_only_code_data_and_settings_count_as_modified(tmp_path: Path) -> None:
    for name in ("evidence/results/a.json", "src/a.py", "dvc.lock"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "one")
    (tmp_path / "evidence/results/a.json").write_text("two")
    (tmp_path / "dvc.lock").write_text("two")
    assert git_state(tmp_path)["modified"] is False
    (tmp_path / "src/a.py").write_text("two")
    assert git_state(tmp_path)["modified"] is True


def test_outside_a_checkout_nothing_is_known(tmp_path: Path) -> None:
    assert git_state(tmp_path) == {"commit": None, "modified": None}
