"""What a check of a package found: one line each, and all of them as verify.json."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from assay.core.config.places import located
from assay.core.console import quietly
from assay.core.errors import AssayError, EnvironmentFailure
from assay.core.records import Record

Level = Literal["V0", "V1", "V2", "V3", "V4", "V5"]
# not checked: it could have been, and was not; not shown: nothing in a package of this kind can show it; not
# asked: an option of `assay verify` would look at it.
Outcome = Literal["passed", "failed", "not checked", "not shown", "not asked"]
Verdict = Literal["passed", "origin not shown", "not checked", "failed"]
MEANING: dict[Level, str] = {
    "V0": "files",
    "V1": "numbers",
    "V2": "grading",
    "V3": "consistency",
    "V4": "play again",
    "V5": "train again",
}
HOLDS = "its numbers follow from its raw results"
NO_ORIGIN = "ORIGIN NOT SHOWN"
ANYBODY = "whoever wrote those can have written all of it"
CODES: dict[Verdict, int] = {"passed": 0, "failed": 1, "origin not shown": 9, "not checked": 10}
ORIGIN = ("digest", "signature")  # of V0: either shows from whom a package is
REMEDY = "check with the version that made the package, or with --other-code, which lets the numbers judge"
# What a stranger's file can make of code that was written for ours: all of it says that the file is not what
# it should be.
UNUSABLE = (
    AssayError,
    EnvironmentFailure,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)
SHOWN = 3  # faults that a check names before it only counts
MAX_CHARS = 600  # of what is said of one fault
# What a training writes; all but the log is a function of data, settings and code to the last byte.
LOG = "train_log.jsonl"
TRAINING_TABLES = (
    "training_log.csv",
    "reward_components.csv",
    "checkpoint_evals.csv",
    "validation_scores.csv",
    "fields.csv",
    LOG,
    "validation.jsonl",
    "health.jsonl",
)


class Check(Record):
    """One thing that was looked at."""

    level: Level
    name: str = Field(description="what was looked at, in a few words")
    outcome: Outcome
    found: str = Field(description="what was seen, with counts; where it failed: file, place, both values")
    left: tuple[str, ...] = Field(
        default=(), description="where it is not checked: the files that it left open"
    )


class Verification(Record):
    """verify.json: every check of one package, and what they come to."""

    format: Literal["assay-verification/3"] = "assay-verification/3"
    package: str = Field(description="name of the file or folder that was checked")
    sha256: str | None = Field(description="its identity, that of its SHA256SUMS; null: unreadable")
    verdict: Verdict = Field(
        description="passed: V0 to V3 hold, and it is the package that was published; origin not shown: they"
        " hold, and whoever wrote the episodes can have written all of it; not checked: some was not compared"
    )
    published: str = Field(description="what to compare with what its maker published: digests and counts")
    counts: dict[Outcome, int]
    checks: tuple[Check, ...]
    packages: dict[str, str | None] = Field(description="versions of what computed the numbers here")

    @property
    def passed(self) -> bool:
        """Whether V0 to V3 hold and it is the package that was published: never without its sha256 or a
        signature."""
        return self.verdict == "passed"

    def lines(self, seconds: float | None = None) -> Iterator[str]:
        """Yield what was shown, a line a check, and what to compare; with how long it took, where that is
        known."""
        yield _headline(self)
        for check in self.checks:
            yield f"{check.level}  {check.outcome:<11}  {check.name}: {check.found}"
        yield _summary(self, "" if seconds is None else f" ({seconds:.1f} s)")

    def __str__(self) -> str:
        return "\n".join(self.lines())


@dataclass(frozen=True, slots=True)
class LookResult:
    """What one look came to: what was looked at with counts, and what was wrong with it."""

    said: str
    wrong: Sequence[str] = ()
    outcome: Outcome = "passed"  # where nothing is wrong
    left: Sequence[str] = ()  # files that are not checked, where it is some of them


def looked(level: Level, name: str, look: Callable[[], LookResult]) -> Check:
    """Return a look as a check; a look that cannot be finished has failed, whatever ended it.

    What is called says nothing to the terminal meanwhile.
    """
    try:
        with quietly():
            seen = look()
    except UNUSABLE as error:
        return Check(level=level, name=name, outcome="failed", found=error_said(error))
    if seen.wrong:
        shown = "; ".join(plain(fault) for fault in seen.wrong[:SHOWN])
        more = f"; and {len(seen.wrong) - SHOWN} more" if len(seen.wrong) > SHOWN else ""
        return Check(level=level, name=name, outcome="failed", found=f"{shown}{more}")
    outcome: Outcome = "not checked" if seen.left else seen.outcome
    return Check(level=level, name=name, outcome=outcome, found=plain(seen.said), left=tuple(seen.left))


def error_said(error: BaseException) -> str:
    """Return an error in one line: ours as it stands, another with its kind, since it says where a file makes
    no sense."""
    if isinstance(error, AssayError):
        place = located(
            error.where, lambda name: f"params.yaml, {name}"
        )  # of the package, which has no presets
        return plain(f"{place}: expected {error.expected}, found {error.found}")
    return plain(f"cannot be looked at: {type(error).__name__}: {error}")


def plain(text: str) -> str:
    """Return a text as one line of limited length in which nothing is hidden and UTF-8 can hold everything.

    >>> plain("a\\n  b\\x1b[1m")
    'a b\\\\x1b[1m'
    """
    line = " ".join(text.split())
    shown = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in line[:MAX_CHARS])
    return shown if len(line) <= MAX_CHARS else shown + "…"


def unlooked(level: Level, name: str, why: str, outcome: Outcome = "not checked") -> Check:
    """Return the check that was not made."""
    return Check(level=level, name=name, outcome=outcome, found=plain(why))


def verdict_of(checks: Sequence[Check]) -> Verdict:
    """Return what checks come to: as much as the weakest of them says.

    >>> verdict_of([Check(level="V0", name="digest", outcome="passed", found="as given")])
    'passed'
    >>> verdict_of([Check(level="V0", name="form", outcome="passed", found="")])
    'origin not shown'
    """
    outcomes = {check.outcome for check in checks}
    if "failed" in outcomes or "passed" not in outcomes:
        return "failed"
    if "not checked" in outcomes:
        return "not checked"
    return "passed" if shows_origin(checks) else "origin not shown"


def shows_origin(checks: Sequence[Check]) -> bool:
    """Return whether a digest or a signature showed from whom the package is; a check of another level may
    have any name, such as that of a run in a package of seeds."""
    return any((check.level, check.outcome) == ("V0", "passed") and check.name in ORIGIN for check in checks)


def left_open(checks: Sequence[Check]) -> list[str]:
    """Return what was not checked by name, numbers before what only holds together: the files of a check that
    names some, else the check."""
    open_ = sorted(
        (check for check in checks if check.outcome == "not checked"), key=lambda check: check.level
    )
    return list(dict.fromkeys(name for check in open_ for name in (check.left or (check.name,))))


def ids_digest(ids: Sequence[int]) -> str:
    """Return what an episode keeps of the ids that a turn was written after, its `prompt_digest`."""
    return hashlib.sha256(array("q", ids).tobytes()).hexdigest()[:16]


def _headline(told: Verification) -> str:
    """Return the first line: what was shown, and what was not."""
    known = "it is the package that was published"
    origin = known if shows_origin(told.checks) else f"{NO_ORIGIN}: {ANYBODY}"
    if told.verdict == "failed":
        failed = [check.name for check in told.checks if check.outcome == "failed"]
        return f"FAILED: {', '.join(failed) or 'nothing could be looked at'}. Do not rely on this package."
    if told.verdict == "not checked":
        return f"NOT CHECKED: {', '.join(left_open(told.checks))}. Of the rest {HOLDS}; {origin}."
    if told.verdict == "passed":
        return f"PASSED: {origin}, and {HOLDS}.{_beyond(told.checks)}"
    return f"HOLDS TOGETHER, {NO_ORIGIN}: {HOLDS}, and {ANYBODY}.{_beyond(told.checks)}"


def _beyond(checks: Sequence[Check]) -> str:
    """Return what nobody looked at, or nothing in such a package can show."""
    unasked = {check.level for check in checks if check.outcome == "not asked"}
    said = ["the model writes these completions (V4)"] if "V4" in unasked else []
    said += ["this training took place (V5)"] if "V5" in unasked else []
    unshown = [check.name for check in checks if check.outcome == "not shown"]
    looked = f" Nobody looked whether {' and '.join(said)}." if said else ""
    return f"{looked} No package of this kind can show: {', '.join(unshown)}." if unshown else looked


def _summary(told: Verification, took: str) -> str:
    """Return the last line: counts, and what a reader compares with what was published."""
    words: dict[Verdict, str] = {
        "passed": "PASSED",
        "origin not shown": f"HOLDS TOGETHER, {NO_ORIGIN}",
        "not checked": "NOT CHECKED IN FULL",
        "failed": "FAILED",
    }
    counts = ", ".join(f"{n} {outcome}" for outcome, n in told.counts.items() if n)
    ended = f"{words[told.verdict]}: {counts}{took}."
    if told.verdict == "failed":
        return f"{ended} Do not rely on this package."
    return f"{ended} Compare with what was published: package {told.sha256}, {told.published}"
