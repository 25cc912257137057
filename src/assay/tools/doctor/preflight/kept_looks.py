"""Looks at what lies ahead that take their time, each taken once for the same settings, data and code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

import assay
from assay.core.errors import RecordError
from assay.core.provenance import packages
from assay.core.records import Record
from assay.core.storage.hashing import sha256_contents
from assay.core.storage.json import digest, read_record, write_json
from assay.pipeline.inputs import fingerprint_of
from assay.pipeline.project import Project
from assay.tools.doctor.findings import Finding

FOLDER = ".scratch/preflight"


class _Looked(Record):
    """What one look found, and for what it was taken."""

    key: str
    findings: tuple[Finding, ...]


def looked(
    project: Project, name: str, ahead: Path | None, look: Callable[[], Sequence[Finding]]
) -> list[Finding]:
    """Return what a look finds; the last one of the name is not taken again while nothing changed that it
    depends on.

    Args:
        project: Whose settings, data and code decide what is found.
        name: Of the look.
        ahead: Folder of a pretrained base, of which everything but the weights counts; None: there is none.
        look: Takes it.
    """
    path = project.root / FOLDER / f"{name}.json"
    files = (
        {} if ahead is None else {p.name: sha256_contents(p) for p in sorted(ahead.glob("*")) if _is_small(p)}
    )
    code = sha256_contents(Path(assay.__file__).parent)
    key = digest(
        [
            project.params.model_dump(mode="json"),
            fingerprint_of(project).model_dump(mode="json"),
            files,
            code,
            packages(),
            torch.cuda.get_device_properties(0).total_memory if torch.cuda.is_available() else None,
        ]
    )
    if path.exists():
        try:
            kept = read_record(path, _Looked, fix="nothing to do")
            if kept.key == key:
                return list(kept.findings)
        except RecordError:
            pass  # it is taken anew
    found = tuple(look())
    write_json(path, _Looked(key=key, findings=found))
    return list(found)


def _is_small(path: Path) -> bool:
    return path.is_file() and path.suffix in (".json", ".jinja", ".txt", ".model")
