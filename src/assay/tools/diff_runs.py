"""`assay runs diff`: are two trainings the same, and if not, where does the first difference come from?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay.console import complain, say
from assay.counting import counted
from assay.errors import RecordError
from assay.evaluation.run_difference import Difference, Numbers, first_difference, first_numbers
from assay.stages.project import RESULTS
from assay.storage.json import read_jsonl

LOG = "train_log.jsonl"
MEANING = {
    "prompts": "the data, the order of the items, the seed, or how an opening is rendered",
    "completions": "sampling (seed, temperature), the starting weights, or the engine's numerics (batch, device, versions)",
    "rewards": "the task's code or settings, or an environment that does not repeat itself",
    "gradients": "the loss and its settings, micro-batching, or kernels of the device that sum in another order",
    "weights": "the optimizer, the learning rate and its schedule, or clipping",
}
MAX_ITEMS = 8


def run(a: Path, b: Path) -> int:
    """Say whether two trainings are the same, or where they part; return the exit code: 0 the same, 1 not.

    Args:
        a: A train_log.jsonl, or a folder that holds one: a run, evidence/results, or a project.
        b: Another.

    Raises:
        RecordError: There is no log, or one is damaged or was changed after it was written.
    """
    logs = (log_of(a), log_of(b))
    if logs[0].samefile(logs[1]):
        complain(f"A and B are one file, {logs[0]}: it is compared with itself")
    rows = [read_log(log) for log in logs]
    found = first_difference(rows[0], rows[1], (f"A ({logs[0]})", f"B ({logs[1]})"))
    for line in same(rows[0], rows[1]) if found is None else told(found):
        say(line)
    return 0 if found is None else 1


def log_of(path: Path) -> Path:
    """Return the log that a path names, or that lies in a folder where logs lie.

    Raises:
        RecordError: There is none.
    """
    places = [path / LOG, path / RESULTS / LOG] if path.is_dir() else [path]
    for place in places:
        if place.exists():
            return place
    expected = f"{LOG} or {RESULTS}/{LOG} in it" if path.is_dir() else f"a {LOG}, or a folder that holds one"
    found = "neither" if path.is_dir() else "no such file or folder"
    raise RecordError(expected, found=found, where=str(path), fix="name a log, a run's folder or a project that was trained")


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a log.

    Raises:
        RecordError: A line is damaged, or there are none.
    """
    fix = "take it from the run again: a log that is damaged says nothing about its run"
    rows = list(read_jsonl(path, fix=fix))
    if not rows:
        raise RecordError("a row for each step", found="none", where=str(path), fix="name the log of a training that began")
    return rows


def same(a: Sequence[dict[str, Any]], b: Sequence[dict[str, Any]]) -> list[str]:
    """Return what to say of two runs whose steps were the same, and whether all they logged beside is the same."""
    numbers = first_numbers(a, b)
    if numbers is not None:
        return [f"the runs took the same {counted(len(a), 'steps')}, but logged other numbers of them: {_number(numbers)}"]
    if a[-1]["chain"] != b[-1]["chain"]:
        return [f"the runs took the same {counted(len(a), 'steps')}, but logged other signals or reward parts of them"]
    steps = counted(len(a), "steps")
    return [f"the runs are identical over {steps} (chain {a[-1]['chain'][:12]}…); all logged numbers are equal too"]


def told(found: Difference) -> list[str]:
    """Return what to say of two runs that part: where, what that usually means, the items, and the logged numbers."""
    if found.link is None:
        ended, last = ("A", "B") if found.n_steps[0] < found.n_steps[1] else ("B", "A")
        lines = [
            f"first difference: step {found.step}: {ended} ends at step {found.step - 1}, {last} at {max(found.n_steps)}; "
            f"over the {counted(found.step - 1, 'steps')} of both the runs are identical",
            "usually this means: one training was stopped, or is not done, or train.steps differs",
        ]
    else:
        before = f"{_listed(found.still_equal)} are still equal" if found.still_equal else "the first link of a step"
        one, other = (str(digest)[:12] for digest in found.digests)
        lines = [
            f"first difference: step {found.step}, link {found.link} ({before}): {one}… in A, {other}… in B",
            f"usually this means: {MEANING[found.link]}",
        ]
    lines += _items(found)
    numbers = found.numbers
    if numbers is None:
        return [*lines, "no other logged number differs in the steps of both"]
    when = "earlier, " if numbers.step < found.step else "later, " if numbers.step > found.step else ""
    return [*lines, f"other logged numbers: {when}{_number(numbers)}"]


def _items(found: Difference) -> list[str]:
    one, other = found.item_ids
    if not (one or other):
        return []
    if one == other or not (one and other):
        return [f"items of step {found.step}: {_shortened(one or other)}"]
    return [f"items of step {found.step} in A: {_shortened(one)}", f"items of step {found.step} in B: {_shortened(other)}"]


def _shortened(names: Sequence[str]) -> str:
    rest = len(names) - MAX_ITEMS
    return ", ".join(names[:MAX_ITEMS]) + (f" and {rest} more" if rest > 0 else "")


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _number(numbers: Numbers) -> str:
    one, other = ("nothing" if value is None else repr(value)[:60] for value in numbers.values)
    more = f" (and {numbers.others} more)" if numbers.others else ""
    return f"{numbers.name}{more} differs first at step {numbers.step}: {one} in A, {other} in B"
