"""What happened in a log, at the step where it happened: a value that is no number, a reward that never pays.

Nothing is averaged here: one NaN is a fact, however short it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from assay.core.records import HealthLevel
from assay.health.logs.blocks import Read
from assay.health.logs.records import DEAD_PART, LOSS_SIZE, ForeignLog, LogFinding, OddValue

WATCHED = ("loss", "reward", "grad_norm")  # without one of these a training is not known to be finite
GRAVE = ("loss", "reward")  # one alone spoils the weights, or what they are moved by
TRAINED = ("kl", "entropy")  # terms of the loss: what lasts there is in the weights
LASTING = 3  # rows on end: a loss scaler skips fewer
STOPPED = 0.1  # of the rows at the end, at least as many as LASTING: a column that is in none of them stopped
REGULAR = 0.8  # of the rows before: a column that was in so many is in each
LEAST_ROWS = 10  # of a part that is said never to pay, and of a loss whose size is compared
BLOWN_UP = 1000.0
_PENALTY = re.compile(
    r"penal|punish|cost|overlong|repet|negative|violat|toxic|leng|truncat|abort|error", re.I
)
Steps = Sequence[int]


def read_non_finite(log: ForeignLog) -> Read:
    """Read where something is NaN, Inf, a text or null that is a number elsewhere.

    RED where it is a loss or a reward and no mere null, where it lasts for three rows or where the log ends
    with it; AMBER where it passed. A reward part that is none while the reward is one was not asked for in
    that step.
    """
    steps = _steps_by_signal(log)
    odd: dict[str, list[OddValue]] = {}
    for each in sorted(log.odd, key=lambda each: each.step):
        odd.setdefault(each.signal, []).append(each)
    told: list[tuple[HealthLevel, int, bool, str]] = []
    columns = {values[0].column: signal for signal, values in reversed(odd.items())}
    for signal, values in odd.items():
        if columns[values[0].column] == signal and (found := _judge(signal, values, steps)) is not None:
            told.append(found)
    for signal in WATCHED:
        if signal not in odd and (found := _stopped(signal, log, steps)) is not None:
            told.append(found)
    measured = any(signal.split()[0] in WATCHED for signal in (*steps, *odd))
    if not told:
        return measured, None
    worst: HealthLevel = "RED" if any(level == "RED" for level, *_ in told) else "AMBER"
    said = "; ".join(text for *_, text in told)
    said = f"{said[0].upper()}{said[1:]}; lower the learning rate or max_grad_norm, and look at these steps."
    since, at_end = min(step for _, step, *_ in told), any(over for _, _, over, _ in told)
    return True, LogFinding("non_finite", worst, since, at_end, None, None, None, said)


def _steps_by_signal(log: ForeignLog) -> dict[str, list[int]]:
    """Return by signal the steps at which it is a number, in order."""
    found: dict[str, list[int]] = {}
    for row in sorted(log.rows, key=lambda row: row["step"]):  # a log may be written backwards, or go back
        for signal in row:
            found.setdefault(signal, []).append(int(row["step"]))
    found.pop("step", None)
    paid = [each.step for each in log.completions if each.reward is not None]
    if paid:
        found["reward"] = sorted([*found.get("reward", []), *set(paid)])
    return found


def _judge(
    signal: str, values: Sequence[OddValue], steps: Mapping[str, Steps]
) -> tuple[HealthLevel, int, bool, str] | None:
    fine = steps.get(signal, [])
    wild = list(dict.fromkeys(each.step for each in values))
    last = max(wild)
    ended = not any(step > last for step in fine) and any(step < last for step in fine)
    lasts = _longest_run(wild, set(fine) - set(wild)) >= LASTING
    asked = signal == "success" or signal.startswith("part ")
    if asked and not (ended and _ends_for_good(wild, fine)) and set(wild) & set(steps.get("reward", [])):
        return None
    told = list(dict.fromkeys(each.said for each in values))
    kind = signal.split()[0]
    if not fine and kind not in (*WATCHED, *TRAINED):
        return None  # never a number
    grave = kind in GRAVE and told != ["null"]
    lasting = kind in (*WATCHED, *TRAINED) and (lasts or ended or not fine)
    level: HealthLevel = "RED" if grave or lasting else "AMBER"
    where = _name_steps(wild)
    after = "" if ended or not fine else ", and a number again after that"
    return level, wild[0], ended, f"{values[0].column} is {', '.join(told[:3])} at {where}{after}"


def _ends_for_good(wild: Steps, fine: Steps) -> bool:
    """Return whether a column that is asked for now and then is none for longer than ever before."""
    last = max(fine, default=0)
    before = _longest_run([step for step in wild if step < last], set(fine))
    return sum(step > last for step in wild) >= max(LASTING, 3 * before)


def _longest_run(wild: Steps, fine: set[int]) -> int:
    """Return the most steps on end without a number."""
    longest, run, before = 0, 0, None
    for step in wild:
        broken = before is not None and any(before < each < step for each in fine)
        run = 1 if broken or before is None else run + 1
        longest, before = max(longest, run), step
    return longest


def _name_steps(steps: Steps) -> str:
    """Return steps in words.

    >>> _name_steps([31]), _name_steps([31, 32, 40])
    ('step 31', '3 steps from 31 to 40')
    """
    return f"step {steps[0]}" if len(steps) == 1 else f"{len(steps)} steps from {steps[0]} to {steps[-1]}"


def _stopped(
    signal: str, log: ForeignLog, steps: Mapping[str, Steps]
) -> tuple[HealthLevel, int, bool, str] | None:
    """Return that a column ends before its log does, though until then it was in each row."""
    there = steps.get(signal, [])
    everywhere = sorted({int(row["step"]) for row in log.rows if len(row) > 1})
    if not there or signal not in {name for row in log.rows for name in row}:
        return None
    before = [step for step in everywhere if step <= there[-1]]
    behind = [step for step in everywhere if step > there[-1]]
    if len(behind) < max(LASTING, STOPPED * len(everywhere)) or len(set(there)) < REGULAR * len(before):
        return None
    return "AMBER", behind[0], True, f"{signal} is in no row after step {there[-1]}, others go on"


def read_loss_size(log: ForeignLog) -> Read:
    """Read whether a loss left all bounds: a thousand times what it was in the first fifth of the log."""
    losses: dict[str, list[tuple[int, float]]] = {}
    for row in log.rows:
        for name, value in row.items():
            if name.split()[0] == "loss":
                losses.setdefault(name, []).append((int(row["step"]), abs(value)))
    read = False
    for told in losses.values():
        first = len(told) // 5
        if len(told) < LEAST_ROWS:
            continue
        read, limit = True, BLOWN_UP * max(1.0, *(size for _, size in told[:first]))
        over = [(step, size) for step, size in told[first:] if size > limit]
        if over:
            most = max(size for _, size in over)
            said = f"Loss reached {most:.3g}, over {limit:.3g}, a thousand times its start (at least 1)"
            said = f"{said}; lower the learning rate, and go back to a checkpoint before that."
            at_end = told[-1][1] > limit
            found = LogFinding(LOSS_SIZE, "RED", over[0][0], at_end, most, limit, limit / BLOWN_UP, said)
            return True, found
    return read, None


def read_dead(log: ForeignLog) -> tuple[Read, list[str]]:
    """Read which reward parts never paid, and the reward itself; notes name penalties that were never due,
    and what is one and the same at every step."""
    values = dict[str, list[float]]()
    for row in log.rows:
        for name, value in row.items():
            if name == "reward" or name.startswith("part "):
                values.setdefault(name, []).append(value)
    rewards = [each.reward for each in log.completions if each.reward is not None]
    if rewards:
        values["reward"] = rewards
    known = {name: told for name, told in values.items() if len(told) >= LEAST_ROWS}
    dead = [name.removeprefix("part ") for name, told in known.items() if not any(told)]
    dead = list(dict.fromkeys([*dead, *(log.unpaid if len(log.completions) >= LEAST_ROWS else ())]))
    same = [
        f"{name.removeprefix('part ')} is {told[0]:.4g} at every step"
        for name, told in known.items()
        if told[0] != 0.0 and max(told) == min(told)
    ]
    penalties = [name for name in dead if _PENALTY.search(name)]
    notes = [*same, *(f"{name} is 0 at every step: it was never due" for name in penalties)]
    lost = [name for name in dead if name not in penalties]
    read = any(name.startswith("part ") or name == "reward" for name in known)
    if not lost:
        return (read, None), notes
    level: HealthLevel = "RED" if "reward" in lost else "AMBER"
    said = f"{_listed(lost)} never paid: 0 at every step; nothing is learned from it"
    said = f"{said}, so look at what it returns for a right completion."
    first = int(min((each["step"] for each in log.rows), default=0))
    first = min([each.step for each in log.completions[:1]] or [first])
    return (True, LogFinding(DEAD_PART, level, first, True, 0.0, None, 0.0, said)), notes


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
