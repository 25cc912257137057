"""Can a set-up be killed anywhere? SIGKILL of all its processes at random moments, then one more call.

    ./run python benchmarks/setup_kills.py --kills 6

The true `run` makes true environments, in a project of six small packages of constraints.txt, one of them
built from its source. Each kill comes at a moment drawn evenly over the time that it takes undisturbed, by
turns in a first set-up, in one in the place of an environment that was made elsewhere, and in one for changed
requirements. The call after it has to import everything from .venv; and nothing may have changed outside of
.venv and its marks: in the project, in the home, among the packages of the Python that was called.

Exits with 1 unless `outside` and `wrong_next` are 0, as was predicted before the first run.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, ROOT, machine, options, written

RESULT = RESULTS / "setup_kills.json"
NAMES, TOOLS = ("antlr4-python3-runtime", "idna", "iniconfig", "sortedcontainers"), ("pip", "setuptools")
WAYS = ("fresh", "made elsewhere", "changed")
PATIENCE_S = 900.0  # for one set-up on a machine that others use too
CHECK = """
import pathlib, sys
import antlr4, idna, iniconfig, sortedcontainers, small
root = pathlib.Path.cwd()
assert pathlib.Path(sys.prefix) == root / ".venv" != pathlib.Path(sys.base_prefix), sys.prefix
for module in (antlr4, idna, iniconfig, sortedcontainers):
    assert root / ".venv" in pathlib.Path(module.__file__).parents, module.__file__
assert pathlib.Path(small.__file__) == root / "src/small/__init__.py"
"""
BUILT = (
    '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    '[project]\nname = "small"\nversion = "1.0"\n[tool.setuptools.packages.find]\nwhere = ["src"]\n'
)


class SmallProject:
    """A small project that the true script sets up, from a folder of wheels."""

    def __init__(self, folder: Path) -> None:
        self.root, self._home, wheels = folder / "a project", folder / "home", folder / "wheels"
        self._home.mkdir(parents=True)
        (self.root / "src/small").mkdir(parents=True)
        (self.root / "src/small/__init__.py").touch()
        (self.root / "requirements.txt").write_text("".join(f"{name}\n" for name in NAMES[:-1]))
        (self.root / "requirements-dev.txt").write_text(f"{NAMES[-1]}\n")
        (self.root / "constraints.txt").write_text(pins())
        (self.root / "pyproject.toml").write_text(BUILT)
        shutil.copy2(ROOT / "run", self.root / "run")
        shutil.copytree(ROOT / ".ci", self.root / ".ci", ignore=shutil.ignore_patterns("__pycache__"))
        (self.root / ".git").mkdir()  # DVC, which is not here, need not be told that there is none
        get = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "-d", str(wheels)]
        get.append("--no-build-isolation")
        subprocess.run([*get, *re.findall(r"^[\w.-]+==\S+$", pins(), re.MULTILINE)], check=True)
        self._surroundings = {
            "PATH": f"{sys.base_prefix}/bin:/usr/bin:/bin",
            "HOME": str(self._home),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels),
            "PIP_CONFIG_FILE": os.devnull,
        }
        self.before = self.seen()

    def start(self) -> subprocess.Popen[str]:
        """Call the script, in a process group of its own."""
        return subprocess.Popen(
            ["./run", "python", "-c", CHECK],
            cwd=self.root,
            env=self._surroundings,
            text=True,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def call(self) -> tuple[bool, str]:
        """Call the script once; return whether all is there and in its place, and what was said."""
        process = self.start()
        try:
            said, _ = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            end(process)
            return False, "did not end"
        return process.returncode == 0, said

    def seen(self) -> set[tuple[str, int, int]]:
        """Return every file that no set-up may touch, with its size and time; caches left out."""
        found = set()
        for top in (
            Path(sysconfig.get_path("purelib", vars={"base": sys.base_prefix})),
            self._home,
            self.root,
        ):
            for here, folders, files in os.walk(top):
                mine = Path(here) == self.root
                folders[:] = [
                    name
                    for name in folders
                    if name not in ("__pycache__", ".cache")
                    and not name.endswith(".egg-info")
                    and not (mine and name.startswith((".venv", ".dvc")))
                ]
                for name in files:
                    if not (mine and name.startswith((".venv", "requirements.txt"))):
                        status = Path(here, name).stat()
                        found.add((f"{here}/{name}", status.st_size, status.st_mtime_ns))
        return found

    def prepare(self, way: str, n: int) -> None:
        """Bring the project into the state that a way begins from."""
        if way == "fresh":
            for left in self.root.glob(".venv*"):
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            return
        ready, said = self.call()
        assert ready, said
        if way == "changed":
            with (self.root / "requirements.txt").open("a") as file:
                file.write(f"# {n}\n")
        else:
            stamp = self.root / ".venv.stamp"
            stamp.write_text(stamp.read_text().split("\n")[0] + "\n/elsewhere\n")


def pins() -> str:
    """Return the lines of constraints.txt that are about the packages of this measurement."""
    kept, keep = list[str](), False
    for line in (ROOT / "constraints.txt").read_text().split("\n"):
        if not line.startswith("    #"):
            keep = line.partition("==")[0] in {*NAMES, *TOOLS}
        kept += [line] if keep else []
    return "\n".join(kept) + "\n"


def end(process: subprocess.Popen[str]) -> None:
    """Kill a call and all that it started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def measure(place: SmallProject, kills: int, seed: int) -> dict[str, Any]:
    """Kill so often and return what came of it."""
    rng, takes, ways = Random(seed), dict[str, float](), Counter[str]()
    outside, wrong, faults, late = 0, 0, list[dict[str, Any]](), 0
    for way in WAYS:
        place.prepare(way, -1)
        begun = time.monotonic()
        ready, said = place.call()
        assert ready, said
        takes[way] = time.monotonic() - begun
    while sum(ways.values()) < kills:
        n = sum(ways.values())
        way = WAYS[n % len(WAYS)]
        place.prepare(way, n)
        process, moment = place.start(), round(rng.uniform(0, takes[way]), 3)
        try:
            process.communicate(timeout=moment)
        except subprocess.TimeoutExpired:
            end(process)
        else:
            late += 1  # it had ended before: no kill, and tried again at another moment
            continue
        ways[way] += 1
        polluted = place.seen() ^ place.before
        right, said = place.call()
        polluted |= place.seen() ^ place.before
        outside, wrong = outside + bool(polluted), wrong + (not right)
        if polluted or not right:
            files = sorted({path for path, _, _ in polluted})[:3]
            faults.append({"way": way, "moment": moment, "said": said[-400:], "outside": files})
            place.before = place.seen()
        print(f"{sum(ways.values())} kills, {outside} outside, {wrong} wrong", file=sys.stderr, flush=True)
    return {
        "kills": sum(ways.values()),
        "outside": outside,
        "wrong_next": wrong,
        "ways": dict(ways),
        "ended_before": late,
        "seconds_undisturbed": {way: round(seconds, 1) for way, seconds in takes.items()},
        "faults": faults,
        "packages": len(NAMES) + len(TOOLS),
        "seed": seed,
        "machine": machine(),
    }


def main() -> None:
    """Kill, call again, look, and write the result."""
    parser = options(__doc__)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULT)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="assay-set-up-") as folder:
        result = measure(SmallProject(Path(folder).resolve()), chosen.kills, chosen.seed)
    written(chosen.out, result)
    print({name: result[name] for name in ("kills", "outside", "wrong_next")})
    sys.exit(bool(result["outside"] or result["wrong_next"]))


if __name__ == "__main__":
    main()
