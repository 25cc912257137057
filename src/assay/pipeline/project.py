"""What every stage starts from: a project root and its settings. Stages name files relative to the root."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from assay.core.config.reading import parse_params
from assay.core.config.settings import Params
from assay.core.evidence_files import OBSERVED, place_of
from assay.core.storage.yaml import read_yaml

if TYPE_CHECKING:
    from assay.tasks.own.recorded import Recorded


@dataclass(frozen=True)
class Project:
    """A checkout of the pipeline; stages name files relative to it."""

    root: Path
    params: Params
    # What a task's own code said, in whose place it answers; None: that code is run.
    recorded: Recorded | None = field(default=None, compare=False)

    @classmethod
    def open(cls, root: Path) -> Project:
        """Open the project at a folder.

        Raises:
            ConfigError: params.yaml is missing, unreadable or wrong.
        """
        raw = read_yaml(
            root / "params.yaml", fix="./run assay config use   (writes params.yaml from configs/)"
        )
        # A folder with nothing but params.yaml, such as an unpacked package, has its settings there and
        # nowhere else.
        return cls(root, parse_params(raw, None if (root / "configs").is_dir() else "params.yaml"))

    def results(self, name: str) -> Path:
        """Return the path of a file that a stage writes, in the folder of that stage
        (core/evidence_files.py)."""
        return self.root / place_of(name)

    def observed(self, name: str) -> Path:
        """Return the path of a file of evidence/observed/, where clocks and hardware go."""
        return self.root / OBSERVED / name

    @property
    def scratch(self) -> Path:
        """The folder of everything that is kept for later calls.

        Under DVC that of the repository it was called in: `dvc exp run --temp` and the queue run stages in a
        copy that is thrown away, and name the repository in DVC_ROOT.
        """
        return Path(os.environ.get("DVC_ROOT") or self.root) / ".scratch"

    def data(self, name: str) -> Path:
        """Return the path of a file of the chosen dataset."""
        return self.root / self.params.dataset.root / name
