"""Plays a table of commands as a user would type them, and looks after each one at everything it may have
left behind.

All of it happens in one folder: home and temporary folder of the user, a git server, a store for large files,
and the clones. A command may change its own clone, as far as git does not see it or the table says so, and
what the table names besides.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

HOME, TEMPORARY, SITE = "home", "tmp", "dvc-site-cache"
LEFT_OUT = ("ASSAY_TORCHRUN", "DVC_ROOT", "DVC_STAGE", "DVC_EXP_BASELINE_REV", "GIT_DIR", "GIT_WORK_TREE")
LEFT_OUT += ("XDG_CACHE_HOME",)
# Without the last two git tidies up behind a command's back, minutes after it.
GIT = """[user]
name = A User
email = user@example.org
[init]
defaultBranch = main
[gc]
auto = 0
[receive]
autogc = false
"""
SECONDS = 900
GRACE = 60.0  # seconds for what a killed command had started to end


class Unexpected(Exception):
    """A command did something else than the table says."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command and all that it may do.

    Args:
        at: Folder it is typed in.
        command: For the shell.
        changes: What `git status --porcelain` says afterwards, as patterns; all of it, and each pattern at
            least once.
        says: Texts that it prints, each of them.
        code: How it ends.
        reaches: Files and folders beside the clone that it is meant to change.
        killed_at: Pattern of a file in the clone; as soon as there is a new one, the command gets SIGKILL.
    """

    at: str
    command: str
    changes: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    code: int = 0
    reaches: tuple[str, ...] = ()
    killed_at: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a command."""

    output: str
    seconds: float


class Desk:
    """The folder in which a user works.

    Args:
        root: That folder; `home`, `tmp` and `dvc-site-cache` are made in it.
    """

    def __init__(self, root: Path) -> None:
        """Make the user's folders, and tell git who the user is."""
        self.root = root
        self.path = os.environ["PATH"]  # of every command but those that are killed
        for name in (HOME, TEMPORARY, SITE):
            (root / name).mkdir(parents=True, exist_ok=True)
        (root / HOME / ".gitconfig").write_text(GIT)

    def environment(self, step: Step | None = None) -> dict[str, str]:
        """Return the environment of every command, or of a step: the clone's own code, the user's own
        folders, no terminal."""
        kept = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
        return kept | {
            "HOME": str(self.root / HOME),
            "TMPDIR": str(self.root / TEMPORARY),
            "DVC_SITE_CACHE_DIR": str(self.root / SITE),
            "PYTHONPATH": "src",
            "COLUMNS": "160",
            "ASSAY_REDRAW_SECONDS": "0",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "PATH": self.path if step and not step.killed_at else os.environ["PATH"],
        }

    def play(self, step: Step) -> Done:
        """Run a command and return what it said.

        Raises:
            Unexpected: It ended otherwise, did not say what it should, or changed something that the table
                does not name.
        """
        before, begun = self._outside(step), time.monotonic()
        output, code = self._run(step)
        done = Done(output, time.monotonic() - begun)
        wrong = [] if code == step.code else [f"ended with {code}, not {step.code}"]
        wrong += [f"did not say {text!r}" for text in step.says if text not in output]
        wrong += self._changed(step) if (self.root / step.at / ".git").exists() else []
        after = self._outside(step)
        touched = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        wrong += [f"changed {name}, outside of {step.at}" for name in touched[:20]]
        if wrong:
            raise Unexpected("\n".join([f"{step.at}$ {step.command}", *wrong, "It said:", output]))
        return done

    def _run(self, step: Step) -> tuple[str, int]:
        folder = self.root / step.at
        seen = set(folder.glob(step.killed_at)) if step.killed_at else set()
        log = self.root / "said"
        with log.open("w+b") as stream:
            # One process, so that the one that is killed is the command and not a shell around it.
            command = ["sh", "-c", f"exec {step.command}" if step.killed_at else step.command]
            running = psutil.Popen(
                command,
                cwd=folder,
                env=self.environment(step),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
            begun = time.monotonic()
            try:
                while running.poll() is None:
                    if time.monotonic() - begun > SECONDS:
                        said = log.read_text(errors="replace")
                        raise Unexpected(
                            f"{step.at}$ {step.command}\nwas not done within {SECONDS} s:\n{said}"
                        )
                    if step.killed_at and set(folder.glob(step.killed_at)) - seen:
                        self._kill(step, running)
                    time.sleep(0.05)
            finally:
                if running.poll() is None:  # too slow, or Ctrl-C: the desk is about to be removed
                    _end_all(running)
        said = log.read_text(errors="replace")
        log.unlink()
        return said, running.returncode

    def _kill(self, step: Step, running: psutil.Popen) -> None:
        """Kill a command alone; what it started has to end by itself."""
        started = running.children(recursive=True)
        running.send_signal(signal.SIGKILL)
        running.wait()
        _, alive = psutil.wait_procs(started, timeout=GRACE)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        if alive:
            raise Unexpected(
                f"{step.at}$ {step.command}\nwas killed and left running:"
                f" {[process.pid for process in alive]}"
            )

    def _changed(self, step: Step) -> Iterator[str]:
        command = ["git", "status", "--porcelain", "--untracked-files=all"]
        done = subprocess.run(
            command,
            cwd=self.root / step.at,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        lines = done.stdout.splitlines()
        for line in lines:
            if not any(fnmatch.fnmatchcase(line, pattern) for pattern in step.changes):
                yield f"left {line!r} to git"
        for pattern in step.changes:
            if not any(fnmatch.fnmatchcase(line, pattern) for line in lines):
                yield f"should have left {pattern!r} to git, and did not"

    def _outside(self, step: Step) -> dict[str, tuple[int, int]]:
        """Return size and time of every file that a command has no business with, by its name on the desk."""
        spared = {SITE, "said", *step.reaches} | ({step.at} - {"."})
        found = {}
        for folder, names, files in os.walk(self.root):
            here = Path(folder).relative_to(self.root)
            names[:] = [name for name in names if (here / name).as_posix() not in spared]
            for name in [*files, *names]:
                path = here / name
                if path.as_posix() in spared:
                    continue
                with contextlib.suppress(FileNotFoundError):
                    status = (self.root / path).lstat()
                    # Git's objects are named by their content and shared by local clones, and git renews
                    # their times.
                    timeless = "objects" in path.parts
                    found[path.as_posix()] = (
                        (0, 0) if name in names else (status.st_size, 0 if timeless else status.st_mtime_ns)
                    )
        return found


def _end_all(running: psutil.Popen) -> None:
    """Kill a command and all that it started."""
    everyone = [*running.children(recursive=True), running]
    for process in everyone:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(everyone, timeout=GRACE)
