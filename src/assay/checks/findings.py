"""What tools that look at a set-up say: one finding a check, told like an error, at one of four levels."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from assay.core.console import complain
from assay.core.counting import counted
from assay.core.errors import AssayError, TrainingError
from assay.core.records import Record

Level = Literal["ok", "note", "warning", "fault"]
LEVELS: tuple[Level, ...] = ("ok", "note", "warning", "fault")


class Finding(Record):
    """What one check found. A fault makes a training useless or ends it; a warning is to be known before it;
    a note says what could not be looked at, or is nothing to mend."""

    check: str = Field(description="short name of what was looked at")
    level: Level
    expected: str
    found: str
    where: str = Field(description="the setting, file or object concerned")
    fix: str = Field(description="what to change; empty where all is well")


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One thing that is looked at: its name, what it should be, and which setting or file says it."""

    name: str
    expected: str
    where: str

    def ok(self, found: str) -> Finding:
        """Return that it is as it should be."""
        return self._finding("ok", found, "")

    def note(self, found: str) -> Finding:
        """Return what is nothing to mend, but to be known."""
        return self._finding("note", found, "")

    def warning(self, found: str, fix: str) -> Finding:
        """Return that it is doubtful."""
        return self._finding("warning", found, fix)

    def fault(self, found: str, fix: str) -> Finding:
        """Return that a training cannot work so."""
        return self._finding("fault", found, fix)

    def judge(
        self, found: str, fix: str, *, fault: bool = False, doubtful: bool = False, ok: str = ""
    ) -> Finding:
        """Return a fault, a warning, or that all is well, told in the words `ok` where they are others."""
        if fault:
            return self.fault(found, fix)
        return self.warning(found, fix) if doubtful else self.ok(ok or found)

    def _finding(self, level: Level, found: str, fix: str) -> Finding:
        return Finding(
            check=self.name, level=level, expected=self.expected, found=found, where=self.where, fix=fix
        )


def verdict_of(findings: Sequence[Finding]) -> Level:
    """Return the worst level there is.

    >>> verdict_of([DoctorCheck("a", "x", "y").ok("z"), DoctorCheck("b", "x", "y").warning("z", "w")])
    'warning'
    """
    return max((finding.level for finding in findings), key=LEVELS.index, default="ok")


def refuse_faults(
    findings: Sequence[Finding],
    where: str = "the examination before the first step (health.preflight)",
    *,
    let_pass: Sequence[str] = (),
) -> None:
    """Return if there is no fault but those of looks that were answered for, which are said.

    Args:
        findings: What was found.
        where: Which look found it.
        let_pass: The checks whose faults are answered for (health.let_pass).

    Raises:
        TrainingError: There is one; tells all of them.
    """
    faults = [finding for finding in findings if finding.level == "fault"]
    for finding in (each for each in faults if each.check in let_pass):
        complain(f"let pass (health.let_pass): {in_words(finding)}")
    faults = [each for each in faults if each.check not in let_pass]
    if faults:
        answered = json.dumps([*let_pass, *dict.fromkeys(each.check for each in faults)])
        told = "; ".join(f"{each.check} ({each.where}): {each.found}" for each in faults)
        fixes = "\n  ".join(f"{each.check}: {each.fix}" for each in faults)
        raise TrainingError(
            "a set-up that can learn",
            found=f"{counted(len(faults), 'faults')}: {told}",
            where=where,
            fix=f"{fixes}\n  ./run assay doctor looks again; health.let_pass: {answered} trains all the same",
        )


def error_finding(check: str, error: AssayError) -> Finding:
    """Return an error that kept the rest from being looked at, as a fault."""
    return DoctorCheck(check, error.expected, error.where).fault(error.found, error.fix)


def in_words(finding: Finding) -> str:
    """Return a finding as an error would be told.

    >>> in_words(DoctorCheck("threads", "at most 2", "setting threads").warning("8", "threads: 2"))
    'WARNING threads: setting threads: expected at most 2, found 8.\\nFix: threads: 2'
    """
    head = (
        f"{finding.level.upper()} {finding.check}: {finding.where}: expected {finding.expected}, found"
        f" {finding.found}."
    )
    return f"{head}\nFix: {finding.fix}" if finding.fix else head


def explain(findings: Sequence[Finding]) -> list[str]:
    """Return findings as errors would be told; those that differ in their check alone are told once.

    >>> explain([DoctorCheck(name, "a look", "it").warning("no time", "wait") for name in ("a", "b")])
    ['WARNING a, b: it: expected a look, found no time.\\nFix: wait']
    """
    alike: dict[Finding, list[str]] = {}
    for finding in findings:
        alike.setdefault(finding.model_copy(update={"check": ""}), []).append(finding.check)
    return [in_words(each.model_copy(update={"check": ", ".join(checks)})) for each, checks in alike.items()]


# With the import of torch and the loading of a base before it, a whole call of the doctor stays under 110 s.
MOST_SECONDS = 85.0
AHEAD = 0.4  # of the time, for what is forecast before the base is played with
LEAST = 0.5 * MOST_SECONDS  # for the rest, however long the forecast and loading the base took


class TooSlow(Exception):
    """There is no time for what has to be done at least; says for what."""


class Deadline:
    """A time by which to be done.

    >>> ticks = iter([10.0, 14.0, 21.0])
    >>> deadline = Deadline(10.0, lambda: next(ticks))
    >>> deadline.left, deadline.left
    (6.0, 0.0)
    """

    def __init__(self, seconds: float = MOST_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin now; `clock` gives seconds."""
        self._clock, self._end = clock, clock() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self._end - self._clock())


def duration(seconds: float | None) -> str:
    """Return a time in words.

    >>> duration(5), duration(200), duration(7500), duration(None)
    ('5 s', '3 min 20 s', '2 h 05 min', 'missing')
    """
    if seconds is None or not 0 <= seconds < 1e12:
        return "missing"
    s = round(seconds)
    if s < 60:
        return f"{s} s"
    return f"{s // 60} min {s % 60:02} s" if s < 3600 else f"{s // 3600} h {s % 3600 // 60:02} min"
