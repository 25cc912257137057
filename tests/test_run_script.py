"""The script `run` sets up once, says what is missing, and hands commands on untouched.

A fake Python on PATH plays the interpreter, venv and pip: nothing is installed here.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
NAMES = ("python3.11", "python3.12", "python3.13", "python3")
FAKE = """#!/bin/sh
[ "$1" != -I ] || shift
echo "$*" >>"$FAKE_LOG"
case "$1 $2" in
"-V ") echo Python {version} ;;
*ensurepip*) exit {lacks_venv} ;;
"-m venv")
    site=$3/lib/python3.12/site-packages
    mkdir -p "$3/bin" "$site/kept" "$site/kept-1.dist-info" && cp "$0" "$3/bin/python" && cp "$0" "$3/bin/pip"
    : >"$3/pyvenv.cfg" && : >"$site/kept/a.py"
    printf '%s,,\\n' kept/a.py ../../../bin/pip kept-1.dist-info/RECORD >"$site/kept-1.dist-info/RECORD"
    ;;
"-m pip")
    case "$*" in
    *"config list"*) echo "${{PIP_SETTINGS:-}}"; exit ;;
    *install*) [ -f "$(dirname "$0")/../pyvenv.cfg" ] || : >"$FAKE_LOG.global" ;;
    esac
    patience=1500
    while [ -e "$FAKE_LOG.held" ] && [ $((patience -= 1)) -gt 0 ]; do sleep 0.02; done
    case "$*" in *--report*) echo '{{"install": []}}' >.venv/.hashes/report.json ;; esac
    [ ! -e "$FAKE_LOG.offline" ] || {{ cat "$FAKE_LOG.offline" >&2; exit 1; }}
    ;;
*) exec "$REAL_PYTHON" "$@" ;;
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
            [str(self.root / "run"), *arguments],
            cwd=self.fakes,
            env=self.environment | environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

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

    def offline(self, yes: bool, said: str = "ERROR: something odd") -> None:
        """Let pip fail, or work again."""
        marker = Path(self.environment["FAKE_LOG"] + ".offline")
        marker.write_text(said) if yes else marker.unlink()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let pip install nothing while this lasts, 30 s at most."""
        marker = Path(self.environment["FAKE_LOG"] + ".held")
        marker.touch()
        try:
            yield
        finally:
            marker.unlink()

    @property
    def polluted(self) -> bool:
        """Whether pip was ever asked to install by a Python that is of no environment."""
        return Path(self.environment["FAKE_LOG"] + ".global").exists()


@pytest.fixture
def download(tmp_path: Path) -> Download:
    """A fresh download on a machine with Python 3.12."""
    root, fakes = tmp_path / "a download", tmp_path / "fakes"
    root.mkdir()
    fakes.mkdir()
    (root / ".ci").mkdir()
    for name in (
        "run",
        ".ci/set_up.py",
        "requirements.txt",
        "requirements-dev.txt",
        "constraints.txt",
        "pyproject.toml",
    ):
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


def is_held(call: str) -> bool:
    """Return whether a call is of a pip that `held` holds."""
    return call.startswith("-m pip") and "config list" not in call


def installs(calls: list[str]) -> int:
    """Count the times that requirements were installed."""
    return sum(call.startswith("-m pip") and "-r requirements.txt" in call for call in calls)


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


def test_dvc_keeps_what_it_unpickles_in_the_project_and_for_its_user_alone(download: Download) -> None:
    done = download.run("printenv", "DVC_SITE_CACHE_DIR")
    assert done.stdout == f"{download.root}/.dvc-site\n"
    assert (download.root / ".dvc-site/repo").stat().st_mode & 0o077 == 0
    done = download.run("printenv", "DVC_SITE_CACHE_DIR", DVC_SITE_CACHE_DIR=str(download.fakes / "own"))
    assert done.stdout == f"{download.fakes}/own\n"


def test_set_up_happens_once(download: Download) -> None:
    assert download.run("true").returncode == 0
    calls = download.calls()
    assert installs(calls) == 1
    assert any("-c constraints.txt" in call for call in calls)
    assert any("--no-deps" in call and "-e ." in call for call in calls)
    done = download.run("true")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert download.calls() == []


def test_tools_of_tests_are_installed_by_the_first_call_that_wants_them_and_stay(download: Download) -> None:
    def chosen() -> list[list[str]]:
        calls = [call.split() for call in download.calls() if "--report" in call]
        return [[call[n + 1] for n, word in enumerate(call) if word == "-r"] for call in calls]

    assert download.run("true").returncode == 0
    assert chosen() == [["requirements.txt"]]
    for _ in range(2):
        download.run("python", "-c", "pass")
    assert chosen() == [["requirements.txt", "requirements-dev.txt"]]
    assert download.run("true").returncode == 0
    assert chosen() == []


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
    assert "set-up did not finish: ERROR: something odd" in done.stderr and "Fix:" in done.stderr
    half = download.root / ".venv" / "half"
    half.touch()
    download.offline(False)
    assert download.run("true").returncode == 0
    assert not half.exists()


def test_a_killed_set_up_starts_afresh(download: Download) -> None:
    log = Path(download.environment["FAKE_LOG"])
    with download.held():
        process = download.start("true")
        deadline = time.monotonic() + 30
        # Not `pip config list`, which is not held: killed there, nothing would be waited for.
        while not (log.exists() and any(map(is_held, log.read_text().splitlines()))):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        (set_up,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        os.kill(int(set_up), signal.SIGKILL)
        # The fake pip outlives both and holds the lock: the next call waits for it, then starts afresh.
        (download.root / ".venv" / "half").touch()
        second = download.start("true")
        assert second.stderr is not None and "waiting for it" in second.stderr.readline()
    process.communicate()
    second.communicate(timeout=60)
    assert second.returncode == 0
    assert not (download.root / ".venv" / "half").exists()


# What is left of an environment when its removal is cut short, in the order in which the names lie in the
# folder.
LEFT = [
    ("pyvenv.cfg", ".stamp"),
    ("lib", "pyvenv.cfg"),
    ("lib",),
    ("bin",),
    ("bin", "lib"),
    ("pyvenv.cfg",),
    ("lib/python3.12/site-packages/kept",),
    ("bin/pip",),
]


@pytest.mark.parametrize("gone", LEFT, ids="+".join)
def test_a_removal_that_was_cut_short_is_made_good_inside_the_environment(
    download: Download, gone: tuple[str, ...]
) -> None:
    download.run("true")
    for name in gone:
        path = download.root / ".venv" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    (download.root / ".venv" / "half").touch()
    done = download.run("true")
    assert done.returncode == 0, done.stderr
    assert not download.polluted
    assert not (download.root / ".venv" / "half").exists() and (download.root / ".venv/pyvenv.cfg").exists()
    assert download.run("true").stderr == ""


def test_the_old_environment_goes_under_another_name_so_that_no_half_of_it_is_ever_in_its_place(
    download: Download,
) -> None:
    download.run("true")
    (download.root / ".venv" / "old").touch()
    (download.root / ".venv.stamp").unlink()
    (download.fakes / "rm").write_text(
        '#!/bin/sh\ncase "$*" in *.venv.old*) kill -9 $PPID; exit ;; esac\nexec /bin/rm "$@"\n'
    )
    (download.fakes / "rm").chmod(0o755)
    assert download.run("true").returncode == 128 + 9
    assert not (download.root / ".venv").exists()
    (aside,) = download.root.glob(".venv.old.*")
    assert (aside / "old").exists()
    (download.fakes / "rm").unlink()
    assert download.run("true").returncode == 0
    assert not download.polluted and not list(download.root.glob(".venv.old.*"))


def test_another_version_that_somebody_installed_there_is_no_damage(download: Download) -> None:
    site = download.root / ".venv/lib/python3.12/site-packages"
    download.run("true")
    shutil.rmtree(site / "kept-1.dist-info")
    (site / "kept-2.dist-info").mkdir()
    (site / "kept-2.dist-info/RECORD").write_text("kept/a.py,,\nkept-2.dist-info/RECORD,,\n")
    download.calls()
    assert download.run("true").returncode == 0
    assert installs(download.calls()) == 0
    shutil.rmtree(site / "kept-2.dist-info")
    assert download.run("true").returncode == 0
    assert installs(download.calls()) == 1


def test_an_environment_that_was_moved_is_made_anew(download: Download, tmp_path: Path) -> None:
    download.run("true")
    (download.root / ".venv" / "old").touch()
    download.root = download.root.rename(tmp_path / "elsewhere")
    assert download.run("true").returncode == 0
    assert not (download.root / ".venv" / "old").exists()


def test_two_calls_at_once_set_up_once(download: Download) -> None:
    with download.held():
        calls = [download.start("true") for _ in range(2)]
        first_words = [process.stderr.readline() for process in calls if process.stderr is not None]
    errors = [
        said + process.communicate(timeout=60)[1] for said, process in zip(first_words, calls, strict=True)
    ]
    assert [process.returncode for process in calls] == [0, 0]
    assert installs(download.calls()) == 1
    assert sum("waiting for it" in error for error in errors) == 1


def test_a_command_gets_its_arguments_and_gives_its_exit_code(download: Download) -> None:
    done = download.run("sh", "-c", 'printf "%s|" "$@"; exit 7', "sh", "a b", "*", "", "$HOME")
    assert done.returncode == 7
    assert done.stdout == "a b|*||$HOME|"


def test_commands_run_in_the_project_with_its_environment(download: Download) -> None:
    done = download.run(
        "sh", "-c", "pwd; env", PYTHONHASHSEED="3", PYTHONPATH="/mine", PIP_TARGET="/x", HOME=""
    )
    folder, *lines = done.stdout.splitlines()
    found = dict(line.split("=", 1) for line in lines)
    assert Path(folder) == download.root
    assert found["PATH"].startswith(f"{download.root}/.venv/bin:")
    assert found["PYTHONPATH"] == "src:/mine"
    assert found["HOME"] == f"{download.root}/.venv/home"
    for name in (
        "TOKENIZERS_PARALLELISM",
        "HF_HUB_DISABLE_TELEMETRY",
        "DVC_NO_ANALYTICS",
        "TRL_EXPERIMENTAL_SILENCE",
    ):
        assert name in found
    assert not {"PYTHONHASHSEED", "PIP_TARGET"} & found.keys()


def test_dvc_is_told_that_there_is_no_git_and_told_back_when_there_is(download: Download) -> None:
    local = download.root / ".dvc" / "config.local"
    download.run("true")
    assert local.read_text() == NO_SCM
    (download.root / ".git").mkdir()
    download.run("true")
    assert local.read_text() == f'[core]\n    site_cache_dir = "{download.root}/.dvc-site"\n'


def test_the_site_cache_follows_a_folder_that_is_moved(download: Download, tmp_path: Path) -> None:
    (download.root / ".git").mkdir()
    (download.root / ".dvc").mkdir()
    download.run("true")
    download.root = download.root.rename(tmp_path / "moved")
    download.run("true")
    local = download.root / ".dvc" / "config.local"
    assert local.read_text() == f'[core]\n    site_cache_dir = "{tmp_path}/moved/.dvc-site"\n'


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


def test_an_unknown_word_is_told_in_one_message_with_where_commands_are_listed(download: Download) -> None:
    done = download.run("reproduce")
    assert done.returncode == 1
    assert "found reproduce\nFix: ./run help; what assay can do is in ./run assay --help" in done.stderr


@pytest.mark.parametrize("kind", ["absolute", "relative", "chain"])
def test_called_through_a_link_it_is_the_project_it_stands_in(
    download: Download, tmp_path: Path, kind: str
) -> None:
    links = tmp_path / "my links"
    links.mkdir()
    target = download.root / "run" if kind == "absolute" else Path("../a download/run")
    (links / "one").symlink_to(target)
    (links / "two").symlink_to("one")
    called = links / ("two" if kind == "chain" else "one")
    for at, command in (
        (tmp_path, [str(called)]),
        (links, [f"./{called.name}"]),
        (links, ["sh", called.name]),
    ):
        done = subprocess.run(
            [*command, "pwd"], cwd=at, env=download.environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (0, f"{download.root}\n"), done.stderr
    assert not (links / ".venv").exists()


NOBODY = 65534


def as_nobody(download: Download, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Call the script as somebody whom permissions bind."""
    who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    return subprocess.run(
        [str(download.root / "run"), *arguments],
        cwd="/",
        env=download.environment | environment,
        capture_output=True,
        text=True,
        check=False,
        **who,
    )  # type: ignore[call-overload]


@pytest.fixture
def read_only(download: Download) -> Iterator[Download]:
    """A download that whoever calls may read, not write; set up if a test has done so before."""
    with tempfile.TemporaryDirectory() as open_to_all:
        os.chmod(open_to_all, 0o755)
        moved = Path(open_to_all) / "a download"
        shutil.move(download.root, moved)
        shutil.move(download.fakes, Path(open_to_all) / "fakes")
        download.root, download.fakes = moved, Path(open_to_all) / "fakes"
        log = Path(open_to_all) / "log"
        log.mkdir(mode=0o777)
        log.chmod(0o777)
        download.environment |= {
            "PATH": f"{download.fakes}:/usr/bin:/bin",
            "FAKE_LOG": f"{log}/calls",
            "REAL_PYTHON": "/usr/bin/python3",
        }
        yield download
        for folder in (moved, *(path for path in moved.rglob("*") if path.is_dir())):
            folder.chmod(0o755)


def close(download: Download) -> None:
    for folder in (download.root, *(path for path in download.root.rglob("*") if path.is_dir())):
        folder.chmod(0o555)


def test_a_folder_that_nobody_may_write_in_is_told_in_one_message(read_only: Download) -> None:
    close(read_only)
    done = as_nobody(read_only, "true")
    assert done.returncode == 1
    assert (
        done.stderr.count("\n") == 2 and "nothing may be written in" in done.stderr and "Fix:" in done.stderr
    )


def test_what_was_set_up_by_another_can_be_used_where_nothing_may_be_written(read_only: Download) -> None:
    read_only.run("true", REAL_PYTHON=sys.executable)
    shutil.rmtree(read_only.root / ".dvc", ignore_errors=True)
    close(read_only)
    done = as_nobody(read_only, "pwd")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{read_only.root}\n", "")
    refused = as_nobody(read_only, "repro")
    assert refused.returncode == 1 and "to write results in" in refused.stderr and "Fix:" in refused.stderr


SAID = [
    (
        "NewConnectionError: [Errno -3] Temporary failure in name resolution",
        "an index of packages",
        "PIP_NO_INDEX=1",
    ),
    (
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES\n    six==1.17.0:\n        Expected sha256 aa\n   "
            "          Got        bb"
        ),
        "whose sha256 stand in constraints.txt",
        ".ci/pin",
    ),
    ("OSError: [Errno 28] No space left on device", "a disk that is full", "make room"),
]


@pytest.mark.parametrize(("said", "expected", "fix"), SAID)
def test_why_pip_failed_is_one_message(download: Download, said: str, expected: str, fix: str) -> None:
    noise = "".join(f"WARNING: Retrying (Retry(total={n})) after connection broken\n" for n in range(50))
    download.offline(True, noise + said + "\n")
    done = download.run("true")
    assert done.returncode == 1
    assert expected in done.stderr and "Fix:" in done.stderr and fix in done.stderr
    assert "Retrying" not in done.stderr and done.stderr.count("\n") <= 7
    assert "Retrying" in (download.root / ".venv.log").read_text()


def test_settings_that_lead_pip_elsewhere_are_refused(download: Download) -> None:
    done = download.run("true", PIP_SETTINGS="global.target='/opt/x'")
    assert done.returncode == 1 and "global.target='/opt/x'" in done.stderr and "Fix:" in done.stderr


SHELL_OF_A_USER = {
    "PYTHONOPTIMIZE": "2",
    "PYTHONSAFEPATH": "1",
    "PYTHONINSPECT": "1",
    "PYTHONWARNINGS": "error",
    "PYTHONHOME": "/nowhere",
    "PYTHONSTARTUP": "/nowhere",
    "PYTHONPLATLIBDIR": "lib32",
    "PIP_TARGET": "/nowhere",
    "PIP_PYTHON": "/usr/bin/python3",
    "PIP_REQUIRE_HASHES": "1",
    "PIP_NO_BINARY": ":all:",
}


def test_what_a_shell_has_set_for_other_pythons_does_not_reach_ours(download: Download) -> None:
    more = {
        "CDPATH": "/tmp",
        "TMPDIR": "/nowhere",
        "HOME": "/nowhere",
        "VIRTUAL_ENV": "/other",
        "CONDA_PREFIX": "/conda",
    }
    done = download.run("env", **SHELL_OF_A_USER, **more)
    assert done.returncode == 0, done.stderr
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert not SHELL_OF_A_USER.keys() & found.keys() and "TMPDIR" not in found
    assert found["HOME"] == f"{download.root}/.venv/home" and found["VIRTUAL_ENV"] == f"{download.root}/.venv"


@pytest.mark.parametrize("level", ["1", "2"])
def test_a_python_without_asserts_is_refused_by_the_command_too(level: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "src"), "PYTHONOPTIMIZE": level}
    command = [sys.executable, "-m", "assay.cli", "--help"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert "PYTHONOPTIMIZE" in done.stderr and "Fix:" in done.stderr


# --- hashes
# ----------------------------------------------------------------------------------------------------------

PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)$", re.MULTILINE)


def test_every_pin_has_the_hash_of_every_file_of_a_set_up() -> None:
    text = (REPOSITORY / "constraints.txt").read_text()
    parts = PIN.split(text)[1:]
    assert len(parts) // 3 > 200
    for name, version, below in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        hashes = re.findall(r"^    # --hash=sha256:([0-9a-f]{64})  (\S+)$", below, re.MULTILINE)
        assert hashes, name
        assert all(version in file for _, file in hashes), name
    torch = text.split("\ntorch==")[1].split("\n\n")[0].split("\ntornado")[0]
    for kind in (
        "+cpu-cp311",
        *(
            f"-cp{python}-cp{python}-manylinux_2_28_{arch}"
            for python in (311, 312, 313)
            for arch in ("x86_64", "aarch64")
        ),
    ):
        assert kind in torch
    assert "://" not in text


def test_constraints_go_on_without_hashes_for_what_is_not_pinned() -> None:
    """pip turns hash checking on for everything as soon as it reads one hash; the lines are comments to
    it."""
    lines = (REPOSITORY / "constraints.txt").read_text().split("\n")
    assert not [line for line in lines if "--hash" in line.partition("#")[0]]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two wheels that need nothing, one of them a local build."""
    folder = tmp_path_factory.mktemp("wheels")
    for name, version in (("wares", "1.0"), ("wares", "1.0+own")):
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}.py", f"VERSION = {version!r}\n")
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            wheel.writestr(
                f"{info}/WHEEL",
                "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            )
            wheel.writestr(
                f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n"
            )
    return folder


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("true", [True, False])
def test_only_a_file_whose_hash_is_known_is_installed(tmp_path: Path, wheels: Path, true: bool) -> None:
    """A true pip, a true environment: a wheel of a folder is taken where its hash stands under its pin, and
    refused else."""
    root = tmp_path / "a download"
    (root / "src/small").mkdir(parents=True)
    (root / "src/small/__init__.py").touch()
    (root / ".git").mkdir()
    (root / ".ci").mkdir()
    for name in ("run", ".ci/set_up.py"):
        shutil.copy2(REPOSITORY / name, root / name)
    own = sha256(wheels / "wares-1.0+own-py3-none-any.whl") if true else 64 * "0"
    other = sha256(wheels / "wares-1.0-py3-none-any.whl")
    (root / "requirements.txt").write_text("wares==1.0\n")
    (root / "requirements-dev.txt").touch()
    (root / "constraints.txt").write_text(
        f"wares==1.0\n    # --hash=sha256:{own}  wares-1.0+own-py3-none-any.whl\n"
        f"    # --hash=sha256:{other}  wares-1.0-py3-none-any.whl\n"
    )
    (root / "pyproject.toml").write_text('[project]\nname = "small"\nversion = "1"\n')
    # No tools are pinned here: what installs is what came with Python, and building the project is left out.
    set_up = root / ".ci/set_up.py"
    set_up.write_text(
        set_up.read_text().replace('    pip("install", "--no-deps", "--no-build-isolation", "-e", ".")\n', "")
    )
    environment = {
        "PATH": f"{Path(sys.base_prefix) / 'bin'}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_CONFIG_FILE": os.devnull,
    }
    done = subprocess.run(
        [root / "run", "python", "-B", "-c", "import wares; print(wares.VERSION)"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if true:  # the build of the machine comes first, as without hashes
        assert (done.returncode, done.stdout) == (0, "1.0+own\n"), done.stderr
        # set-up has compiled it: with -B nothing else does
        assert list(root.glob(".venv/lib/*/site-packages/__pycache__/wares.*.pyc"))
    else:
        assert (
            done.returncode == 1
            and "whose sha256 stand in constraints.txt" in done.stderr
            and "Fix:" in done.stderr
        )
        assert not list(root.glob(".venv/lib/*/site-packages/wares.py"))
