"""Every opening of held-out records, by whom: kept beside the results, since how often something was done is
no result.

Two places know of an opening. The ledger in evidence/observed/ travels: with git, with a zip, with an
experiment. What a working copy opened itself it also remembers in .scratch/, which is in no clone and no zip,
and which `dvc exp run --temp` and the queue share with the folder they were called in. There the copy has a
random name too, so that a ledger tells what was opened here from what came along with the project, without a
word on who or where anybody is.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection
from pathlib import Path

from pydantic import Field

from assay.core.errors import RecordError
from assay.core.records import Record, Split
from assay.core.storage.files import read_text
from assay.core.storage.json import digest, loads, read_record, write_json
from assay.dataset.suite import Suite
from assay.pipeline.openings import FORMAT, NOTHING, Ledger, Opening, merged, noted, opened, resolved
from assay.pipeline.project import Project

LEDGER = "heldout_openings.json"
MEMORY, NAME = "openings", "copy_id"
FIX = (
    "git checkout -- evidence/observed, or remove the file: the count then begins anew, and the report"
    " says so"
)
OWN_FIX = "remove the file: evidence/observed has the same, unless that was removed as well"


class FirstOpening(Record):
    """An opening as the first format had it: the suite by a digest without task and data."""

    stage: str
    suite_digest: str
    policy_digest: str
    times: int = Field(ge=1)


class FirstLedger(Record):
    """The first format."""

    openings: tuple[FirstOpening, ...]


def openings(project: Project, suite: Suite | None = None) -> Ledger | None:
    """Return all openings that are known here, None where there is no ledger and this working copy remembers
    none.

    Args:
        project: Whose.
        suite: The held-out suite at hand, by which openings of the first format are recognised.

    Raises:
        RecordError: The ledger is damaged.
    """
    kept, own = _travelling(project), _remembered(project)
    if kept is None and own is None:
        return None
    known = merged(kept or NOTHING, own or NOTHING)
    return known if suite is None else resolved(known, suite, project.params.dataset.name)


def ledger_stands(project: Project) -> bool:
    """Return whether the ledger that travels is there."""
    return project.observed(LEDGER).exists()


def note_opening(
    project: Project,
    stage: str,
    suite: Suite,
    policy_digest: str,
    *,
    records: Collection[str] | None = None,
    split: Split | None = None,
) -> None:
    """Write down an opening before it happens, so that one which was broken off counts as well.

    Args:
        project: Whose.
        stage: Who opens.
        suite: What is played.
        policy_digest: Who plays.
        records: Those of the suite that are held out; all of them if not given.
        split: Where they stand, if not in that of the suite.

    Raises:
        RecordError: The ledger is damaged.
    """
    where = split or suite.split
    one = opened(
        stage,
        policy_digest,
        suite.digest,
        suite.records if records is None else records,
        data=project.params.dataset.name,
        split=where,
        copy_id=copy_id(project),
    )
    known = openings(project, suite if where == "heldout" else None) or NOTHING
    now = noted(known, one)
    identity = one.openings[0].identity
    own = one.model_copy(
        update={"openings": tuple(each for each in now.openings if each.identity == identity)}
    )
    # A file an opening, so that several processes at a time lose nothing of each other.
    write_json(_memory(project) / f"{digest(identity)[:16]}.json", own)
    write_json(project.observed(LEDGER), now)


def copy_id(project: Project) -> str:
    """Return the random name of this working copy, given to it when it first opens anything.

    Raises:
        RecordError: .scratch/ cannot be written.
    """
    path = _memory(project) / NAME
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w", encoding="ascii"
        ) as stream:
            stream.write(secrets.token_hex(8))
    except FileExistsError:
        pass
    except OSError as error:
        fix = "make the folder writable; nothing was opened"
        raise RecordError(
            "a folder to write in", found=str(error.strerror), where=str(path.parent), fix=fix
        ) from None
    return known_copy_id(project) or ""


def known_copy_id(project: Project) -> str | None:
    """Return the random name of this working copy, None where it never opened anything."""
    path = _memory(project) / NAME
    return read_text(path, fix=OWN_FIX).strip() if path.exists() else None


def _memory(project: Project) -> Path:
    return project.scratch / MEMORY


def _remembered(project: Project) -> Ledger | None:
    files = sorted(_memory(project).glob("*.json"))
    found = NOTHING
    for path in files:
        found = merged(found, read_record(path, Ledger, fix=OWN_FIX))
    return found if files else None


def _travelling(project: Project) -> Ledger | None:
    path = project.observed(LEDGER)
    if not path.exists():
        return None
    value = loads(read_text(path, fix=FIX), where=str(path), fix=FIX)
    if isinstance(value, dict) and "format" in value:
        return read_record(path, Ledger, fix=FIX)
    nobody_knows = {"data": None, "split": None, "records": None, "copy_id": None}
    first = [
        Opening(
            stage=each.stage,
            policy_digest=each.policy_digest,
            suite_digest=each.suite_digest,
            times=each.times,
            **nobody_knows,
        )
        for each in read_record(path, FirstLedger, fix=FIX).openings
    ]
    return merged(NOTHING, Ledger(format=FORMAT, record_sets={}, openings=tuple(first)))
