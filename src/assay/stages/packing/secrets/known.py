"""What this machine knows that no package may: which of it is secret, and rare enough to be looked for.

Nothing that is read here is ever written or shown. A file that is missing or may not be read is no secret of
ours.
"""

from __future__ import annotations

import functools
import getpass
import importlib
import os
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from assay.stages.packing.secrets.patterns import secret_name, tokens
from assay.stages.packing.secrets.values import looks_random

LONGEST = 4096  # characters of a value that are looked for
# Names that machines and images come with. They say nothing of anybody, and stand in many a text.
_NAMES = (
    "root user users ubuntu debian fedora centos runner admin administrator jovyan ec2-user azureuser vagrant"
    " nobody daemon docker vscode codespace gitpod jenkins travis circleci github gitlab build builder"
    " buildkite test tester guest student work worker main home local localhost localdomain"
    " localhost.localdomain ip6-localhost host hostname server node login head master gpu cuda desktop laptop"
    " workstation machine default container docker-desktop kubernetes cluster python conda mamba mambauser"
    " notebook jupyter colab dev developer data model train training research science system assay"
)
_EVERYWHERE = frozenset(_NAMES.split())
_PROSE_TIMES = 3


class KnownSecret(NamedTuple):
    """One value that must not be in a package.

    Args:
        name: What it is, never what it says: `environment variable HF_TOKEN`.
        value: The value; shown nowhere.
        word: Whether it counts only where no letter or digit stands beside it: a name, a path.
    """

    name: str
    value: str
    word: bool

    def __repr__(self) -> str:
        return f"KnownSecret({self.name!r})"


@dataclass(frozen=True)
class Known:
    """What to look for, and what is too common to be looked for, by name alone."""

    secrets: tuple[KnownSecret, ...] = field(repr=False)
    too_common: tuple[str, ...]


@functools.cache
def _prose() -> Counter[str]:
    """Return the words of Python's own manual: ordinary English and the trade's, the same on every
    machine."""
    try:
        topics = importlib.import_module("pydoc_data.topics").topics
    except ImportError:  # a Python without its manual: then only the names above are common
        return Counter()
    return Counter(re.findall(r"[a-z]{4,}", "\n".join(topics.values()).lower()))


def common_word(word: str) -> bool:
    """Return whether a name is too short or too ordinary to be told from a word of any text.

    >>> [common_word(word) for word in ("vm", "root", "string", "qzwendolyn", "gpu-box-17")]
    [True, True, True, False, False]
    """
    low = word.lower()
    return len(low) < 4 or low.isdigit() or low in _EVERYWHERE or _prose()[low] >= _PROSE_TIMES


def _common_value(value: str) -> bool:
    """Return whether a secret's value could stand anywhere: short, a number, a word, a path, a list of
    settings."""
    if len(value) < 6 or re.fullmatch(r"[\d.,:_\-+eE]{1,11}", value):
        return True
    if re.match(r"(?:[A-Za-z]:)?[/\\]|\.{1,2}/|~", value) and not looks_random(
        value.replace("/", "").encode()
    ):
        return True
    letters = re.fullmatch(r"[A-Za-z]+|[a-z]+(?:[ _\-.,:][a-z]+)?", value)
    return bool(letters) and (len(value) < 10 or common_word(value))


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
class MachineFacts:
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


def this_machine(root: Path, environment: Mapping[str, str] | None = None) -> MachineFacts:
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
    return MachineFacts(
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


def _tokens_in(text: str, place: str) -> Iterator[tuple[str, str, bool]]:
    raw = text.encode("utf-8", "surrogateescape")
    for hit in tokens(raw):
        if not hit.kind.startswith("path"):
            yield f"{hit.kind} {place}", raw[hit.start : hit.end].decode("utf-8", "surrogateescape"), False


def _netrc(text: str) -> Iterator[tuple[str, str, bool]]:
    words = text.split()
    for before, word in pairwise(words):
        if before in ("password", "account"):
            yield "password in netrc", word, False
        elif before == "login":
            yield "login in netrc", word, True


def _lines(name: str, text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield what is secret in a text of settings: whatever looks like a token, and the values of names that
    say so."""
    yield from _tokens_in(text, f"in {name}")
    for line in text.splitlines():
        key, sign, value = line.strip().partition("=" if "=" in line else ":")
        key, value = key.strip(" \t\"'"), value.strip(" \t\"',")
        if sign and secret_name(key.rpartition(".")[2]):
            yield f"{key.rpartition('.')[2]} in {name}", value.rpartition(" ")[2], False
    for user in re.findall(r"://([^\s/:@]{4,128})(?::[^\s/@]*)?@", text):
        yield f"login in {name}", user, True


def _argv(words: list[str]) -> Iterator[tuple[str, str, bool]]:
    for before, word in pairwise(["", *words]):
        option, sign, value = word.partition("=")
        yield from _tokens_in(word, "on a command line")
        if sign and secret_name(option.lstrip("-")):
            yield "value of a secret option on a command line", value, False
        if before.startswith("-") and "=" not in before and secret_name(before.lstrip("-")):
            yield "value of a secret option on a command line", word, False
        long = value if sign else word
        digest = re.fullmatch(
            r"[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}", long
        )  # settings name data sets and models by digest
        path = "/" in long and re.search(r"\.[a-z]{1,6}$|^[./]", long)
        one_word = len(long) >= 20 and re.fullmatch(r"[\w+/=~.\-]+", long, re.A)
        if one_word and not (digest or path) and looks_random(long.encode()):
            yield "long value on a command line", long, False


def _all(machine: MachineFacts) -> Iterator[tuple[str, str, bool]]:
    for name, value in machine.environment.items():
        if secret_name(name):
            yield f"environment variable {name}", value, False
        else:
            yield from _tokens_in(value, f"in environment variable {name}")
    yield from _netrc(machine.netrc)
    for name, value in machine.token_files.items():
        yield f"token file {name}", value, False
    for name, text in machine.texts.items():
        yield from _lines(name, text)
    yield from _argv(list(machine.argv))
    for user in machine.users:
        yield "user name", user, True
    for host in machine.hosts:
        yield "host name", host, True


def known_secrets(machine: MachineFacts) -> Known:
    """Return what to look for in a package of this machine; every value once, the first name it was met by.

    A value that is too common is left out and named: the user name `root`, a token that says `true`, the home
    folder `/root` (whose paths the patterns find).
    """
    secrets: dict[str, KnownSecret] = {}
    common: dict[str, None] = {}
    for name, value, word in _all(machine):
        value = value.strip()[:LONGEST]
        if not value:
            continue
        if common_word(value) if word else _common_value(value):
            common[name] = None
        else:
            plain = word or re.fullmatch(r"[A-Za-z]+|\d+", value) is not None
            secrets.setdefault(value, KnownSecret(name, value, plain))
    for name, path in {"home folder": machine.home or "", **machine.folders}.items():
        path = path.rstrip("/\\")
        if not path:
            continue
        if len(re.findall(r"[^/\\]+", path)) < 2 or re.match(r"/(?:usr|opt)(?:/|$)", path):
            common[name] = None
        else:
            secrets.setdefault(path, KnownSecret(name, path, True))
    return Known(tuple(secrets.values()), tuple(common))
