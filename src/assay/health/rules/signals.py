"""What one optimizer step shows of a training's health, and the rules that read it; what is not measured is
not judged."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Self

from assay.core.config.health import HealthSettings, StoppingLevels
from assay.core.records import Episode, HealthRule
from assay.health.rules.alarm_levels import ROUNDING, RuleReading, Rung, above, below, reached
from assay.health.rules.commonest import Honest
from assay.rollout.evaluation.alarms import Shares, shares_of
from assay.rollout.tasks.protocol import FieldAnswer

# A multiple of next to nothing is noise: no baseline counts as less than these. One per cent of the tokens
# clipped and a gradient of 0.1 are what a sound GRPO step has; an entropy under 0.01 nat is that of a policy
# which has decided.
CLIP_FLOOR, GRAD_NORM_FLOOR, ENTROPY_FLOOR = 0.01, 0.1, 0.01
LENGTH_FLOOR = 2.0  # tokens: next to one token, a second is no rise
BETWEEN_TURNS = "\x1e"
# A policy that is right in nine of ten episodes may well be sure of itself, and write as little as it takes.
SURE = 0.1
Rungs = tuple[Rung | None, Rung | None, Rung | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSignals:
    """The signals of one optimizer step; None where something was not measured. Shares are in [0, 1]."""

    step: int
    reward: float | None = None  # mean over the episodes
    zero_variance: float | None = None  # share of groups whose rewards are all equal
    entropy: float | None = None  # nats a token
    kl: float | None = None  # to the base on the probe, nats a token
    truncated: float | None = None  # share of completions
    mean_length: float | None = None  # tokens a completion
    parsed: float | None = None  # share of completions
    clip: float | None = None  # share of tokens
    grad_norm: float | None = None  # before clipping
    lost: float | None = None  # share of episodes that the environment lost
    # How far the episodes of a group differ, 0 (copies of one) to 1 (each its own)
    distinct: float | None = None
    success: float | None = None  # share of the episodes
    # By item, what its episodes answered: all of it, or what counts
    texts: Mapping[str, Sequence[str]] | None = None
    # By item, the texts that are right; None where that is not known
    right: Mapping[str, Sequence[str]] | None = None
    # By field and item
    fields: Mapping[str, Mapping[str, Sequence[FieldAnswer]]] = field(default_factory=dict)
    item_ids: tuple[str, ...] = ()
    # By rule, where it is not all items
    concerned: Mapping[HealthRule, Sequence[str]] = field(default_factory=dict)
    skipped: str | None = None  # what was not finite, if the step moved no weight for it

    @classmethod
    def of(
        cls, step: int, episodes: Sequence[Episode], honest: Honest | None = None, few: int | None = None
    ) -> Self:
        """Return the signals of a step that follow from its episodes, those the environment lost left out;
        the trainer knows the others.

        `honest` knows right answers; without it texts are compared with nothing. `few` is how many different
        answers honest play gives, where it repeats them.
        """
        groups: dict[str, list[Episode]] = defaultdict(list)
        for episode in episodes:
            groups[episode.item_id].append(episode)
        rewards = {item: [episode.reward for episode in group] for item, group in groups.items()}
        solved = {item for item, group in groups.items() if all(episode.success for episode in group)}
        alike = [
            item
            for item, each in rewards.items()
            if len(each) > 1 and max(each) - min(each) <= ROUNDING and item not in solved
        ]
        compared = sum(len(each) > 1 for each in rewards.values())
        turns = [turn for episode in episodes for turn in episode.turns]
        cut = sorted(
            {episode.item_id for episode in episodes if any(turn.truncated for turn in episode.turns)}
        )
        facts = None if honest is None else honest.facts
        answers = few if facts is None else facts.answers
        variety = {
            item: 1.0 if item in solved else distinct(group, answers)
            for item, group in groups.items()
            if len(group) > 1
        }
        texts, right = _texts(groups, honest if facts is not None else None)
        return cls(
            step=step,
            reward=_mean([episode.reward for episode in episodes]),
            zero_variance=len(alike) / compared if compared else None,
            truncated=_mean([float(turn.truncated) for turn in turns]),
            mean_length=_mean([float(turn.n_tokens) for turn in turns]),
            parsed=_mean([float(turn.outcome != "failed") for turn in turns]),
            success=_mean([float(episode.success) for episode in episodes]),
            texts=texts,
            right=right,
            fields={} if honest is None else _fields(groups, honest),
            item_ids=tuple(sorted(groups)),
            distinct=_mean(list(variety.values())),
            concerned={
                "zero_variance": sorted(alike),
                "truncated": cut,
                "distinct": sorted(variety.keys() - solved, key=lambda item: (variety[item], item)),
            },
        )

    def shares(self) -> dict[str, Shares]:
        """Return by field what answers say; no field where nothing is known to be right."""
        return shares_of(
            {place: list(chain.from_iterable(items.values())) for place, items in self.fields.items()}
        )

    def numbers(self) -> dict[str, float | None]:
        """Return the signals as the log holds them: null for what was not measured or is not finite."""
        return {name: known(getattr(self, name)) for name in NUMBERS}


# What a rule reads, by name; texts and fields are too many to be logged, and their shares stand in their
# place.
NUMBERS = (
    "reward",
    "zero_variance",
    "entropy",
    "kl",
    "truncated",
    "mean_length",
    "parsed",
    "clip",
    "grad_norm",
    "lost",
    "distinct",
    "success",
)


def episode_text(episode: Episode) -> str:
    """Return all that the model wrote in an episode as one text."""
    return BETWEEN_TURNS.join(turn.completion for turn in episode.turns)


def distinct(group: Sequence[Episode], answers: int | None = None) -> float:
    """Return how far the episodes of a group, two or more, differ in what was written: 0 copies of one, 1
    each its own.

    The number of distinct texts beyond the first as a share of what it could be, so that groups of all sizes
    reach both ends; where a task has but so many right `answers`, more than these need not differ. Groups
    that succeed throughout count as 1 (`StepSignals.of`): to agree on what is right is no illness.
    """
    most = len(group) if answers is None else min(len(group), max(2, answers))
    return min(1.0, (len({episode_text(episode) for episode in group}) - 1) / (most - 1))


def _texts(
    groups: Mapping[str, Sequence[Episode]], honest: Honest | None
) -> tuple[dict[str, list[str]], dict[str, list[str]] | None]:
    """Return what the episodes of each item answered, and what is right there: its right answer, and what
    succeeded."""
    if honest is None:
        return {item: [episode_text(episode) for episode in group] for item, group in groups.items()}, None
    texts, right = dict[str, list[str]](), dict[str, list[str]]()
    for item, group in groups.items():
        read = [honest.answer(episode) for episode in group]
        texts[item] = [episode_text(e) if said is None else said for e, said in zip(group, read, strict=True)]
        known = honest.right(item)
        # Without a right answer any valid object succeeds, and one object for all items is as odd as ever.
        succeeded = {said for e, said in zip(group, texts[item], strict=True) if e.success}
        right[item] = [] if known is None else sorted({known, *succeeded})
    return texts, right


def _fields(
    groups: Mapping[str, Sequence[Episode]], honest: Honest
) -> dict[str, dict[str, list[FieldAnswer]]]:
    found: defaultdict[str, defaultdict[str, list[FieldAnswer]]] = defaultdict(lambda: defaultdict(list))
    for item, group in groups.items():
        for episode in group:
            for place, said in honest.fields(episode).items():
                found[place][item].append(said)
    return {place: dict(items) for place, items in found.items()}


def known(value: float | None) -> float | None:
    """Return a number; None for what was not measured or is not finite, which is the business of a rule of
    its own."""
    return value if value is not None and math.isfinite(value) else None


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def step_readings(
    signals: StepSignals, settings: HealthSettings, baselines: Baselines, left: float = 1.0
) -> list[RuleReading]:
    """Return what the rules read from one step, and take its values into the baselines; texts are read by
    `commonest`.

    `left` is the share of the first steps' failures that the policy still makes (`failures_left`).
    """
    found = []
    for rule, signal in _SIGNALS.items():
        value = known(getattr(signals, signal))
        if value is None:
            continue
        base = baselines.take(rule, value, settings.baseline_steps) if rule in _RELATIVE else None
        judge = _OTHERS.get(rule)
        rungs = _over(rule, value, base, settings) if judge is None else judge(value, base, settings)
        if rungs is not None:
            rungs = _unless_earned(rule, value, base, rungs, settings, left)
            found.append(RuleReading(rule, rungs, base, signals.concerned.get(rule) or signals.item_ids))
    return found


def failures_left(first: float, recent: float) -> float:
    """Return which share of the first failures is left, from the success of the first and of the last steps.

    None are left where nearly all succeeds now, whatever it was at first.

    >>> failures_left(0.2, 0.6), failures_left(0.6, 0.2), failures_left(0.88, 0.91)
    (0.5, 1.0, 0.0)
    """
    failing = 1.0 - recent
    return 0.0 if failing <= SURE + ROUNDING else min(1.0, round(failing / max(1.0 - first, ROUNDING), 12))


def _unless_earned(
    rule: HealthRule, value: float, base: float | None, rungs: Rungs, settings: HealthSettings, left: float
) -> Rungs:
    """Return rungs of less variety or shorter completions that count only as far as success does not account
    for them.

    Who gets it right grows sure of it, and says it in fewer words. So a fall to a share of the baseline is no
    alarm unless more than the rest of the first failures is left: half the entropy and half the failures are
    a fair price.
    """
    if rule == "entropy":
        least = (settings.entropy.amber, settings.entropy.red)
    elif rule == "length" and base is not None and value < base:
        least = (1.0 / settings.length.amber, 1.0 / settings.length.red)
    else:
        return rungs
    judged = [_unless(rung, left, 1.0 - share) for rung, share in zip(rungs, least, strict=False)]
    return judged[0], judged[1], None


def _unless(rung: Rung | None, left: float, limit: float) -> Rung | None:
    if rung is None or not rung.beyond or left >= 1.0:
        return rung
    if left > limit + ROUNDING:
        return replace(rung, said=f"{rung.said}, while {left:.0%} of the first steps' failures are left")
    return replace(
        rung, beyond=False, said=f"{rung.said}, and {left:.0%} of the first steps' failures are left"
    )


class Baselines:
    """The mean of the first values of each signal."""

    def __init__(self, first: Mapping[str, Sequence[float]]) -> None:
        self._first = {rule: list(values) for rule, values in first.items()}

    def take(self, rule: str, value: float, n: int) -> float | None:
        """Return the mean of the first n values; None while this value is still one of them."""
        values = self._first.setdefault(rule, [])
        if len(values) < n:
            values.append(value)
            return None
        return math.fsum(values) / len(values)

    def mean(self, rule: str, n: int) -> float | None:
        """Return the mean of the first n values, None while there are fewer."""
        values = self._first.get(rule, [])
        return math.fsum(values) / n if len(values) >= n else None

    def state(self) -> dict[str, list[float]]:
        """Return the first values by rule."""
        return {rule: list(values) for rule, values in self._first.items()}


def _entropy(value: float, base: float | None, settings: HealthSettings) -> Rungs | None:
    if base is None or base < ENTROPY_FLOOR:
        return None
    what, levels = "the entropy in nats a token", settings.entropy
    amber = below(what, value, levels.amber * base, levels.amber_for)
    return amber, below(what, value, levels.red * base, levels.red_for), None


def _length(value: float, base: float | None, settings: HealthSettings) -> Rungs | None:
    if base is None or base <= 0.0:
        return None
    what, levels = "the mean length of a completion in tokens", settings.length
    if value > base:
        least = max(base, LENGTH_FLOOR)
        return above(what, value, levels.amber * least), above(what, value, levels.red * least), None
    return below(what, value, base / levels.amber), below(what, value, base / levels.red), None


def _parsed(value: float, base: float | None, settings: HealthSettings) -> Rungs:
    what, levels = "the share of completions that parse", settings.parsed
    limit = levels.amber if base is None else max(levels.amber, base - settings.parsed_drop)
    return below(what, value, limit, levels.amber_for), below(what, value, levels.red, levels.red_for), None


def _distinct(value: float, base: float | None, settings: HealthSettings) -> Rungs:
    what, levels = "how far the completions of a group differ (0 all alike, 1 none alike)", settings.distinct
    return (
        below(what, value, levels.amber, levels.amber_for),
        below(what, value, levels.red, levels.red_for),
        None,
    )


def _over(rule: HealthRule, value: float, base: float | None, settings: HealthSettings) -> Rungs | None:
    """Return the rungs of a rule with upper limits: multiples of its baseline where it has one."""
    what, floor = _ABOVE[rule]
    if floor is not None and base is None:
        return None
    levels, unit = getattr(settings, rule), 1.0 if floor is None or base is None else max(base, floor)
    stop = reached(what, value, levels.stop, levels.stop_for) if isinstance(levels, StoppingLevels) else None
    amber = above(what, value, levels.amber * unit, levels.amber_for)
    return amber, above(what, value, levels.red * unit, levels.red_for), stop


# By rule: its signal in words, and the least that its baseline counts as; None: its limits are absolute.
_ABOVE: Mapping[HealthRule, tuple[str, float | None]] = {
    "zero_variance": ("the share of groups that fail somewhere and whose rewards are all equal", None),
    "truncated": ("the share of truncated completions", None),
    "kl": ("the KL to the base in nats a token", None),
    "infrastructure": ("the share of episodes that the environment lost", None),
    "clip": ("the clipped share of tokens", CLIP_FLOOR),
    "grad_norm": ("the gradient norm", GRAD_NORM_FLOOR),
}
Judge = Callable[[float, float | None, HealthSettings], Rungs | None]
_OTHERS: Mapping[HealthRule, Judge] = {
    "entropy": _entropy,
    "length": _length,
    "parsed": _parsed,
    "distinct": _distinct,
}
_SIGNALS: Mapping[HealthRule, str] = {
    "zero_variance": "zero_variance",
    "entropy": "entropy",
    "kl": "kl",
    "truncated": "truncated",
    "length": "mean_length",
    "parsed": "parsed",
    "distinct": "distinct",
    "clip": "clip",
    "grad_norm": "grad_norm",
    "infrastructure": "lost",
}
_RELATIVE = ("entropy", "length", "parsed", "clip", "grad_norm")
