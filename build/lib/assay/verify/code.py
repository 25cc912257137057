"""V3, the code: that of the package is the code that checks here; and whether its packages are those here."""

from __future__ import annotations

import re
from pathlib import Path

import assay
from assay.core.errors import RecordError
from assay.core.provenance import packages
from assay.core.storage.files import read_bytes, read_text, sha256_bytes
from assay.core.storage.untrusted import LEFT_BEHIND, listing
from assay.verify.checks import LookResult
from assay.verify.unpacked import FIX, Unpacked

SOURCE = "src/assay"
BESIDE = ("constraints.txt", "requirements.txt", "pyproject.toml", "LICENSE")
REMEDY = "check with the version that made the package, or with --other-code, which lets the numbers judge"


def code_equal(package: Unpacked, *, other_code: bool) -> LookResult:
    """Compare the package's source with the installed one, file by file; nothing of the package is ever run.

    Args:
        package: What was unpacked.
        other_code: Whether a difference is accepted, and said.
    """
    here = Path(assay.__file__).parent
    stored = {name.removeprefix(f"{SOURCE}/") for name in package.names if name.startswith(f"{SOURCE}/")}
    installed = {name for name in listing(here) if _is_source(name)}
    odd = {f"{SOURCE}/{name}" for name in stored ^ installed}
    odd |= {
        f"{SOURCE}/{name}"
        for name in stored & installed
        if _sha256(here / name) != _sha256(package.root / SOURCE / name)
    }
    checkout = here.parent.parent
    beside = [name for name in BESIDE if (checkout / name).is_file()] if (checkout / SOURCE).is_dir() else []
    odd |= {
        name
        for name in beside
        if name not in package.names or _sha256(checkout / name) != _sha256(package.root / name)
    }
    compared = f"{len(installed)} files of {SOURCE}" + (f", {', '.join(beside)}" if beside else "")
    if not odd:
        unseen = [name for name in BESIDE if name not in beside]
        left = f"; not compared, for no checkout is here: {', '.join(unseen)}" if unseen else ""
        return LookResult(f"{compared} are those that check here{left}")
    told = f"{len(odd)} of {compared} differ from those that check here, first {min(odd)}"
    return (
        LookResult(f"{told}; accepted (--other-code)", unchecked=True)
        if other_code
        else LookResult("", [f"{told}. Fix: {REMEDY}"])
    )


def _is_source(name: str) -> bool:
    return not name.endswith(".pyc") and not set(LEFT_BEHIND) & set(name.split("/"))


def _sha256(path: Path) -> str:
    return sha256_bytes(read_bytes(path, fix=FIX))


PINS = "constraints.txt"
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;#]+)")


def stack_said(root: Path) -> str:
    """Return what to say of the packages that can change a number; hardware is not recorded in a package.

    A local part of a version (torch 2.13.0+cpu) is a build and no pin, and is not compared.
    """
    pins = pins_of(root)
    if pins is None:
        return f"there is no {PINS}, so with which packages it was made is not known"
    odd = [
        f"{name} {here or 'missing'} here, {pins[name]} there"
        for name, here in packages().items()
        if name in pins and pins[name].split("+")[0] != (here or "").split("+")[0]
    ]
    if odd:
        return f"packages differ from its {PINS}: {'; '.join(odd[:3])}{' and more' if len(odd) > 3 else ''}"
    return f"packages are those of its {PINS}; on which processor it was made, a package does not say"


def pins_of(root: Path) -> dict[str, str] | None:
    """Return the versions that a package pins, by name in small letters; None where it pins none that can be
    read."""
    try:
        lines = read_text(root / PINS, fix="").split("\n")
    except RecordError:
        return None
    return {found.group(1).lower(): found.group(2) for line in lines if (found := _PIN.match(line))}
