"""Every opening of held-out records, by whom: kept beside the results, since how often something was done is
no result.

Two places know of an opening. The ledger in evidence/observed/ travels: with git, with a zip, with an
experiment. What a working copy opened itself it also remembers in .scratch/, which is in no clone and no zip,
and which `dvc exp run --temp` and the queue share with the folder they were called in. There the copy has a
random name too, so that a ledger tells what was opened here from what came along with the project, without a
word on who or where anybody is.

A suite is one way of asking records; another size, other draws or another grader ask the same ones, and a
copy under other ids is the same records. So an opening names the records themselves, by what they ask
(`content_of`), and what was seen is counted by record.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationError, model_validator

from assay.core.errors import RecordError
from assay.core.evidence_files import OBSERVED, scratch_of
from assay.core.provenance import committed_text
from assay.core.records import Record, Split
from assay.core.storage.files import read_text
from assay.core.storage.json import digest, read_record

FORMAT: Literal["assay-openings/3"] = "assay-openings/3"


class HeldoutOpening(Record):
    """One policy that was let loose on some records by one stage, in one working copy."""

    stage: str
    policy_digest: str
    suite_digest: str = Field(
        description="the suite in which they were asked; in older notes the first of several"
    )
    data: str = Field(description="what the data are called")
    split: Split = Field(description="where they stand there")
    records: str = Field(description="key of the records in `record_sets`")
    copy_id: str | None = Field(
        description="random name of the working copy in which it was noted; null: in a package"
    )
    times: int = Field(
        ge=1, description="calls that opened them; playing again with the same policy tells nothing new"
    )
    base: str | None = Field(
        default=None,
        description="digest of what the policy was trained from; of a base its own; null: not noted",
    )
    # Null in older notes.
    place: int | None = Field(
        default=None,
        ge=1,
        description="which look at any of these records it was, but for those at its own base; the"
        " first is 1",
    )
    recipe_place: int | None = Field(
        default=None, ge=1, description="the same with the seeds of one plan counted as one"
    )
    looks: int | None = Field(
        default=None, ge=1, description="policies that the plan lets see these records; null: any number"
    )
    called: bool | None = Field(
        default=None, description="whether its claim was called better at its level; null: none was made yet"
    )
    family: str | None = Field(default=None, description="digest of plan and settings but for the seed")
    seed: int | None = Field(default=None, ge=0, description="of the training")
    restored: int = Field(
        default=0, ge=0, description="trained policies that the file had lost when this was noted"
    )
    put_back: int = Field(
        default=0, ge=0, description="the same where git had put an older version of the file in its place"
    )

    @property
    def identity(self) -> tuple[str, ...]:
        """What makes it another opening: all but how often it was made. In another suite the same policy
        meets other luck."""
        # Neither place nor family: playing the same again, under whatever plan, is no other opening.
        where = (self.data, self.split, self.records, self.copy_id or "", self.suite_digest)
        return (self.stage, self.policy_digest, *where)


class HeldoutLedger(Record):
    """All openings, in an order that depends on nothing but them; each distinct set of records stands in it
    once."""

    format: Literal["assay-openings/3"]
    record_sets: dict[str, tuple[str, ...]] = Field(
        description="contents of records, sorted, by `key_of` them"
    )
    openings: tuple[HeldoutOpening, ...]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for key, records in self.record_sets.items():
            if key != key_of(records):
                raise ValueError(f"record_sets.{key}: other records than its key is made from")
        missing = {each.records for each in self.openings} - self.record_sets.keys()
        if missing:
            raise ValueError(f"record_sets: no {sorted(missing)[0]}, which an opening names")
        return self


NOTHING = HeldoutLedger(format=FORMAT, record_sets={}, openings=())


@dataclass(frozen=True, slots=True)
class SeenRecords:
    """What one policy saw of some records: how many of them, by which stages, noted in which working
    copies."""

    n_records: int
    stages: frozenset[str]
    copies: frozenset[str | None]


def key_of(records: Iterable[str]) -> str:
    """Return the name of a set of records, 32 hex digits, whatever their order."""
    return digest(sorted(set(records)))[:32]


def opened(
    stage: str,
    policy_digest: str,
    suite_digest: str,
    records: Iterable[str],
    *,
    data: str,
    split: Split,
    copy_id: str,
    base: str | None = None,
) -> HeldoutLedger:
    """Return the ledger that holds one opening of some records and nothing else."""
    known = tuple(sorted(set(records)))
    opening = HeldoutOpening(
        stage=stage,
        policy_digest=policy_digest,
        suite_digest=suite_digest,
        data=data,
        split=split,
        records=key_of(known),
        copy_id=copy_id,
        times=1,
        base=base,
    )
    return HeldoutLedger(format=FORMAT, record_sets={key_of(known): known}, openings=(opening,))


def noted(ledger: HeldoutLedger, one: HeldoutLedger) -> HeldoutLedger:
    """Return a ledger with the openings of another as made once more: one that is known is counted, not
    repeated."""
    before = {each.identity: each.times for each in ledger.openings}
    again = [
        each.model_copy(update={"times": each.times + before.get(each.identity, 0)}) for each in one.openings
    ]
    return merged(ledger, one.model_copy(update={"openings": tuple(again)}))


def merged(one: HeldoutLedger, other: HeldoutLedger) -> HeldoutLedger:
    """Return what either ledger knows. In whatever order and however often ledgers are merged, the result is
    the same."""
    known: dict[tuple[str, ...], HeldoutOpening] = {}
    for each in (*one.openings, *other.openings):
        held = known.setdefault(each.identity, each)
        first = min(held, each, key=_told_first)
        update = {
            "times": max(held.times, each.times),
            "base": held.base or each.base,
            "restored": max(held.restored, each.restored),
            "put_back": max(held.put_back, each.put_back),
            "called": _called(held.called, each.called),
        }
        known[each.identity] = first.model_copy(update=update)
    named = {each.records for each in known.values()}
    sets = {key: records for key, records in (one.record_sets | other.record_sets).items() if key in named}
    openings = tuple(known[identity] for identity in sorted(known))
    return HeldoutLedger(format=FORMAT, record_sets=dict(sorted(sets.items())), openings=openings)


def _told_first(each: HeldoutOpening) -> tuple[int, int, str, int, int]:
    """Order notes of one opening: the first place counts, and a note without one tells nothing."""
    many = 10**9
    seed = many if each.seed is None else each.seed
    return each.place or many, each.recipe_place or many, each.family or "~", seed, each.looks or many


def _called(one: bool | None, other: bool | None) -> bool | None:
    """Return whether a look was called better, as far as two notes know it: not, where they differ."""
    known = [each for each in (one, other) if each is not None]
    return all(known) if known else None


def policies_that_saw(ledger: HeldoutLedger, records: Collection[str]) -> dict[str, SeenRecords]:
    """Return every policy that saw at least one of some records, and what it saw of them."""
    asked = frozenset(records)
    overlap = {key: asked & frozenset(held) for key, held in ledger.record_sets.items()}
    parts: dict[str, tuple[set[str], set[str], set[str | None]]] = {}
    for each in ledger.openings:
        if overlap[each.records]:
            seen, stages, copies = parts.setdefault(each.policy_digest, (set(), set(), set()))
            seen |= overlap[each.records]
            stages.add(each.stage)
            copies.add(each.copy_id)
    return {
        policy: SeenRecords(len(seen), frozenset(stages), frozenset(copies))
        for policy, (seen, stages, copies) in sorted(parts.items())
    }


def is_held_out(ledger: HeldoutLedger, records: Collection[str]) -> bool:
    """Return whether any of some records was opened as held out, or as part of a secondary suite."""
    asked = frozenset(records)
    return any(
        each.split in ("heldout", "secondary") and not asked.isdisjoint(ledger.record_sets[each.records])
        for each in ledger.openings
    )


def policies_noted(
    ledger: HeldoutLedger, records: Collection[str], policy_digest: str
) -> list[HeldoutOpening]:
    """Return the openings of at least one of some records for a policy."""
    asked = frozenset(records)
    return [
        each
        for each in ledger.openings
        if each.policy_digest == policy_digest and not asked.isdisjoint(ledger.record_sets[each.records])
    ]


LEDGER = "heldout_openings.json"
MEMORY, NAME = "openings", "copy_id"
FIX = (
    "git checkout -- evidence/observed, or remove the file: the count then begins anew, and the report"
    " says so"
)
OWN_FIX = "remove the file: evidence/observed has the same, unless that was removed as well"


def openings(root: Path) -> HeldoutLedger | None:
    """Return all openings that are known here: by the ledger, by its last commit, and by this working copy;
    None where none of them knows any.

    Raises:
        RecordError: The ledger is damaged.
    """
    sources = [travelling(root), _remembered(root), _committed(root)]
    known = [source for source in sources if source is not None]
    return reduce(merged, known, NOTHING) if known else None


def ledger_stands(root: Path) -> bool:
    """Return whether the ledger that travels is there."""
    return (root / OBSERVED / LEDGER).exists()


def copy_id(root: Path) -> str:
    """Return the random name of this working copy, given to it when it first opens anything.

    Raises:
        RecordError: .scratch/ cannot be written.
    """
    path = memory(root) / NAME
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
    return known_copy_id(root) or ""


def known_copy_id(root: Path) -> str | None:
    """Return the random name of this working copy, None where it never opened anything."""
    path = memory(root) / NAME
    return read_text(path, fix=OWN_FIX).strip() if path.exists() else None


def memory(root: Path) -> Path:
    """Return the folder in which a working copy remembers what it opened itself."""
    return scratch_of(root) / MEMORY


def _remembered(root: Path) -> HeldoutLedger | None:
    files = sorted(memory(root).glob("*.json"))
    found = NOTHING
    for path in files:
        found = merged(found, read_record(path, HeldoutLedger, fix=OWN_FIX))
    return found if files else None


def _committed(root: Path) -> HeldoutLedger | None:
    """Return the ledger as it was last committed, so that removing the file loses nothing; None without
    git."""
    text = committed_text(root, f"{OBSERVED}/{LEDGER}")
    if text is None:
        return None
    with suppress(ValidationError):
        return HeldoutLedger.model_validate_json(text)
    return None  # of an older format, or damaged: the file beside it has to do


def travelling(root: Path) -> HeldoutLedger | None:
    """Return the ledger in evidence/observed/, None where there is none.

    Raises:
        RecordError: It is damaged, or of another format.
    """
    path = root / OBSERVED / LEDGER
    return read_record(path, HeldoutLedger, fix=FIX) if path.exists() else None
