"""The script `run` sets up once, says what is missing, and hands commands on untouched.

A fake Python on PATH plays the interpreter, venv and pip: nothing is installed here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
NAMES = ("python3.11", "python3.12", "python3.13", "python3")
FAKE = """#!/bin/sh
echo "$*" >>"$FAKE_LOG"
case "$1 $2" in
*version_info*) echo {version} ;;
*ensurepip*) exit {lacks_venv} ;;
*fcntl*) exec "$REAL_PYTHON" "$@" ;;
"-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
"-m pip") sleep "${{PIP_SECONDS:-0}}"; [ ! -e "$FAKE_LOG.offline" ] ;;
esac
"""
NO_SCM = "[core]\n    no_scm = true\n"


@dataclass
class Download:
    """A project as it is unpacked from an archive, in a path with a space, and the Pythons of its machine."""

    root: Path
    fakes: Path
    environment: dict[str, str] = field(default_factory=dict)

    def python(self, version: str, *, lacks_venv: bool = False) -> None:
        """Make every Python of the machine this version."""
        for name in NAMES:
            path = self.fakes / name
            path.write_text(FAKE.format(version=version, lacks_venv=int(lacks_venv)))
            path.chmod(0o755)

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Call the script, from another folder."""
        return subprocess.Popen(
            [str(self.root / "run"), *arguments], cwd=self.fakes, env=self.environment | environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Call the script and wait for it."""
        with self.start(*arguments, **environment) as process:
            out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def calls(self) -> list[str]:
        """Return what the fakes were called with since this was last asked."""
        log = Path(self.environment["FAKE_LOG"])
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines

    def offline(self, yes: bool) -> None:
        """Let pip fail, or work again."""
        marker = Path(self.environment["FAKE_LOG"] + ".offline")
        marker.touch() if yes else marker.unlink()


@pytest.fixture
def download(tmp_path: Path) -> Download:
    """A fresh download on a machine with Python 3.12."""
    root, fakes = tmp_path / "a download", tmp_path / "fakes"
    root.mkdir()
    fakes.mkdir()
    for name in ("run", "requirements.txt", "constraints.txt", "pyproject.toml"):
        shutil.copy2(REPOSITORY / name, root / name)
    environment = {
        "PATH": f"{fakes}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "FAKE_LOG": str(tmp_path / "calls"),
        "REAL_PYTHON": sys.executable,
    }
    made = Download(root, fakes, environment)
    made.python("3.12.4")
    return made


def installs(calls: list[str]) -> int:
    """Count the times that requirements were installed."""
    return sum(call.startswith("-m pip install") and "requirements.txt" in call for call in calls)


@pytest.mark.parametrize(("shell", "script"), [("sh", "run"), ("bash", ".ci/run")])
def test_the_scripts_are_valid_shell(shell: str, script: str) -> None:
    if not (REPOSITORY / script).exists():
        pytest.skip(f"no {script} in this copy")
    subprocess.run([shell, "-n", script], cwd=REPOSITORY, check=True)
    assert os.access(REPOSITORY / script, os.X_OK)


def test_help_needs_no_environment(download: Download) -> None:
    for arguments in ((), ("help",), ("--help",)):
        done = download.run(*arguments)
        assert done.returncode == 0
        assert "./run repro" in done.stdout
    assert not (download.root / ".venv").exists()
    assert download.calls() == []


@pytest.mark.parametrize("version", ["2.7.18", "3.10.14", "3.14.0", "3.1.1", "3.110.0"])
def test_another_python_is_refused_before_anything_is_made(download: Download, version: str) -> None:
    download.python(version)
    done = download.run("true")
    assert done.returncode == 1
    assert "expected Python 3.11, 3.12 or 3.13" in done.stderr
    assert f"python3 is {version}" in done.stderr
    assert "Fix:" in done.stderr
    assert not (download.root / ".venv").exists()


@pytest.mark.parametrize("version", ["3.11.0", "3.12.12", "3.13.5"])
def test_a_supported_python_is_taken(download: Download, version: str) -> None:
    download.python(version)
    assert download.run("true").returncode == 0


def test_a_python_without_venv_is_told_with_the_package_to_install(download: Download) -> None:
    download.python("3.12.4", lacks_venv=True)
    done = download.run("true")
    assert done.returncode == 1
    assert "apt install python3.12-venv" in done.stderr


def test_set_up_happens_once(download: Download) -> None:
    assert download.run("true").returncode == 0
    calls = download.calls()
    assert installs(calls) == 1
    assert any("-c constraints.txt" in call for call in calls)
    assert any("--no-deps" in call and "-e ." in call for call in calls)
    done = download.run("true")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert download.calls() == []


@pytest.mark.parametrize("name", ["requirements.txt", "constraints.txt", "pyproject.toml"])
def test_changed_requirements_are_installed_into_what_is_there(download: Download, name: str) -> None:
    download.run("true")
    kept = download.root / ".venv" / "kept"
    kept.touch()
    download.calls()
    with (download.root / name).open("a") as file:
        file.write("# changed\n")
    assert download.run("true").returncode == 0
    assert installs(download.calls()) == 1
    assert kept.exists()


def test_a_set_up_that_failed_starts_afresh(download: Download) -> None:
    download.offline(True)
    done = download.run("true")
    assert done.returncode == 1
    assert "set-up did not finish" in done.stderr
    half = download.root / ".venv" / "half"
    half.touch()
    download.offline(False)
    assert download.run("true").returncode == 0
    assert not half.exists()


def test_a_killed_set_up_starts_afresh(download: Download) -> None:
    log = Path(download.environment["FAKE_LOG"])
    process = download.start("true", PIP_SECONDS="2")
    deadline = time.monotonic() + 30
    while not (log.exists() and "-m pip" in log.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    # The fake pip outlives the script and holds the lock: the next call waits for it, then starts afresh.
    (download.root / ".venv" / "half").touch()
    done = download.run("true")
    process.communicate()
    assert done.returncode == 0
    assert "waiting for it" in done.stderr
    assert not (download.root / ".venv" / "half").exists()


def test_an_environment_that_was_moved_is_made_anew(download: Download, tmp_path: Path) -> None:
    download.run("true")
    (download.root / ".venv" / "old").touch()
    download.root = download.root.rename(tmp_path / "elsewhere")
    assert download.run("true").returncode == 0
    assert not (download.root / ".venv" / "old").exists()


def test_two_calls_at_once_set_up_once(download: Download) -> None:
    calls = [download.start("true", PIP_SECONDS="0.5") for _ in range(2)]
    errors = [process.communicate(timeout=60)[1] for process in calls]
    assert [process.returncode for process in calls] == [0, 0]
    assert installs(download.calls()) == 1
    assert sum("waiting for it" in error for error in errors) == 1


def test_a_command_gets_its_arguments_and_gives_its_exit_code(download: Download) -> None:
    done = download.run("sh", "-c", 'printf "%s|" "$@"; exit 7', "sh", "a b", "*", "", "$HOME")
    assert done.returncode == 7
    assert done.stdout == "a b|*||$HOME|"


def test_commands_run_in_the_project_with_its_environment(download: Download) -> None:
    done = download.run("sh", "-c", "pwd; env", PYTHONHASHSEED="3", PYTHONPATH="/mine", PIP_TARGET="/x", HOME="")
    folder, *lines = done.stdout.splitlines()
    found = dict(line.split("=", 1) for line in lines)
    assert Path(folder) == download.root
    assert found["PATH"].startswith(f"{download.root}/.venv/bin:")
    assert found["PYTHONPATH"] == "src:/mine"
    assert found["HOME"] == f"{download.root}/.venv/home"
    for name in ("TOKENIZERS_PARALLELISM", "HF_HUB_DISABLE_TELEMETRY", "DVC_NO_ANALYTICS", "TRL_EXPERIMENTAL_SILENCE"):
        assert name in found
    assert not {"PYTHONHASHSEED", "PIP_TARGET"} & found.keys()


def test_dvc_is_told_that_there_is_no_git_and_told_back_when_there_is(download: Download) -> None:
    local = download.root / ".dvc" / "config.local"
    download.run("true")
    assert local.read_text() == NO_SCM
    (download.root / ".git").mkdir()
    download.run("true")
    assert not local.exists()


def test_a_config_of_the_users_own_is_left_alone(download: Download) -> None:
    local = download.root / ".dvc" / "config.local"
    local.parent.mkdir()
    local.write_text("[core]\n    no_scm = false\n")
    download.run("true")
    assert local.read_text() == "[core]\n    no_scm = false\n"
    (download.root / ".git").mkdir()
    download.run("true")
    assert local.exists()


def test_a_path_that_no_search_path_can_hold_is_refused(download: Download, tmp_path: Path) -> None:
    download.root = download.root.rename(tmp_path / "a:b")
    done = download.run("true")
    assert done.returncode == 1
    assert "colon" in done.stderr


def test_an_unknown_benchmark_is_refused(download: Download) -> None:
    done = download.run("bench", "nothing")
    assert done.returncode == 1
    assert "there is no benchmarks/nothing.py" in done.stderr
