"""Trials, each in a process of its own: a copy of the project is damaged, a command is called, and what it
did is judged.

A trial is right if the command ends in time with a code that docs/recovery.md lists, says what is wrong in
one message of ours with a `Fix:`, and has written nowhere but where it may. Anything else that reaches the
front door is a finding.
"""

from __future__ import annotations

import gc
import json
import os
import re
import resource
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from assay.cli import GROUPS
from tests.fuzz import project
from tests.fuzz.targets import EXPERIMENT, TARGETS

CODES = {
    "runs health": {0, 1, 2, 3, 4, 5},
    "train": {0, 1, 2, 4},
    "verdict": {0, 1, 2, 5, 6},
    "verify": {0, 1, 2, 9, 10},
    "package": {0, 1, 2, 6},
    "publish push": {0, 1, 2, 6},
    "publish readme": {0, 1, 2, 6},
    "runs compare": {0, 1, 2, 6},
    "runs report": {0, 1, 2, 6},
}
# These say with 1 what they found; there is no message of ours then.
FINDERS = ("runs diff", "doctor", "verify", "seeds")
WRITE_DATA = ("task make-data", "task audit")
# These only look: nothing of a run may be another afterwards.
LOOKING = (
    "verdict",
    "runs health",
    "runs watch",
    "runs diff",
    "runs compare",
    "runs report",
    "verify",
    "doctor",
    "publish push",
    "publish wandb",
    "runs serve",
)
SECONDS, MEMORY = 180.0, 6 * 2**30  # a machine with other work takes its time
TRACEBACK = "Traceback (most recent call last)"
OUTSIDE = "what must stay as it is\n"


@dataclass(frozen=True, slots=True)
class Found:
    """Something a trial did that it must not: of what kind, where, and how to make it again."""

    target: str
    number: int
    seed: int
    command: str
    kind: str
    where: str
    told: str


def run(
    template: Path,
    trials: int,
    seed: int,
    *,
    jobs: int,
    scratch: Path,
    only: Sequence[str] = (),
    numbers: Sequence[int] = (),
    tell: Callable[[str], None] = lambda line: None,
) -> tuple[Counter[str], list[Found]]:
    """Run trials over all targets and return how many there were of each, and what was found.

    Args:
        template: The project that copies are made of.
        trials: How many, or as many as `numbers` names.
        seed: Another seed, other trials.
        jobs: Trials at a time.
        only: Names of targets; all if none.
        scratch: A folder for the copies.
        numbers: These trials alone.
        tell: Told each finding at once.
    """
    import_all()
    gc.collect()
    gc.freeze()  # so that a child does not copy what it only looks at
    counts: Counter[str] = Counter()
    findings: list[Found] = []
    running: dict[int, tuple[str, int, Path, float]] = {}
    todo = iter(
        [(target, number) for target, number in _plan(trials, only) if not numbers or number in numbers]
    )
    while True:
        while len(running) < jobs and (trial := next(todo, None)) is not None:
            target, number = trial
            folder = scratch / f"{target}-{number}"
            running[_started(template, target, number, seed, folder)] = (
                target,
                number,
                folder,
                time.monotonic(),
            )
            counts[target] += 1
        if not running:
            return counts, findings
        for pid in list(running):
            target, number, folder, begun = running[pid]
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended and time.monotonic() - begun < SECONDS:
                continue
            if not ended:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            found = list(_judged(folder, target, number, seed, status if ended else None))
            for each in found:
                tell(f"{target} {number}: {each.kind}: {each.where}: assay {each.command}")
            findings += found
            shutil.rmtree(folder, ignore_errors=True)
            del running[pid]
        time.sleep(0.01)


def import_all() -> None:
    """Import what commands import late, once for all trials."""
    import importlib
    import pkgutil

    import assay

    for module in pkgutil.walk_packages(assay.__path__, "assay."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ImportError:  # an extra that is not installed
                continue
    for name in ("hydra", "transformers.models.qwen3", "peft", "trl", "model_signing"):
        try:
            importlib.import_module(name)
        except ImportError:
            continue


def _plan(trials: int, only: Sequence[str]) -> Iterator[tuple[str, int]]:
    chosen = {name: weight for name, (weight, _) in TARGETS.items() if not only or name in only}
    order = [name for name, weight in chosen.items() for _ in range(weight)]
    Random(0).shuffle(order)
    for number in range(trials):
        yield order[number % len(order)], number


def _started(template: Path, target: str, number: int, seed: int, folder: Path) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    gc.disable()  # for so short a life; else it would copy memory that it only looks at
    try:
        os.setsid()
        folder.mkdir(parents=True)
        told = _trial(template, target, number, seed, folder)
        (folder / "told.json").write_text(json.dumps(told), encoding="utf-8")
    except BaseException:  # noqa: BLE001 - a fault of the trial itself must not go on as the parent
        (folder / "output.txt").write_text(traceback.format_exc(), encoding="utf-8")
    finally:
        os._exit(0)


def _trial(template: Path, target: str, number: int, seed: int, folder: Path) -> dict[str, object]:
    """Damage, call, and return what is known; in the child."""
    rng = Random(f"{seed} {target} {number}")
    root = folder / "project"
    shutil.copytree(
        template,
        root,
        symlinks=True,
        ignore=None if target in ("packages", "arguments") else _without_package,
    )
    (folder / "outside.txt").write_text(OUTSIDE)
    home = folder / "home"
    home.mkdir()
    os.environ |= {
        "HOME": str(home),
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(home / "hf"),
        "ASSAY_REDRAW_SECONDS": "0",
    }
    os.environ |= {"TMPDIR": str(home), "COLUMNS": "200"}
    os.environ.pop(EXPERIMENT, None)
    os.chdir(root)
    _, prepare = TARGETS[target]
    words = list(prepare(rng, root))
    (folder / "words.json").write_text(json.dumps(words), encoding="utf-8")
    kept = _kept(root, name_of(words))
    before = {name: project.state(root / name) for name in kept}
    output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    soft = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY if soft < 0 else min(soft, MEMORY), soft))
    told: dict[str, object] = {"code": 0, "error": None}
    try:
        told["code"] = called_here(words)
    except BaseException as error:  # noqa: BLE001 - whatever reaches the front door is what is looked for
        told |= {
            "code": None,
            "error": type(error).__name__,
            "where": _where(error),
            "trace": traceback.format_exc()[-6000:],
        }
    sys.stdout.flush()
    sys.stderr.flush()
    told["changed"] = [name for name in kept if project.state(root / name) != before[name]]
    return told


def _without_package(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "dist"]


def called_here(words: Sequence[str]) -> int:
    """Call a command in this process, which is its own, and return its exit code."""
    from assay.cli import main

    sys.argv = ["assay", *words]
    try:
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1 if ended.code else 0
    return 0


def name_of(words: Sequence[str]) -> str:
    """Return the command that is called, with its group's name if it is in one."""
    return " ".join(words[: 2 if words[0] in GROUPS else 1])


def _kept(root: Path, command: str) -> list[str]:
    """Return what a command must leave as it is."""
    kept = [] if command in WRITE_DATA else ["data"]
    if command in LOOKING:
        kept += ["configs", "evidence", "models"]
    return [name for name in kept if (root / name).is_dir()]


def _where(error: BaseException) -> str:
    """Return the place in our code that let an error through, and the place it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        frame for frame in frames if "/assay/" in frame.filename and "/cli/__init__" not in frame.filename
    ]
    last, inner = (ours or frames)[-1], frames[-1]
    return f"{_short(last.filename)}:{last.name}" + (
        "" if last is inner else f" <- {_short(inner.filename)}:{inner.name}"
    )


def _short(name: str) -> str:
    return re.split(r"/(?=assay/)|/site-packages/|/python3\.\d+/", name)[-1]


def _judged(folder: Path, target: str, number: int, seed: int, status: int | None) -> Iterable[Found]:
    """Return what was wrong with an ended trial."""
    words = json.loads(_text(folder / "words.json") or "[]")
    command = " ".join(
        repr(word)[:60] if not word.isprintable() or " " in word or not word else word[:60] for word in words
    )
    output = _text(folder / "output.txt")

    def found(kind: str, where: str, told: str) -> Found:
        return Found(target, number, seed, command, kind, where, told)

    if not words:
        yield found("trial", "tests/fuzz", f"the trial itself failed: {output[-2000:]}, status {status}")
        return
    name = name_of(words)
    if status is None:
        yield found("hang", name, f"not ended after {SECONDS:.0f} s: {output[-1500:]}")
        return
    told = json.loads(_text(folder / "told.json") or "null")
    if told is None:
        yield found("crash", name, f"status {status}: {output[-3000:]}")
        return
    if told["error"] is not None:
        yield found("traceback", f"{told['error']} {told['where']}", told["trace"])
    elif TRACEBACK in output:
        yield found("traceback", "printed", output[-4000:])
    elif told["code"] not in CODES.get(name, {0, 1, 2}):
        yield found("code", f"{name} {told['code']}", output[-1500:])
    elif told["code"] == 2 and "Usage: " not in output:
        yield found("message", f"{name}: 2 without usage", output[-1500:])
    elif told["code"] == 1 and name not in FINDERS and "Fix: " not in output and "To go on" not in output:
        yield found("message", f"{name}: 1 without Fix", output[-1500:])
    elif re.search(r"written, found None\.$|found \.$", output, re.M):
        yield found("message", f"{name}: says nothing", output[-1500:])
    elif len(re.findall(r"^assay: ", output, re.M)) > 1:
        yield found("message", f"{name}: several messages", output[-1500:])
    if told["changed"]:
        yield found("changed", f"{name}: {', '.join(told['changed'])}", output[-800:])
    if _text(folder / "outside.txt") != OUTSIDE or {p.name for p in folder.iterdir()} - {
        "project",
        "home",
        "outside.txt",
        "words.json",
        "output.txt",
        "told.json",
    }:
        yield found("outside", name, str(sorted(p.name for p in folder.iterdir())))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def classes(findings: Sequence[Found]) -> dict[str, int]:
    """Return how many findings there are of each class."""
    return dict(Counter(f"{found.kind}: {found.where}" for found in findings).most_common())


def as_rows(findings: Sequence[Found]) -> list[dict[str, object]]:
    """Return findings as plain values."""
    return [asdict(found) for found in findings]
