"""What an audit and a comparison of splits found, as audit.json and contamination.json hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from assay.core.records import Record

NGRAM = 13  # words; Source: Brown et al. (2020), arXiv 2005.14165, appendix C
Shared = Literal[
    "prompt",
    "scenario",
    "world",
    "seed",
    "shared_seed",
    "near",
    "ngram",
    "answer",
    "near_world",
    "gold",
    "inside",
    "template",
]
BLOCKING: tuple[Shared, ...] = ("prompt", "near", "scenario", "world", "seed")
# What may be chance, from which share of a split's records beyond chance it bars a claim: known by heart, a
# twentieth makes five points. Other numbers in the words of train are other work, unless most of it is so.
BARS_FROM: Mapping[Shared, float] = {"near_world": 0.05, "gold": 0.05, "inside": 0.05, "template": 0.5}
SAID: Mapping[Shared, str] = {
    "prompt": "prompts with the same words",
    "near": "records that are one piece of work in other words",
    "scenario": "scenario ids",
    "world": "hidden worlds",
    "seed": "generator seeds, each of one record",
    "shared_seed": "generator seeds, each of many records",
    "ngram": f"records with {NGRAM} words on end in common",
    "answer": "held-out answers that stand in a train prompt",
    "near_world": "records with nearly the same numbers",
    "gold": "answers, asked in other words",
    "inside": "questions that stand whole inside other prompts",
    "template": "texts that differ in numbers alone",
}


class AuditFinding(Record):
    """One odd thing."""

    split: str
    line: int | None = Field(description="null where it is not about one line")
    id: str | None
    detail: str


class Kind(Record):
    """All odd things of one kind."""

    count: int = Field(ge=0)
    action: Literal["refuse", "drop", "keep", "report"]
    first: list[AuditFinding] = Field(
        description="in the order of the files; all of them, unless unlisted says how many are not"
    )
    unlisted: int = Field(ge=0, description="findings beyond the first 100,000")


class Audit(Record):
    """What is odd in a dataset."""

    n_records: int = Field(ge=0, description="lines that are not blank")
    kept: dict[str, int] = Field(description="records by split that remain")
    dropped: dict[str, int] = Field(description="records by split that are left out")
    refused: dict[str, int] = Field(
        description="records by split, or lines that are none, of kinds that are refused"
    )
    usable: dict[str, int] = Field(
        description="records by split that remain once what is refused is gone as well"
    )
    ceilings: dict[str, Ceiling] = Field(description="by split, where golds contradict each other")
    kinds: dict[str, Kind]

    def refusals(self) -> list[str]:
        """Return the kinds that make the data unusable."""
        return [name for name, kind in self.kinds.items() if kind.action == "refuse" and kind.count]


class Ceiling(Record):
    """What golds that contradict each other leave to be reached in one split."""

    n_records: int = Field(ge=1, description="that remain in the split")
    n_prompts: int = Field(
        ge=1, description="prompts that are read alike and have golds of which no answer satisfies all"
    )
    n_contradicting: int = Field(ge=2, description="records with such a prompt")
    most_success: float = Field(gt=0, lt=1, description="largest possible success rate, whatever the policy")


class Overlap(Record):
    """What two splits share, of one kind."""

    kind: Shared
    splits: tuple[str, str] = Field(description="sorted by name")
    count: int = Field(ge=1, description="things shared; of n-grams and answers, held-out records concerned")
    first: tuple[str, ...] = Field(description="ids of the first few records concerned, sorted")
    of: int | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="of what may be chance: records of the split asked about that could have been found",
    )
    expected: float | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="how many chance would give, by how often records of one split, or of a third, coincide",
    )

    @property
    def bars(self) -> bool:
        """Whether it bars a claim that rests on these splits."""
        if self.of is None or self.expected is None:
            return self.kind in BLOCKING
        return self.count - self.expected >= BARS_FROM[self.kind] * self.of


class Contamination(Record):
    """What the splits of a dataset share, found before training."""

    n_records: dict[str, int]
    compared: dict[Shared, int] = Field(
        description="records that have what a check looks at; 0: it had nothing to read"
    )
    overlaps: tuple[Overlap, ...]


def judged(found: Contamination, splits: Sequence[str]) -> tuple[list[Overlap], list[Overlap]]:
    """Return what bars a claim, and what to warn of.

    Args:
        found: Of the whole dataset.
        splits: Those the claim rests on: train, the validation suite's and held-out.
    """
    theirs = [each for each in found.overlaps if set(each.splits) <= set(splits)]
    bars = [each for each in theirs if each.bars]
    return bars, [each for each in theirs if each not in bars]


def overlap_said(found: Overlap) -> str:
    """Return what two splits share, in words.

    >>> overlap_said(Overlap(kind="scenario", splits=("heldout", "train"), count=2, first=("a", "b")))
    "heldout and train share 2 scenario ids (first: 'a', 'b')"
    """
    named = ", ".join(ascii(name) for name in found.first)
    if found.kind == "answer":
        reported = next(name for name in found.splits if name != "train")
        return f"{found.count} {SAID[found.kind]}, of {reported} (first: {named})"
    one, other = found.splits
    if found.of is not None and found.expected is not None:
        chance = f"of {found.of}, by chance {found.expected:.0f}"
        return f"{one} and {other} share {found.count} {SAID[found.kind]} ({chance}; first: {named})"
    return f"{one} and {other} share {found.count} {SAID[found.kind]} (first: {named})"
