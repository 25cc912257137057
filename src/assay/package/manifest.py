"""What a package lists of itself: manifest.json, with sizes, and SHA256SUMS, which plain `sha256sum -c`
reads."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field, ValidationError

from assay.core.errors import PackageError
from assay.core.records import Record
from assay.core.storage.archive import PIECE, open_plain
from assay.core.storage.files import sha256_bytes
from assay.core.storage.json import dumps
from assay.core.storage.strict_json import parse_strict
from assay.dataset.checksums import sums_text
from assay.package.names import MANIFEST, SUMS

Format = Literal["assay-package/3"]
FORMAT: Format = get_args(Format)[0]
OTHER_FORMAT = (
    "check it with the version that wrote it: its source lies in the package under src/assay, and its"
    " provenance.json names the commit of the project to check out; or let its maker pack it again"
)
MAX_CHARS = 16_000_000  # as verify.py has it; 20,000 members of the longest names need half of that


class FileEntry(Record):
    """One file as the manifest lists it."""

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    size: int = Field(ge=0, description="bytes")


class Manifest(Record):
    """Every file of a package but the manifest itself and SHA256SUMS."""

    format: Format
    files: dict[str, FileEntry] = Field(description="relative POSIX path → what lies there")


def entry_of(content: bytes | Path) -> FileEntry:
    """Return size and sha256 of a content, a file in pieces.

    Raises:
        PackageError: The file is missing, a link, or no regular file.
    """
    if isinstance(content, bytes):
        return FileEntry(sha256=sha256_bytes(content), size=len(content))
    digest, size = hashlib.sha256(), 0
    with open_plain(content) as stream:
        while piece := stream.read(PIECE):
            digest.update(piece)
            size += len(piece)
    return FileEntry(sha256=digest.hexdigest(), size=size)


def manifest_text(files: Mapping[str, FileEntry]) -> str:
    """Return manifest.json: canonical JSON and a line end, so that equal files are equal bytes."""
    return (
        dumps(
            Manifest(
                format=FORMAT, files={name: files[name] for name in files if name not in (MANIFEST, SUMS)}
            )
        )
        + "\n"
    )


def sealed(members: Mapping[str, bytes | Path]) -> dict[str, bytes | Path]:
    """Return the members together with manifest.json and SHA256SUMS over them.

    Args:
        members: Relative POSIX path → content, or the regular file that has it.

    Raises:
        PackageError: One is named like the lists themselves, or cannot be read.

    >>> sorted(sealed({"a.txt": b"1"}))
    ['SHA256SUMS', 'a.txt', 'manifest.json']
    """
    for name in (MANIFEST, SUMS):
        if name in members:
            fix = "leave it out; it is written last, over everything else"
            raise PackageError(f"no {name} among the files", found="one", where="the package", fix=fix)
    files = {name: entry_of(members[name]) for name in sorted(members)}
    manifest = manifest_text(files).encode()
    sums = sums_text({name: entry.sha256 for name, entry in {**files, MANIFEST: entry_of(manifest)}.items()})
    return {**members, MANIFEST: manifest, SUMS: sums.encode()}


def read_manifest(text: str, *, where: str) -> Manifest:
    """Return the manifest from its text, if it is exactly what `manifest_text` writes.

    Raises:
        PackageError: It is not strict JSON, no manifest of this format, or in another form than the canonical
            one.
    """
    fix = "get the package again from where it was published"
    try:
        manifest = Manifest.model_validate_json(dumps(parse_strict(text, max_chars=MAX_CHARS, max_depth=4)))
    except ValidationError as error:
        first = error.errors()[0]
        if first["loc"] == ("format",) and re.fullmatch(r"assay-package/\d+", str(first["input"])):
            raise PackageError(FORMAT, found=str(first["input"]), where=where, fix=OTHER_FORMAT) from None
        found = f"{'.'.join(str(step) for step in first['loc'])!a}: {first['msg']}"
        raise PackageError(f"a manifest of {FORMAT}", found=found[:300], where=where, fix=fix) from None
    except ValueError as error:
        raise PackageError(
            "strict JSON", found=str(error).split("\n")[0][:300], where=where, fix=fix
        ) from None
    if dumps(manifest) + "\n" != text:
        raise PackageError(
            "canonical JSON: sorted keys, no spaces, one line end", found="another form", where=where, fix=fix
        )
    return manifest
