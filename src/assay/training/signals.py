"""What one optimizer step shows of a training's health, and the rules that read it; what is not measured is not judged."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from assay.config.health import HealthSettings, Levels, StoppingLevels
from assay.records import Episode, HealthRule
from assay.training.ladder import ROUNDING, Reading, Rung, above, below, reached

# A multiple of next to nothing is noise: no baseline counts as less than these. One per cent of the tokens clipped and
# a gradient of 0.1 are what a sound GRPO step has; an entropy under 0.01 nat is that of a policy which has decided.
CLIP_FLOOR, GRAD_NORM_FLOOR, ENTROPY_FLOOR = 0.01, 0.1, 0.01
BETWEEN_TURNS = "\x1e"
Texts = Mapping[str, Mapping[str, int]]  # item -> episode text (or a digest of it) -> how often
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
    distinct: float | None = None  # how far the episodes of a group differ, 0 (copies of one) to 1 (each its own)
    texts: Mapping[str, Sequence[str]] | None = None  # whole-episode texts by item
    item_ids: tuple[str, ...] = ()
    concerned: Mapping[HealthRule, Sequence[str]] = field(default_factory=dict)  # by rule, where it is not all items
    skipped: str | None = None  # what was not finite, if the step moved no weight for it

    @classmethod
    def of(
        cls, step: int, episodes: Sequence[Episode], *, entropy: float | None, kl: float | None, clip: float | None,
        grad_norm: float | None, lost: float | None, skipped: str | None = None,
    ) -> Self:  # fmt: skip
        """Return the signals of a step from its episodes, those the environment lost left out, and the trainer's numbers."""
        groups: dict[str, list[Episode]] = defaultdict(list)
        for episode in episodes:
            groups[episode.item_id].append(episode)
        rewards = {item: [episode.reward for episode in group] for item, group in groups.items()}
        alike = [item for item, each in rewards.items() if len(each) > 1 and max(each) - min(each) <= ROUNDING]
        compared = sum(len(each) > 1 for each in rewards.values())
        turns = [turn for episode in episodes for turn in episode.turns]
        cut = sorted({episode.item_id for episode in episodes if any(turn.truncated for turn in episode.turns)})
        unsolved = {item: group for item, group in groups.items() if not all(episode.success for episode in group)}
        variety = {item: distinct(group) for item, group in unsolved.items() if len(group) > 1}
        return cls(
            step=step,
            reward=_mean([episode.reward for episode in episodes]),
            zero_variance=len(alike) / compared if compared else None,
            entropy=entropy,
            kl=kl,
            truncated=_mean([float(turn.truncated) for turn in turns]),
            mean_length=_mean([float(turn.n_tokens) for turn in turns]),
            parsed=_mean([float(turn.outcome != "failed") for turn in turns]),
            clip=clip,
            grad_norm=grad_norm,
            lost=lost,
            texts={item: [episode_text(episode) for episode in group] for item, group in groups.items()},
            item_ids=tuple(sorted(groups)),
            distinct=_mean(list(variety.values())),
            concerned={
                "zero_variance": sorted(alike), "truncated": cut,
                "distinct": sorted(variety, key=lambda item: (variety[item], item)),
            },
            skipped=skipped,
        )

    def numbers(self) -> dict[str, float | None]:
        """Return the signals as the log holds them: null for what was not measured or is not finite."""
        return {name: known(getattr(self, name)) for name in NUMBERS}


# What a rule reads, by name; the texts, of which `top_share` is the number, are too many to be logged.
NUMBERS = (
    "reward", "zero_variance", "entropy", "kl", "truncated", "mean_length", "parsed", "clip", "grad_norm", "lost", "distinct",
)  # fmt: skip


def episode_text(episode: Episode) -> str:
    """Return all that the model wrote in an episode as one text."""
    return BETWEEN_TURNS.join(turn.completion for turn in episode.turns)


def distinct(group: Sequence[Episode]) -> float:
    """Return how far the episodes of a group, two or more, differ in what was written: 0 copies of one, 1 each its own.

    The number of distinct texts beyond the first as a share of what it could be, so that groups of all sizes reach both
    ends. Groups that succeed throughout are not asked (`StepSignals.of`): to agree on what is right is no illness.
    """
    return (len({episode_text(episode) for episode in group}) - 1) / (len(group) - 1)


def known(value: float | None) -> float | None:
    """Return a number; None for what was not measured or is not finite, which is the business of a rule of its own."""
    return value if value is not None and math.isfinite(value) else None


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def top_share(window: Sequence[Texts]) -> tuple[float, tuple[str, ...]]:
    """Return which share of the distinct items in a window was answered by the most common text, and the items.

    An item counts by the share of its own episodes with that text, so that neither a group's size nor its copies matter;
    a text that answered one item only has share 0.

    >>> top_share([{"a": {"x": 1, "y": 1}, "b": {"x": 2}}, {"c": {"z": 8}}])
    (0.5, ('a', 'b'))
    """
    items: dict[str, Counter[str]] = defaultdict(Counter)
    for texts in window:
        for item, counts in texts.items():
            items[item].update(counts)
    holders: dict[str, dict[str, float]] = defaultdict(dict)
    for item, found in items.items():
        for text, times in found.items():
            holders[text][item] = times / found.total()
    shares = [(math.fsum(held.values()) / len(items), text) for text, held in holders.items() if len(held) > 1]
    if not shares:
        return 0.0, ()
    share, text = max(shares)
    return share, tuple(sorted(holders[text]))


def step_readings(signals: StepSignals, settings: HealthSettings, baselines: Baselines) -> list[Reading]:
    """Return what the rules read from one step, and take its values into the baselines; texts are read by `top_share`."""
    found = []
    for rule, signal, judge in _RULES:
        value = known(getattr(signals, signal))
        if value is None:
            continue
        base = baselines.take(rule, value, settings.baseline_steps) if rule in _RELATIVE else None
        rungs = judge(value, base, settings)
        if rungs is not None:
            found.append(Reading(rule, rungs, base, signals.concerned.get(rule) or signals.item_ids))
    return found


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

    def state(self) -> dict[str, list[float]]:
        """Return the first values by rule."""
        return {rule: list(values) for rule, values in self._first.items()}


def _zero_variance(value: float, base: float | None, settings: HealthSettings) -> Rungs:
    return _stopping("the share of groups whose rewards are all equal", value, settings.zero_variance)


def _truncated(value: float, base: float | None, settings: HealthSettings) -> Rungs:
    return _stopping("the share of truncated completions", value, settings.truncated)


def _kl(value: float, base: float | None, settings: HealthSettings) -> Rungs:
    return _over("the KL to the base in nats a token", value, settings.kl, 1.0)


def _infrastructure(value: float, base: float | None, settings: HealthSettings) -> Rungs:
    return _over("the share of episodes that the environment lost", value, settings.infrastructure, 1.0)


def _clip(value: float, base: float | None, settings: HealthSettings) -> Rungs | None:
    return None if base is None else _over("the clipped share of tokens", value, settings.clip, max(base, CLIP_FLOOR))


def _grad_norm(value: float, base: float | None, settings: HealthSettings) -> Rungs | None:
    return None if base is None else _over("the gradient norm", value, settings.grad_norm, max(base, GRAD_NORM_FLOOR))


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
        return above(what, value, levels.amber * base), above(what, value, levels.red * base), None
    return below(what, value, base / levels.amber), below(what, value, base / levels.red), None


def _parsed(value: float, base: float | None, settings: HealthSettings) -> Rungs:
    what, levels = "the share of completions that parse", settings.parsed
    limit = levels.amber if base is None else max(levels.amber, base - settings.parsed_drop)
    return below(what, value, limit, levels.amber_for), below(what, value, levels.red, levels.red_for), None


def _distinct(value: float, base: float | None, settings: HealthSettings) -> Rungs:
    what, levels = "how far the completions of a group differ (0 all alike, 1 none alike)", settings.distinct
    return below(what, value, levels.amber, levels.amber_for), below(what, value, levels.red, levels.red_for), None


def _over(what: str, value: float, levels: Levels, unit: float) -> Rungs:
    amber = above(what, value, levels.amber * unit, levels.amber_for)
    return amber, above(what, value, levels.red * unit, levels.red_for), None


def _stopping(what: str, value: float, levels: StoppingLevels) -> Rungs:
    amber, red, _ = _over(what, value, levels, 1.0)
    return amber, red, reached(what, value, levels.stop, levels.stop_for)


Judge = Callable[[float, float | None, HealthSettings], Rungs | None]
_RULES: tuple[tuple[HealthRule, str, Judge], ...] = (
    ("zero_variance", "zero_variance", _zero_variance),
    ("entropy", "entropy", _entropy),
    ("kl", "kl", _kl),
    ("truncated", "truncated", _truncated),
    ("length", "mean_length", _length),
    ("parsed", "parsed", _parsed),
    ("distinct", "distinct", _distinct),
    ("clip", "clip", _clip),
    ("grad_norm", "grad_norm", _grad_norm),
    ("infrastructure", "lost", _infrastructure),
)
_RELATIVE = ("entropy", "length", "parsed", "clip", "grad_norm")
