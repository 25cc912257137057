"""What an episode costs: memory that is not given back, milliseconds a step, seconds of a training step."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from assay.core.counting import counted
from assay.tools.envcheck.evidence import Evidence, check, not_looked_at
from assay.tools.envcheck.repetition import Script
from assay.tools.findings import Finding

CODE = "the task's code"
GROWS, GROWS_FAST = 512.0, 100_000.0  # bytes an episode, on and on
MOST_GROWTH = 1 << 30  # bytes over a training
SLOW_STEP, SLOW_STEP_AT_WORST, SLOW_TRAINING_STEP = 0.05, 1.0, 600.0  # seconds
ROUNDS, EPISODES = 4, 80


def memory(seen: Evidence, scripts: Sequence[Script]) -> Finding:
    """Return whether episodes that were played before take more memory each time."""
    look = check("memory", "no memory that grows with the episodes", CODE)
    if not scripts:
        return not_looked_at("memory", "nothing could be played")
    over = seen.timed(3.0)
    tracemalloc.start()
    try:
        levels, resident, n = [], [], 0
        for _ in range(ROUNDS):
            for k in range(EPISODES):
                scripts[k % len(scripts)].again(seen.case)
                n = k + 1
                if over() and k % len(scripts) == len(scripts) - 1:
                    break
            gc.collect()
            levels.append(tracemalloc.get_traced_memory()[0])
            resident.append(_resident())
    finally:
        tracemalloc.stop()
    growth = [(after - before) / n for before, after in pairwise(levels[1:])]
    native = [(after - before) / n for before, after in pairwise(resident[1:])]
    each = max(min(growth), min(native) if min(native) > 20_000 else 0.0)
    train = seen.case.params.train
    episodes = train.steps * train.items_per_step * train.group_size
    told = f"{each:,.0f} bytes an episode, in {counted(n * ROUNDS, 'episodes')}"
    fix = "keep nothing of an episode that is over: no growing list, no cache without a limit"
    fault = each > GROWS_FAST or (each > GROWS and each * episodes > MOST_GROWTH)
    return look.judge(
        told, fix, fault=fault, doubtful=each > GROWS, ok=f"at most {max(0.0, each):,.0f} bytes an episode"
    )


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
    from assay.tools.envcheck.completions import LONG
    from assay.tools.envcheck.episodes import always

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
