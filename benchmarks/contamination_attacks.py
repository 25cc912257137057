"""Ways to train on the held-out work in another guise, each on the shipped data, and what the fingerprint's
look at the splits leads the claim to say. verdict_attacks.py tries and records them.

The copies are `COPIED` of the held-out records unless a row says otherwise.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from copy import deepcopy
from functools import cache, partial
from typing import Any

from benchmarks.attack import Attack, Said
from benchmarks.common import ROOT

from assay.rollout.audit.contamination import contamination
from assay.rollout.dataset.audit_records import judged
from assay.rollout.dataset.external import kept_record
from assay.verdict.evidence.words.remarks import Remark, remark

Row = dict[str, Any]
Rows = dict[str, list[Row]]
SPLITS, COPIED, FEW = ("train", "validation", "heldout"), 256, 8


@cache
def shipped(task: str) -> Rows:
    """Return the records of a task by split; nobody changes them."""
    return {
        path.stem: [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        for path in sorted((ROOT / f"data/{task}").glob("*.jsonl"))
        if path.stem in SPLITS
    }


def remarks_on(rows: Rows) -> tuple[list[Remark], list[Remark]]:
    """Return what bars a claim on these splits, and what is warned of."""
    kept = {
        split: [kept_record(line, row) for line, row in enumerate(records, 1)]
        for split, records in rows.items()
    }
    bars, warned = judged(contamination(kept), SPLITS)
    return [remark("leak", overlap=each) for each in bars], [
        remark("contamination", overlap=each) for each in warned
    ]


def copied(task: str, edit: Callable[[Row], Row], *, n: int = COPIED, into: str = "train") -> Rows:
    """Return splits of which one ends with held-out records in another guise."""
    rows = shipped(task)
    copies = [edit(deepcopy(row)) | {"id": f"copy-{row['id']}"} for row in rows["heldout"][:n]]
    return rows | {into: [*rows[into][: len(rows[into]) - n], *copies]}


def moved(by: float, name: str) -> Callable[[Row], Row]:
    """Return an edit that adds something to a field of a hidden world; one that is null stays null."""

    def edit(row: Row) -> Row:
        value = row["truth"][name]
        if isinstance(value, list):
            row["truth"][name] = [round(each + by, 12) for each in value]
        elif value is not None:
            row["truth"][name] = value + by
        return row

    return edit


def values_in(gold: Any) -> list[str]:
    """Return every value of an answer as text, of spellings the first."""
    if isinstance(gold, dict):
        return [text for part in gold.values() for text in values_in(part)]
    if isinstance(gold, list):
        parts = gold if gold and isinstance(gold[0], dict) else gold[:1]
        return [text for part in parts for text in values_in(part)]
    return [str(gold)]


def reworded(row: Row) -> Row:
    """Ask for the same in words of one's own, in another order."""
    values = values_in(row["gold"])
    random.Random(str(row["id"])).shuffle(values)
    said = f"We had a long talk about {' and then '.join(values)}; see to it as is customary here."
    return row | {"context": said, "family": f"copy {row['id']}"}


def plus_one(value: Any) -> Any:
    """Return a value with every number one more."""
    if isinstance(value, dict):
        return {name: plus_one(part) for name, part in value.items()}
    if isinstance(value, list):
        return [plus_one(part) for part in value]
    if isinstance(value, str):
        return re.sub(r"\d+", lambda found: str(int(found[0]) + 1), value)
    return value + 1 if isinstance(value, int) and not isinstance(value, bool) else value


def other_numbers() -> Rows:
    """Return a held-out suite of train records with every number one more, in question and answer."""
    rows = shipped("structured")
    some = [row for row in rows["train"] if re.search(r"\d", row["context"])][: len(rows["heldout"])]
    made = [
        row
        | {"id": f"new {row['id']}", "family": f"new {row['id']}"}
        | {name: plus_one(row[name]) for name in ("context", "gold")}
        for row in some
    ]
    return rows | {"heldout": made}


def worked_examples(in_how_many: int) -> Rows:
    """Return train prompts that begin with held-out questions and their answers."""
    rows, source = shipped("structured"), random.Random(1)
    examples = [f"{row['context']} -> {json.dumps(row['gold'])}" for row in rows["heldout"][:COPIED]]
    train = [
        row | {"prompt": f"{' ; '.join(source.sample(examples, 4))} ; {row['prompt']}"}
        if k < in_how_many
        else row
        for k, row in enumerate(rows["train"])
    ]
    return rows | {"train": train}


def both_copied() -> Rows:
    """Return train with held-out suite and validation in other words, so that neither shows the other."""
    rows = shipped("structured")
    copies = [
        reworded(row) | {"id": f"copy-{row['id']}"}
        for name in ("heldout", "validation")
        for row in rows[name]
    ]
    return rows | {"train": [*rows["train"], *copies]}


DATA: dict[str, Callable[[], Rows]] = {
    "jobs in other words with the same answers": partial(copied, "structured", reworded),
    "the same, and the validation's": both_copied,
    "every number one more in question and answer": other_numbers,
    "questions with answers as examples in train prompts": partial(worked_examples, 2048),
    "the same in one prompt of ten": partial(worked_examples, 204),
    "background shifts + 1e-9": partial(copied, "collider", moved(1e-9, "background_shifts")),
    "background shifts + 0.001": partial(copied, "collider", moved(0.001, "background_shifts")),
    "background shifts + 0.05": partial(copied, "collider", moved(0.05, "background_shifts")),
    "scale shifts + 0.002": partial(copied, "collider", moved(0.002, "scale_shifts")),
    "masses + 7 GeV": partial(copied, "collider", moved(7.0, "mass_gev")),
    "eight worlds, background shifts + 0.001": partial(
        copied, "collider", moved(0.001, "background_shifts"), n=FEW
    ),
    "worlds in the validation, background shifts + 0.001": partial(
        copied, "collider", moved(0.001, "background_shifts"), n=128, into="validation"
    ),
}
OWN = {"eight worlds, background shifts + 0.001": frozenset({"contamination"})}


def contamination_attacks(claimed: Callable[[list[Remark], list[Remark]], Said]) -> list[Attack]:
    """Return the attacks.

    Args:
        claimed: Returns what a claim of a gain says, given what bars it and what is warned of.
    """

    def tried(rows: Callable[[], Rows]) -> Said:
        return claimed(*remarks_on(rows()))

    return [
        Attack("contamination", name, partial(tried, rows), OWN.get(name, frozenset()))
        for name, rows in DATA.items()
    ]
