"""The data files of a dataset as SHA256SUMS lists them, before anything is known of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from assay.core.config.places import setting
from assay.core.errors import DataError
from assay.core.storage.untrusted import inside, listing, read_capped, sha256_capped
from assay.rollout.dataset.fingerprint import Fingerprint
from assay.rollout.dataset.schema_files import SchemaFiles
from assay.rollout.dataset.source import MAX_FILE_BYTES, DataFile, load
from assay.rollout.dataset.verified import SUMS, check_sums, covered, parse_sums, require

MAX_SUMS_BYTES = 10_000_000


def checked_sums(project: Path, root: str) -> dict[str, str]:
    """Return the committed sha256 of each data file, known to be that of the file.

    Args:
        project: Root of the project.
        root: Its folder of data (`dataset.root`).

    Raises:
        DataError: A file is missing, changed, or not listed.
    """
    folder = project / root
    fix = (
        f"restore the data: git checkout -- {root}   (new data: ./run assay task audit TASKS.jsonl"
        " --fix-splits writes it)"
    )
    listed = inside(folder / SUMS, [folder, project], where=f"{root}/{SUMS}", fix=fix)
    try:
        text = read_capped(listed, max_bytes=MAX_SUMS_BYTES, fix=fix).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            "UTF-8 text", found=error.reason, where=f"{root}/{SUMS}, byte {error.start}", fix=fix
        ) from None
    sums = parse_sums(text, f"{root}/{SUMS}")
    found = {}
    for name in covered(listing(folder), sums):
        path = inside(folder / name, [folder, project], where=f"{root}/{name}", fix=fix)
        found[name] = sha256_capped(path, max_bytes=MAX_FILE_BYTES, fix=fix)
    check_sums(found, sums, root)
    return sums


def read_sources(project: Path, root: str, sums: Mapping[str, str]) -> dict[str, DataFile]:
    """Return every data file of the dataset by split, from the bytes that were checked.

    Args:
        project: Root of the project.
        root: Its folder of data (`dataset.root`).
        sums: What `checked_sums` returns.

    Raises:
        DataError: A file cannot be read at all.
    """
    fix = f"restore the data: git checkout -- {root}"
    schemas = SchemaFiles(project / root, project)
    sources = {}
    for name in sums:
        if name.endswith(".jsonl") and "/" not in name:
            where = f"{root}/{name}"
            source = sources[name.removesuffix(".jsonl")] = load(
                project / root / name, schemas, where=where, fix=fix
            )
            require(sums[name], source.reading.file_sha256, where, fix)
    return sources


def require_named(sources: Collection[str], asked: Sequence[str], others: Collection[str], root: str) -> None:
    """Refuse a data file that dataset.secondary names and that is not there.

    Args:
        sources: Data files that are there, without .jsonl.
        asked: What dataset.secondary names.
        others: Files that are no secondary ones.
        root: Folder of the data.

    Raises:
        DataError: Names the file, and which further files there are.
    """
    if lost := [name for name in asked if name not in sources]:
        raise DataError(
            f"{lost[0]}.jsonl in {root}, which dataset.secondary names",
            found=", ".join(sorted({*sources} - {*others})) or "no further file",
            where=setting("dataset.secondary"),
            fix=f"add the file and its line in {SUMS}, or take the name out of dataset.secondary",
        )


def require_covered(found: Fingerprint, sums: Mapping[str, str], root: str, blocklist: str | None) -> None:
    """Refuse schema files and a blocklist that SHA256SUMS does not cover: DVC would not see them change.

    Raises:
        DataError: Names the file.
    """
    if blocklist is not None and blocklist not in sums:
        fix, where = f"add it to {root}/{SUMS}", setting("task.blocklist")
        raise DataError(f"a blocklist with a line in {SUMS}", found="none", where=where, fix=fix)
    for path in found.schemas:
        if path.removeprefix(f"{root}/") not in sums:
            raise DataError(
                f"a schema file inside {root} with a line in its {SUMS}",
                found="another",
                where=path,
                fix=(
                    f"move it into {root} and add its line   (./run assay task audit TASKS.jsonl --fix-splits"
                    " copies schema files)"
                ),
            )
