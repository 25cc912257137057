"""Means by step as trainers, exported charts and consoles write them: which column is which signal, and what
stands where a number should.

Where the names come from:

* TRL: `log_history` of `trainer_state.json`, `GRPOTrainer.log` in trl/trainer/grpo_trainer.py; ms-swift's
  logging.jsonl has the same with "global_step/max_steps": "3/60".
* verl: `compute_data_metrics` in verl/trainer/ppo/metric_utils.py; prime-rl: monitors/file/metrics.jsonl.
* OpenRLHF: the status of a step; NeMo RL: what its console prints.
* W&B charts as CSV: "<run> - <metric>", beside it __MIN and __MAX. TensorBoard: the file's name has the tag.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from assay.core.errors import DataError
from assay.health.logs.records import LARGEST, OddValue, named_part
from assay.rollout.tables.columns import (
    IN_ORDER,
    LAST,
    NAMES,
    Columns,
    is_index,
    list_names,
    read_step,
    simplify,
)

# By signal: how it is called, without case and with _ for every sign between words; see `clean_name`.
SIGNALS: Mapping[str, tuple[str, ...]] = {
    "reward": (
        *("reward", "reward_mean", "reward_all_mean", "critic_score_mean", "critic_rewards_mean"),
        *(
            "mean_reward",
            "avg_reward",
            "average_reward",
            "rewards_mean",
            "total_reward",
            "score",
            "score_mean",
        ),
        *(
            "episode_reward",
            "episode_reward_mean",
            "objective_scores",
            "return",
            "return_mean",
            "rewards",
            "ep_rew_mean",
        ),
    ),
    "reward_std": ("reward_std", "critic_score_std", "reward_all_std"),
    "reward_max": ("reward_max", "critic_score_max", "reward_all_max"),
    "reward_min": ("reward_min", "critic_score_min", "reward_all_min"),
    "zero_variance": ("frac_reward_zero_std", "zero_variance"),
    "entropy": ("entropy", "actor_entropy", "actor_entropy_loss", "entropy_mean", "entropy_all_mean"),
    "kl": ("kl", "actor_kl_loss", "objective_kl", "kl_mean", "generation_kl_error", "approx_kl"),
    "truncated": (
        *("completions_clipped_ratio", "response_length_clip_ratio", "is_truncated_mean", "truncated"),
        *("is_truncated_all_mean", "truncated_rate"),
    ),
    "mean_length": (
        *("completions_mean_length", "completion_length", "response_length_mean", "seq_len_mean"),
        *("mean_length", "response_length", "completion_length_mean", "mean_generation_length"),
        "seq_len_all_mean",
    ),
    "clip": ("clip_ratio_region_mean", "clip_ratio", "actor_pg_clipfrac", "clipfrac", "clip_fraction"),
    "grad_norm": ("grad_norm", "actor_grad_norm", "optim_grad_norm"),
    "loss": ("loss", "actor_pg_loss", "loss_mean", "policy_loss", "training_loss", "actor_loss", "act_loss"),
    "validation": ("eval_reward", "val_reward", "validation_reward", "eval_rewards_mean"),
}
_RUN = re.compile(r"^(?P<run>.+) - (?P<name>[^ ].*)$")
_BEFORE = re.compile(r"^(?:metrics\.)?(?:(?:train|training|trainer|rollout)/)?")
_SIGNS = re.compile(r"[^a-z0-9@]+")
_PART = re.compile(r"^rewards?/(?P<name>.+?)(?:/mean)?$")
_PART_OF_TAG = re.compile(r"^(?:train_)?rewards_(?P<name>.+)_mean$")
_NOT_A_MEAN = re.compile(r"(?:[/_]|^)(?:std|min|max|median|p\d\d)(?:$|@|/)|__(?:MIN|MAX)$", re.I)
_VALIDATION = re.compile(r"^(?:eval|val|valid|validation|test)(?:$|[^a-z])", re.I)
_LOSS = re.compile(r"(?:^|[/_ ])(?:loss|grad_norm)$")
# What trainers log of the machine and the schedule: no rule would read it under any name.
_BESIDE = re.compile(
    r"^(?:timing|perf|time|wall|memory|gpu|cpu|global_seqlen|prompt_length|num_tokens|epoch|percentage|elapsed|"
    r"remaining|tokens|frac_|sampling|completions_|clip_|lr$|learning_rate|actor_lr|producer|_|.*(?:runtime|"
    r"timestamp|per_second|memory|mfu|flos|throughput|speed))"
)
# Beside the names that all commands know, those of shares and of reward functions that tell right from wrong.
SUCCESS = (
    *(name for name in NAMES["success"] if name not in LAST),
    *(
        "acc",
        "exact_match",
        "em",
        "pass_rate",
        "solve_rate",
        "success_rate",
        "win_rate",
        "successes",
        "check_answer",
        "math_verify",
    ),
)
_SUCCESS = re.compile(rf"(?:^|[^a-z])(?:{'|'.join(SUCCESS)})(?:$|[^a-z])", re.I)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
RUNS = frozenset(("run", "runid", "runname", "runuuid", "experiment", "experimentname", "expname", "seed"))
SHARED = 0.5  # of the steps of a run: a run that was taken up again repeats fewer under its new name
MOST_LOST = 0.1  # of the rows
PROSE = 24  # characters of a text with a space or brace in it: what somebody said, no name or time
SPARSE = 0.5  # of a column's rows: with so many empty it is measured now and then


class Means(NamedTuple):
    """The rows of a log under the names of our signals, what stood in place of numbers, and what was not
    read."""

    rows: tuple[Mapping[str, float], ...]
    odd: tuple[OddValue, ...]
    numbers: tuple[str, ...]  # columns that hold numbers and are not known
    texts: tuple[str, ...]  # columns that hold long texts
    notes: tuple[str, ...]  # columns of known names that hold no number, and rows without a step
    garbled: tuple[str, ...]  # columns of known names whose texts have digits, and are no numbers


def names_success(name: str) -> bool:
    """Return whether a column's name says that it tells right from wrong.

    >>> [names_success(name) for name in ("accuracy_reward", "MathAccuracy", "format", "accelerate")]
    [True, True, False, False]
    """
    return _SUCCESS.search(_HUMP.sub("_", name)) is not None


def clean_name(name: str) -> str:
    """Return a metric's name without the run and the part of the trainer that it is of.

    >>> clean_name("grpo - 2 - train/rewards/format/mean"), clean_name("rewards / format / mean")
    ('rewards/format/mean', 'rewards/format/mean')
    """
    match = _RUN.match(name.strip())
    bare = re.sub(r"\s*/\s*", "/", match["name"] if match else name.strip())
    return _BEFORE.sub("", bare)


def _plain(name: str) -> str:
    found = _SIGNS.sub("_", name.lower()).strip("_")
    return found.removeprefix("train_")


def number_in(value: object) -> float | None:
    """Return a number, NaN and Inf as well, also where it is written as text; None for all else."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    if isinstance(value, bool | int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    return None


def is_sound(number: float) -> bool:
    """Return whether a number can be a measurement: finite, and not beyond all sense."""
    return abs(number) <= LARGEST  # never of NaN


def read_means(records: Sequence[Mapping[str, Any]], columns: Columns, where: str) -> Means:
    """Return the rows of means by step that records hold; those without step or signal are left out.

    Args:
        records: As they were written, each of one step.
        columns: The columns that somebody named.
        where: The log, for messages.

    Raises:
        DataError: They are of several runs, or hold signals and no step.
    """
    cells: dict[str, dict[int, Any]] = {}
    for k, record in enumerate(records):
        for name, value in record.items():
            cells.setdefault(str(name), {})[k] = value
    clean = {name: clean_name(name) for name in cells if not name.endswith(("__MIN", "__MAX"))}
    runs = sorted({match["run"] for name in clean if (match := _RUN.match(name))})
    if len(runs) > 1:
        fix = "export the charts of one run at a time"
        raise DataError("the charts of one run", found=f"those of {list_names(runs)}", where=where, fix=fix)
    steps = _steps(records, clean, columns)
    signals = _signals(cells, clean, columns)
    if not steps and signals:
        known = list_names(signals.values())
        counts = [name for name in names_of_counts(records) if name not in signals.values()]
        fix = f"--columns step={IN_ORDER}, if each row is one more step"
        if any(simplify(clean.get(name, "")) in RUNS for name in cells):
            fix = "export the history of one run by step: a table of runs has the last value of each alone"
        if any(_is_step(name, clean, columns) for name in clean):
            fix = "--columns step=NAME names a column of whole numbers that counts steps"
        if counts:
            fix = (
                " or ".join(f"--columns {shlex.quote(f'step={name}')}" for name in counts[:3])
                + ", if that is it"
            )
        raise DataError("a step beside each row", found=f"{known}, and no step", where=where, fix=fix)
    _refuse_several_runs(cells, clean, steps, where)
    rows, odd, notes = list[Mapping[str, float]](), list[OddValue](), list[str]()
    if lost := [k for k in range(len(records)) if k not in steps and _says_any(records[k], signals.values())]:
        notes.append(_name_lost(records, lost, clean, columns, where))
        steps |= _steps_before(lost, steps, cells, signals)
    told = {signal: cells[name] for signal, name in signals.items()}
    for k, step in sorted(steps.items()):
        row = {signal: n for signal, column in told.items() if (n := _sound(column.get(k))) is not None}
        if row:
            rows.append({"step": float(step)} | row)
    for signal, name in signals.items():
        odd += _odd(signal, name, cells[name], steps)
    read = set(signals.values())
    left = [name for name in clean if name not in read and not _is_step(name, clean, columns)]
    numbers = [name for name in left if _numbers(cells[name]) and not _is_beside(clean[name])]
    texts = [name for name in left if is_prose(cells[name].values())]
    mute = [name for name in left if is_known(name) and not _says_numbers(cells[name])]
    notes += [f"{name} holds no number" for name in mute]
    garbled = (name for name in mute if any(map(_has_digit, cells[name].values())))
    return Means(tuple(rows), tuple(odd), tuple(numbers), tuple(texts), tuple(notes), tuple(garbled))


def names_of_counts(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns that hold whole numbers that grow, as a count of steps does; an index is none."""
    columns: dict[str, list[object]] = {}
    for record in records:
        for name, value in record.items():
            columns.setdefault(str(name), []).append(value)
    return [name for name, values in columns.items() if not is_index(name) and _counts(values)]


def _counts(values: Sequence[object]) -> bool:
    steps = [step for value in values if (step := read_step(value)) is not None]
    return len(steps) == len(values) > 1 and steps == sorted(steps) and steps[0] < steps[-1]


def _has_digit(value: object) -> bool:
    return isinstance(value, str) and any(map(str.isdigit, value))


def _says_any(record: Mapping[str, Any], names: Iterable[str]) -> bool:
    return any(number_in(record.get(name)) is not None for name in names)


def _name_lost(
    records: Sequence[Mapping[str, Any]],
    lost: Sequence[int],
    clean: Mapping[str, str],
    columns: Columns,
    where: str,
) -> str:
    """Return how many rows have a signal and no step, which a summary at the end has not.

    Raises:
        DataError: They are so many that the log is not known without them.
    """
    first = records[lost[0]]
    told = [f"{name} = {value!r}"[:60] for name, value in first.items() if _is_step(name, clean, columns)]
    said = f"{len(lost)} of {len(records)} rows have no step ({told[0] if told else 'none is there'})"
    if len(lost) > MOST_LOST * len(records):
        fix = "--columns step=NAME names a column of whole numbers that counts steps"
        raise DataError("a whole number as the step of each row", found=said, where=where, fix=fix)
    return f"{said} and were left out"


def _steps_before(
    lost: Sequence[int],
    steps: Mapping[int, int],
    cells: Mapping[str, Mapping[int, Any]],
    signals: Mapping[str, str],
) -> dict[int, int]:
    """Return, for rows without a step that hold what is no measurement, the step of the row before: what
    broke there is a fact, whenever it was."""
    known, found = sorted(steps), dict[int, int]()
    for k in lost:
        values = (number_in(cells[name].get(k)) for name in signals.values())
        if any(value is not None and not is_sound(value) for value in values):
            before = bisect_left(known, k)
            found[k] = steps[known[max(0, before - 1)]]
    return found


def _refuse_several_runs(
    cells: Mapping[str, Mapping[int, Any]], clean: Mapping[str, str], steps: Mapping[int, int], where: str
) -> None:
    """Refuse rows of several runs that went through the same steps: their mean is of no training."""
    for name in cells:
        if simplify(clean.get(name, "")) not in RUNS:
            continue
        runs: dict[str, set[int]] = {}
        for k, value in cells[name].items():
            if k in steps and value is not None:
                runs.setdefault(str(value), set()).add(steps[k])
        sizes = sorted(runs.values(), key=len, reverse=True)[:2]
        if len(sizes) == 2 and len(sizes[0] & sizes[1]) > SHARED * len(sizes[1]):
            fix = f"keep the rows of one {name} in a file of its own"
            found = f"several by {name}: {list_names(runs)}"
            raise DataError("the log of one run", found=found, where=where, fix=fix)


def is_known(name: str) -> bool:
    """Return whether a metric's name is one of a signal or a reward part."""
    plain = _plain(clean_name(name))
    return any(plain in names for names in SIGNALS.values()) or _PART_OF_TAG.match(plain) is not None


def _is_beside(name: str) -> bool:
    return bool(_NOT_A_MEAN.search(name) or _BESIDE.search(_plain(name)) or _VALIDATION.search(name))


def is_prose(values: Iterable[object]) -> bool:
    """Return whether most of these are long texts that differ: what somebody wrote, and no name of a run."""
    told = [
        value if isinstance(value, str) else json.dumps(value, default=str)
        for value in values
        if _speaks(value)
    ]
    long = [value for value in told if len(value) >= PROSE and re.search(r"[\s{]", value)]
    return len(set(long)) > 1 and 2 * len(long) >= len(told)


def _speaks(value: object) -> bool:
    """Return whether a value is a text that is no number, or holds one."""
    if isinstance(value, str):
        return number_in(value) is None
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(map(_speaks, inside))


def _is_step(name: str, clean: Mapping[str, str], columns: Columns) -> bool:
    return clean[name] in columns.candidates({clean[name]: 0}).get("step", ())


def _steps(
    records: Sequence[Mapping[str, Any]], clean: Mapping[str, str], columns: Columns
) -> dict[int, int]:
    """Return the step of each record that has one, by the record's place."""
    found, asked = {}, columns.named.get("step")
    if asked == IN_ORDER:
        return {k: k + 1 for k in range(len(records))}
    for k, record in enumerate(records):
        bare = {clean[name]: value for name, value in record.items() if name in clean}
        names = columns.candidates(bare).get("step", ()) if asked is None else (asked,)
        told = (record.get(name, bare.get(name)) for name in names)
        step = next((step for value in told if (step := read_step(value)) is not None), None)
        if step is not None:
            found[k] = step
    return found


def _signals(
    cells: Mapping[str, Mapping[int, Any]], clean: Mapping[str, str], columns: Columns
) -> dict[str, str]:
    """Return by signal the column that has it: parts are "part <name>"."""
    there = {name: bare for name, bare in clean.items() if _says_numbers(cells[name])}
    plain: dict[str, str] = {}
    for name, bare in sorted(there.items(), key=lambda each: not _numbers(cells[each[0]])):
        plain.setdefault(_plain(bare), name)
    found = {
        signal: plain[known]
        for signal, names in SIGNALS.items()
        if (known := next((each for each in names if each in plain), None)) is not None
    }
    for signal, asked in (("reward", "score"), ("success", "success"), ("mean_length", "tokens")):
        name = columns.named.get(asked)  # type: ignore[call-overload]  # a meaning that there is
        match = next((raw for raw, bare in there.items() if name in (raw, bare, _part(bare))), None)
        if name is not None and match is not None:
            found[signal] = match
    taken = {name for signal, name in found.items() if signal != "success"}
    parts = {name: part for name, bare in there.items() if (part := _part(bare)) and name not in taken}
    found |= {named_part(part): name for name, part in parts.items()}
    losses = [name for name, bare in there.items() if _LOSS.search(_HUMP.sub("_", bare).lower())]
    found |= {
        f"loss {name}": name for name in losses if name not in taken and not _VALIDATION.search(there[name])
    }
    if "success" not in columns.named:
        right = [
            name
            for name, bare in there.items()
            if names_success(bare) and not _NOT_A_MEAN.search(bare) and not _VALIDATION.search(bare)
        ]
        if right:
            found["success"] = max(right, key=lambda name: (_numbers(cells[name]), -right.index(name)))
    return found


def _part(name: str) -> str | None:
    """Return the reward part whose mean a column is."""
    match = _PART.match(name) if "/" in name else _PART_OF_TAG.match(name)
    if match is None or name.startswith("reward/all/") or _NOT_A_MEAN.search(name):
        return None
    return None if match["name"] in ("mean", "std", "all") else match["name"]


def _numbers(column: Mapping[int, Any]) -> int:
    return sum(_sound(value) is not None for value in column.values())


def _says_numbers(column: Mapping[int, Any]) -> bool:
    """Return whether a column is one of numbers, though all of them may be NaN."""
    return any(number_in(value) is not None for value in column.values())


def _sound(value: object) -> float | None:
    found = number_in(value)
    return found if found is not None and is_sound(found) else None


def _odd(signal: str, name: str, column: Mapping[int, Any], steps: Mapping[int, int]) -> list[OddValue]:
    """Return what stands in a column of numbers and is none; that it is empty only where it seldom is."""
    here = {k: value for k, value in column.items() if k in steps}
    fine = {steps[k] for k, value in here.items() if _sound(value) is not None}
    empty = {k for k, value in here.items() if value is None and steps[k] not in fine}
    seldom = len(empty) < SPARSE * len(here)
    found = []
    for k, value in here.items():
        told = ("null" if seldom and k in empty else None) if value is None else odd_word(value)
        if told is not None:
            found.append(OddValue(steps[k], signal, name, told))
    return found


def odd_word(value: object) -> str | None:
    """Return in a word what stands where a number should, None for a number.

    >>> [odd_word(each) for each in (1.0, "0.5", float("nan"), -1e300, "error")]
    [None, None, 'NaN', '-1e+300', "'error'"]
    """
    found = number_in(value)
    if found is None:
        return repr(value)[:24]
    if is_sound(found):
        return None
    return (
        "NaN"
        if math.isnan(found)
        else ("Inf" if found > 0 else "-Inf")
        if math.isinf(found)
        else f"{found:g}"
    )
