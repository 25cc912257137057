"""Whether the packages installed here are those a package was made with, as its constraints.txt pins them."""

from __future__ import annotations

import re
from pathlib import Path

from assay.core.errors import RecordError
from assay.core.provenance import packages
from assay.core.storage.files import read_text

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
