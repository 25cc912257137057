"""dvc.lock as it goes into a package: what every stage before the packaging one read and wrote, in pipeline
order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.core.errors import PackageError
from assay.core.storage.yaml import yaml_text

SOURCE = "src/assay"


def lock_text(lock: Mapping[str, Any], stages: Sequence[str]) -> str:
    """Return dvc.lock for the package, equal for equal runs: the named stages and no others, in their order.

    Args:
        lock: dvc.lock as it was read.
        stages: Names of the stages whose outputs the package holds, in pipeline order.

    Raises:
        PackageError: A stage was never recorded.
    """
    recorded = lock.get("stages")
    known: Mapping[str, Any] = recorded if isinstance(recorded, dict) else {}
    if missing := [name for name in stages if name not in known]:
        found = f"no {', '.join(missing)}"
        raise PackageError(
            "a dvc.lock with every stage of the run", found=found, where="dvc.lock", fix="./run dvc repro"
        )
    return yaml_text({"schema": lock.get("schema"), "stages": {name: known[name] for name in stages}})


def is_code(path: str, task: str | None) -> bool:
    """Return whether a path of dvc.lock is of the code, which does not travel in a package.

    Args:
        path: As dvc.lock has it.
        task: Folder of the task where it does not travel either.
    """
    return path.startswith(f"{SOURCE}/") or path == task


def code_in(stages: Mapping[str, Any], task: str | None) -> dict[str, str]:
    """Return every folder and file of the code that stages ran → its md5, as their lock has it.

    Args:
        stages: Of a dvc.lock.
        task: As of `is_code`.

    Raises:
        PackageError: Two stages ran different code of one place.
    """
    found: dict[str, str] = {}
    for stage, told in stages.items():
        for dep in told.get("deps") or []:
            path, known = str(dep["path"]), str(dep.get("md5"))
            if is_code(path, task) and found.setdefault(path, known) != known:
                fix = "./run dvc repro"
                said = f"{stage} ran another than a stage before it"
                raise PackageError("one code for all stages", found=said, where=path, fix=fix)
    return found


def refuse_others(
    lock: Mapping[str, Any], stages: Sequence[str], members: Mapping[str, bytes | Path]
) -> None:
    """Refuse a run whose files are not those that dvc.lock tells of: an edited one, or parts of two runs.

    Args:
        lock: dvc.lock as it was read.
        stages: Names of the stages that the package tells of.
        members: What is to be packaged; what it does not hold, such as a pretrained base, is not looked at.

    Raises:
        PackageError: A file is another; names it and the stage.
    """
    known: dict[str, str] = {}
    for stage in stages:
        for entry in (each for kind in ("deps", "outs") for each in lock["stages"][stage].get(kind) or []):
            path = str(entry["path"])
            if path not in known:
                inside = {
                    name.removeprefix(f"{path}/"): members[name]
                    for name in members
                    if name.startswith(f"{path}/")
                }
                known[path] = (
                    md5(members[path]) if path in members else folder_md5(inside)[0] if inside else ""
                )
            if known[path] not in ("", entry.get("md5")):
                found = f"another than {stage} had, by dvc.lock"
                fix = "./run dvc repro, or put the file back that belongs to this run"
                raise PackageError("the file of the run", found=found, where=path, fix=fix)


def folder_md5(files: Mapping[str, bytes | Path]) -> tuple[str, int]:
    """Return the md5 of a folder as DVC takes it, over a listing of its files, and the size of them all in
    bytes.

    Args:
        files: Path inside the folder → content, or the file that has it.

    Source: DVC 3, dvc-data, `Tree.as_bytes`: the JSON of [{"md5", "relpath"}], by relpath.
    """
    rows = [{"md5": md5(files[name]), "relpath": name} for name in sorted(files)]
    sizes = [len(each) if isinstance(each, bytes) else each.stat().st_size for each in files.values()]
    return f"{md5(json.dumps(rows, sort_keys=True).encode())}.dir", sum(sizes)


def md5_at(path: Path) -> str:
    """Return the md5 by which DVC names a file or a folder, as it lies there."""
    if not path.is_dir():
        return md5(path)
    return folder_md5(
        {each.relative_to(path).as_posix(): each for each in path.rglob("*") if each.is_file()}
    )[0]


def md5(content: bytes | Path) -> str:
    """Return the hexadecimal md5 by which DVC names a file."""
    # Not for safety, that is the manifest's: it is how dvc.lock names a file.
    found = hashlib.md5(usedforsecurity=False)
    if isinstance(content, bytes):
        found.update(content)
        return found.hexdigest()
    with content.open("rb") as stream:
        while piece := stream.read(1 << 20):
            found.update(piece)
    return found.hexdigest()
