"""Two thousand damaged projects: does anything but a message come of one? The trials are those of tests/fuzz.

./run bench fuzz    (other numbers, or one trial again: ./run python -m tests.fuzz --help)
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS
from tests.fuzz.__main__ import main

if __name__ == "__main__":
    raise SystemExit(main(["--trials", "2000", "--out", str(RESULTS / "fuzz.json"), *sys.argv[1:]]))
