"""DVC unpickles what lies in its site cache: a folder of the project, in which nobody else may write."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from assay.checks.doctor.site_cache import SHARED, VARIABLE, site_cache_finding, site_cache_of
from tests.house import ROOT
from tests.training.whole_project import environment

COMMITTED = (".dvc/config", ".dvc-site/repo/.gitignore")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What git brings of the files that decide, with the modes it gives them."""
    for name in COMMITTED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        shutil.copyfile(ROOT / name, tmp_path / name)
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def test_dvc_called_by_itself_keeps_its_site_cache_in_the_project_for_its_user_alone(clone: Path) -> None:
    surroundings = environment(HOME=str(clone), DVC_NO_ANALYTICS="1")
    surroundings.pop(VARIABLE, None)
    code = "from dvc.repo import Repo; repo = Repo(); print(repo.site_cache_dir)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=clone, env=surroundings, capture_output=True, text=True, check=True
    )
    made = clone / done.stdout.strip()
    assert made.is_relative_to(clone / ".dvc-site/repo") and made.is_dir()
    for folder in (made, made.parent, made.parents[1]):
        assert not stat.S_IMODE(folder.stat().st_mode) & stat.S_IWOTH
    assert site_cache_finding(clone, {}).level == "ok"


@pytest.mark.parametrize(
    ("variable", "config", "mode", "level", "found"),
    [
        ("", "[core]\n    site_cache_dir = here\n", 0o755, "ok", "here"),
        ("", "[core]\n    site_cache_dir = here\n", 0o777, "warning", "here, which every user may write in"),
        ("", "[core]\n    site_cache_dir = here\n", 0o1777, "ok", "here"),
        ("there", "[core]\n    site_cache_dir = here\n", 0o777, "ok", "there"),
        ("", "[core]\n    autostage = false\n", 0o755, "warning", f"{SHARED}, which every user may write in"),
    ],
)
def test_the_doctor_says_who_else_may_write_there(
    variable: str, config: str, mode: int, level: str, found: str, tmp_path: Path
) -> None:
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").write_text(config)
    (tmp_path / "here/repo").mkdir(parents=True)
    (tmp_path / "here/repo").chmod(mode)
    told = site_cache_finding(tmp_path, {VARIABLE: variable})
    assert (told.level, told.found.replace("here/repo", "here")) == (
        level,
        found if Path(found).is_absolute() else str(tmp_path / found),
    )
    if told.fix:
        exported = told.fix.removeprefix(f"export {VARIABLE}=").partition(",")[0]
        assert site_cache_finding(tmp_path, {VARIABLE: exported}).level == "ok"


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files to others")
def test_a_site_cache_of_another_user_is_told(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    os.chown(tmp_path / "site", 65534, 65534)
    assert "another user's" in site_cache_finding(tmp_path, {VARIABLE: "site"}).found


def test_the_local_configuration_counts_before_the_committed_one(tmp_path: Path) -> None:
    (tmp_path / ".dvc").mkdir()
    for name, value in (("config", "one"), ("config.local", "two")):
        (tmp_path / ".dvc" / name).write_text(f"[core]\n    site_cache_dir = {value}\n")
    assert site_cache_of(tmp_path, {})[0] == tmp_path / "two"
