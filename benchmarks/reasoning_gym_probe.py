"""One data set of reasoning-gym, looked at in a process of its own: what reasoning_gym.py asks of it.

    python -m benchmarks.reasoning_gym_probe '{"part": "items", "name": "chain_sum", "seed": 42, "size": 30}'

A line of JSON for each thing found. It stands in an empty folder, since some graders execute what they grade.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import hashlib
import importlib
import json
import math
import os
import random
import re
import resource
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

N, SEED, NEAR, FAR, TRAIN, BAD_N = 30, 42, 43, 1_000_042, 500, 5
MEMORY = 8 * 2**30
CANARY = "open(chr(99),chr(119))"  # makes a file named c

Entry = dict[str, Any]
CONSTANTS: dict[str, str] = {
    **{f"`{text}`": text for text in ("banana", "0", "1", "2", "-1", "0.5", "yes", "Yes", "no", "No")},
    **{f"`{text}`": text for text in ("True", "False", "A", "a b", "[]", "{}", "[[]]", "None", "6*4*1*1")},
    "`(P ∨ ¬P)`": "(P ∨ ¬P)",
    "nothing": "",
    "a space": " ",
    "20,000 chars": "a" * 20_000,
}
BAD: dict[str, str | None] = {
    "no answer (None)": None,
    "`9**9**9**9`": "9**9**9**9",
    "3,000 `(`": "(" * 3_000,
    "100,000 `[`": "[" * 100_000,
    "5,000 digits": "9" * 5_000,
    **{f"`{text}`": text for text in ("NaN", "Infinity", "1e999", "1/0", "²", '{"a": 1}', "[1, 2]", "null")},
    **{f"`{text}`": text for text in ("a, b", "A=1", '[["a"]]', "1:2")},
    "a line end": "\n",
    "a zero byte": "\0",
}
FROM_ITEMS = ("the prompt", "its last line", "commonest gold", "another's gold", "all golds")


def from_items(entries: Sequence[Entry]) -> dict[str, list[str]]:
    """Return the texts that are made from the items without skill, one for each item."""
    found = {
        "the prompt": [each["question"] for each in entries],
        "its last line": [each["question"].strip().rpartition("\n")[2] for each in entries],
    }
    golds = [each["answer"] for each in entries if isinstance(each["answer"], str)]
    if len(golds) == len(entries):
        counted = [text for text, _ in Counter(golds).most_common()]
        found["commonest gold"] = [counted[0]] * len(golds)
        found["another's gold"] = [*golds[1:], golds[0]]
        found["all golds"] = ["\n".join(counted)] * len(golds)
    return found


def digest(value: object) -> str:
    """Return a short digest of a value; where an object was in memory does not count."""
    text = re.sub(r" at 0x[0-9a-f]+", "", json.dumps(value, default=repr))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def made(name: str, seed: int, size: int, order: Sequence[int] | None = None) -> list[Entry]:
    """Return items of a data set by place, made in that order."""
    rows = importlib.import_module("reasoning_gym").create_dataset(name, seed=seed, size=size)
    entries = {index: rows[index] for index in (range(size) if order is None else order)}
    return [entries[index] for index in range(size)]


def global_generators() -> str:
    """Return a digest of the states of the generators that everybody shares."""
    return digest([random.getstate(), repr(importlib.import_module("numpy").random.get_state())])


def probe_names(name: str) -> Iterator[Entry]:
    """Yield the names of all data sets but of that one."""
    yield {"names": sorted({*importlib.import_module("reasoning_gym.factory").DATASETS} - {name})}


def probe_items(name: str, *, seed: int, size: int) -> Iterator[Entry]:
    """Yield digests of the items: as made first, as made again, as made backwards."""
    importlib.import_module("reasoning_gym")
    before, begun = global_generators(), time.process_time()
    entries = made(name, seed, size)
    seconds = time.process_time() - begun
    touched = global_generators() != before
    worlds = [
        [digest([each["question"], each["answer"]]) for each in some]
        for some in (entries, made(name, seed, size), made(name, seed, size, range(size)[::-1]))
    ]
    yield {
        "items": worlds[0],
        "again": worlds[1] == worlds[0],
        "backwards": worlds[2] == worlds[0],
        "metadata": digest([each["metadata"] for each in entries]),
        "ms": 1e3 * seconds / size,
        "touched": touched,
    }


def probe_overlap(name: str) -> Iterator[Entry]:
    """Yield the prompts, as digests, of both neighbouring seeds, of one far away and of a larger set."""
    for label, seed, size in (("here", SEED, N), ("near", NEAR, N), ("far", FAR, N), ("train", SEED, TRAIN)):
        yield {label: [digest(each["question"]) for each in made(name, seed, size)]}


def scored(grade: Callable[[str | None, Entry], Any], pairs: Sequence[tuple[str | None, Entry]]) -> Entry:
    """Return what completions earned: the mean (an exception is 0), exceptions by kind, times."""
    scores, kinds, times, odd = [], Counter[str](), [], 0
    for text, entry in pairs:
        begun = time.process_time()
        try:
            score = float(grade(text, entry))
        except Exception as error:  # noqa: BLE001 (whatever a grader raises is a finding)
            score = 0.0
            kinds[type(error).__name__] += 1
        odd += not 0.0 <= score <= 1.0
        scores.append(score if math.isfinite(score) else 0.0)
        times.append(1e3 * (time.process_time() - begun))
    return {
        "mean": statistics.fmean(scores),
        "raised": dict(kinds),
        "ms": statistics.fmean(times),
        "slowest_ms": max(times),
        "odd": odd,
    }


def probe_scores(name: str, *, skip: Sequence[str]) -> Iterator[Entry]:
    """Yield what the stored answer earns, and then each trivial text."""
    rows = importlib.import_module("reasoning_gym").create_dataset(name, seed=SEED, size=N)
    entries = [rows[index] for index in range(N)]
    grade, before = rows.score_answer, repr(entries)
    own = [(each["answer"], each) for each in entries if isinstance(each["answer"], str)]
    if own:
        first, second = scored(grade, own), scored(grade, own)
        yield {"gold": first, "grades_repeat": first["mean"] == second["mean"]}
        try:
            copies = [json.loads(json.dumps(each)) for each in entries]
            yield {"gold_json": scored(grade, list(zip([text for text, _ in own], copies, strict=True)))}
        except (TypeError, ValueError) as error:
            yield {"gold_json": type(error).__name__}
    texts = {label: [text] * N for label, text in CONSTANTS.items()} | from_items(entries)
    for label, some in texts.items():
        if label not in skip:
            yield {"about": label}
            yield {"text": label, **scored(grade, list(zip(some, entries, strict=True)))}
    yield {"entries_changed": repr(entries) != before}


def canaries(gold: str | None) -> list[str]:
    """Return completions that leave a file where they are executed."""
    bare = [CANARY, 'open("c","w")', '__import__("pathlib").Path("c").write_text("x")']
    wrapped = [
        text for one in bare for text in (one, f"[{one}]", f"[[{one}]]", f"1 + {one}", f"x={one}", f"({one})")
    ]
    wrapped += [json.dumps([one]) for one in bare] + [json.dumps({"answer": one}) for one in bare]
    return wrapped + ([] if gold is None else [re.sub(r"\d+", lambda _: CANARY, gold), f"{gold} + {CANARY}"])


def probe_bad(name: str, *, skip: Sequence[str]) -> Iterator[Entry]:
    """Yield whether a completion was executed, and then what each bad text does."""
    rows = importlib.import_module("reasoning_gym").create_dataset(name, seed=SEED, size=N)
    entries = [copy.deepcopy(rows[index]) for index in range(BAD_N)]
    executed = None
    for entry in entries:
        for text in canaries(entry["answer"] if isinstance(entry["answer"], str) else None):
            with contextlib.suppress(Exception):
                rows.score_answer(text, entry)
            if executed is None and Path("c").exists():
                executed = text
    yield {"executed": executed}
    for label, bad in BAD.items():
        if label not in skip:
            yield {"about": label}
            yield {"text": label, **scored(rows.score_answer, [(bad, each) for each in entries])}


def probe(asked: Entry) -> None:
    """Do one part and write a line for each thing found."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a data set prints is no finding
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if asked.pop("later", False):
        _forty_one_days_later()
    part = globals()[f"probe_{asked.pop('part')}"]
    for found in part(**asked):
        out.write(json.dumps(found) + "\n")
        out.flush()
    out.write(json.dumps({"done": True}) + "\n")
    out.flush()


def _forty_one_days_later() -> None:
    """Put off the day that Python tells whoever asks for it."""
    ahead, today, now = datetime.timedelta(days=41), datetime.date.today(), datetime.datetime.now()

    class Date(datetime.date):
        @classmethod
        def today(cls) -> Date:
            day = today + ahead
            return cls(day.year, day.month, day.day)

    class Datetime(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Datetime:
            return cls.fromtimestamp((now + ahead).timestamp(), tz)

    datetime.date, datetime.datetime = Date, Datetime  # type: ignore[misc]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(2)  # it is reasoning_gym.py that asks
    probe(json.loads(sys.argv[1]))
