"""Files against the digests they had when they were fingerprinted, each time they are read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from assay.core.errors import DataError
from assay.core.storage.files import sha256_bytes
from assay.core.storage.untrusted import sha256_capped
from assay.rollout.dataset.schema_files import SchemaFiles, read_schema
from assay.rollout.dataset.source import MAX_FILE_BYTES, DataRow, load

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


def require(expected: str | None, found: str, where: str, fix: str) -> None:
    """Refuse bytes that are not the fingerprinted ones.

    Raises:
        DataError: Names the file.
    """
    if expected != found:
        known = (
            "no file of the fingerprint"
            if expected is None
            else f"the fingerprinted bytes ({expected[:16]}…)"
        )
        raise DataError(known, found=f"{found[:16]}…", where=where, fix=fix)


def verify(folder: Path, expected: Mapping[str, str], *, shown: str, fix: str) -> None:
    """Refuse files that are not byte for byte what they were.

    Args:
        folder: What the names are relative to.
        expected: sha256 by name.
        shown: Put before the names in messages.
        fix: What to do then.

    Raises:
        DataError: Names the first file that is missing or changed.
    """
    for name, value in expected.items():
        require(value, sha256_capped(folder / name, max_bytes=MAX_FILE_BYTES, fix=fix), f"{shown}{name}", fix)


def reader(folder: Path, expected: Mapping[str, str], fix: str) -> Callable[[Path], bytes]:
    """Return a reader of schema files that refuses other bytes than the expected ones, named relative to the
    folder."""

    def read(path: Path) -> bytes:
        content = read_schema(path)
        label = SchemaFiles(folder, folder).label(path)
        require(expected.get(label), sha256_bytes(content), label, fix)
        return content

    return read


def entries(
    path: Path, sha256: str, schemas: SchemaFiles, *, where: str, fix: str, skip: Collection[int] = ()
) -> list[DataRow]:
    """Return the rows of a data file that has passed the audit, without those it left out.

    Args:
        path: The file.
        sha256: What its bytes must be.
        schemas: Finds schema files.
        where: The file's name, for messages.
        fix: What to do if it is another file.
        skip: Numbers of the lines that were left out.

    Raises:
        DataError: Other bytes, or a line that could be read once and now cannot.
    """
    source = load(path, schemas, where=where, fix=fix, skip=skip)
    require(sha256, source.reading.file_sha256, where, fix)
    if source.refused:
        first = source.refused[0]
        raise DataError("a record", found=first.reason, where=f"{where}, line {first.number}", fix=fix)
    return source.entries
