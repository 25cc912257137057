"""A training log cut into blocks of steps with enough in each to be judged, the signals of a block, and how
what is measured changed between the start and the end.

Items of the two ends are others, so differences are of independent means of items (Welch).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from scipy.special import stdtrit  # type: ignore[import-untyped,unused-ignore]

from assay.core.records import HealthLevel
from assay.health.logs.answers import final_answer, read_fields, words_of
from assay.health.logs.records import ForeignLog, LogFinding, LoggedCompletion
from assay.health.rules.signals import StepSignals
from assay.health.rules.validation_rules import Change
from assay.rollout.tasks.protocol import FieldAnswer

MOST_BLOCKS, FEWEST_BLOCKS = 20, 4
MIN_COMPLETIONS = 24  # of a block: fewer say little about a share
MOST_COMPARED, MOST_GROUPS = 6, 40  # completions of a group, groups of a block: of which pairs are compared
SOLVED = 0.99
END_SHARE = 0.2  # of the steps: what counts as the start of a training, and as its end


@dataclass(frozen=True, slots=True)
class ValueRange:
    """The least and the most of something over a whole log."""

    least: float
    most: float

    @property
    def width(self) -> float:
        """The distance between them."""
        return self.most - self.least


@dataclass(frozen=True)
class StepBlock:
    """Neighbouring steps of a log."""

    completions: tuple[LoggedCompletion, ...]
    rows: tuple[Mapping[str, float], ...]
    last_step: int

    @cached_property
    def kept(self) -> tuple[LoggedCompletion, ...]:
        """The completions that the environment did not lose."""
        return tuple(each for each in self.completions if not each.lost)

    @cached_property
    def groups(self) -> list[list[LoggedCompletion]]:
        """The completions of one prompt in one step, where there are two or more."""
        found: defaultdict[tuple[int, str], list[LoggedCompletion]] = defaultdict(list)
        for each in self.kept:
            if each.item:
                found[each.step, each.item].append(each)
        return [group for group in found.values() if len(group) > 1]

    def mean(self, signal: str) -> float | None:
        """Return the mean of a signal over the rows, None where none has it."""
        told = [row[signal] for row in self.rows if signal in row]
        return math.fsum(told) / len(told) if told else None


def cut(log: ForeignLog) -> list[StepBlock]:
    """Return the blocks of a log, as equal in steps as can be; fewer than four say nothing."""
    steps = sorted({each.step for each in log.completions} | {int(row["step"]) for row in log.rows})
    most = min(MOST_BLOCKS, len(steps))
    if log.completions:
        most = min(most, max(1, len(log.completions) // MIN_COMPLETIONS))
    ends = [steps[(k + 1) * len(steps) // most - 1] for k in range(most)]
    blocks, before = [], -1
    for end in ends:
        told = tuple(each for each in log.completions if before < each.step <= end)
        rows = tuple(row for row in log.rows if before < row["step"] <= end)
        blocks.append(StepBlock(told, rows, end))
        before = end
    return blocks


def ends_of(blocks: Sequence[StepBlock]) -> tuple[list[StepBlock], list[StepBlock]]:
    """Return the blocks of the start and of the end."""
    n = max(1, round(END_SHARE * len(blocks)))
    return list(blocks[:n]), list(blocks[-n:])


def range_of(log: ForeignLog, name: str) -> ValueRange | None:
    """Return the range of the reward, or of a part ("part <name>"), of completions, else of rows."""
    part = name.removeprefix("part ") if name.startswith("part ") else None
    told = [
        each.reward if part is None else each.parts.get(part) for each in log.completions if not each.lost
    ]
    values = [value for value in told if value is not None]
    values = values or [row[name] for row in log.rows if name in row]
    return ValueRange(min(values), max(values)) if values else None


def most_success_in(log: ForeignLog) -> float:
    """Return the most that success was, above 0: some log a share as per cent. Where no completion succeeded,
    only the rows show how it is counted."""
    told = [each.success for each in log.completions if each.success is not None and each.success > 0.0]
    return max(told or [1.0, *(row["success"] for row in log.rows if "success" in row)])


def success_of(each: LoggedCompletion, most: float) -> float | None:
    """Return success in [0, 1]: what was logged, as a share of the most that it ever was."""
    if each.success is None:
        return None
    return min(1.0, max(0.0, each.success / most))


def variety(groups: Sequence[Sequence[LoggedCompletion]], solved: Mapping[int, bool]) -> float | None:
    """Return how far the completions of groups differ that are not all right: 0 copies, 1 nothing in common.

    The mean over groups of 1 − Jaccard's index of the pairs of words, over pairs of completions.

    Args:
        groups: Completions of one prompt each.
        solved: By the place of a group, whether all of it is right: to agree on that is no illness.
    """
    open_groups = [group for k, group in enumerate(groups) if not solved[k]]
    step = max(1, len(open_groups) // MOST_GROUPS)
    told = []
    for group in open_groups[::step][:MOST_GROUPS]:
        words = [words_of(each.text) for each in group[:MOST_COMPARED] if each.text is not None]
        apart = [1.0 - len(a & b) / max(1, len(a | b)) for a, b in combinations(words, 2)]
        told += [math.fsum(apart) / len(apart)] if apart else []
    return math.fsum(told) / len(told) if told else None


def signals_of(block: StepBlock, rewards: ValueRange | None, most_success: float) -> StepSignals:
    """Return what a block shows, as the signals of one step; what its completions do not say, its rows may.

    Where success is not logged, reward as a share of its range stands in for it: variety and length may
    change for what is paid.
    """
    kept = block.kept
    reward = _mean([each.reward for each in kept]) if kept else None
    reward = block.mean("reward") if reward is None else reward
    success = _mean([success_of(each, most_success) for each in kept])
    if success is None and (told := block.mean("success")) is not None:
        success = told / most_success
    if (
        success is None
        and reward is not None
        and rewards is not None
        and rewards.most > min(0.0, rewards.least)
    ):
        floor = min(0.0, rewards.least)
        success = (reward - floor) / (rewards.most - floor)
    texts = [each for each in kept if each.text is not None]
    objects = [read_fields(each.text or "") for each in texts]
    cut_off = _mean([None if each.truncated is None else float(each.truncated) for each in kept])
    return StepSignals(
        step=block.last_step,
        reward=reward,
        zero_variance=_alike(block, rewards, most_success),
        entropy=block.mean("entropy"),
        kl=block.mean("kl"),
        truncated=block.mean("truncated") if cut_off is None else cut_off,
        parsed=_mean([float(bool(fields)) for fields in objects]) if texts else None,
        clip=block.mean("clip"),
        grad_norm=block.mean("grad_norm"),
        lost=_mean([None if each.lost is None else float(each.lost) for each in block.completions]),
        success=None if success is None else min(1.0, max(0.0, success)),
        item_ids=tuple(sorted({each.item for each in kept if each.item})),
    )


def lengths_of(block: StepBlock) -> tuple[float | None, float | None, float | None]:
    """Return the mean length of a completion: in tokens as logged, in characters, and as rows have it."""
    tokens = _mean([each.tokens for each in block.kept])
    signs = _mean([None if each.text is None else float(len(each.text)) for each in block.kept])
    return tokens, signs, block.mean("mean_length")


def solved_groups(
    groups: Sequence[Sequence[LoggedCompletion]], rewards: ValueRange | None, most_success: float
) -> dict[int, bool]:
    """Return by place whether a group is right throughout; where nobody says, whether all of it has the
    highest reward there is."""
    found = {}
    for place, group in enumerate(groups):
        told = [success_of(each, most_success) for each in group]
        known = [value for value in told if value is not None]
        if known:
            found[place] = min(known) >= SOLVED
        else:
            best = None if rewards is None else rewards.most - 0.01 * rewards.width
            found[place] = best is not None and all(e.reward is not None and e.reward >= best for e in group)
    return found


def _alike(block: StepBlock, rewards: ValueRange | None, most_success: float) -> float | None:
    told = [group for group in block.groups if all(each.reward is not None for each in group)]
    if not told:
        return block.mean("zero_variance")
    solved = solved_groups(told, rewards, most_success)
    alike = [
        not solved[place]
        and max(e.reward or 0.0 for e in group) - min(e.reward or 0.0 for e in group) <= 1e-9
        for place, group in enumerate(told)
    ]
    return sum(alike) / len(alike)


def texts_of(
    blocks: Sequence[StepBlock], most_success: float
) -> tuple[list[dict[str, dict[str, int]]], dict[str, list[str]]]:
    """Return by block and item the final answers with how often each was given, and by item those that are
    right: its gold, and what succeeded. An item of which neither is logged is left out."""
    given, right = [], dict[str, set[str]]()
    for block in blocks:
        found: dict[str, dict[str, int]] = {}
        for each in block.kept:
            if each.text is None or not each.item or (each.success is None and each.gold is None):
                continue
            said = final_answer(each.text)
            counts = found.setdefault(each.item, {})
            counts[said] = counts.get(said, 0) + 1
            wanted = right.setdefault(each.item, set())
            if (success_of(each, most_success) or 0.0) >= SOLVED:
                wanted.add(said)
            if each.gold is not None:
                wanted.add(final_answer(each.gold))
        given.append(found)
    return given, {item: sorted(said) for item, said in right.items()}


def fields_of(each: LoggedCompletion) -> dict[str, FieldAnswer]:
    """Return what an answer says by field beside its gold; no field where either has none."""
    if each.text is None or each.gold is None:
        return {}
    said, gold = read_fields(each.text), read_fields(each.gold)
    if set(said) == {"answer"} and not gold:  # the gold of an answer by itself is that answer
        gold = {"answer": " ".join(each.gold.split()).casefold()}
    return {
        place: FieldAnswer(found=said.get(place, ""), gold=right, right=said.get(place, "") == right)
        for place, right in gold.items()
        if said
    }


def _mean(values: Sequence[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return math.fsum(told) / len(told) if told else None


MIN_PAIRS = 30  # completions of a correlation
Units = Mapping[str, float]
Read = tuple[bool, LogFinding | None]  # whether a rule could read anything, and what it found


@dataclass(frozen=True)
class TwoEnds:
    """The start and the end of a log, with what is needed to read a value off a completion."""

    blocks: Sequence[StepBlock]
    rewards: ValueRange | None
    most_success: float

    @classmethod
    def of(cls, blocks: Sequence[StepBlock], rewards: ValueRange | None, most_success: float) -> TwoEnds:
        """Return both ends of a log's blocks."""
        return cls(blocks, rewards, most_success)

    @property
    def start(self) -> list[StepBlock]:
        """The blocks of the start."""
        return ends_of(self.blocks)[0]

    @property
    def end(self) -> list[StepBlock]:
        """The blocks of the end."""
        return ends_of(self.blocks)[1]

    @property
    def has_completions(self) -> bool:
        """Whether rewards are those of completions, and not means by step."""
        return any(each.reward is not None for block in self.blocks for each in block.kept)

    @property
    def has_nought(self) -> bool:
        """Whether rewards keep their sign, so that nought is the least or the most of them."""
        return self.rewards is not None and self.rewards.least * self.rewards.most >= 0.0

    def width(self) -> float:
        """Return how far rewards can lie apart, as far as the log shows it; 0 where they never differ.

        Of completions it is what they were paid. Means lie closer together than that, so of rows it is also
        what nought, the spread within a batch (two deviations) and its least and most say.
        """
        if self.rewards is None or self.rewards.width <= 0.0:
            return 0.0
        if self.has_completions:
            return self.rewards.width
        rows = [row for block in self.blocks for row in block.rows]
        spread = [row["reward_std"] for row in rows if "reward_std" in row]
        most = [0.0, self.rewards.most, *(row["reward_max"] for row in rows if "reward_max" in row)]
        least = [0.0, self.rewards.least, *(row["reward_min"] for row in rows if "reward_min" in row)]
        return max(max(most) - min(least), 2.0 * math.fsum(spread) / max(1, len(spread)))

    def means(self, name: str) -> list[float]:
        """Return the means of a measure by block, where a block has it."""
        units = (self.units([block], name).values() for block in self.blocks)
        return [math.fsum(each) / len(each) for each in units if each]

    def is_reward(self) -> bool:
        """Return whether success is the reward itself, so that neither contradicts the other."""
        told = [(e.reward, e.success) for block in self.blocks for e in block.kept]
        told = told or [
            (row.get("reward"), row.get("success")) for block in self.blocks for row in block.rows
        ]
        both = [(reward, said) for reward, said in told if reward is not None and said is not None]
        return bool(both) and all(math.isclose(*pair, rel_tol=1e-9, abs_tol=1e-12) for pair in both)

    def units(self, blocks: Sequence[StepBlock], name: str) -> Units:
        """Return a measure by item, averaged over its completions, or by row where no completion has it.

        Of an item that is not logged, each completion is one of its own.
        """
        found: defaultdict[str, list[float]] = defaultdict(list)
        for k, each in enumerate(each for block in blocks for each in block.kept):
            value = self._value(each, name)
            if value is not None:
                found[each.item or f"?{k}"].append(value)
        if not found:
            rows = (row for block in blocks for row in block.rows)
            scale = self.most_success if name == "success" else 1.0
            return {f"row {k}": row[name] / scale for k, row in enumerate(rows) if name in row}
        return {item: math.fsum(values) / len(values) for item, values in found.items()}

    def _value(self, each: LoggedCompletion, name: str) -> float | None:
        if name == "success":
            return success_of(each, self.most_success)
        return each.reward if name == "reward" else each.parts.get(name.removeprefix("part "))

    def change(self, name: str) -> Change | None:
        """Return how the mean of a measure changed from start to end."""
        return welch(list(self.units(self.start, name).values()), list(self.units(self.end, name).values()))

    @property
    def since(self) -> int:
        """The first step of the end."""
        steps = [each.step for each in self.end[0].completions]
        return min(steps or [int(row["step"]) for row in self.end[0].rows] or [self.end[0].last_step])


def welch(first: Sequence[float], last: Sequence[float]) -> Change | None:
    """Return the difference of two independent means with its 95 % interval; None under two values a side.

    Source: Welch (1947), Biometrika 34:28, with Satterthwaite's degrees of freedom.

    >>> welch([0.0, 0.0, 1.0, 1.0], [1.0] * 4).mean
    0.5
    """
    if len(first) < 2 or len(last) < 2:
        return None
    squares = [float(np.var(side, ddof=1)) / len(side) for side in (first, last)]
    mean, error = float(np.mean(last) - np.mean(first)), math.sqrt(sum(squares))
    if error == 0.0:
        return Change(mean, mean, mean)
    freedom = sum(squares) ** 2 / sum(
        each**2 / (len(side) - 1) for each, side in zip(squares, (first, last), strict=True)
    )
    half = float(stdtrit(freedom, 0.975)) * error
    return Change(mean, mean - half, mean + half)


def ring(
    ends: TwoEnds,
    rule: str,
    level: HealthLevel,
    said: str,
    value: float | None = None,
    limit: float | None = None,
    start: float | None = None,
) -> Read:
    """Return that a rule could be read, and rang: `said` is without a full stop."""
    return True, LogFinding(rule, level, ends.since, True, value, limit, start, f"{said}.")


def correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return the correlation of pairs; None where they are few or one side does not vary."""
    if len(pairs) < MIN_PAIRS:
        return None
    sides = np.array(pairs, dtype=float).T
    if any(float(np.ptp(side)) <= 1e-12 for side in sides):
        return None
    return float(np.corrcoef(sides[0], sides[1])[0, 1])
