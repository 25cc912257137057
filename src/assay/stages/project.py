"""What every stage starts from: a project root and its settings. Stages name files relative to the root."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assay.config.reading import parse_params
from assay.config.settings import Params
from assay.storage.yaml import read_yaml

RESULTS = "evidence/results"
OBSERVED = "evidence/observed"


@dataclass(frozen=True)
class Project:
    """A checkout of the pipeline; stages name files relative to it."""

    root: Path
    params: Params

    @classmethod
    def open(cls, root: Path) -> Project:
        """Open the project at a folder.

        Raises:
            ConfigError: params.yaml is missing, unreadable or wrong.
        """
        raw = read_yaml(root / "params.yaml", fix="./run assay config use   (writes params.yaml from configs/)")
        # A folder with nothing but params.yaml, such as an unpacked package, has its settings there and nowhere else.
        return cls(root, parse_params(raw, None if (root / "configs").is_dir() else "params.yaml"))

    def results(self, name: str) -> Path:
        """Return the path of a file of evidence/results/."""
        return self.root / RESULTS / name

    def observed(self, name: str) -> Path:
        """Return the path of a file of evidence/observed/, where clocks and hardware go."""
        return self.root / OBSERVED / name

    def data(self, name: str) -> Path:
        """Return the path of a file of the chosen dataset."""
        return self.root / self.params.dataset.root / name
