"""A package of a run, of runs of several seeds, or of a judgement."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from assay.core.console import quietly
from assay.core.errors import PackageError
from assay.package.judgements import pack_judgement
from assay.verdict.claims import Claim


@dataclass(frozen=True, slots=True)
class Packed:
    """An archive, and its identity: the sha256 that its reader needs from you."""

    path: Path
    sha256: str

    def __str__(self) -> str:
        return f"{self.path}, sha256 {self.sha256}"


@overload
def pack(source: str | Path) -> Packed: ...
@overload
def pack(source: Claim | Sequence[str | Path], path: str | Path) -> Packed: ...
def pack(source: str | Path | Claim | Sequence[str | Path], path: str | Path | None = None) -> Packed:
    """Write a package that `verify` checks, if there is no secret in it.

    Args:
        source: The folder of a project that was run; a claim of `assay.verdict.compare`; or the folders of
            finished runs of one recipe, a training seed each.
        path: The archive: a .tar of a claim, a .tar.gz of seeds. A run has its own: dist/assay-package.tar.

    Raises:
        NoVerdictYet: The project was not run with the settings at hand.
        PackageError: Something of a run is missing or another than its dvc.lock tells of, or there is a
            secret in it.
    """
    if isinstance(source, str | Path):
        if path is not None:
            fix = "pack(folder), without a path"
            raise PackageError("dist/, where a run is packed", found=str(path), where="pack", fix=fix)
        return _pack_run(Path(source))
    if path is None:
        raise PackageError("an archive to write", found="none", where="pack", fix='pack(…, "mine.tar")')
    if isinstance(source, Claim):
        from assay.verdict.judge.page import write_pages  # matplotlib, which takes a second to load

        with tempfile.TemporaryDirectory(prefix="assay-pack-") as scratch:
            write_pages(Path(scratch), source.judgement, source.judged)
            identity = pack_judgement(Path(path), Path(scratch), source.judgement, source.rows, source.judged)
        return Packed(Path(path), identity)
    from assay.package.recipe.check_seeds import write_seeds
    from assay.package.recipe.recipe_file import read_together

    copies = [Path(folder) for folder in source]
    return Packed(Path(path), write_seeds(Path(path), read_together(copies), copies))


def _pack_run(root: Path) -> Packed:
    from assay.pipeline.project import Project
    from assay.stages import package

    with quietly():
        identity = package.run(Project.open(root))
    return Packed(package.archive_of(root), identity)
