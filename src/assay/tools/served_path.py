"""What a request may name: a plain file or folder inside one folder, through no link, and nothing else."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes

LONGEST = 1024  # characters of a target
# Encoded, these could mean one thing here and another to whoever looked at the path before.
_ENCODED = re.compile(r"%(2f|5c|00|2e)", re.I)
_TYPES = {
    ".html": "text/html; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png", ".json": "application/json",
    ".csv": "text/csv; charset=utf-8", ".jsonl": "text/plain; charset=utf-8", ".md": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}  # fmt: skip


class Refused(Exception):
    """A request that gets an answer other than a file; says which."""

    def __init__(self, status: int, why: str) -> None:
        """Hold the status of HTTP and a word for people."""
        super().__init__(why)
        self.status, self.why = status, why


@dataclass(frozen=True, slots=True)
class Opened:
    """An open file or folder of which nothing can be exchanged any more; whoever has it closes `descriptor`."""

    descriptor: int
    names: tuple[str, ...]
    size: int
    folder: bool


def names_of(target: str) -> tuple[str, ...]:
    """Return the names that a request's target goes through.

    >>> names_of("/results/report.html?x=../..")
    ('results', 'report.html')
    >>> names_of("/a/%2e%2e/b")
    Traceback (most recent call last):
    assay.tools.served_path.Refused: a path in other words

    Raises:
        Refused: It is no plain path below "/".
    """
    path = target.partition("?")[0]
    if len(target) > LONGEST:
        raise Refused(414, "a path that is too long")
    if not path.startswith("/") or "#" in path:
        raise Refused(400, "not a path")
    if _ENCODED.search(path):
        raise Refused(400, "a path in other words")
    try:
        text = unquote_to_bytes(path).decode("utf-8")
    except UnicodeError:
        raise Refused(400, "not UTF-8") from None
    if "\\" in text or ":" in text or not text.isprintable():
        raise Refused(400, "characters that no file of evidence has")
    names = text[1:].split("/")
    if names[-1] == "":
        names.pop()
    if any(name == "" for name in names):
        raise Refused(400, "an empty name")
    if any(name.startswith(".") for name in names):
        raise Refused(404, "hidden files are not served")
    return tuple(names)


def open_inside(root: Path, names: tuple[str, ...]) -> Opened:
    """Open what the names lead to, name by name from the folder on; a link on the way ends it, also one that stays inside.

    Raises:
        Refused: There is no such file or folder, or none that may be served.
    """
    descriptor = -1
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for name in names:
            # A pipe must not keep us waiting; whether it is a folder the next step finds out.
            inner = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        found = os.fstat(descriptor)
        folder = stat.S_ISDIR(found.st_mode)
        if not folder and not stat.S_ISREG(found.st_mode):
            raise Refused(404, "not a file")
        return Opened(descriptor, names, found.st_size, folder)
    except BaseException as error:
        if descriptor >= 0:
            os.close(descriptor)
        if isinstance(error, OSError | ValueError):
            raise Refused(404, "nothing here") from None
        raise


def content_type(name: str) -> str:
    """Return the type that a file is served as; what is not known is bytes to be kept.

    >>> content_type("post_eval.jsonl"), content_type("adapter.bin")
    ('text/plain; charset=utf-8', 'application/octet-stream')
    """
    return _TYPES.get(Path(name).suffix.lower(), "application/octet-stream")


def listed(opened: Opened) -> list[str]:
    """Return the names in a folder that may be served, folders with a slash; links and hidden files are left out."""
    with os.scandir(opened.descriptor) as entries:
        found = [
            entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "")
            for entry in entries
            if not entry.name.startswith(".") and not entry.is_symlink() and _plain(entry.name)
        ]
    return sorted(found)


def _plain(name: str) -> bool:
    return name.isprintable() and not set(name) & {"\\", ":"}
