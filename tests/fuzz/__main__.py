"""Damage everything a command reads, two thousand times, and see whether anything but a message comes of it.

./run python -m tests.fuzz --trials 2000 --seed 0
./run python -m tests.fuzz --only bases --number 17 --seed 0      one trial again, with its traceback
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

JOBS = min(2, len(os.sched_getaffinity(0)))


def main(words: Sequence[str] | None = None) -> int:
    """Run trials, say what was found, and return the exit code: 1 if anything was."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--only", action="append", default=[], help="a target; all if not given")
    parser.add_argument("--number", type=int, action="append", default=[], help="this trial alone")
    parser.add_argument("--template", type=Path, help="a project that was built before")
    parser.add_argument("--out", type=Path, help="write what was found there, as JSON")
    asked = parser.parse_args(words)
    scratch = Path(tempfile.mkdtemp(prefix="assay-fuzz-"))
    try:
        # Read when the library is imported
        os.environ |= {"HF_HUB_OFFLINE": "1", "ASSAY_REDRAW_SECONDS": "0"}
        template = asked.template or built(scratch / "template")
        begun = time.monotonic()
        from tests.fuzz.runner import as_rows, classes, run

        counts, findings = run(
            template,
            asked.trials,
            asked.seed,
            jobs=asked.jobs,
            only=asked.only,
            scratch=scratch,
            numbers=asked.number,
            tell=lambda line: print(line, file=sys.stderr, flush=True),  # noqa: T201
        )
        seconds = time.monotonic() - begun
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if asked.out is not None:
        told = {
            "trials": sum(counts.values()),
            "seed": asked.seed,
            "seconds": round(seconds, 1),
            "tracebacks": sum(found.kind in ("traceback", "crash") for found in findings),
            "findings": len(findings),
            "by_target": {
                name: {"trials": counts[name], "findings": sum(found.target == name for found in findings)}
                for name in sorted(counts)
            },
            "found": as_rows(findings),
        }
        asked.out.write_text(json.dumps(told, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    for found in findings if asked.number else ():
        sys.stdout.write(f"--- {found.target} {found.number}: assay {found.command}\n{found.told}\n")
    for name, times in classes(findings).items():
        first = next(found for found in findings if f"{found.kind}: {found.where}" == name)
        again = f"--only {first.target} --number {first.number} --seed {first.seed}"
        sys.stdout.write(f"{times:4} {name}   ({again}: {first.command})\n")
    sys.stdout.write(f"{sum(counts.values())} trials, {len(findings)} findings, {seconds:.0f} s\n")
    return 1 if findings else 0


def built(folder: Path) -> Path:
    """Return a freshly built project to be damaged; a process of its own builds it, forked from this one,
    which needs the same imports."""
    from tests.fuzz.runner import import_all

    import_all()
    told = folder.with_suffix(".txt")
    told.touch()
    child = multiprocessing.get_context("fork").Process(target=_build, args=(folder, told))
    child.start()
    child.join()
    if child.exitcode:
        raise RuntimeError(f"the project was not built:\n{told.read_text(encoding='utf-8')[-6000:]}")
    return folder


def _build(folder: Path, told: Path) -> None:
    with told.open("w", encoding="utf-8") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    from tests.fuzz.project import build

    build(folder)


if __name__ == "__main__":
    raise SystemExit(main())
