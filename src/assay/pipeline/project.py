"""The handle of commands and stages: a project root and its settings. They find its files by it, and read its
inputs; what they call takes those values and paths."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from assay.core.config.reading import parse_params
from assay.core.config.settings import Params
from assay.core.evidence_files import OBSERVED, place_of, scratch_of
from assay.core.storage.yaml import read_yaml

if TYPE_CHECKING:
    from assay.pipeline.inputs import Inputs, Part
    from assay.rollout.tasks.own.recorded import Recorded
    from assay.rollout.tasks.protocol import Item, Task


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
        """The folder of everything that is kept for later calls."""
        return scratch_of(self.root)

    def data(self, name: str) -> Path:
        """Return the path of a file of the chosen dataset."""
        return self.root / self.params.dataset.root / name

    def task(self, *, shaping: bool = False) -> Task:
        """Return the chosen task, as `inputs.read_task` does."""
        from assay.pipeline.inputs import read_task

        return read_task(self.root, self.params, shaping=shaping, recorded=self.recorded)

    def items(self, split: str) -> list[Item]:
        """Read the items of a data file, as `inputs.read_items` does."""
        from assay.pipeline.inputs import read_items

        return read_items(self.root, self.params, self.task(), split)

    def inputs(self, *parts: Part) -> Inputs:
        """Read what a stage computes from, as `inputs.read_inputs` does: at every call anew."""
        from assay.pipeline.inputs import read_inputs

        return read_inputs(self.root, self.params, *parts, recorded=self.recorded)
