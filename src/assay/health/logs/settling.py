"""What the columns beside the completions of a whole log mean: which tells prompts apart, which says what is
right, and what the reward is made of.

One record does not show it: a column may be empty in some, and a name may be unique to each completion.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from assay.health.logs.formats import REWARD
from assay.health.logs.means import Means, names_success
from assay.health.logs.records import ForeignLog, LoggedCompletion, OddValue, named_part
from assay.rollout.tables.columns import Columns, list_names

EXACT = 1e-3  # of the spread of rewards: what a sum of parts may miss it by and still be that sum
_PAYS = re.compile(r"(?:^|[^a-z])(?:rewards?|score)(?:$|[^a-z])", re.I)
Completions = Sequence[LoggedCompletion]


def settle(completions: Completions, means: Means, notes: Sequence[str], columns: Columns) -> ForeignLog:
    """Return a log with prompts, success and reward parts as the whole of it shows them.

    A log has to say what its reward is: a column of it, parts that it calls so, reward functions that the
    rows by step name, or columns that are called reward, score, accuracy or the like. Other numbers beside a
    completion are no reward: they are named and left out.
    """
    completions = _with_items(sorted(completions, key=lambda each: each.step))
    right = _success_column(completions, columns)
    if right is not None:
        told = (each.numbers.get(right, each.parts.get(right)) for each in completions)
        completions = [replace(e, success=value) for e, value in zip(completions, told, strict=True)]
    log = ForeignLog(tuple(completions), means.rows, tuple(dict.fromkeys(notes)), means.odd)
    log = replace(log, numbers=means.numbers, texts=means.texts, garbled=means.garbled)
    if not completions:
        return log
    log, names = _make_reward(log, right)
    odd = tuple(OddValue(e.step, "reward", "reward", e.odd) for e in _graded(log) if e.odd is not None)
    beside = {name for each in completions for name in each.numbers} - names - {right, *REWARD}
    known = columns.candidates(dict.fromkeys(("completion", *beside, *names))).get("reference", ())
    golds = {name for name in (*beside, *names) if name in known}
    log = _without_golds(log, golds & names)
    return replace(log, odd=(*log.odd, *odd), numbers=(*log.numbers, *sorted(beside - golds)))


def _without_golds(log: ForeignLog, names: set[str]) -> ForeignLog:
    """Return the log without what was taken for the right answer and is a reward part of that name."""
    if not names:
        return log
    said = [{json.dumps(e.numbers[name]) for name in names & e.numbers.keys()} for e in log.completions]
    told = zip(log.completions, said, strict=True)
    return replace(
        log, completions=tuple(replace(e, gold=None) if e.gold in golds else e for e, golds in told)
    )


def _graded(log: ForeignLog) -> Completions:
    """Return the completions that should have a reward, none where none has one."""
    kept = [each for each in log.completions if not each.lost]
    return kept if any(each.reward is not None for each in kept) else []


def _with_items(completions: Completions) -> list[LoggedCompletion]:
    """Tell prompts apart by the first column that most completions of a step share with another one; where
    none is shared, by the first that there is."""
    names = list(dict.fromkeys(name for each in completions for name in each.keys))
    counts = {name: Counter((e.step, e.keys[name]) for e in completions if name in e.keys) for name in names}
    shared = {name: sum(n for n in counted.values() if n > 1) for name, counted in counts.items()}
    chosen = next((name for name in names if 2 * shared[name] > len(completions)), None)
    order = [*([] if chosen is None else [chosen]), *names]
    return [
        replace(each, item=next((each.keys[name] for name in order if name in each.keys), ""))
        for each in completions
    ]


def _success_column(completions: Completions, columns: Columns) -> str | None:
    """Return the column or part that says what is right: the one that was named, or else of all whose name
    says so the one that most completions have."""
    counts = Counter(name for each in completions for name in {**each.numbers, **each.parts})
    if "success" in columns.named:
        return columns.named["success"]
    known = dict.fromkeys(name for each in completions for name in {**each.numbers, **each.parts})
    right = [name for name in known if names_success(name)]
    return max(right, key=lambda name: (counts[name], -right.index(name)), default=None)


def _make_reward(log: ForeignLog, right: str | None) -> tuple[ForeignLog, set[str]]:
    """Return the log with rewards, and with parts as they add up to them; and the names of these parts.

    Tools log what each reward function said, not what it counts for. Where the reward is a weighted sum of
    the parts, least squares finds the weights, from completions or else from the means by step; parts that
    count for nothing are left out. Where no weights make the parts add up they stay as logged, if the log
    calls them parts.
    """
    parts = sorted({name for each in log.completions for name in each.parts})
    beside = sorted({name for each in log.completions for name in each.numbers} - {*REWARD, *parts})
    told = [each for each in log.completions if each.reward is not None and not each.lost]
    if told:
        names = parts or beside
        if not names:
            return log, set()
        weights = _fit([[_said(each, name) for name in names] for each in told], _rewards(told))
        if weights is None:
            return log if not parts else _with_unpaid(log, parts), set(parts)
        if parts:
            log = _with_unpaid(log, parts)
        kept = {name for name, weight in zip(names, weights, strict=True) if abs(weight) > EXACT}
        return _weighed(log, names, weights, sums=False), kept | set(parts)
    in_rows = {name[5:] for row in log.rows for name in row if name.startswith("part ")}
    names = parts or [name for name in beside if name in in_rows]
    names = names or [name for name in beside if _PAYS.search(name) or name == right]
    if not names:
        return log, set()
    named = [named_part(name) for name in names]
    rows = [row for row in log.rows if all(name in row for name in ("reward", *named))]
    weights = _fit([[row[name] for name in named] for row in rows], [row["reward"] for row in rows])
    note = f"no reward is logged with the completions: it is the sum of {list_names(names)}"
    note += ", taken as they are" if weights is None else ", weighed as in the rows by step"
    log = _with_unpaid(replace(log, notes=(*log.notes, note)), names)
    return _weighed(log, names, [1.0] * len(names) if weights is None else weights, sums=True), set(names)


def _with_unpaid(log: ForeignLog, names: Sequence[str]) -> ForeignLog:
    """Return the log with the names of parts that were 0 in every completion."""
    paid = {name for each in log.completions for name in names if _said(each, name) != 0.0}
    return replace(log, unpaid=tuple(name for name in names if name not in paid))


def _said(each: LoggedCompletion, name: str) -> float:
    return each.parts.get(name, each.numbers.get(name, 0.0))


def _rewards(told: Completions) -> list[float]:
    return [each.reward for each in told if each.reward is not None]


def _fit(parts: Sequence[Sequence[float]], rewards: Sequence[float]) -> list[float] | None:
    """Return the weights by which parts add up to rewards; None where there are none, or too few to tell."""
    if len(rewards) < 2 * len(parts[0] if parts else ()) + 2:
        return None
    values, wanted = np.array(parts, dtype=float), np.array(rewards, dtype=float)
    found = np.linalg.lstsq(values, wanted, rcond=None)[0]
    if float(np.abs(values @ found - wanted).max()) > EXACT * max(float(np.ptp(wanted)), 1e-6):
        return None
    return [float(weight) for weight in found]


def _weighed(log: ForeignLog, names: Sequence[str], weights: Sequence[float], *, sums: bool) -> ForeignLog:
    kept = {name: weight for name, weight in zip(names, weights, strict=True) if abs(weight) > EXACT}
    made = []
    for each in log.completions:
        parts = {name: _said(each, name) * weight for name, weight in kept.items()}
        there = any(name in each.parts or name in each.numbers for name in names)
        reward = math.fsum(parts.values()) if sums and there else each.reward
        made.append(replace(each, parts=parts, reward=reward))
    return replace(log, completions=tuple(made))
