"""`assay runs diff`: are two trainings the same, and if not, where does the first difference come from?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay.core.console import complain, say
from assay.core.counting import counted
from assay.core.errors import RecordError
from assay.core.evidence_files import place_of
from assay.core.storage.json import read_jsonl
from assay.training.log.step_chain import Difference, Numbers, first_difference, first_numbers

LOG = "train_log.jsonl"
MEANING = {
    "prompts": "the data, the order of the items, the seed, or how a prompt is rendered",
    "completions": "sampling (seed, temperature), the base, or the engine's numerics (batch, device)",
    "rewards": "the task's code or settings, or an environment that does not repeat itself",
    "gradients": "the loss, micro-batching, or kernels of the device that sum in another order",
    "weights": "the optimizer, the learning rate and its schedule, or clipping",
}
MAX_ITEMS = 8


def run(a: Path, b: Path) -> int:
    """Say whether two trainings are the same, or where they part; return the exit code: 0 the same, 1 not.

    Raises:
        RecordError: There is no log, or one is damaged or was changed after it was written.
    """
    logs = (find_log(a), find_log(b))
    if logs[0].samefile(logs[1]):
        complain(f"A and B are one file, {logs[0]}: it is compared with itself")
    rows = [read_rows(log) for log in logs]
    found = first_difference(rows[0], rows[1], (f"A ({logs[0]})", f"B ({logs[1]})"))
    for line in [describe_equal(*rows)] if found is None else describe_difference(found):
        say(line)
    return 0 if found is None else 1


def find_log(path: Path) -> Path:
    """Return the log that a path names, or that lies in a folder where logs lie.

    Raises:
        RecordError: There is none.
    """
    places = [path / LOG, path / place_of(LOG)] if path.is_dir() else [path]
    for place in places:
        if place.exists():
            return place
    expected = f"a {LOG}, or a folder with {LOG} or {place_of(LOG)} in it"
    fix = "name a log, a run's folder or a project that was trained"
    found = "neither" if path.is_dir() else "no such file or folder"
    raise RecordError(expected, found=found, where=str(path), fix=fix)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a log; RecordError: a line is damaged, or there are none."""
    fix = "take it from the run again: a log that is damaged says nothing about its run"
    rows = list(read_jsonl(path, fix=fix))
    if not rows:
        fix = "name the log of a training that began"
        raise RecordError("a row for each step", found="none", where=str(path), fix=fix)
    return rows


def describe_equal(a: Sequence[dict[str, Any]], b: Sequence[dict[str, Any]]) -> str:
    """Return what to say of two runs whose steps were the same: whether all they logged beside is, too."""
    steps, numbers = counted(len(a), "steps"), first_numbers(a, b)
    if numbers is not None:
        said = _describe_numbers(numbers)
        return f"the runs took the same {steps}, but logged other numbers of them: {said}"
    if a[-1]["chain"] != b[-1]["chain"]:
        return f"the runs took the same {steps}, but logged other signals or reward parts of them"
    chain = a[-1]["chain"][:12]
    return f"the runs are identical over {steps} (chain {chain}…); all logged numbers are equal too"


def describe_difference(found: Difference) -> list[str]:
    """Return what to say of two runs that part: where, what it usually means, items, logged numbers."""
    at = f"first difference: step {found.step}"
    if found.link is None:
        ended, last = ("A", "B") if found.n_steps[0] < found.n_steps[1] else ("B", "A")
        both = f"over the {counted(found.step - 1, 'steps')} of both the runs are identical"
        lines = [f"{at}: {ended} ends at step {found.step - 1}, {last} at {max(found.n_steps)}; {both}"]
        lines += ["usually this means: one training was stopped, or is not done, or train.steps differs"]
    else:
        equal = found.still_equal
        before = f"still equal: {', '.join(equal)}" if equal else "the first link of a step"
        one, other = (str(digest)[:12] for digest in found.digests)
        lines = [f"{at}, link {found.link} ({before}): {one}… in A, {other}… in B"]
        lines += [f"usually this means: {MEANING[found.link]}"]
    one_items, other_items = map(_shorten, found.item_ids)
    if one_items and other_items and one_items != other_items:
        named = (("A", one_items), ("B", other_items))
        lines += [f"items of step {found.step} in {run}: {items}" for run, items in named]
    elif one_items or other_items:
        lines += [f"items of step {found.step}: {one_items or other_items}"]
    if found.numbers is None:
        return [*lines, "no other logged number differs in the steps of both"]
    step = found.numbers.step
    when = "earlier, " if step < found.step else "later, " if step > found.step else ""
    return [*lines, f"other logged numbers: {when}{_describe_numbers(found.numbers)}"]


def _shorten(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_ITEMS} more" if len(names) > MAX_ITEMS else ""
    return ", ".join(names[:MAX_ITEMS]) + more


def _describe_numbers(numbers: Numbers) -> str:
    one, other = ("nothing" if value is None else repr(value)[:60] for value in numbers.values)
    more = f" (and {numbers.others} more)" if numbers.others else ""
    return f"{numbers.name}{more} differs first at step {numbers.step}: {one} in A, {other} in B"
