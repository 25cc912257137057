"""How do time and memory grow with the number of episodes? Writes results/growth.json.

Runs of the shipped collider are made as the tests make them: scripted players stand in for policies, and
nothing is trained. Episodes are those that lie in the files of all arms. Of each size:

* files: what an evaluation writes, read strictly and written again;
* render: `assay render-evidence`, in one process;
* package: all members put together, searched for secrets and written as a tar;
* verify: V0 to V3 of that tar, in one process;
* judge: two tables with as many rows each, two draws an item, with tokens, as `assay judge` reads them.

Each has a process of its own: processor seconds behind the imports, and the most memory it ever held. The
exponent of time is that between the two largest sizes: 1 is a straight line. What every run pays whatever its
size makes it look smaller, so sizes below a thousand say little of it.

    ./run bench growth                                         (1,000 and 10,000: ten minutes)
    ./run python benchmarks/growth.py --sizes 1000 10000 100000 --judged 1000 10000 100000 1000000   (an hour)
"""

from __future__ import annotations

import csv
import math
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, alone, machine, options, written
from tests.own_data import write_sums
from tests.verification.made_lock import lock
from tests.verification.made_run import PARITY, RECORDS, made_run

from assay.core.console import quietly
from assay.core.records import Episode
from assay.core.storage.files import write_text
from assay.core.storage.json import dumps, read_records, write_jsonl
from assay.package.checking import VerifyRequest, check_package
from assay.package.verification.unpacked import Unpacked
from assay.pipeline.project import Project
from assay.stages import render_evidence
from assay.stages.package import members_of
from assay.stages.packing.archive import sealed, write_tar
from assay.stages.packing.secrets.search import cleared
from assay.verdict.judge.command import JudgeRequest, judge_files
from assay_tasks.collider import generate

RESULT = RESULTS / "growth.json"
SIZES = (1_000, 10_000)
ARMS, BESIDE = 14, 4  # episodes of all arms an item of the held-out suite, and one of a secondary suite
LARGE = 100_000  # of which the peak is told by itself
DRAWS = 2
Part = Callable[[Path], object]


def items_for(episodes: int) -> int:
    """Return how many held-out items make about so many episodes; secondary suites have no more than RECORDS.

    >>> items_for(1_800), items_for(100_000)
    (100, 7106)
    """
    few = episodes // (ARMS + BESIDE)
    return max(1, few if few <= RECORDS else (episodes - BESIDE * RECORDS) // ARMS)


def make(folder: Path, items: int) -> int:
    """Write a run with so many held-out items that was not rendered yet; return how many episodes it has."""

    def grow(data: Path) -> None:
        rows = generate("heldout", items, max_turns=8, labels=("growth", items))
        write_text(data / "heldout.jsonl", "".join(f"{dumps(row)}\n" for row in rows))
        write_sums(data)

    with quietly():
        made_run(folder, changes={"evaluation.items": items}, rendered=False, data=grow)
    return sum(path.read_bytes().count(b"\n") for path in _files(folder))


def _files(folder: Path) -> list[Path]:
    package = Unpacked(folder)
    return [package.results(f"{name}.jsonl") for name in package.arms]


def files(folder: Path) -> None:
    """Read the episodes of every arm and write them again."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        for k, path in enumerate(_files(folder)):
            write_jsonl(Path(scratch, str(k)), read_records(path, Episode, fix=""))


def render(folder: Path) -> None:
    """Write the evidence."""
    with quietly():
        render_evidence.run(Project.open(folder), processes=1)


def package(folder: Path) -> None:
    """Write the package beside the run, and search what is in it for secrets."""
    project = Project.open(folder)
    lock(project)
    run = Unpacked(folder)
    prompts = min(PARITY.prompts, len(run.heldout.items))
    parity = PARITY.model_copy(update={"policy_digest": run.told.policy_digest, "prompts": prompts})
    with quietly():
        members = sealed(members_of(project, parity))
        cleared(members, (), ())
        write_tar(folder.with_name("package.tar"), members)


def verify(folder: Path) -> None:
    """Check the package, which has to hold."""
    with quietly():
        told = check_package(folder.with_name("package.tar"), VerifyRequest(processes=1))
    if told.verdict != "origin not shown":
        raise SystemExit(f"the package does not hold: {told}")


def judge(folder: Path) -> None:
    """Judge the tables before.csv and after.csv."""
    with quietly():
        judge_files(folder / "before.csv", folder / "after.csv", JudgeRequest(effect=10.0))


def tables(folder: Path, rows: int) -> None:
    """Write two tables of so many rows, of which the second is right a little more often."""
    folder.mkdir()
    for name, often in (("before", 3), ("after", 4)):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(("item", "draw", "success", "tokens"))
            for k in range(rows):
                writer.writerow((f"item {k // DRAWS}", k % DRAWS, int(hash((k, often)) % 7 < often), k % 97))


def measured(part: Part, folder: Path) -> dict[str, float]:
    """Return the processor seconds of a part and the most memory its process ever held, MiB."""
    begun = time.process_time()
    part(folder)
    seconds = time.process_time() - begun
    status = Path("/proc/self/status").read_text(encoding="ascii")
    held = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return {"seconds": round(seconds, 3), "peak_mib": round(int(held.split()[1]) / 1024, 1)}


def row(part: Part, folder: Path, episodes: int) -> dict[str, Any]:
    """Return what a part takes for so many episodes, and for each of them."""
    found = alone(measured, part, folder)
    each = {"ms_each": round(1000 * found["seconds"] / episodes, 4)}
    return {"part": part.__name__, "episodes": episodes, **found, **each}


def exponents(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return by part how time grows between its two largest sizes, as a power of the number of episodes."""
    found = {}
    for part in dict.fromkeys(row["part"] for row in rows):
        own = sorted((row for row in rows if row["part"] == part), key=lambda row: int(row["episodes"]))
        if len(own) > 1:
            one, other = own[-2:]
            grown = math.log(other["episodes"] / one["episodes"])
            found[part] = round(math.log(other["seconds"] / one["seconds"]) / grown, 3)
    return found


def record(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what is written of some rows."""
    large = [row["peak_mib"] for row in rows if 0.9 * LARGE <= row["episodes"] <= 1.1 * LARGE]
    peak = max(large, default=None)
    return {"exponent": exponents(rows), "peak_mib_100k": peak, "rows": list(rows), "machine": machine()}


def measure(sizes: Sequence[int], judged: Sequence[int], out: Path) -> dict[str, Any]:
    """Measure every part at every size, and write what is known after each."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for n in judged:
            folder = Path(scratch, f"judged {n}")
            tables(folder, n)
            rows.append(row(judge, folder, n))
            written(out, record(rows))
        for size in sizes:
            folder = Path(scratch, str(size), "run")
            episodes = alone(make, folder, items_for(size))
            for part in (files, render, package, verify):
                rows.append(row(part, folder, episodes))
                written(out, record(rows))
    return written(out, record(rows))


def main() -> None:
    """Read the options and measure."""
    parser = options(__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="episodes of a run")
    parser.add_argument("--judged", type=int, nargs="*", default=SIZES, help="rows of each judged table")
    parser.add_argument("--out", type=Path, default=RESULT)
    asked = parser.parse_args()
    found = measure(asked.sizes, asked.judged, asked.out)
    print(dumps({name: found[name] for name in ("exponent", "peak_mib_100k")}))


if __name__ == "__main__":
    main()
