"""How somebody covers a tampering up: every list of digests made anew, and what follows from other files
computed anew."""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

from assay.core.console import quietly
from assay.core.storage.files import sha256_bytes
from assay.core.storage.json import dumps
from assay.core.storage.yaml import read_yaml
from assay.package.verification.checks import UNUSABLE
from assay.package.verification.content.rendered import tables_again
from assay.package.verification.unpacked import Unpacked
from assay.pipeline.dvc_lock import folder_md5, lock_text, md5
from assay.pipeline.project import Project
from assay.stages import render_evidence
from assay.stages.packing.archive import sealed, write_tar
from assay.stages.packing.layout import NAME
from assay.stages.packing.pages import BEFORE, documents

Files = dict[str, bytes]
LISTS = ("SHA256SUMS",)


def pretty(value: Any) -> bytes:
    """Return a JSON record as assay writes it."""
    return (json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False) + "\n").encode()


def rows_of(files: Files, name: str) -> list[Any]:
    """Return the rows of a file of JSON lines."""
    return [json.loads(line) for line in files[name].decode().split("\n")[:-1]]


def put_rows(files: Files, name: str, rows: list[Any]) -> None:
    """Write rows as assay writes them."""
    files[name] = "".join(f"{dumps(row)}\n" for row in rows).encode()


def episode_in(row: Any) -> Any:
    """Return the episode of a row, which a validation has in a field."""
    return row.get("episode", row)


def files_in(folder: Path) -> Files:
    """Return every file of a folder by name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def write(files: Files, folder: Path) -> None:
    """Write files into a folder that holds nothing else afterwards."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def resealed(files: Files) -> Files:
    """Return the files with SHA256SUMS over them."""
    members = sealed({name: content for name, content in files.items() if name not in LISTS})
    return {name: content for name, content in members.items() if isinstance(content, bytes)}


def tar_of(files: Files, folder: Path) -> Path:
    """Write files as the tar of a package."""
    path = folder / f"{NAME}.tar"
    write_tar(path, dict(files), root=NAME)
    return path


def relocked(files: Files, touched: set[str], folder: Path, *, settings: bool = False) -> Files:
    """Return the files with dvc.lock, the checksums of the data, card and provenance made anew.

    Args:
        files: With the tampering.
        touched: What it touched; these stay as they are.
        folder: To work in.
        settings: Whether dvc.lock also gets the settings as they are now.
    """
    files = files | data_sums(files, touched)
    write(files, folder)
    try:
        lock, values = read_yaml(folder / "dvc.lock", fix=""), read_yaml(folder / "params.yaml", fix="")
        for stage in lock["stages"].values():
            for kind in ("deps", "outs"):
                stage[kind] = [found for each in stage[kind] if (found := entry_of(each, files, folder))]
            if settings and "params" in stage:
                told = stage["params"]["params.yaml"]
                stage["params"]["params.yaml"] = {name: deepcopy(value_at(values, name)) for name in told}
        files = files | ({} if "dvc.lock" in touched else {"dvc.lock": lock_text(lock, BEFORE).encode()})
    except UNUSABLE:
        return files  # a lock, or settings, that cannot be read any more stay as they are
    write(files, folder)
    try:
        with quietly():
            made = documents(Project.open(folder), {name: folder / name for name in files})
    except UNUSABLE:
        return files
    return files | {name: content for name, content in made.items() if name not in touched and name in files}


def data_sums(files: Files, touched: set[str]) -> Files:
    """Return the checksums of the data as they would have to be, where one of the data was touched."""
    sums = next((name for name in files if name.startswith("data/") and name.endswith("/SHA256SUMS")), None)
    if sums is None or sums in touched or not any(name.startswith("data/") for name in touched):
        return {}
    folder = sums.removesuffix("SHA256SUMS")
    known = [line.split("  ", 1)[1] for line in files[sums].decode().split("\n") if line]
    found = {name: sha256_bytes(files[folder + name]) for name in known if folder + name in files}
    return {sums: "".join(f"{digest}  {name}\n" for name, digest in sorted(found.items())).encode()}


def rederived(files: Files, folder: Path) -> Files:
    """Return the files with every report, table, page and figure computed anew from episodes and logs as they
    are now."""
    write(files, folder)
    for check in tables_again(Unpacked(folder), folder.parent / "tables"):
        assert "expected" not in check.found or check.outcome != "failed", check.found
    shutil.copytree(folder.parent / "tables", folder, dirs_exist_ok=True)
    with quietly():
        render_evidence.run(Project.open(folder))
    shutil.rmtree(folder / ".scratch", ignore_errors=True)  # what rendering keeps for itself
    return files_in(folder)


def entry_of(entry: Any, files: Files, folder: Path) -> Any:
    """Return an entry of dvc.lock for a path as it is now; None where it is gone."""
    name = entry["path"]
    if name in files:
        return entry | {"md5": md5(files[name]), "size": len(files[name])}
    inside = {each.removeprefix(f"{name}/"): files[each] for each in files if each.startswith(f"{name}/")}
    if not inside:
        return None
    digest, size = folder_md5(inside)
    return entry | {"md5": digest, "size": size, "nfiles": len(inside)}


def value_at(values: Any, dotted: str) -> Any:
    for name in dotted.split("."):
        values = values[name]
    return values
