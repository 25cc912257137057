"""Flips a byte of every member of a package in turn, for tests that some check finds each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

from assay.core.storage.files import sha256_bytes
from assay.core.storage.untrusted import listing
from assay.package.verification.checks import Check
from assay.rollout.dataset.verified import sums_text
from assay.stages.packing.layout import CARD, SUMS

Look = Callable[[Path, str], Iterable[Check]]


def unfound_flips(package: Path, look: Look, names: Iterable[str] | None = None) -> list[str]:
    """Return the members of which a byte can be another without a check that fails.

    SHA256SUMS is made anew each time, as whoever changed a file would: V0, which reads nothing else, has
    nothing to find. The package is left as it was.

    Args:
        package: The unpacked package; nobody else may use its files meanwhile.
        look: Makes the checks of a package of which this member was changed; they are asked for until one
            fails, so those that are likely to should come first.
        names: The members; all but SHA256SUMS, which V0 compares to the last byte, if not given.
    """
    digests = {name: sha256_bytes((package / name).read_bytes()) for name in listing(package) if name != SUMS}
    sums, unfound = (package / SUMS).read_bytes(), []
    asked = sorted(digests if names is None else names)
    # Where the package as it is fails already, no flip would show anything.
    for name in {asked[0], CARD} & {*asked}:
        failed = [
            f"{check.name}: {check.found}" for check in look(package, name) if check.outcome == "failed"
        ]
        assert failed == [], f"unchanged, asked about {name}"
    for name in asked:
        content = (package / name).read_bytes()
        changed = flip_byte(content, name)
        # As a new file: what was unpacked may share its bytes with a copy.
        _put(package / name, changed)
        _put(package / SUMS, sums_text(digests | {name: sha256_bytes(changed)}).encode())
        if all(check.outcome != "failed" for check in look(package, name)):
            unfound.append(name)
        _put(package / name, content)
    _put(package / SUMS, sums)
    return unfound


def flip_byte(content: bytes, seed: str) -> bytes:
    """Return a content with the lowest bit of one byte flipped, which a text mostly stays readable with."""
    at = Random(seed).randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def _put(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(content)
