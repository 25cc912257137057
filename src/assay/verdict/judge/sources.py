"""What was read: each file with its form, digest and facts, and one result of it as any tool writes it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from pydantic import Field

from assay.core.errors import DataError
from assay.core.records import Record
from assay.rollout.tables.lines import refuse
from assay.verdict.evidence.words.remarks import Remark
from assay.verdict.judge.plan import JudgePlan, Missing
from assay.verdict.judge.rows import no_strata

# What is written of a judgement.
CLAIM, REPORT, SUMMARY = MADE = ("claim.json", "report.html", "summary.md")
Form = Literal[
    "table",
    "assay episodes",
    "inspect log",
    "lm-eval samples",
    "lighteval details",
    "evalplus samples",
    "verifiers results",
    "verifiers traces",
]


class SourceFile(Record):
    """A file that results were read from."""

    name: str
    sha256: str
    bytes: int = Field(ge=0)
    form: Form
    model: str | None = Field(description="whose results these are; null: the file does not say")
    task: str | None
    metric: str | None = Field(description="the score that was read, where the file names it")
    measured: dict[str, str] = Field(description="what the score measures, as far as the file says")
    settings: dict[str, str] = Field(description="how the model was asked, as far as the file says")
    says: tuple[str, ...] = Field(
        description="of what the file has a value wherever it is set; of others without one nothing is known"
    )
    items: int | None = Field(default=None, ge=1, description="that its task has, played or not")
    made: str | None = Field(default=None, description="the day on which the results were made")


class SeenTargets(Record):
    """What the results of an arm have to do with what is right, by their texts: counts of results."""

    prompts: int = Field(ge=0, description="whose prompt and target are known")
    shown: int = Field(ge=0, description="of these: whose prompt holds its own target and not another one")
    short: int = Field(default=0, ge=0, description="of these: the same of a target of up to three signs")
    exact: int = Field(ge=0, description="whose completion is the target and nothing else")
    missed: int = Field(ge=0, description="of these: with the score 0")
    right: int = Field(ge=0, description="with the full score, of a target of twelve words or more")
    repeated: int = Field(ge=0, description="of these: whose completion holds the target word for word")


class ArmRecord(Record):
    """One arm: where its results came from, and what could not be read of them."""

    name: str = Field(description="before, after, or the name of a rival")
    files: tuple[SourceFile, ...]
    rows_sha256: str = Field(description="of its rows in the package")
    rows: int = Field(ge=0)
    has_success: bool = Field(description="whether every result says that it succeeded, or not")
    clustered: int = Field(default=0, ge=0, description="rows for which a table named a cluster")
    targets: SeenTargets | None = Field(default=None, description="null: no target is known")
    blockers: tuple[Remark, ...] = Field(description="what bars a claim")
    notes: tuple[Remark, ...]
    # Said where it is judged, and kept nowhere: the rows of a package do not have the texts.
    written: tuple[str, ...] = Field(default=(), exclude=True, repr=False)

    def renamed(self, name: str) -> ArmRecord:
        """Return the record of the same results as an arm of another name."""
        said = {
            "blockers": tuple(each.renamed(name) for each in self.blockers),
            "notes": tuple(each.renamed(name) for each in self.notes),
        }
        return self.model_copy(update={"name": name, **said})


class JudgedLook(Record):
    """Which look at held-out records of the project it was made in a judgement is; by its ledger."""

    place: int = Field(ge=1, description="the first is 1")
    looks: int | None = Field(ge=1, description="that the project plans; null: any number")
    share: float | None = Field(ge=0, le=1, description="of alpha, as that of a claim")
    n_records: int = Field(ge=1, description="of the project's that were judged")
    records: str = Field(description="key of the records, as in heldout_openings.json")


class Judgement(Record):
    """What was asked, and of what: from this and the rows beside it everything else in the package
    follows."""

    kind: Literal["assay-judge/4"] = "assay-judge/4"
    assay: str
    before: ArmRecord
    after: ArmRecord
    rivals: dict[str, ArmRecord]
    bounds: tuple[float, float] = Field(description="between which scores lie")
    smallest_effect_points: float = Field(gt=0, le=100)
    lower_is_better: bool
    missing: Missing = Field(default="refuse", description="what became of results that are missing")
    level: float | None = Field(
        default=None, gt=0, lt=1, description="at which better is said; null: the plan's"
    )
    compared: int = Field(default=1, ge=1, description="sets of results that were compared with before")
    title: str
    look: JudgedLook | None = Field(
        default=None, description="null: not of held-out records of a project it was made in"
    )
    plan: JudgePlan | None = Field(default=None, description="made beforehand; null: assay's default")


@dataclass(slots=True)
class Reading:
    """One result as a tool wrote it. `score` None: there is none; `why` says why, where the file does."""

    place: str
    item: str
    score: float | None
    success: bool | None = None
    draw: int | None = None
    cluster: str | None = None
    n_turns: int | None = None
    tokens: int | None = None
    truncated: int | None = None
    unparsed: int | None = None
    strata: Mapping[str, str] = field(default_factory=no_strata)
    question: str = ""
    target: str = ""
    wording: str = ""  # the question as text, where `question` is none
    prompt: str = ""
    completion: str = ""
    model: str | None = None
    why: str = ""
    wrote: tuple[str, ...] | None = None  # each completion; None: the file does not have them
    fault: str = ""  # error or timeout, where the file says that it ended so
    answers: int = 1  # that the file has of this draw, of which one was scored
    edited: bool = False  # whether the file says that its score was changed after it was given


# What tools and people write for right and wrong; C and I are inspect's letters.
WORDS: Mapping[str, float] = {
    **dict.fromkeys(("true", "t", "yes", "y", "pass", "passed", "correct", "right", "c", "ok"), 1.0),
    **dict.fromkeys(("success", "succeeded", "solved"), 1.0),
    **dict.fromkeys(("false", "f", "no", "n", "fail", "failed", "incorrect", "wrong", "i"), 0.0),
    **dict.fromkeys(("failure", "unsolved"), 0.0),
}
TRUTHS = "true or false, pass or fail, yes or no; nothing where it is not known"
# A comma before three digits may stand between thousands, unless nothing but 0 is before it.
_DECIMAL_COMMA = re.compile(r"([+-]?)(0?|\d+),(\d+)")


def is_number(text: str) -> bool:
    """Return whether a text is a number, as Python reads one."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def number_of(value: Any, where: str, what: str = "score") -> float | None:
    """Return a score as a number; None where there is none.

    >>> [number_of(each, "") for each in (True, "0.5", "FAILED", None, "0,520", "12,5 %")]
    [1.0, 0.5, 0.0, None, 0.52, 0.125]

    Raises:
        DataError: It is no finite number.
    """
    if value is None:
        return None
    number = math.nan
    fix = "write a number, true or false; leave the cell empty, or null, where there is no score"
    if isinstance(value, str):
        text = value.strip()
        percent, plain = text.endswith("%"), text.removesuffix("%").strip()
        if comma := _DECIMAL_COMMA.fullmatch(plain):
            thousands = len(comma[3]) == 3 and comma[2] not in ("", "0")
            plain = "" if thousands else plain.replace(",", ".")
            fix = "write a decimal point: a comma before three digits may be either" if thousands else fix
        try:  # float() would take 1_0 and the digits of every script
            decimal = plain.isascii() and "_" not in plain
            number = float(plain) / (100 if percent else 1) if decimal else math.nan
        except ValueError:
            number = WORDS.get(text.casefold(), math.nan)
    elif isinstance(value, Decimal):
        number = float(value)
    elif isinstance(value, bool | int | float):
        number = float(value) if abs(value) < 1e300 else math.inf
    if not math.isfinite(number):
        raise refuse(f"a finite number as {what}", repr(value), where, fix)
    return number


def whole_of(value: Any, where: str, what: str) -> int | None:
    """Return a count; None where there is none.

    Raises:
        DataError: It is no whole number from 0 on.
    """
    if value is None:
        return None
    number = number_of(value, where, what)
    if number is None or number < 0 or number != int(number) or number > 2**53:
        raise refuse(f"a whole number from 0 on as {what}", repr(value), where)
    return int(number)


def truth_of(value: Any, where: str, what: str, fix: str = f"write {TRUTHS}") -> bool | None:
    """Return yes or no; None where nothing is said.

    Raises:
        DataError: It is neither.
    """
    if value is None:
        return None
    try:
        number = number_of(value, where, what)
    except DataError:
        number = math.nan
    if number not in (0.0, 1.0):
        raise refuse(f"true or false as {what}", repr(value), where, fix)
    return number == 1.0
