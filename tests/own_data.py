"""A small dataset of one's own in a project of one's own: rows, schema files that refer to each other,
checksums."""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.core.config.composition import Selection, compose
from assay.core.config.settings import Params
from assay.pipeline.project import Project
from tests.house import ROOT

DATA = "data/mine"
PERSON = {
    "type": "object",
    "properties": {"name": {"$ref": "parts/text.json"}, "age": {"type": "integer"}},
    "required": ["name"],
    "additionalProperties": False,
}
TEXT = {"type": "string", "minLength": 1}
SCHEMAS = {"schemas/person.json": PERSON, "schemas/parts/text.json": TEXT}
SPLITS = {"train": range(0, 6), "validation": range(6, 9), "heldout": range(9, 13)}


def row(number: int, **changes: Any) -> dict[str, Any]:
    """Return a sound record; a change to None leaves the field out."""
    whole = {
        "id": f"r{number}",
        "prompt": f"Who is number {number}? Ana {number}, aged {number + 20}.",
        "schema_path": "schemas/person.json",
        "gold": {"name": f"Ana {number}", "age": number + 20},
    }
    return {name: value for name, value in (whole | changes).items() if value is not None}


def jsonl(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return rows as the bytes of a tasks file."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def write_sums(folder: Path) -> None:
    """Write the SHA256SUMS of a data folder as it stands."""
    paths = sorted(
        path for path in folder.rglob("*") if path.is_file() and path.name not in ("SHA256SUMS", "README.md")
    )
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        for path in paths
    ]
    (folder / "SHA256SUMS").write_text("".join(sums))


def keep_first(folder: Path, n: int) -> None:
    """Keep so many records of each split of a data folder, at most."""
    for path in folder.glob("*.jsonl"):
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:n]))
    write_sums(folder)


def write_data(
    root: Path, splits: Mapping[str, bytes] | None = None, more: Mapping[str, bytes] | None = None
) -> Path:
    """Write a dataset with its schema files and checksums; return its folder."""
    folder = root / DATA
    files = {name: json.dumps(schema).encode() for name, schema in SCHEMAS.items()} | dict(more or {})
    for name, numbers in SPLITS.items():
        files[f"{name}.jsonl"] = (splits or {}).get(name, jsonl([row(number) for number in numbers]))
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    write_sums(folder)
    return folder


@functools.cache
def _composed() -> str:
    return json.dumps(compose(ROOT, Selection("tiny", "structured", 0)).values)


def project(root: Path, *, cache: str | None = None, blocklist: str | None = None, **audit: str) -> Project:
    """Return a project at a folder, its dataset the one of `write_data`."""
    values = json.loads(_composed())
    values["dataset"] |= {"root": DATA, "cache": cache}
    values["dataset"]["audit"] |= audit
    values["task"] |= {"blocklist": blocklist}
    values["evaluation"]["items"], values["validation"]["items"] = 3, 2
    return Project(root, Params.model_validate(values))


def copy_project(root: Path) -> None:
    """Write what the command line needs of a project."""
    shutil.copytree(ROOT / "configs", root / "configs")
    shutil.copy(ROOT / "params.yaml", root)
