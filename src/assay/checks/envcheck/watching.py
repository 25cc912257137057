"""What somebody's code does beside its work while it is played (the network, files, processes, texts it
executes, what it leaves changed in the process, which variables it reads), and what an episode costs: memory
that is not given back, milliseconds a step, seconds of a training step.
"""

from __future__ import annotations

import decimal
import gc
import io
import locale
import os
import random
import re
import socket
import sys
import tempfile
import threading
import time
import tracemalloc
import types
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from assay.checks.envcheck.case import folder_of
from assay.checks.envcheck.completions import LONG, MARKER, canaries
from assay.checks.envcheck.episodes import Watch, always, following, shown
from assay.checks.envcheck.evidence import Evidence, check, not_looked_at
from assay.checks.envcheck.repetition import Script, isolation
from assay.checks.findings import Finding
from assay.core.counting import counted

CODE = "the task's code"
PLAIN = int | float | str | None
GROWS, GROWS_FAST = 512.0, 100_000.0  # bytes an episode, on and on
MOST_GROWTH = 1 << 30  # bytes over a training
SLOW_STEP, SLOW_STEP_AT_WORST, SLOW_TRAINING_STEP = 0.05, 1.0, 600.0  # seconds
ROUNDS, EPISODES = 4, 80
LIBRARY = ("os.py", "_collections_abc.py", "<frozen os>", "<frozen _collections_abc>")
WRITES = ("open", "os.mkdir", "os.rename", "os.remove", "os.link", "os.symlink", "sqlite3.connect")
CLIENTS = re.compile(r"\b(?:curl|wget|ssh|scp|ping|nc|telnet)\b")
LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0")


class Noticed:
    """What the audit hook of this process saw while somebody's code ran; a process has one."""

    network: ClassVar[list[str]] = []
    executed: ClassVar[list[str]] = []
    processes: ClassVar[list[str]] = []
    written: ClassVar[list[str]] = []
    variables: ClassVar[dict[str, str]] = {}


def install(folder: Path) -> None:
    """From now on notice what is done while a call of somebody's code is under way; cannot be undone."""
    sys.addaudithook(_hook)
    read = os._Environ.__getitem__

    def noticed(self: Any, key: Any) -> Any:
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None and Path(frame.f_code.co_filename).name in LIBRARY:
            frame = frame.f_back
        if (
            frame is not None
            and frame.f_code.co_filename.startswith(f"{folder}{os.sep}")
            and isinstance(key, str)
        ):
            where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
            Noticed.variables.setdefault(key, where)
        return read(self, key)

    os._Environ.__getitem__ = noticed  # type: ignore[method-assign]


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if Watch.since is None:
        return
    if event == "exec":
        if MARKER in _constants(args[0]):
            Noticed.executed.append(Watch.what)
    elif event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        where = args[1] if event in ("socket.connect", "socket.sendto") else args[0]
        host = where[0] if isinstance(where, tuple) else where
        if not (isinstance(where, str) and event == "socket.connect"):  # a path: a socket of this machine
            Noticed.network.append(f"{host!s}")
    elif event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork"):
        told = str(args[1] if event == "subprocess.Popen" and len(args) > 1 else args[0] if args else event)
        Noticed.processes.append(told[:80])
        if MARKER in str(args):
            Noticed.executed.append(Watch.what)
    elif event in WRITES and isinstance(args[0], str | bytes | os.PathLike):
        name = os.path.abspath(os.fsdecode(args[0]))
        if event != "open" or _is_to_write(args[1], args[2]):
            if not name.startswith(("/dev/", "/proc/")) and "__pycache__" not in name:
                Noticed.written.append(name)
        elif MARKER in os.path.basename(name):
            Noticed.executed.append(Watch.what)


def _is_to_write(mode: Any, flags: Any) -> bool:
    if isinstance(mode, str):
        return bool(set(mode) & set("wax+"))
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _still_written() -> list[str]:
    """Return what was written, without what lies in the folder for passing files and is gone again."""
    passing = tempfile.gettempdir() + os.sep
    return [name for name in Noticed.written if not name.startswith(passing) or os.path.exists(name)]


def _constants(code: Any, depth: int = 0) -> str:
    if not isinstance(code, types.CodeType) or depth > 4:
        return ""
    plain = [str(each) for each in code.co_consts if isinstance(each, str | bytes | tuple)]
    inner = [_constants(each, depth + 1) for each in code.co_consts if isinstance(each, types.CodeType)]
    return " ".join([*plain, *code.co_names, *inner])


def network(seen: Evidence) -> Finding:
    """Return whether the network was tried."""
    look = check("network", "no connection", CODE)
    hosts = sorted({*Noticed.network, *filter(CLIENTS.search, Noticed.processes)})
    outside = [host for host in hosts if not host.startswith(LOOPBACK)]
    fix = "bring along what it asks for; who grades again has another network, or none"
    if outside:
        return look.warning(f"{', '.join(outside[:4])}, {counted(len(hosts), 'ways')}", fix)
    return look.note(f"this machine alone: {', '.join(hosts)}") if hosts else look.ok("none tried")


def execution(seen: Evidence, folder: Path) -> Finding:
    """Return whether a completion was executed: in this process that is refused."""
    look = check("execution", "completions that are read, not executed", "task.isolation")
    own, over = seen.case.own, seen.timed(5.0)
    canary, n = folder / "canary", 0
    extract = None if own is None else own.settings.success.extract
    written: str | None = None
    tops = (seen.sound or seen.floor)[:2]
    Noticed.executed.clear()
    before = len(Noticed.processes)
    for top in tops:
        gold = top.said[-1] if top.said else "1"
        for text in canaries(str(canary), gold, extract):
            if over() or written:
                break
            seen.play(top.world, following([*top.said[:-1], text]), len(top.said) or 1)
            n += 1
            if canary.exists():
                written = text
    Noticed.written[:] = [name for name in Noticed.written if name != str(canary)]
    if written is None and not Noticed.executed:
        started = Noticed.processes[before:]
        told = f"none of {counted(n, 'canaries')}"
        return look.note(f"{told}; it starts processes: {started[0]}") if started else look.ok(told)
    found = (
        f"a file was written by the completion {shown(written)}"
        if written
        else f"compiled, run or opened as a file: {Noticed.executed[0]}"
    )
    kept = "inline" if own is None else isolation()
    if kept != "inline":
        return look.warning(
            f"{found}; task.isolation: {kept}", "parse it instead, if that can be done (ast.literal_eval)"
        )
    return look.fault(found, "task.isolation: worker or server, or parse it instead (ast.literal_eval, json)")


def global_state(seen: Evidence, scripts: Sequence[Script]) -> Finding:
    """Return whether playing leaves global generators and the process as they were, and prints nothing."""
    look = check("global state", "global random generators, folder, variables and settings left alone", CODE)
    out = io.StringIO()
    random.seed(0xA55A)  # what the code itself might set stands out
    np.random.seed(0xA55A)
    before = state_of_process() | {k: v for k, v in seen.at_start.items() if not k.startswith("generator")}
    here = os.getcwd() + os.sep  # elsewhere a library may keep what it made at its first call
    Noticed.written[:] = [name for name in Noticed.written if name.startswith(here)]
    numbers = _module_state(folder_of(seen.case))
    with redirect_stdout(out), redirect_stderr(out):
        for script in scripts[:16]:
            script.again(seen.case)
    after = state_of_process()
    os.chdir(before["the folder it works in"])
    changed = [name for name in before if before[name] != after[name]]
    fix = "numpy.random.default_rng(seed) or random.Random(seed) of its own; and leave the process as it is"
    if changed:
        told = ", ".join(changed)
        hard = any(name.startswith(("generator", "the folder", "locale", "decimal")) for name in changed)
        return look.judge(f"changed: {told}", fix, fault=hard, doubtful=True)
    if written := _still_written():
        return look.warning(
            f"it writes {shown(sorted(written)[0])}", "write no files: calls run side by side"
        )
    now = _module_state(folder_of(seen.case))
    counting = [
        name
        for name, value in numbers.items()
        if now.get(name, value) is not value and now[name] != value  # a constant NaN is not itself
    ]
    if counting:
        return look.warning(f"changed from call to call: {', '.join(counting)}", fix)
    if out.getvalue():
        return look.warning(
            f"it prints: {shown(out.getvalue().strip())}", "print nothing: it fills the log of a training"
        )
    return look.ok(f"{counted(min(16, len(scripts)), 'episodes')} left them so")


def _module_state(folder: Path) -> dict[str, Any]:
    """Return the numbers and texts that the modules of a folder, their classes and their plain containers
    hold, by name: with them a call can know of earlier ones. What is only added is a cache."""
    found: dict[str, Any] = {}
    for module in list(sys.modules.values()):
        if not str(getattr(module, "__file__", None) or "").startswith(f"{folder}{os.sep}"):
            continue
        homes = {"": vars(module)} | {
            f"{name}.": vars(kind)
            for name, kind in vars(module).items()
            if isinstance(kind, type) and kind.__module__ == module.__name__
        }
        for home, values in homes.items():
            for name, value in list(values.items()):
                if name.startswith("__"):
                    continue
                parts = (
                    value.items()
                    if isinstance(value, dict)
                    else enumerate(value)
                    if isinstance(value, list)
                    else ()
                )
                found |= {f"{home}{name}[{key!r}]": part for key, part in parts if isinstance(part, PLAIN)}
                if isinstance(value, PLAIN):
                    found[f"{home}{name}"] = value
    return found


def state_of_process() -> dict[str, Any]:
    """Return what somebody's code should leave as it is, by name."""
    kind, keys, position, *rest = np.random.get_state()
    found: dict[str, Any] = {
        "generator random": random.getstate(),
        "generator numpy.random": (kind, np.asarray(keys).tobytes(), position, rest),
        "the folder it works in": os.getcwd(),
        "variables of the environment": dict(os.environ),
        "locale": locale.setlocale(locale.LC_ALL),
        "decimal context": repr(_settings(decimal.getcontext())),
        "numpy.seterr": np.geterr(),
        "recursion limit": sys.getrecursionlimit(),
        "socket time-out": socket.getdefaulttimeout(),
        "limit of digits": sys.get_int_max_str_digits(),
        "folders of modules (sys.path)": list(sys.path),
        "collection of garbage": gc.isenabled(),
    }
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_rng_state"):
        found["generator torch"] = torch.get_rng_state().numpy().tobytes()
        found["torch's kind of numbers"] = torch.get_default_dtype()
        found["torch's threads"] = torch.get_num_threads()
    return found


def _settings(context: decimal.Context) -> decimal.Context:
    """Return what a context makes of the next sum, without what it noted of the last ones."""
    plain = context.copy()
    plain.clear_flags()
    return plain


def memory(seen: Evidence, scripts: Sequence[Script]) -> Finding:
    """Return whether episodes that were played before take more memory each time."""
    look = check("memory", "no memory that grows with the episodes", CODE)
    if not scripts:
        return not_looked_at("memory", "nothing could be played")
    over = seen.timed(3.0)
    tracemalloc.start()
    try:
        levels, resident, held, n = [], [], [], 0
        for _ in range(ROUNDS):
            for k in range(EPISODES):
                scripts[k % len(scripts)].again(seen.case)
                n = k + 1
                if over() and k % len(scripts) == len(scripts) - 1:
                    break
            gc.collect()
            levels.append(tracemalloc.get_traced_memory()[0])
            resident.append(_resident())
            held.append(_held())
    finally:
        tracemalloc.stop()
    growth = [(after - before) / n for before, after in pairwise(levels[1:])]
    native = [(after - before) / n for before, after in pairwise(resident[1:])]
    each = max(min(growth), min(native) if min(native) > 20_000 else 0.0)
    train = seen.case.params.train
    episodes = train.steps * train.items_per_step * train.group_size
    told = f"{each:,.0f} bytes an episode, in {counted(n * ROUNDS, 'episodes')}"
    for name in held[0]:
        if all(after[name] - before[name] > n / 4 for before, after in pairwise(held)):
            more = (held[-1][name] - held[0][name]) / n / (ROUNDS - 1)
            return look.fault(f"{more:.2g} {name} more an episode", "close and end what a call opens")
    fix = "keep nothing of an episode that is over: no growing list, no cache without a limit"
    fault = each > GROWS_FAST or (each > GROWS and each * episodes > MOST_GROWTH)
    return look.judge(
        told, fix, fault=fault, doubtful=each > GROWS, ok=f"at most {max(0.0, each):,.0f} bytes an episode"
    )


def _held() -> dict[str, int]:
    """Return how many threads and open files this process has."""
    files = Path("/proc/self/fd")
    opened = len(list(files.iterdir())) if files.is_dir() else 0
    return {"threads": threading.active_count(), "open files": opened}


def _resident() -> float:
    try:
        return float(Path("/proc/self/statm").read_text().split()[1]) * 4096
    except (OSError, IndexError):
        return 0.0


def duration(seen: Evidence) -> Finding:
    """Return what a call takes, and what that makes of a training step."""
    look = check("time", f"{1000 * SLOW_STEP:g} ms a call or less", CODE)
    own = seen.case.own
    limit = 5.0 if own is None else own.settings.timeout_s
    played = [*seen.ceiling, *seen.floor]
    steps = sorted(s for episode in played for s in episode.seconds[1:])
    calls = sorted(s for episode in played for s in episode.seconds[:1]) + steps
    if not calls:
        return not_looked_at("time", "nothing could be played")
    begun = time.perf_counter()
    seen.play(seen.worlds[0], always(LONG), 1)
    long = time.perf_counter() - begun
    opened = sorted(episode.seconds[0] for episode in played if episode.seconds)
    usual = max(opened[len(opened) // 2], steps[len(steps) * 3 // 4] if steps else 0.0)
    worst = max(*calls, long)
    train = seen.case.params.train
    turns = max((len(each.said) for each in played), default=1)
    serial = usual * (turns + 1) * train.items_per_step * train.group_size
    threads = 1 if own is None else own.settings.threads
    told = f"{1000 * usual:.3g} ms a call, {1000 * worst:.3g} at worst; {serial:.2g} s a training step"
    told += f", {serial / threads:.2g} in {threads} threads" if threads > 1 else ""
    fix = "make it faster, load what it needs once and not at every call, or raise task.threads"
    slow = usual > SLOW_STEP or worst > SLOW_STEP_AT_WORST
    return look.judge(
        told, fix, fault=worst > limit or serial / threads > SLOW_TRAINING_STEP, doubtful=slow, ok=told
    )
