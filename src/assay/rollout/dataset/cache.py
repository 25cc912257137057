"""A verified copy of a dataset in a folder named by its digest: complete and unchanged, or not used at
all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from assay.core.errors import DataError
from assay.core.storage.files import sha256_bytes, write_folder
from assay.core.storage.json import as_written, parse_strict
from assay.core.storage.untrusted import listing, read_capped
from assay.rollout.dataset.fingerprint import dataset_sha256, records_sha256
from assay.rollout.dataset.schema_files import SchemaFiles
from assay.rollout.dataset.source import DataRow
from assay.rollout.dataset.verified import entries, reader, require, verify

MANIFEST = "manifest.json"
BLOCKLIST = "blocklist.txt"
BUILT = "built"
_MANIFEST_BYTES = 64_000_000


def copies(splits: Mapping[str, Sequence[DataRow]], blocklist: bytes | None) -> dict[str, bytes]:
    """Return the files of a dataset's copy, its manifest included: schema files by digest, with the layout
    they had.

    Args:
        splits: The records that remained after the audit.
        blocklist: The file of blocked terms.
    """
    files: dict[str, bytes] = {}
    for split, members in splits.items():
        lines = []
        for entry in members:
            folder = f"schemas/{entry.closure.digest[:16]}" if entry.closure else ""
            for file in entry.closure.files if entry.closure else ():
                files[f"{folder}/{file.name}"] = file.content
            lines.append(as_written(entry.moved(folder)) + "\n")
        files[f"{split}.jsonl"] = "".join(lines).encode()
    if blocklist is not None:
        files[BLOCKLIST] = blocklist
    sums = {name: sha256_bytes(content) for name, content in sorted(files.items())}
    manifest = {"dataset_sha256": _identity(splits, blocklist), "files": sums}
    files[MANIFEST] = (json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()
    return files


def sums_of(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the sha256 of each file of a copy, as fingerprint.json records it."""
    return {name: sha256_bytes(content) for name, content in sorted(files.items())}


def folder_of(cache: Path, whole: str) -> Path:
    """Return where the copy of a dataset lies."""
    return cache / whole[:16]


def keep(folder: Path, files: Mapping[str, bytes], whole: str) -> str:
    """Make sure that the copy is there and sound; return what was done, in a word.

    Args:
        folder: Where it lies.
        files: What it must hold.
        whole: The dataset's digest, which the records of the copy must have too.

    Raises:
        DataError: A copy is there and damaged. It is never used, and never repaired behind anyone's back.
    """
    done = BUILT
    if folder.exists() or folder.is_symlink():
        expected = sums_of(files)
        try:
            verify_copy(folder, expected, list(expected))
            return "verified"
        except DataError:
            # Another order of records, or schema files under other names, is another copy of the same
            # dataset.
            stated = _stated(folder, whole)
            verify_copy(folder, stated, list(stated))
            done = "built anew: the same records in another order or layout"

    def check(fresh: Path) -> None:
        held = sums_of(files)
        splits = {
            name.removesuffix(".jsonl"): open_copy(fresh, held, name.removesuffix(".jsonl"))
            for name in files
            if name.endswith(".jsonl") and "/" not in name
        }
        require(
            whole, _identity(splits, files.get(BLOCKLIST)), str(folder), "a bug of assay: please report it"
        )

    if not write_folder(folder, files, check=check, replace=done != BUILT):
        return keep(folder, files, whole)  # another process of this run was faster
    return done


def verify_copy(folder: Path, cached: Mapping[str, str], wanted: Sequence[str]) -> None:
    """Refuse a copy with a file missing, a file too many, a link, or a changed byte in a file that is wanted.

    Raises:
        DataError: Names the file, and how to have the copy built again.
    """
    fix = f"rm -r {folder}   (it is built again)"
    if folder.is_symlink():
        raise DataError("a folder", found="a link", where=str(folder), fix=fix)
    there = listing(folder)
    for name in sorted(set(cached) | set(there)):
        if name not in there:
            raise DataError("a complete copy", found="no such file", where=f"{folder}/{name}", fix=fix)
        if name not in cached or not there[name]:
            found = "one that is not" if name not in cached else "a link, pipe or device"
            raise DataError("a plain file of the manifest", found=found, where=f"{folder}/{name}", fix=fix)
    verify(folder, {name: cached[name] for name in wanted}, shown=f"{folder}/", fix=fix)


def read_with(cached: Mapping[str, str], split: str) -> list[str]:
    """Return the names of the files that are read for a split: its own and all but those of other splits."""
    own = f"{split}.jsonl"
    return [name for name in cached if "/" in name or not name.endswith(".jsonl") or name == own]


def open_copy(folder: Path, cached: Mapping[str, str], split: str) -> list[DataRow]:
    """Return the records of one split of a copy; every file that is read is verified, files of other splits
    are not read.

    Raises:
        DataError: The copy is damaged, incomplete, or has a file too many.
    """
    fix = f"rm -r {folder}   (it is built again)"
    name = f"{split}.jsonl"
    verify_copy(folder, cached, read_with(cached, split))
    schemas = SchemaFiles(folder, folder, read=reader(folder, cached, fix))
    return entries(folder / name, cached[name], schemas, where=f"{folder}/{name}", fix=fix)


def _identity(splits: Mapping[str, Sequence[DataRow]], blocklist: bytes | None) -> str:
    terms = None if blocklist is None else sha256_bytes(blocklist)
    return dataset_sha256({name: records_sha256(members) for name, members in splits.items()}, terms)


def _stated(folder: Path, whole: str) -> dict[str, str]:
    """Return the sums that the copy's own manifest states, with the manifest's."""
    fix = f"rm -r {folder}   (it is built again)"
    where = f"{folder}/{MANIFEST}"
    content = read_capped(folder / MANIFEST, max_bytes=_MANIFEST_BYTES, fix=fix)
    try:
        manifest = parse_strict(content.decode(), max_chars=_MANIFEST_BYTES, max_depth=4)
        stated, files = (
            manifest["dataset_sha256"],
            {str(name): str(value) for name, value in manifest["files"].items()},
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError("the manifest of a copy", found=str(error), where=where, fix=fix) from None
    require(whole, str(stated), where, fix)
    return files | {MANIFEST: sha256_bytes(content)}
