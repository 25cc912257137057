"""V3, the code: that of the package is the code that checks it here, or its numbers are judged by another
version."""

from __future__ import annotations

from pathlib import Path

import assay
from assay.core.storage.files import read_bytes, sha256_bytes
from assay.core.storage.hashing import LEFT_BEHIND
from assay.core.storage.untrusted import listing
from assay.verify.checks import Seen
from assay.verify.unpacked import FIX, Unpacked

SOURCE = "src/assay"
BESIDE = ("constraints.txt", "requirements.txt", "pyproject.toml", "LICENSE")
REMEDY = "check with the version that made the package, or with --other-code, which lets the numbers judge"


def code_equal(package: Unpacked, *, other_code: bool) -> Seen:
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
        return Seen(f"{compared} are those that check here{left}")
    told = f"{len(odd)} of {compared} differ from those that check here, first {min(odd)}"
    return (
        Seen(f"{told}; accepted (--other-code)", unchecked=True)
        if other_code
        else Seen("", [f"{told}. Fix: {REMEDY}"])
    )


def _is_source(name: str) -> bool:
    return not name.endswith(".pyc") and not set(LEFT_BEHIND) & set(name.split("/"))


def _sha256(path: Path) -> str:
    return sha256_bytes(read_bytes(path, fix=FIX))
