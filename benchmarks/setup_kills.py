"""Can a set-up be killed anywhere? SIGKILL of all its processes at random moments, and of a removal by hand.

    ./run bench setup_kills
    ./run python benchmarks/setup_kills.py --kills 100 --seed 0 --out FILE
    ./run python benchmarks/setup_kills.py --kills 20 --script OTHER/run --out /dev/null   # to compare

The true `run` makes true environments, in a project of six small packages of constraints.txt, one of them
from its source, with a Python of its own: a copy of this one, with pip, so that what goes wrong pollutes
nothing of this machine. Four ways of being killed, each at a moment drawn evenly over the time that it takes
undisturbed: a first set-up (`fresh`); one in the place of an environment that was made elsewhere (`remade`,
every other one within the time of the old one's removal); one for changed requirements (`changed`); and `rm
-rf .venv` by hand (`removed`). With probability 1/3 the next call is killed as well. After each chain one
more call has to end right: everything imported, from .venv. And nothing may have changed outside of .venv: in
the Python's own folder, in the home, in the project.

Exits with 1 unless `outside` and `wrong_next` are 0. Predicted before the first run: 0 and 0.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks/results/setup_kills.json"
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
NAMES = ("antlr4-python3-runtime", "idna", "iniconfig", "sortedcontainers")
TOOLS = ("pip", "setuptools")
WAYS = {"fresh": 30, "remade": 40, "changed": 15, "removed": 15}  # shares, in percent
BALLAST = 200  # folders of 50 files, so that removing takes about as long as of a true environment
CHECK = """
import pathlib, sys
import antlr4, idna, iniconfig, sortedcontainers, small
root = pathlib.Path.cwd()
assert pathlib.Path(sys.prefix) == root / ".venv" and sys.prefix != sys.base_prefix, sys.prefix
for module in (antlr4, idna, iniconfig, sortedcontainers):
    assert (root / ".venv") in pathlib.Path(module.__file__).parents, module.__file__
assert pathlib.Path(small.__file__) == root / "src/small/__init__.py"
from importlib.metadata import version
assert version("small") == "1.0"
"""


class SmallProject:
    """A small project, the Python and the packages it is set up from, and what must never change.

    Args:
        folder: Where all of it goes.
        script: The `run` to look at.
    """

    def __init__(self, folder: Path, script: Path) -> None:
        self.root, self._home, self._prefix = folder / "a project", folder / "home", folder / "python"
        self._home.mkdir(parents=True)
        self._copy_python()
        wheels = folder / "wheels"
        (self.root / "src/small").mkdir(parents=True)
        (self.root / "src/small/__init__.py").touch()
        (self.root / "requirements.txt").write_text("".join(f"{name}\n" for name in NAMES))
        (self.root / "constraints.txt").write_text(pins())
        (self.root / "pyproject.toml").write_text(
            '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
            '[project]\nname = "small"\nversion = "1.0"\n[tool.setuptools.packages.find]\nwhere = ["src"]\n'
        )
        shutil.copy2(script, self.root / "run")
        (self.root / ".ci").mkdir()
        shutil.copy2(script.parent / ".ci/set_up.py", self.root / ".ci/set_up.py")
        (self.root / ".git").mkdir()  # DVC, which is not here, need not be told that there is none
        get = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "-d", str(wheels)]
        subprocess.run([*get, *re.findall(r"^[\w.-]+==\S+$", pins(), re.MULTILINE)], check=True)
        self._surroundings = {
            "PATH": f"{self._prefix}/bin:/usr/bin:/bin",
            "HOME": str(self._home),
            "LD_LIBRARY_PATH": str(self._prefix / "lib"),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_COMPILE": "1",  # more kills in the same time
        }
        self.before = self.seen()

    def _copy_python(self) -> None:
        base, within = Path(sys.base_prefix), f"lib/{PYTHON}"
        leave = shutil.ignore_patterns("site-packages", "dist-packages", "test", "__pycache__", "config-*")
        shutil.copytree(base / within, self._prefix / within, ignore=leave)
        (self._prefix / "bin").mkdir()
        shutil.copy2(base / "bin" / PYTHON, self._prefix / "bin" / PYTHON)
        for library in (base / "lib").glob("libpython*"):
            shutil.copy2(library, self._prefix / "lib" / library.name)
        (self._prefix / within / "site-packages").mkdir()
        alone = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self._home),
            "LD_LIBRARY_PATH": str(self._prefix / "lib"),
        }
        subprocess.run(
            [self._prefix / "bin" / PYTHON, "-m", "ensurepip", "--default-pip"],
            check=True,
            env=alone,
            capture_output=True,
        )

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start a command in the project, in a process group of its own."""
        return subprocess.Popen(
            command,
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
        with self.start("./run", "python", "-c", CHECK) as process:
            said, _ = process.communicate(timeout=300)
        return process.returncode == 0, said

    def seen(self) -> set[tuple[str, int, int]]:
        """Return every file outside of .venv, with its size and time; caches of Python and pip left out."""
        found = set()
        for top in (self._prefix, self._home, self.root):
            for folder, folders, files in os.walk(top):
                here = Path(folder)
                folders[:] = [
                    name
                    for name in folders
                    if name != "__pycache__"
                    and here / name != self._home / ".cache"
                    and not name.endswith(".egg-info")
                    and not (here == self.root and name.startswith(".venv"))
                ]
                for name in files:
                    if not (here == self.root and name.startswith((".venv", "requirements.txt"))):
                        status = (here / name).stat()
                        found.add((str(here / name), status.st_size, status.st_mtime_ns))
        return found

    def prepare(self, way: str, n: int) -> tuple[str, ...]:
        """Bring the project into the state a way begins from; return the command that is killed."""
        if way == "fresh":
            for left in self.root.glob(".venv*"):
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            return ("./run", "python", "-c", CHECK)
        ready, said = self.call()
        assert ready, said
        site = next(self.root.glob(".venv/lib/*/site-packages"))
        for index in range(BALLAST):
            (site / f"ballast/{index}").mkdir(parents=True, exist_ok=True)
            for each in range(50):
                (site / f"ballast/{index}/{each}").touch()
        if way == "removed":
            return ("rm", "-rf", ".venv")
        if way == "changed":
            with (self.root / "requirements.txt").open("a") as file:
                file.write(f"# {n}\n")
        else:  # as if it had been set up elsewhere; the second place is where an older script kept it
            for stamp in (self.root / ".venv.stamp", self.root / ".venv/.stamp"):
                if stamp.exists():
                    stamp.write_text(stamp.read_text().split("\n")[0] + "\n/elsewhere\n")
        return ("./run", "python", "-c", CHECK)


def pins() -> str:
    """Return the lines of constraints.txt that are about the packages of this measurement."""
    wanted, kept = {*NAMES, *TOOLS}, []
    keep = False
    for line in (ROOT / "constraints.txt").read_text().split("\n"):
        if not line.startswith("    #"):
            keep = line.partition("==")[0] in wanted
        if keep:
            kept.append(line)
    return "\n".join(kept) + "\n"


def killed(place: SmallProject, command: tuple[str, ...], seconds: float) -> bool:
    """Kill a command and all it started after so many seconds; return False if it had ended before."""
    with place.start(*command) as process:
        try:
            process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return True
    return False


def measure(place: SmallProject, kills: int, seed: int) -> dict[str, Any]:
    """Kill so often and return what came of it."""
    rng, takes = random.Random(seed), dict[str, float]()
    for way in WAYS:
        command = place.prepare(way, -1)
        begun = time.monotonic()
        with place.start(*command) as process:
            process.communicate()
        takes[way] = time.monotonic() - begun
    ways: Counter[str] = Counter()
    outside = wrong = chains = 0
    faults: list[dict[str, Any]] = []
    while sum(ways.values()) < kills:
        n, due = sum(ways.values()), sum(ways.values()) + 1
        way = max(WAYS, key=lambda name: WAYS[name] * due / 100 - ways[name])
        command = place.prepare(way, n)
        reach = takes["removed"] * 1.5 + 0.2 if way == "remade" and ways[way] % 2 else takes[way]
        moments: list[float] = []
        while not moments or (rng.random() < 1 / 3 and sum(ways.values()) < kills):
            moments.append(round(rng.uniform(0, reach), 3))
            if not killed(place, command, moments[-1]):
                break
            ways[way] += 1
            command, reach = ("./run", "python", "-c", CHECK), takes["fresh"]
        polluted = place.seen() ^ place.before
        right, said = place.call()
        polluted |= place.seen() ^ place.before
        chains += 1
        outside += bool(polluted)
        wrong += not right
        if polluted or not right:
            files = sorted({path for path, _, _ in polluted})
            faults.append(
                {
                    "way": way,
                    "moments": moments,
                    "said": said[-400:],
                    "outside": len(files),
                    "first": files[:3],
                }
            )
            place.before = place.seen()
            for left in place.root.glob(".venv*"):  # what is broken must not count twice
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        print(f"{sum(ways.values())} kills, {outside} outside, {wrong} wrong", file=sys.stderr, flush=True)
    return {
        "kills": sum(ways.values()),
        "outside": outside,
        "wrong_next": wrong,
        "chains": chains,
        "ways": dict(sorted(ways.items())),
        "seconds_undisturbed": {way: round(seconds, 2) for way, seconds in takes.items()},
        "faults": faults,
        "seed": seed,
        "python": sys.version.split()[0],
        "packages": len(NAMES) + len(TOOLS),
    }


def together(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what came of several projects as one result; times are those of the slowest."""
    first = results[0]
    counts = {
        name: sum(each[name] for each in results) for name in ("kills", "outside", "wrong_next", "chains")
    }
    ways = {way: sum(each["ways"].get(way, 0) for each in results) for way in WAYS}
    slowest = {way: max(each["seconds_undisturbed"][way] for each in results) for way in WAYS}
    faults = [fault for each in results for fault in each["faults"]]
    more = {
        "seeds": [each["seed"] for each in results],
        "python": first["python"],
        "packages": first["packages"],
    }
    return counts | {"ways": ways, "seconds_undisturbed": slowest, "faults": faults} | more


def main() -> None:
    """Kill, call again, look, and write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--jobs", type=int, default=3, help="projects side by side, each with a seed of its own"
    )
    parser.add_argument("--script", type=Path, default=ROOT / "run")
    parser.add_argument("--out", type=Path, default=RESULT)
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="assay-set-up-") as folder,
        ThreadPoolExecutor(chosen.jobs) as pool,
    ):
        shares = [
            chosen.kills // chosen.jobs + (job < chosen.kills % chosen.jobs) for job in range(chosen.jobs)
        ]
        places = [Path(folder).resolve() / str(job) for job in range(chosen.jobs)]
        begun = [
            pool.submit(
                lambda place, share, seed: measure(SmallProject(place, chosen.script.resolve()), share, seed),
                *each,
            )
            for each in zip(
                places, shares, (chosen.seed * 1000 + job for job in range(chosen.jobs)), strict=True
            )
        ]
        result = together([each.result() for each in begun])
    chosen.out.write_text(json.dumps(result, indent=2, sort_keys=True) + "\n")
    print(
        json.dumps({key: value for key, value in result.items() if key != "faults"}, indent=2, sort_keys=True)
    )
    sys.exit(bool(result["outside"] or result["wrong_next"]))


if __name__ == "__main__":
    main()
