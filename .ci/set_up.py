"""Sets up .venv from requirements.txt, constraints.txt and pyproject.toml. `./run` calls it when something is
missing.

    python3 .ci/set_up.py PYTHON STATE [MORE]

It needs a Python 3.11 with nothing installed. PYTHON is the command that .venv is made with; STATE is what
`./run` compares with .venv.stamp: a checksum of the files, then the folder, since an environment cannot
be moved. MORE is another file of requirements, which is installed too.

The marks of a whole environment lie beside it, so that a removal that was cut short leaves nothing that looks
like one.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NoReturn

ROOT = Path.cwd()
VENV, STAMP, LIST, LOG, LOCK = (
    Path(name) for name in (".venv", ".venv.stamp", ".venv.list", ".venv.log", ".venv.lock")
)
NO_INDEX = re.compile(
    "NewConnectionError|establish a new connection|name resolution|Name or service|ConnectTimeout|Network is"
    " unreach|ProxyError|onnection to.*timed out"
)


def main(python: str, state: str, *more: str) -> None:
    """Set up unless another call has done so meanwhile."""
    with open_lock() as lock:
        wait_for(lock)
        if not (read(STAMP).rstrip("\n") == state and is_whole()):
            # Kept is one that was whole, here, for other requirements; any other is made anew.
            if read(STAMP).rstrip("\n").split("\n")[-1] != str(ROOT) or not is_whole():
                put_aside()
            say("setting up .venv (a few minutes, once)")
            STAMP.unlink(missing_ok=True)
            LIST.unlink(missing_ok=True)
            LOG.write_text("")
            install(python, more)
            note_all()
            replace(STAMP, f"{state}\n")
            say("set up")


def say(text: str) -> None:
    """Tell a person, not a program."""
    print(f"run: {text}", file=sys.stderr, flush=True)


def die(text: str) -> NoReturn:
    """End with one message."""
    say(text)
    sys.exit(1)


def read(path: Path) -> str:
    """Return the text of a file, or nothing."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    new = Path(f"{path}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def open_lock() -> IO[str]:
    """Return the file of the lock.

    The kernel frees it when the last process ends that has it open; pip inherits it, so a killed set-up
    leaves no stale lock, and the next one does not begin while a pip of the last one still works.
    """
    try:
        lock = LOCK.open("a")
    except OSError:
        die(
            f"expected a folder to set up .venv in, found that nothing may be written in {ROOT}\n"
            "Fix: let its owner call ./run once, or copy the project to a folder of your own"
        )
    os.set_inheritable(lock.fileno(), True)
    return lock


def wait_for(lock: IO[str]) -> None:
    """Take the lock; say so if another set-up has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        say("another set-up is running here; waiting for it")
        fcntl.flock(lock, fcntl.LOCK_EX)


def is_whole() -> bool:
    """Return whether .venv is an environment, with every folder and command that set-up made."""
    python, listed = VENV / "bin/python", read(LIST).split()
    if not ((VENV / "pyvenv.cfg").is_file() and os.access(python, os.X_OK) and listed):
        return False
    if all(Path(name).exists() for name in read(LIST).splitlines()):
        return True
    # Somebody's pip may have put other versions there: then every package is there still, with all its files.
    missing = {package(Path(name)) for name in read(LIST).splitlines() if name.endswith(".dist-info")}
    for record in VENV.glob("lib/python3*/site-packages/*.dist-info/RECORD"):
        missing.discard(package(record.parent))
        files = (line.rsplit(",", 2)[0].strip('"') for line in read(record).splitlines())
        if not all(
            (record.parents[1] / file).exists() for file in files if file and not file.endswith(".pyc")
        ):
            return False
    if missing:
        return False
    note_all()
    return True


def package(folder: Path) -> str:
    """Return the name of a package by the folder of what is known of it."""
    return folder.name.partition("-")[0].lower()


def note_all() -> None:
    """Write down every folder of packages and every command."""
    found = [str(path) for path in (VENV / "bin").iterdir()]
    for site in VENV.glob("lib/python3*/site-packages"):
        for folder, folders, _ in os.walk(site):
            folders[:] = [name for name in folders if name != "__pycache__"]
            found.append(folder)
    replace(LIST, "".join(f"{name}\n" for name in found))


def put_aside() -> None:
    """Remove what is there under another name: killed in the middle, no half of it is taken for an
    environment."""
    STAMP.unlink(missing_ok=True)
    LIST.unlink(missing_ok=True)
    if VENV.exists() or VENV.is_symlink():
        try:
            VENV.rename(f".venv.old.{os.getpid()}")
        except OSError:  # such as a mounted folder: its Python goes first
            shutil.rmtree(VENV / "bin", ignore_errors=True)
            for path in VENV.iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    old = [str(path) for path in ROOT.glob(".venv.old.*")]
    if old:
        subprocess.run(["rm", "-rf", "--", *old], check=True)


def install(python: str, more: tuple[str, ...]) -> None:
    """Install first what installs and builds, then what it builds, then the rest; no code runs before its
    hash was seen."""
    if not (VENV / "pyvenv.cfg").is_file():
        call([python, "-I", "-m", "venv", str(VENV)])
    if not os.access(VENV / "bin/pip", os.X_OK):
        die(
            "expected a folder that programs may run in, found one mounted with noexec, or a .venv without"
            f" pip: {ROOT}\nFix: move the project to another file system, and call again"
        )
    refuse_other_targets()
    hashed = ["--require-hashes", "--no-deps"]
    pins = list(read_pins())
    first = [[pin, *hashes] for pin, hashes in pins if re.match(r"(pip|setuptools)==", pin)]
    sources = [[pin, each] for pin, hashes in pins for each in hashes if each.file.endswith(".tar.gz")]
    pip_each(first, *hashed, "--only-binary", ":all:", name="first")
    pip_each(sources, *hashed, "--no-build-isolation", name="sources")
    report = folder() / "report.json"
    wanted = [word for file in ("requirements.txt", *more) for word in ("-r", file)] + [
        "-c",
        "constraints.txt",
    ]
    pip("install", "--dry-run", "--only-binary", ":all:", "--report", str(report), *wanted)
    pip_each(list(resolved(report, pins)), *hashed, "--only-binary", ":all:", name="chosen")
    pip("install", "--no-deps", "--no-build-isolation", "-e", ".")
    # pip would compile on one core. Nothing depends on what is compiled, and some files, such as templates,
    # cannot be.
    compiled = [str(VENV / "bin/python"), "-I", "-m", "compileall", "-q", "-j", "0", str(VENV / "lib")]
    subprocess.run(compiled, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


class Hash(str):
    """A hash as pip is told it, and the file that it is of."""

    file: str


def read_pins() -> Iterator[tuple[str, list[Hash]]]:
    """Yield the pins of constraints.txt with their hashes, which are comments there.

    pip asks for hashes of everything as soon as it reads one.
    """
    pin, hashes = "", list[Hash]()
    for line in read(Path("constraints.txt")).splitlines():
        if line.startswith("    # --hash="):
            _, told, file = line.split()
            hashes.append(Hash(told))
            hashes[-1].file = file
        elif re.match(r"[A-Za-z0-9]", line):
            if pin:
                yield pin, hashes
            pin, hashes = line.strip(), []
    if pin:
        yield pin, hashes


def resolved(report: Path, pins: list[tuple[str, list[Hash]]]) -> Iterator[list[str]]:
    """Yield what pip has resolved, each with its very version and the hashes of its pin.

    A pin of torch stands for several builds, and pip puts a file whose hash an index tells before one in a
    folder: so it resolves without hashes, and they are asked of what it chose.
    """
    known = {same_name(pin.partition("==")[0]): hashes for pin, hashes in pins}
    for each in json.loads(report.read_text(encoding="utf-8"))["install"]:
        name, version = each["metadata"]["name"], each["metadata"]["version"]
        yield [f"{name}=={version}", *known.get(same_name(name), [])]


def same_name(name: str) -> str:
    """Return a package's name as indexes compare it."""
    return re.sub("[-_.]+", "-", name).lower()


def folder() -> Path:
    """Return where what is told to pip lies."""
    made = VENV / ".hashes"
    made.mkdir(exist_ok=True)
    return made


def pip_each(lines: list[list[str]], *options: str, name: str) -> None:
    """Install pins with their hashes."""
    if lines:
        asked = folder() / f"{name}.txt"
        asked.write_text("".join(f"{' '.join(line)}\n" for line in lines), encoding="utf-8")
        pip("install", *options, "-r", str(asked))


def pip(*words: str) -> None:
    """Call pip of the environment, which refuses to work without one."""
    quiet = [] if sys.stderr.isatty() else ["--quiet"]
    module = [str(VENV / "bin/python"), "-I", "-m", "pip", "--require-virtualenv"]
    how = ["--no-compile"] if words[0] == "install" else []
    call([*module, *quiet, "--disable-pip-version-check", "--no-input", words[0], *how, *words[1:]])


def call(command: list[str]) -> None:
    """Run a command; what it says of trouble is kept, for one message of why it did not do it."""
    with LOG.open("a", encoding="utf-8") as log:
        done = subprocess.run(command, stdout=sys.stderr, stderr=log, close_fds=False, check=False)
    if done.returncode:
        die(why_it_failed(LOG.read_text(encoding="utf-8", errors="replace")))


def refuse_other_targets() -> None:
    """Refuse settings of pip that lead what it installs elsewhere."""
    command = [VENV / "bin/python", "-I", "-m", "pip", "config", "list"]
    told = subprocess.run(command, capture_output=True, text=True, close_fds=False, check=False).stdout
    elsewhere = " ".join(re.findall(r"^\S*\.(?:target|prefix|root|python)=.*$", told, re.MULTILINE))
    if elsewhere:
        die(
            f"expected pip to install into .venv, found that its settings say otherwise: {elsewhere}\n"
            "Fix: ./run unsets what a shell has set; remove it from pip's configuration file "
            "(python3 -m pip config debug names it)"
        )


def why_it_failed(log: str) -> str:
    """Return one message of why pip did not do it."""
    told = f"what it said is in {LOG}"
    if "DO NOT MATCH THE HASHES" in log or "ashes are required" in log:
        named = re.findall(
            r"^ +[A-Za-z0-9._-]+(?:==| @ | from ).*$|^.*(?:Expected|Got).*$", log, re.MULTILINE
        )
        return (
            "expected files whose sha256 stand in constraints.txt, found others:\n"
            + "\n".join(named)
            + "\nFix: point pip to an index that serves the true ones; if a wheel is your own, name it:"
            " .ci/pin FILE.whl"
        )
    if NO_INDEX.search(log):
        return (
            f"expected an index of packages, found none that answers; {told}\n"
            "Fix: connect this machine to a network, or name a mirror (PIP_INDEX_URL) or a folder of wheels "
            "(PIP_FIND_LINKS, PIP_NO_INDEX=1), and call again"
        )
    if "No space left" in log:
        return (
            f"expected room for the environment, found a disk that is full. Fix: make room in {ROOT} and call"
            " again"
        )
    last = " ".join(re.findall(r"^(?:ERROR|error|Error).*$", log, re.MULTILINE)[-3:])
    return f"set-up did not finish: {last}; {told}\nFix: see to it and call again; it starts afresh"


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        die(
            f"expected a file system that can be written, found {error}\nFix: see to it and call again; it"
            " starts afresh"
        )
