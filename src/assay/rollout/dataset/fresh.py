"""A held-out suite that nobody can have looked at: drawn by what was planned and by the policy that came of
it, when both are fixed."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import Field

from assay.core.config.tasks import TaskSettings
from assay.core.records import Record
from assay.core.storage.files import read_bytes, sha256_bytes
from assay.core.storage.json import digest

FILE = "fresh.json"
MARK = "-fresh-"


class FreshSuite(Record):
    """What the heldout.jsonl beside it was drawn by; fresh.json in a folder of data."""

    number: int = Field(
        ge=1, description="of the fresh suites that were drawn in the project, the first is 1"
    )
    plan_digest: str = Field(description="of the plan by which the policy was trained")
    policy_digest: str = Field(description="of the trained policy, which this suite is for")
    records: int = Field(ge=1)
    heldout_sha256: str = Field(description="of heldout.jsonl")

    @property
    def label(self) -> str:
        """What its records are drawn by."""
        return digest([self.plan_digest, self.policy_digest])

    def differs(self, task: TaskSettings, folder: Path) -> bool | None:
        """Return whether the held-out file in a folder is another than it draws; None where the task has no
        generator that would tell.

        Raises:
            RecordError: There is no such file.
        """
        here = sha256_bytes(read_bytes(folder / "heldout.jsonl", fix="restore the data"))
        text = task.fresh_heldout(self.label, self.records)
        if text is None:
            return None
        return not here == self.heldout_sha256 == sha256_bytes(text.encode())


def first_name(name: str) -> str:
    """Return what data were called before any fresh suite of them was drawn.

    >>> first_name("mine-fresh-2"), first_name("fresh-fish")
    ('mine', 'fresh-fish')
    """
    return re.sub(rf"{MARK}\d+$", "", name)
