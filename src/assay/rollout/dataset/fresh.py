"""A held-out suite that nobody can have looked at: drawn by what was planned and by the policy that came of
it, when both are fixed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from assay.core.errors import DataError
from assay.core.records import Record
from assay.core.seeds import rng
from assay.core.storage.files import read_bytes, sha256_bytes
from assay.core.storage.json import as_written
from assay.rollout.dataset.source import read_lines
from assay.rollout.dataset.wording import content_of
from assay.rollout.tasks.protocol import Task

FILE, HELDOUT = "fresh.json", "heldout.jsonl"
PLAN = "claim_plan.json"  # beside it: the plan by which the policy was trained, as it stood then
MARK = "-fresh-"
ROUNDS = 20  # of draws, for records of which none is there yet


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
    def former(self) -> str:
        """The file of the records that were held out before, without .jsonl."""
        return f"heldout_{self.number - 1}"

    def draw(self, task: Task, files: Mapping[str, bytes]) -> str | None:
        """Return the text of its heldout.jsonl: records like those held out before, none of which asks what
        another file asks; None where the task has no generator of such.

        Args:
            task: Generates.
            files: The folder's other files by name.

        Raises:
            DataError: So many cannot be had.
            EnvironmentLost: A generator of somebody's own gave no answer in time.
            TaskError: It failed.
        """
        rows = {name: _rows(content, name) for name, content in files.items() if name.endswith(".jsonl")}
        like, known = (
            rows[f"{self.former}.jsonl"],
            {content_of(row) for each in rows.values() for row in each},
        )
        found: list[Mapping[str, Any]] = []
        for again in range(ROUNDS):
            chances = rng("fresh", self.plan_digest, self.policy_digest, again)
            drawn = task.generate(like, chances, self.records - len(found))
            if drawn is None:
                return None
            for row in drawn:
                if (content := content_of(row)) not in known:
                    known.add(content)
                    found.append({"id": f"fresh-{len(found) + 1:05}", **row})
            if len(found) == self.records:
                return "".join(as_written(row) + "\n" for row in found)
        fix = "held-out records of your own that nobody has seen: put them in a new folder of data"
        expected = f"{self.records} new records, no two of one content"
        raise DataError(expected, found=f"{len(found)} in {ROUNDS} draws", where="the generator", fix=fix)

    def differs(self, task: Task, folder: Path) -> bool | None:
        """Return whether the held-out file in a folder is another than it draws; None where the task has no
        generator that would tell.

        Raises:
            RecordError: There is no such file.
        """
        fix = "restore the data"
        others = {path.name: read_bytes(path, fix=fix) for path in folder.glob("*.jsonl")}
        here = sha256_bytes(others.pop(HELDOUT, b""))
        if f"{self.former}.jsonl" not in others:
            return True
        text = self.draw(task, others)
        return None if text is None else not here == self.heldout_sha256 == sha256_bytes(text.encode())


def _rows(content: bytes, name: str) -> list[dict[str, Any]]:
    return [line.row for line in read_lines(content.split(b"\n"), where=name).lines]


def first_name(name: str) -> str:
    """Return what data were called before any fresh suite of them was drawn.

    >>> first_name("mine-fresh-2"), first_name("fresh-fish")
    ('mine', 'fresh-fish')
    """
    return re.sub(rf"{MARK}\d+$", "", name)
