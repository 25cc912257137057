"""The checkpoints of a sweep as policies, one after another: checked, written into a folder of their own,
loaded."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch

from assay.core.errors import AssayError, DataError, PolicyError, RecordError
from assay.core.storage.files import write_bytes
from assay.pipeline.policies import open_policy
from assay.pipeline.project import Project
from assay.policy.base.adapter_files import check_fits, checked_tensors, read_adapter
from assay.policy.model import Policy
from assay.tools.sweep.sources import Candidate, Source
from assay.training.adapter import Tensors, adapter_config, adapter_tensors, attach_adapter
from assay.training.checkpoints.of_run import ADAPTER, adapter_files, checkpoint_of
from assay.training.checkpoints.store import Checkpoint

# How one and the same base may be called: by the folder of the pipeline, by what it was pinned from, or by
# its own folder.
BASE = "models/base"


class Adapters:
    """Opens one checkpoint after another on the base of a project.

    Args:
        project: Whose base it is.
        source: Where they come from.
        scratch: A folder for the adapter at work. Only what was read and found fit lies there, so nothing
            else of a foreign folder (optimizer states are pickles) is ever opened, and nothing changes
            between check and load.
    """

    def __init__(self, project: Project, source: Source, scratch: Path) -> None:
        self._project, self._source, self._scratch = project, source, scratch
        self._config: dict[str, Any] = {}
        self._pattern: Tensors = {}
        self._named: set[str] = set()

    def unfit(self, model: Any) -> list[tuple[Candidate, AssayError]]:
        """Return the candidates that cannot be played on a base, each with the reason. Nothing is changed.

        Args:
            model: The base.
        """
        found: list[tuple[Candidate, AssayError]] = []
        for candidate in self._source.candidates:
            where = str(candidate.folder)
            try:
                if candidate.ours:  # the run's key says that the base is the same, and `open` compares shapes
                    checked_tensors(self._checkpoint(candidate.folder).read(ADAPTER), where)
                else:
                    files = read_adapter(candidate.folder, candidate.root)
                    check_fits(model, files, where)
                    self._note_name(candidate, files.base_name)
            except (PolicyError, DataError, RecordError) as error:
                found.append((candidate, error))
        return found

    def learn(self, base: Policy) -> None:
        """Take the shape of a run's adapters from its base, which is not to be played again: it gets one.

        Raises:
            PolicyError: The run's step 0 is not its base.
        """
        facts = self._source.facts
        if facts is None:
            return
        params = self._project.params
        settings = params.train.model_copy(update={"lora": facts.lora()})
        attached = attach_adapter(base, params.model_copy(update={"train": settings}))
        self._config, self._pattern = adapter_config(attached), adapter_tensors(attached)

    def check_beginning(self) -> None:
        """Refuse a run whose step 0 is kept and is not the base itself.

        Raises:
            PolicyError: Its adapter changes the base.
        """
        if self._source.beginning is None:
            return
        begun = self._checkpoint(self._source.beginning)
        tensors = checked_tensors(begun.read(ADAPTER), str(begun.folder))
        if any(bool(torch.count_nonzero(tensor)) for name, tensor in tensors.items() if ".lora_B." in name):
            found, fix = "an adapter that changes it", "take another run folder"
            raise PolicyError("the base itself at step 0", found=found, where=str(begun.folder), fix=fix)

    def _checkpoint(self, folder: Path) -> Checkpoint:
        assert self._source.facts is not None, "a checkpoint of ours lies in a run folder, which has a key"
        return checkpoint_of(folder, self._source.facts.digest)

    def open(self, candidate: Candidate) -> Policy:
        """Return the base under one checkpoint.

        Raises:
            AssayError: The checkpoint changed since it was looked at, or does not fit.
        """
        if candidate.ours:
            files = adapter_files(self._checkpoint(candidate.folder), self._config, self._pattern)
        else:
            files = read_adapter(candidate.folder, candidate.root).named()
        shutil.rmtree(self._scratch, ignore_errors=True)
        for name, content in files.items():
            write_bytes(self._scratch / name, content)
        return open_policy(self._project, self._scratch)

    def _note_name(self, candidate: Candidate, name: str | None) -> None:
        """Note once of which base an adapter claims to be, where that is not plainly ours: shapes alone do
        not tell."""
        own = {BASE, getattr(self._project.params.base, "model", BASE)}
        if name is not None and name not in own and name not in self._named:
            self._named.add(name)
            note = (
                f"{candidate.name} names the base {name[:120]!r}; it is played on {BASE} of this project,"
                " whose layers fit."
            )
            self._source.notes.append(note)
