"""Data files against the checksums that were committed with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from assay.core.errors import DataError

SUMS = "SHA256SUMS"
# They say something about the data and are none.
UNLISTED = frozenset({SUMS, "README.md"})


def parse_sums(text: str, where: str) -> dict[str, str]:
    r"""Return file name → sha256 from the text of a SHA256SUMS file, also as sha256sum ./* and Windows write
    it.

    Raises:
        DataError: A line is not `<64 hex>  <name>`, or a name stands twice.

    >>> parse_sums("0" * 64 + "  train.jsonl\n", "SHA256SUMS") == {"train.jsonl": "0" * 64}
    True
    """
    sums: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        if not line:
            continue
        value, _, name = line.partition("  ")
        name = name.removeprefix("./")
        if len(value) != 64 or not name or set(value) - set("0123456789abcdef") or name in sums:
            raise DataError(
                "a line '<sha256>  <file name>', each name once",
                found=ascii(line[:80]),
                where=f"{where}, line {number}",
                fix="restore the file: git checkout -- " + where,
            )
        sums[name] = value
    return sums


def sums_text(sums: Mapping[str, str]) -> str:
    """Return the text of a SHA256SUMS file, sorted by name."""
    return "".join(f"{value}  {name}\n" for name, value in sorted(sums.items()))


def covered(names: Iterable[str], listed: Iterable[str]) -> list[str]:
    """Return the names of a data folder's files that checksums must cover.

    Hidden files that are not listed are what editors and file managers leave behind; no stage reads them
    unlisted.
    """
    known = set(listed)
    hidden = {name for name in names if any(part.startswith(".") for part in name.split("/"))}
    return sorted(set(names) - UNLISTED - (hidden - known))


def check_sums(found: Mapping[str, str], expected: Mapping[str, str], folder: str) -> None:
    """Refuse files that differ from their checksums.

    Args:
        found: sha256 of each file that is there.
        expected: The committed checksums.
        folder: Name of the folder, for messages.

    Raises:
        DataError: Names the file that is missing, changed or not listed.
    """
    fix = f"restore the data: git checkout -- {folder}"
    renew = f"{fix}   (or, if you meant the change, renew SHA256SUMS)"
    for name in sorted(expected):
        if name not in found:
            raise DataError(f"{name}", found="no such file", where=folder, fix=fix)
        if found[name] != expected[name]:
            raise DataError(
                f"sha256 {expected[name][:16]}…",
                found=f"{found[name][:16]}…",
                where=f"{folder}/{name}",
                fix=renew,
            )
    for name in sorted(set(found) - set(expected)):
        raise DataError(
            "a file listed in SHA256SUMS", found="one that is not", where=f"{folder}/{name}", fix=renew
        )
