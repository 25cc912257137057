"""Which of the things a machine knows are secret and rare enough to be looked for by their value."""

from __future__ import annotations

import functools
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from assay.package.secrets.machine import Machine
from assay.package.secrets.patterns import looks_random, tokens

LONGEST = 4096  # characters of a value that are looked for
_SECRET_NAME = re.compile(
    r"(?i)(?:^|[_.\-])(?:[A-Z0-9]*?(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTH|COOKIE)S?|PASS|PWD|PAT|DSN|SAS)"
    r"(?=$|[_.\-0-9])"
)
_NO_SECRETS = ("PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY")
# Names that machines and images come with. They say nothing of anybody, and stand in many a text.
_EVERYWHERE = frozenset(
    {
        "root",
        "user",
        "users",
        "ubuntu",
        "debian",
        "fedora",
        "centos",
        "runner",
        "admin",
        "administrator",
        "jovyan",
        "ec2-user",
        "azureuser",
        "vagrant",
        "nobody",
        "daemon",
        "docker",
        "vscode",
        "codespace",
        "gitpod",
        "jenkins",
        "travis",
        "circleci",
        "github",
        "gitlab",
        "build",
        "builder",
        "buildkite",
        "test",
        "tester",
        "guest",
        "student",
        "work",
        "worker",
        "main",
        "home",
        "local",
        "localhost",
        "localdomain",
        "localhost.localdomain",
        "ip6-localhost",
        "host",
        "hostname",
        "server",
        "node",
        "login",
        "head",
        "master",
        "gpu",
        "cuda",
        "desktop",
        "laptop",
        "workstation",
        "machine",
        "default",
        "container",
        "docker-desktop",
        "kubernetes",
        "cluster",
        "python",
        "conda",
        "mamba",
        "mambauser",
        "notebook",
        "jupyter",
        "colab",
        "dev",
        "developer",
        "data",
        "model",
        "train",
        "training",
        "research",
        "science",
        "system",
        "assay",
    }
)
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


def secret_name(name: str) -> bool:
    """Return whether a name says that its value is secret.

    >>> [secret_name(name) for name in ("HF_TOKEN", "MYAPIKEY", "AWS_SECRET_ACCESS_KEY")]
    [True, True, True]
    >>> [secret_name(name) for name in ("TOKENIZERS_PARALLELISM", "GIT_AUTHOR_NAME", "KEYBOARD")]
    [False, False, False]
    """
    return name not in _NO_SECRETS and _SECRET_NAME.search(name) is not None


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
    raw = text.encode("utf-8", "surrogateescape")
    for hit in tokens(raw):
        if not hit.kind.startswith("path"):
            yield f"{hit.kind} in {name}", raw[hit.start : hit.end].decode("utf-8", "surrogateescape"), False
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
        for hit in tokens(word.encode("utf-8", "surrogateescape")):
            if not hit.kind.startswith("path"):
                raw = word.encode("utf-8", "surrogateescape")[hit.start : hit.end]
                yield f"{hit.kind} on a command line", raw.decode("utf-8", "surrogateescape"), False
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


def _all(machine: Machine) -> Iterator[tuple[str, str, bool]]:
    for name, value in machine.environment.items():
        if secret_name(name):
            yield f"environment variable {name}", value, False
        else:
            for hit in tokens(raw := value.encode("utf-8", "surrogateescape")):
                if not hit.kind.startswith("path"):
                    secret = raw[hit.start : hit.end].decode("utf-8", "surrogateescape")
                    yield f"{hit.kind} in environment variable {name}", secret, False
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


def _folders(machine: Machine) -> Iterator[tuple[str, str]]:
    if machine.home:
        yield "home folder", machine.home.rstrip("/\\")
    for name, path in machine.folders.items():
        yield name, path.rstrip("/\\")


def known_secrets(machine: Machine) -> Known:
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
    for name, path in _folders(machine):
        if len(re.findall(r"[^/\\]+", path)) < 2 or re.match(r"/(?:usr|opt)(?:/|$)", path):
            common[name] = None
        else:
            secrets.setdefault(path, KnownSecret(name, path, True))
    return Known(tuple(secrets.values()), tuple(common))
