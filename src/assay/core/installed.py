"""Installed packages by what their files hold, so that an edited one is noticed: a version is not enough."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
from collections.abc import Mapping, Sequence

from pydantic import Field

from assay.core.errors import ConfigError
from assay.core.records import Record

_PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.!+_-]+)")
WHERE = "task.requires"


class Required(Record):
    """An installed package that grades."""

    name: str
    version: str
    sha256: str = Field(
        description="over names and contents of its files but compiled ones and pip's own notes"
    )


def require(wanted: Sequence[str]) -> tuple[Required, ...]:
    """Return the installed packages that are wanted, such as reasoning-gym==0.1.25, as they are on disk now.

    Raises:
        ConfigError: One is missing, of another version, or not installed whole; says what to type.
    """
    return tuple(_found(each) for each in wanted)


def _found(wanted: str) -> Required:
    pin = _PINNED.fullmatch(wanted.replace(" ", ""))
    if pin is None:
        fix = "write it as reasoning-gym==0.1.25"
        raise ConfigError("a package with its version", found=repr(wanted), where=WHERE, fix=fix)
    name, version = pin.groups()
    install = f"./run pip install {name}=={version}"
    try:
        package = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise ConfigError(f"{name} {version}", found="not installed", where=WHERE, fix=install) from None
    if package.version != version:
        raise ConfigError(f"{name} {version}", found=f"{name} {package.version}", where=WHERE, fix=install)
    if _is_a_link(package) or not package.files:
        found = "one whose files lie elsewhere, such as an editable one"
        fix = f"./run pip install --no-deps PATH   (without -e), then require {name}=={version}"
        raise ConfigError(f"an installed {name}", found=found, where=WHERE, fix=fix)
    return Required(name=name, version=version, sha256=_sha256(package))


def _is_a_link(package: importlib.metadata.Distribution) -> bool:
    told = package.read_text("direct_url.json")
    known = json.loads(told) if told else {}
    return bool(isinstance(known, Mapping) and (known.get("dir_info") or {}).get("editable"))


def _sha256(package: importlib.metadata.Distribution) -> str:
    """Return one sha256 of a package's files, those that its RECORD lists.

    What pip notes for itself, scripts beside the environment's python and compiled files differ between
    installations of one package, and are left out.
    """
    digest = hashlib.sha256()
    for file in sorted(package.files or (), key=lambda each: each.as_posix()):
        name = file.as_posix()
        if name.endswith(".pyc") or name.startswith("..") or file.parts[0].endswith((".dist-info", ".data")):
            continue
        path = file.locate()
        content = path.read_bytes() if path.is_file() else b"missing"  # type: ignore[attr-defined]
        digest.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return digest.hexdigest()


def differences(told: Sequence[Required], found: Sequence[Required]) -> list[str]:
    """Return in what packages differ from those that were told of, a line each.

    >>> one = Required(name="gym", version="1.0", sha256="ab")
    >>> differences([one], [one.model_copy(update={"sha256": "cd"})])
    ['gym 1.0: its installed files are others']
    """
    here = {each.name: each for each in found}
    known = {each.name for each in told}
    odd = [f"{each.name}: was not required then" for each in found if each.name not in known]
    for each in told:
        now = here.get(each.name)
        if now is None:
            odd.append(f"{each.name}: is not required any more")
        elif now.version != each.version:
            odd.append(f"{each.name}: {each.version} then, {now.version} now")
        elif now.sha256 != each.sha256:
            odd.append(f"{each.name} {each.version}: its installed files are others")
    return odd
