"""Where two trainings part: the first step, and in it the first link of cause and effect, that is not the
same.

Each row of train_log.jsonl carries the sha256 of what its step went through, in causal order, and a chain
over all rows so far, their logged numbers included. So two runs with equal last chains were equal throughout,
and the first unequal link is where the cause has to be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.errors import RecordError
from assay.core.storage.json import digest

LINKS = ("prompts", "completions", "rewards", "gradients", "weights")
START = "0" * 64
_HEX = re.compile(r"[0-9a-f]{64}")
_FIX = "compare logs as the training wrote them; one that was edited or cut says nothing about its run"
_NO_NUMBERS = frozenset({"step", "digests", "chain", "item_ids", "components", "signals", "fields", "window"})
# A call to an environment that had to be made again is an accident: it changes nothing that a step is made
# of.
NOT_CHAINED = ("chain", "retries")

Row = Mapping[str, Any]


def chain_of(previous: str, row: Row) -> str:
    """Return the chain of a step: one hexadecimal sha256 that depends on every value of this and every
    earlier row.

    Args:
        previous: The chain of the step before, START for the first.
        row: What was logged of the step; NOT_CHAINED is left out, so the row may hold its chain already.

    >>> first = chain_of(START, {"step": 1, "loss": 0.5})
    >>> first == chain_of(START, {"step": 1, "loss": 0.5, "chain": first, "retries": 2})
    True
    >>> first == chain_of(START, {"step": 1, "loss": 0.25})
    False
    """
    return digest([previous, {name: value for name, value in row.items() if name not in NOT_CHAINED}])


@dataclass(frozen=True, slots=True)
class Numbers:
    """The first logged number that differs, None where a run did not log it, and how many others do at that
    step."""

    step: int
    name: str
    values: tuple[Any, Any]
    others: int


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two runs part. Pairs are of the first run and the second.

    `link` is the first of LINKS that differs, None where one run has no such step; then its digest is None.
    """

    step: int
    link: str | None
    digests: tuple[str | None, str | None]
    n_steps: tuple[int, int]
    item_ids: tuple[tuple[str, ...], tuple[str, ...]]
    numbers: Numbers | None

    @property
    def still_equal(self) -> tuple[str, ...]:
        """The links of this step before the first that differs."""
        return () if self.link is None else LINKS[: LINKS.index(self.link)]


def first_difference(
    a: Sequence[Row], b: Sequence[Row], names: tuple[str, str] = ("A", "B")
) -> Difference | None:
    """Return where two runs part, None if every link of every step is the same.

    Args:
        a: Rows of one log, oldest first.
        b: Rows of the other.
        names: What to call the logs in messages.

    Raises:
        RecordError: A log is not a whole one: a row lacks what it must have, or does not follow from the one
            before.
    """
    for rows, name in zip((a, b), names, strict=True):
        check_chain(rows, name)
    n_steps = (len(a), len(b))
    for one, other in zip(a, b, strict=False):
        for link in LINKS:
            digests = (one["digests"][link], other["digests"][link])
            if digests[0] != digests[1]:
                return Difference(
                    one["step"], link, digests, n_steps, (_items(one), _items(other)), first_numbers(a, b)
                )
    if len(a) == len(b):
        return None
    shorter, row = min(n_steps), max(a, b, key=len)[min(n_steps)]
    ends = _items(row)
    item_ids = ((), ends) if len(a) == shorter else (ends, ())
    return Difference(shorter + 1, None, (None, None), n_steps, item_ids, first_numbers(a, b))


def first_numbers(a: Sequence[Row], b: Sequence[Row]) -> Numbers | None:
    """Return the first other logged number that is not the same in both, by step and name; None if there is
    none.

    >>> first_numbers([{"step": 1, "loss": 0.5}], [{"step": 1, "loss": 0.25}]).values
    (0.5, 0.25)
    """
    for one, other in zip(a, b, strict=False):
        names = sorted((set(one) | set(other)) - _NO_NUMBERS)
        odd = [name for name in names if one.get(name) != other.get(name)]
        if odd:
            return Numbers(one["step"], odd[0], (one.get(odd[0]), other.get(odd[0])), len(odd) - 1)
    return None


def check_chain(rows: Sequence[Row], name: str) -> None:
    """Refuse a log whose rows are not its steps 1, 2, 3, ... each with a chain that follows from the one
    before.

    Raises:
        RecordError: A row has no digests, another step than its place says, or was changed after it was
            written.
    """
    previous = START
    for number, row in enumerate(rows, start=1):
        where = f"row {number} of {name}"
        step = row.get("step") if isinstance(row, Mapping) else None
        if type(step) is not int or step != number:
            raise RecordError(f"step {number}", found=repr(step)[:80], where=where, fix=_FIX)
        digests, chain = row.get("digests"), row.get("chain")
        if digests is None or chain is None:
            fix = "train again: this log was written before steps had digests"
            raise RecordError("digests and a chain", found="none", where=where, fix=fix)
        if not (
            isinstance(digests, Mapping)
            and set(digests) == set(LINKS)
            and all(map(_is_digest, digests.values()))
        ):
            found = repr(digests)[:80]
            raise RecordError(
                f"one sha256 each of {', '.join(LINKS)}", found=found, where=f"{where}, digests", fix=_FIX
            )
        expected = chain_of(previous, row)
        if chain != expected:
            before = f"row {number - 1}" if number > 1 else "the start"
            told = f"{where} does not follow from {before}"
            raise RecordError(f"chain {expected[:12]}…", found=f"{str(chain)[:12]}…", where=told, fix=_FIX)
        previous = expected


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and _HEX.fullmatch(value) is not None


def _items(row: Row) -> tuple[str, ...]:
    found = row.get("item_ids")
    return tuple(map(str, found)) if isinstance(found, Sequence) and not isinstance(found, str) else ()
