"""The lines of somebody's log: each one whole, or refused with its number, or counted if that was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from assay.errors import RecordError
from assay.records import HealthEvent
from assay.storage.foreign import read_capped
from assay.storage.json import loads

MAX_BYTES = 1 << 30
FIX = "take the file from a copy; --skip-damaged leaves such lines out and counts them"


class Damage(Exception):
    """A line that cannot be used, and why."""

    @classmethod
    def of(cls, error: ValidationError) -> Damage:
        """Return what a record lacks, in one line."""
        first = error.errors()[0]
        return cls(f"{'.'.join(str(step) for step in first['loc'])}: {first['msg']}"[:200])


@dataclass(slots=True)
class Reader:
    """Refuses the first damaged line of a file, or collects all of them with their reasons."""

    label: str
    skip: bool
    left_out: list[tuple[int, str]] = field(default_factory=list)
    n_lines: int = 0

    def damaged(self, number: int, reason: object, expected: str) -> None:
        """Say that a line is damaged.

        Raises:
            RecordError: None may be skipped.
        """
        if not self.skip:
            raise RecordError(expected, found=str(reason), where=f"{self.label}:{number}", fix=FIX)
        self.left_out.append((number, str(reason)))

    def lines(self, path: Path) -> Iterator[tuple[int, str]]:
        r"""Yield (number, text) of every line that a \n ends and that is not blank.

        Raises:
            RecordError: A line is no UTF-8, or the last one has no end, and none may be skipped.
            DataError: There is no such regular file, or it is beyond all sense.
        """
        *whole, rest = read_capped(path, max_bytes=MAX_BYTES, fix="name the logs themselves").split(b"\n")
        self.n_lines = sum(1 for line in whole if line.strip()) + bool(rest)
        for number, line in enumerate(whole, start=1):
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                self.damaged(number, f"not UTF-8: {error.reason}", "UTF-8 text")
                continue
            if text.strip():
                yield number, text
        if rest:
            self.damaged(len(whole) + 1, "one that is cut off", "a last line with its end")


def json_object(text: str) -> dict[str, Any]:
    """Return the object of a line of strict JSON.

    Raises:
        Damage: It is no strict JSON, or no object.
    """
    try:
        value = loads(text, where="", fix="")
    except RecordError as error:
        raise Damage(error.found) from None
    if not isinstance(value, dict):
        raise Damage("no JSON object")
    return value


def read_health(path: Path, *, skip_damaged: bool) -> tuple[list[HealthEvent], Reader]:
    """Return the alarms of a health.jsonl, oldest first, and the reader that knows what was left out.

    Raises:
        RecordError: A line is no alarm, or its step is before that of the line above, and none may be skipped.
        DataError: It is no regular file.
    """
    reader = Reader(str(path), skip_damaged)
    events: list[HealthEvent] = []
    for number, line in reader.lines(path):
        try:
            json_object(line)
            event = HealthEvent.model_validate_json(line)
        except Damage as error:
            reader.damaged(number, error, "an alarm of a training")
            continue
        except ValidationError as error:
            reader.damaged(number, Damage.of(error), "an alarm of a training")
            continue
        if events and event.step < events[-1].step:
            reader.damaged(number, f"step {event.step} after step {events[-1].step}", f"step {events[-1].step} or later")
        else:
            events.append(event)
    return events, reader
