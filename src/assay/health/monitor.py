"""The rules of training health on a log that is written, or on one that grows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.core.errors import DataError
from assay.core.records import HEALTH_LEVELS, HealthLevel
from assay.health.logs.judging import judge_log
from assay.health.logs.means import read_means
from assay.health.logs.reading import RawLog, make_log, read_foreign, read_record
from assay.health.logs.records import JudgedLog, LogFinding
from assay.rollout.tables.columns import Columns

GROWTH = 1.05  # of the records: no rule is read again before there are so many times as many


def examine(source: str | Path, *, columns: Mapping[str, str] | None = None) -> JudgedLog:
    """Return what the rules say of a log: `.worst`, `.findings`, and `.unmeasured` with what each rule lacks.

    Args:
        source: What TRL, verl, prime-rl, OpenRLHF, ms-swift, W&B or a console wrote: a file or a folder.
        columns: Which column is what, such as `{"step": "update", "score": "return"}`.

    Raises:
        DataError: The log cannot be read; says what would have it read.
    """
    return judge_log(read_foreign(Path(source), Columns.read(columns)))


class Monitor:
    """The log of a training that still runs.

    Args:
        columns: Which column is what; others are told by the names that trainers use.
    """

    def __init__(self, *, columns: Mapping[str, str] | None = None) -> None:
        self._columns = Columns.read(columns)
        self._raw = RawLog()
        self._known: dict[str, HealthLevel] = {}
        self._judged_at = 0

    def add(self, record: Mapping[str, Any], step: int | None = None) -> None:
        """Take up the means of a step, or one completion with its reward.

        Args:
            record: Values by name; numbers may be those of numpy or torch.
            step: Of the record, where it does not say it itself.

        Raises:
            DataError: The record has no step that is a whole number, and none is given.
        """
        step = _as_plain(step)
        told = {} if step is None else {"step": step}
        told |= {name: _as_plain(value) for name, value in record.items()}
        where, rows = f"record {self._size() + 1}", self._raw.rows
        n = len(rows)
        read_record(told, step, where, self._columns, self._raw)
        try:
            read_means(rows[n:], self._columns, where)
        except DataError:
            del rows[n:]  # later ones can still be read
            raise

    def health(self) -> JudgedLog | None:
        """Return what all rules say of the log so far; None while nothing in it can be read."""
        try:
            return judge_log(make_log(self._raw, self._columns, "the log"))
        except DataError:
            return None

    def new_alarms(self, *, at_once: bool = True) -> list[LogFinding]:
        """Return the rules that rang, or got worse, since this was last asked.

        Args:
            at_once: False: only where the log grew by a twentieth, so that all asking together costs no more
                than twenty readings of the whole.
        """
        if not at_once and self._size() < GROWTH * self._judged_at:
            return []
        self._judged_at = self._size()
        health = self.health()
        worse = [each for each in ([] if health is None else health.findings) if self._is_worse(each)]
        self._known |= {each.rule: each.level for each in worse}
        return worse

    def _is_worse(self, each: LogFinding) -> bool:
        known = self._known.get(each.rule, "GREEN")
        return HEALTH_LEVELS.index(each.level) > HEALTH_LEVELS.index(known)

    def _size(self) -> int:
        return len(self._raw.rows) + len(self._raw.completions)


def _as_plain(value: Any) -> Any:
    """Return a scalar of numpy or torch as a plain number; all else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 else value
