"""Kinds of secrets that the scan of a package tells, and what it says of texts that hold none; writes
results/secrets.json.

The kinds and the harmless texts are those of tests/packaging/secret_kinds.py. A kind is told where each
draw of it is. Usage: ./run bench secret_scan
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

# This folder comes first otherwise, and its scripts would stand in for packages of their names.
sys.path[0] = str(Path(__file__).resolve().parents[1])
from benchmarks.common import RESULTS, ROOT, options, written
from tests.packaging.secret_kinds import (
    BLIND,
    BLIND_HARMLESS,
    DRAWS,
    HARMLESS,
    HELD_BACK,
    KINDS,
    ORDINARY,
    WRITTEN_BEFORE,
    Kind,
    told,
)

from assay.stages.packing.secrets.search import scan


def _missed(kinds: tuple[Kind, ...]) -> list[str]:
    return [
        kind.name for kind in kinds if not all(told(kind.write(f"{kind.name} {n}")) for n in range(DRAWS))
    ]


def main() -> None:
    """Try every kind and every harmless text, and read the committed evidence."""
    options(__doc__).parse_args()
    every = {"known": KINDS, "written_before": WRITTEN_BEFORE, "held_back": HELD_BACK, "blind": BLIND}
    missed = {name: _missed(kinds) for name, kinds in every.items()}
    harmless = (*HARMLESS, *ORDINARY, *BLIND_HARMLESS)
    files: dict[str, bytes | Path] = {
        path.relative_to(ROOT).as_posix(): path
        for path in sorted((ROOT / "evidence/results").rglob("*"))
        if path.is_file()
    }
    begun = time.process_time()
    in_evidence = len(scan(files, (), []))
    seconds = time.process_time() - begun
    size = sum(path.stat().st_size for path in files.values() if isinstance(path, Path))
    found = written(
        RESULTS / "secrets.json",
        {
            "kinds": sum(map(len, every.values())),
            "told": sum(map(len, every.values())) - sum(map(len, missed.values())),
            "kinds_by_set": {name: len(kinds) for name, kinds in every.items()},
            "missed": missed,
            "harmless": len(harmless),
            "false_alarms": sum(told(text) for text in harmless),
            "false_alarms_in_committed_evidence": in_evidence,
            "cpu_seconds_a_mib": round(seconds / size * 2**20, 2),
        },
    )
    print(found)


if __name__ == "__main__":
    main()
