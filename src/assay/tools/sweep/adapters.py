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
from assay.tools.sweep.sources import Candidate, SweepSource
from assay.training.adapter import Tensors, adapter_config, adapter_tensors, attach_adapter
from assay.training.checkpoints.of_run import ADAPTER, adapter_files, checkpoint_of
from assay.training.checkpoints.store import Checkpoint

BASE = "models/base"  # how an adapter of the pipeline calls its base


class Adapters:
    """Opens one checkpoint after another on the base of a project.

    Args:
        project: Whose base it is.
        source: Where they come from.
        scratch: A folder for the adapter at work. Only what was read and found fit lies there, so nothing
            else of a foreign folder (optimizer states are pickles) is ever opened, and nothing changes
            between check and load.
    """

    def __init__(self, project: Project, source: SweepSource, scratch: Path) -> None:
        self._project, self._source, self._scratch = project, source, scratch
        self._config: dict[str, Any] = {}
        self._pattern: Tensors = {}
        # Names of the base that need no note: the pipeline's, what it was pinned from, and those noted.
        self._named = {BASE, getattr(project.params.base, "model", BASE), None}

    def find_unfit(self, model: Any) -> list[tuple[Candidate, AssayError]]:
        """Return the candidates that cannot be played on a base, each with the reason. Nothing is changed."""
        found: list[tuple[Candidate, AssayError]] = []
        for candidate in self._source.candidates:
            where = str(candidate.folder)
            try:
                if candidate.ours:  # the run's key says that the base is the same, and `open` compares shapes
                    checked_tensors(self._checkpoint(candidate.folder).read(ADAPTER), where)
                    continue
                files = read_adapter(candidate.folder, candidate.root)
                check_fits(model, files, where)
            except (PolicyError, DataError, RecordError) as error:
                found.append((candidate, error))
                continue
            if files.base_name not in self._named:  # shapes alone do not tell whose base it is
                self._named.add(files.base_name)
                named = f"{candidate.name} names the base {str(files.base_name)[:120]!r}"
                note = f"{named}; it is played on {BASE} of this project, whose layers fit."
                self._source.notes.append(note)
        return found

    def learn_shape(self, base: Policy) -> None:
        """Take the shape of a run's adapters from its base, which is not to be played again: it gets one."""
        facts, params = self._source.facts, self._project.params
        if facts is not None:
            settings = params.train.model_copy(update={"lora": facts.lora()})
            attached = attach_adapter(base, params.model_copy(update={"train": settings}))
            self._config, self._pattern = adapter_config(attached), adapter_tensors(attached)

    def check_beginning(self) -> None:
        """Refuse a run whose step 0 is kept and is not the base itself, with a PolicyError."""
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
