"""What this machine knows that no package may: read here, and judged in `known.py`.

Nothing that is read here is ever written or shown. A file that is missing or may not be read is no secret of
ours.
"""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_LARGEST = 1 << 20
_MOST_PARENTS = 32
# Files that hold nothing but one secret, below the home folder.
_TOKEN_FILES = (".cache/huggingface/token", ".huggingface/token", ".config/openai/token")
# Files in which some lines are secret.
_CREDENTIAL_FILES = (
    ".cache/huggingface/stored_tokens",
    ".git-credentials",
    ".aws/credentials",
    ".config/gh/hosts.yml",
    ".pypirc",
    ".npmrc",
    ".docker/config.json",
    ".kaggle/kaggle.json",
    ".config/dvc/config",
    ".config/pip/pip.conf",
    ".config/wandb/settings",
)


@dataclass(frozen=True)
class Machine:
    """What is known of a machine, as values; a representation shows none of it.

    Args:
        environment: Every environment variable.
        argv: The words of this process's command line and of its parents'.
        home: The home folder; None where there is none.
        users: Names of the user.
        hosts: Names of the machine, short and full.
        folders: Absolute folders that are this machine's own: of the project, of Python; what they are →
            path.
        netrc: Text of the netrc file.
        token_files: What each file is called → the one secret in it.
        texts: What each file or listing is called → text in which some lines are secret: git's configuration,
            DVC's …
    """

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    argv: Sequence[str] = field(default=(), repr=False)
    home: str | None = field(default=None, repr=False)
    users: Sequence[str] = field(default=(), repr=False)
    hosts: Sequence[str] = field(default=(), repr=False)
    folders: Mapping[str, str] = field(default_factory=dict, repr=False)
    netrc: str = field(default="", repr=False)
    token_files: Mapping[str, str] = field(default_factory=dict, repr=False)
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)


def _text(path: Path) -> str:
    try:
        if not path.is_file():  # a pipe would keep us waiting for ever
            return ""
        with path.open("rb") as stream:
            return stream.read(_LARGEST).decode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return ""


def _command_lines() -> Iterator[str]:
    """Yield the words of this process's command line, then of its parents', as far as the system shows
    them."""
    yield from sys.orig_argv
    yield from sys.argv
    process = os.getppid()
    for _ in range(_MOST_PARENTS):
        if process <= 0:
            return
        yield from _text(Path(f"/proc/{process}/cmdline")).split("\0")
        behind_name = _text(Path(f"/proc/{process}/stat")).rpartition(")")[2].split()
        process = int(behind_name[1]) if len(behind_name) > 1 and behind_name[1].isdigit() else 0


def _git_configuration(root: Path) -> str:
    """Return every setting that git has here: remotes, replaced addresses, headers; "" without git."""
    try:
        done = subprocess.run(
            ["git", "config", "--list"], cwd=root, capture_output=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout[:_LARGEST].decode("utf-8", "surrogateescape")


def _hosts(environment: Mapping[str, str]) -> list[str]:
    names = [socket.gethostname(), *(environment.get(name, "") for name in ("HOSTNAME", "COMPUTERNAME"))]
    return [
        *names,
        *(name.partition(".")[0] for name in names),
    ]  # no look-up: it may wait for a name server for minutes


def _users() -> list[str]:
    try:
        return [getpass.getuser()]
    except (KeyError, OSError):
        return []


def this_machine(root: Path, environment: Mapping[str, str] | None = None) -> Machine:
    """Read what is known of this machine.

    Args:
        root: The project: its git and DVC configuration are read.
        environment: Of this process if None.
    """
    env = dict(os.environ if environment is None else environment)
    home = Path(env["HOME"]) if env.get("HOME") else None
    at_home = {name: home / name for name in (*_TOKEN_FILES, *_CREDENTIAL_FILES)} if home else {}
    tokens = {name: at_home[name] for name in _TOKEN_FILES if name in at_home}
    if env.get("HF_HOME"):
        tokens["HF_HOME/token"] = Path(env["HF_HOME"]) / "token"
    if env.get("HF_TOKEN_PATH"):
        tokens["HF_TOKEN_PATH"] = Path(env["HF_TOKEN_PATH"])
    netrc = Path(env["NETRC"]) if env.get("NETRC") else home / ".netrc" if home else None
    texts = {name: _text(at_home[name]) for name in _CREDENTIAL_FILES if name in at_home}
    texts |= {name: _text(root / name) for name in (".dvc/config", ".dvc/config.local")}
    return Machine(
        environment=env,
        argv=list(_command_lines()),
        home=str(home) if home else None,
        hosts=_hosts(env),
        users=[*_users(), *(env[name] for name in ("USER", "LOGNAME", "USERNAME") if env.get(name))],
        folders={"folder of the project": str(root.resolve()), "folder of Python": sys.prefix},
        netrc=_text(netrc) if netrc else "",
        token_files={name: _text(path).strip() for name, path in tokens.items()},
        texts={**texts, "git configuration": _git_configuration(root)},
    )
