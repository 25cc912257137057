"""Answers that outlive the process which asked: a line each, by the digest of the question."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType

from pydantic import ValidationError

from assay.core.errors import RecordError
from assay.core.storage.append_log import AppendLog, read_complete
from assay.core.storage.json import dumps
from assay.rollout.policy.served.client import ServedAnswer

FIX = "take the file from a copy, or move it away: all is then asked again"


class Journal:
    """A file of answers, open for writing; may be used by many threads of one process.

    Args:
        path: The file, a new one if there is none. A last line that a kill tore is cut off.

    Raises:
        RecordError: A complete line is no answer; nothing was changed.
    """

    def __init__(self, path: Path) -> None:
        self._log, self._lock = AppendLog.open(path), threading.Lock()
        self._answers: dict[str, ServedAnswer] = {}
        for number, row in enumerate(read_complete(path, fix=FIX), start=1):
            where = f"{path}, line {number}"
            try:
                answer = ServedAnswer.model_validate_json(dumps(row["answer"]))
                self._answers[str(row["key"])] = answer
            except (KeyError, TypeError, ValidationError):
                self._log.close()
                found = "something else"
                raise RecordError(
                    "a question's key and its answer", found=found, where=where, fix=FIX
                ) from None
        self.found = len(self._answers)  # of earlier calls

    def get(self, key: str) -> ServedAnswer | None:
        """Return the answer to a question, None if it was not asked yet."""
        with self._lock:
            return self._answers.get(key)

    def put(self, key: str, answer: ServedAnswer) -> None:
        """Keep an answer; it outlives this process when this returns."""
        with self._lock:
            self._log.append({"key": key, "answer": answer.model_dump()})
            self._answers[key] = answer

    def __enter__(self) -> Journal:
        """Return the journal itself, to be closed at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        with self._lock:
            self._log.close()
