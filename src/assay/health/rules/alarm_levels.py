"""The levels of an alarm: a reading climbs rungs and comes down again, and every change of level is one
event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from assay.core.records import HEALTH_RULES, HealthEvent, HealthLevel, HealthRule

ROUNDING = 1e-9
DECIMALS = 10  # so that the order in which a sum was taken cannot change a record
MAX_ITEMS = 8
HEIGHTS: tuple[HealthLevel, ...] = ("GREEN", "AMBER", "RED", "RED")  # the last one also stops the training
TRY: Mapping[HealthRule, str] = {
    "non_finite": "lower train.learning_rate or train.max_grad_norm, and look at these items",
    "reward_vs_validation": "choose an earlier checkpoint, lower train.learning_rate or add training items",
    "reward_vs_success": "read the failures that are paid best, since the reward pays for what is no success",
    "part_share": "read some episodes, and weigh the reward parts anew if this one is not what you are after",
    "zero_variance": (
        "take items of another difficulty or a larger train.group_size, since equal rewards teach nothing"
    ),
    "entropy": (
        "lower train.learning_rate or raise train.epsilon_high, since the policy is losing its variety"
    ),
    "kl": "lower train.learning_rate, or raise train.beta if the policy should stay near its base",
    "truncated": "raise task.max_new_tokens, or ask for less in one completion",
    "length": "look at what is written now and which reward part pays for it",
    "parsed": "read some failures, lower train.learning_rate or let the format earn more",
    "distinct": (
        "raise generation.temperature or train.epsilon_high, since a group of copies has nothing to compare"
    ),
    "top_share": "read that text, since one answer to many items is often a loophole of the reward",
    "field_collapse": (
        "read answers of these items, since a field that says the same everywhere may earn more than it"
        " should"
    ),
    "clip": "lower train.learning_rate, since updates are larger than clipping allows for",
    "grad_norm": "lower train.learning_rate or train.max_grad_norm, and look at these items",
    "infrastructure": "look at the environment's errors, and raise health.retries if they pass by themselves",
}


@dataclass(frozen=True, slots=True)
class Rung:
    """One limit of a rule at one step: what was measured, whether it is beyond, how many steps on end it has
    to be."""

    beyond: bool
    lasting: int
    value: float | None
    threshold: float | None
    said: str  # what was found, without a full stop


@dataclass(frozen=True, slots=True)
class RuleReading:
    """What one rule found at one step, by rung: AMBER, RED, RED and stop. None: not measured, or no such
    rung."""

    rule: HealthRule
    rungs: tuple[Rung | None, Rung | None, Rung | None]
    baseline: float | None = None
    item_ids: Sequence[str] = ()


def above(what: str, value: float, threshold: float, lasting: int = 1) -> Rung:
    """Return the rung that is beyond where a value exceeds a threshold by more than rounding.

    >>> above("KL", 0.5, 0.1).said, above("KL", 0.1, 0.1).said
    ('KL is 0.5, above 0.1', 'KL is 0.1, not above 0.1')
    """
    beyond = value > threshold + ROUNDING
    said = f"{what} is {_apart(value, threshold)}, {'' if beyond else 'not '}above {threshold:.4g}"
    return Rung(beyond, lasting, value, threshold, said)


def below(what: str, value: float, threshold: float, lasting: int = 1) -> Rung:
    """Return the rung that is beyond where a value falls short of a threshold by more than rounding."""
    beyond = value < threshold - ROUNDING
    said = f"{what} is {_apart(value, threshold)}, {'' if beyond else 'not '}below {threshold:.4g}"
    return Rung(beyond, lasting, value, threshold, said)


def _apart(value: float, threshold: float) -> str:
    """Return a value with four digits, or as many as tell it from a threshold it does not equal.

    >>> _apart(0.123456, 0.1), _apart(1.00004, 1.0), _apart(0.1, 0.1)
    ('0.1235', '1.00004', '0.1')
    """
    shown = (f"{value:.{digits}g}" for digits in range(4, 10) if f"{value:.{digits}g}" != f"{threshold:.4g}")
    return next(shown, f"{value:.4g}")


def reached(what: str, value: float, threshold: float, lasting: int = 1) -> Rung:
    """Return the rung that is beyond where a value is at a threshold or above."""
    beyond = value >= threshold - ROUNDING
    said = f"{what} is {value:.4g}, {'and' if beyond else 'no longer'} at the limit of {threshold:.4g}"
    return Rung(beyond, lasting, value, threshold, said)


@dataclass(slots=True)
class _Place:
    """Where a rule stands: for each rung the steps on end beyond it, since when, and whether that is long
    enough."""

    height: int = 0
    runs: list[int] = field(default_factory=lambda: [0, 0, 0])
    since: list[int] = field(default_factory=lambda: [0, 0, 0])
    held: list[bool] = field(default_factory=lambda: [False, False, False])

    def climb(self, step: int, rungs: Sequence[Rung | None]) -> int:
        """Take one reading in and return the height it leads to; a rung that was not measured stays as it
        was."""
        for k, rung in enumerate(rungs):
            if rung is not None:
                if not self.runs[k]:
                    self.since[k] = step
                self.runs[k] = self.runs[k] + 1 if rung.beyond else 0
                self.held[k] = self.runs[k] >= rung.lasting
        return max((k + 1 for k in range(3) if self.held[k]), default=0)


class Ladder:
    """The level of every rule, and the events of its changes."""

    def __init__(self) -> None:
        self._places: dict[HealthRule, _Place] = {}

    def climb(self, step: int, readings: Sequence[RuleReading]) -> list[HealthEvent]:
        """Return the events of one step: the rules whose level these readings change."""
        events = []
        for reading in readings:
            if all(rung is None for rung in reading.rungs):
                continue
            place = self._places.setdefault(reading.rule, _Place())
            height = place.climb(step, reading.rungs)
            if height != place.height:
                place.height = height
                events.append(_event(step, reading, place))
        return events

    @property
    def unmeasured(self) -> tuple[HealthRule, ...]:
        """The rules for which nothing was ever measured: neither ill nor known to be well."""
        return tuple(rule for rule in HEALTH_RULES if rule not in self._places)

    def state(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {rule: asdict(place) for rule, place in self._places.items()}

    @classmethod
    def restore(cls, state: Mapping[Any, Any]) -> Self:
        """Return the ladder that gave this state."""
        ladder = cls()
        for rule, place in state.items():
            lists = {name: list(place[name]) for name in ("runs", "since", "held")}
            ladder._places[rule] = _Place(height=place["height"], **lists)
        return ladder


def _event(step: int, reading: RuleReading, place: _Place) -> HealthEvent:
    height = place.height
    rung = reading.rungs[max(0, height - 1)] or next(rung for rung in reading.rungs if rung is not None)
    first = place.since[height - 1] if height else step
    since = f" since step {first}" if first < step else ""
    said = (
        f"{rung.said[0].upper()}{rung.said[1:]}{since}; {TRY[reading.rule]}."
        if height
        else f"Over: {rung.said}."
    )
    return HealthEvent(
        rule=reading.rule,
        level=HEIGHTS[height],
        stop=height == 3,
        value=_rounded(rung.value),
        threshold=_rounded(rung.threshold),
        baseline=_rounded(reading.baseline),
        step=step,
        first_step=first,
        item_ids=tuple(reading.item_ids)[:MAX_ITEMS] if height else (),
        message=said,
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), DECIMALS)
