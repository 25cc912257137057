"""Whether a page of an evidence folder may be shown now: looked at again when a file that decides it has
changed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from assay.core.errors import AssayError
from assay.core.evidence_files import FILES
from assay.pipeline.project import Project
from assay.stages.render_evidence.at_hand import LOCK, PARAMS, differences
from assay.stages.render_evidence.no_claim import SHOWN

Marks = dict[str, tuple[int, int]]


def project_of(folder: Path) -> Path | None:
    """Return the project that a folder of evidence belongs to, None where none stands around it."""
    here = folder.resolve()
    return next((up for up in (here, *list(here.parents)[:2]) if (up / PARAMS).is_file()), None)


class ClaimShown:
    """Says of a project's pages whether they may be shown. Several threads may ask."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._lock = threading.Lock()
        self._marks: Marks | None = None
        self._found: list[str] = []
        self.data = self.root.name
        self._data_folder = self.root / "data"

    def bears_claim(self, path: Path) -> bool:
        """Return whether a path is, or lies in, what shows a claim; on a file system that takes any case for
        any."""
        try:
            name = path.relative_to(self.root).as_posix().casefold()
        except ValueError:
            return False
        return any(f"{name}/".startswith(f"{shown.casefold()}/") for shown in SHOWN)

    def differences(self) -> list[str]:
        """Return in what the claim is about other settings or data than those at hand; nothing: it may be
        shown."""
        with self._lock:
            marks = dict(self._marked())
            if marks != self._marks:
                self._found = self._looked()
                self._marks = marks
            return self._found

    def _looked(self) -> list[str]:
        try:
            project = Project.open(self.root)
            self.data = project.params.dataset.name
            self._data_folder = project.data("")
            return differences(project)
        except AssayError as error:
            return [f"{error.where}: expected {error.expected}, found {error.found}"]

    def _marked(self) -> Iterator[tuple[str, tuple[int, int]]]:
        files: Sequence[Path] = [self.root / PARAMS, self.root / LOCK]
        for folder in FILES:
            files = [*files, *(self.root / folder).rglob("*")]
        files = [*files, *self._data_folder.rglob("*")]
        for path in files:
            try:
                found = path.stat()
            except OSError:
                continue
            yield str(path), (found.st_mtime_ns, found.st_size)
