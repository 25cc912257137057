"""Trainings made up for the alarms: shapes of data that people bring, played by policies that learn, or that
collapse or cheat.

A policy is a distribution over the answers to an item at a share of the training; draws, groups, rewards and
entropy follow from it by the code that makes them in earnest (the task grades, the monitor listens, the
settings are the preset's).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from assay.core.seeds import rng

N_ITEMS = 160
Dist = Mapping[str, float]  # completion -> probability
Policy = Callable[["Asked", float], Dist]  # at a share of the training in [0, 1]
Golds = Callable[[int], tuple[Any, Sequence[Any], Sequence[float]]]


@dataclass(frozen=True)
class Asked:
    """An item, and what makes it another than the others of its shape."""

    number: int
    gold: Any
    golds: Sequence[Any]  # the different golds of the shape, commonest first
    shares: Sequence[float]
    hard: float  # standard normal: how much harder than the mean

    @cached_property
    def noise(self) -> float:
        return float(self.own("noise").random())

    @cached_property
    def right(self) -> str:
        return right_of(self)

    @cached_property
    def wrong(self) -> dict[str, float]:
        return wrong_of(self)

    def own(self, *labels: Any) -> np.random.Generator:
        return rng("asked", self.number, *labels)


@dataclass(frozen=True)
class Shape:
    """One training: its name, how golds are made, who plays, and which levels are no surprise (of a sound
    one: none)."""

    name: str
    golds: Golds
    policy: Policy
    ill: bool
    schema: Mapping[str, Any] | None = None
    functions: Sequence[Any] | None = None


def said(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


# Golds


def labels(*shares: float, field: str = "label") -> Golds:
    """Return golds of one label each, in these shares."""
    total = math.fsum(shares)
    known = [{field: f"label{k}"} for k in range(len(shares))]
    given = [share / total for share in shares]

    def gold(number: int) -> tuple[Any, Sequence[Any], Sequence[float]]:
        return known[int(rng("label", number, len(shares)).choice(len(shares), p=given))], known, given

    return gold


def even(k: int) -> Golds:
    return labels(*[1.0] * k)


def made(make: Callable[[np.random.Generator, int], Any]) -> Golds:
    """Return golds made for each item; other golds of the shape stand for wrong answers."""
    many = [make(rng("made", k), k) for k in range(N_ITEMS)]

    def gold(number: int) -> tuple[Any, Sequence[Any], Sequence[float]]:
        return many[number], many[:40], [1 / 40] * 40

    return gold


NAMES = [
    "Ana",
    "Bo",
    "Cem",
    "Dita",
    "Eli",
    "Fay",
    "Gus",
    "Hal",
    "Ida",
    "Jon",
    "Kay",
    "Lev",
    "Mia",
    "Noa",
    "Oto",
    "Pia",
]
CITIES = ("Oslo", "Rome", "Lima", "Kyiv", "Cairo", "Delhi", "Quito", "Turin")


def pick(chance: np.random.Generator, options: Sequence[Any]) -> Any:
    return options[int(chance.integers(len(options)))]


def order(chance: np.random.Generator, k: int) -> Any:
    return {"name": pick(chance, NAMES), "city": pick(chance, CITIES), "count": int(chance.integers(1, 30))}


def nested(chance: np.random.Generator, k: int) -> Any:
    return {
        "who": {"name": pick(chance, NAMES), "city": pick(chance, CITIES)},
        "tags": sorted({pick(chance, "abcde"), "z"}),
    }


def with_constant(chance: np.random.Generator, k: int) -> Any:
    return order(chance, k) | {"currency": "EUR"}


def with_rare_note(chance: np.random.Generator, k: int) -> Any:
    return order(chance, k) | {"note": f"gate {k}" if chance.random() < 0.2 else ""}


def with_null(chance: np.random.Generator, k: int) -> Any:
    return order(chance, k) | {"discount": int(chance.integers(5, 50)) if chance.random() < 0.3 else None}


def flags(chance: np.random.Generator, k: int) -> Any:
    return {
        "urgent": bool(chance.random() < 0.5),
        "paid": bool(chance.random() < 0.8),
        "name": pick(chance, NAMES),
    }


def number_only(chance: np.random.Generator, k: int) -> Any:
    return {"answer": int(chance.integers(0, 500))}


def free_text(chance: np.random.Generator, k: int) -> Any:
    return {"title": f"{pick(chance, NAMES)} goes to {pick(chance, CITIES)} on day {k}"}


def call(chance: np.random.Generator, k: int) -> Any:
    return {
        pick(chance, ("ship", "hold")): {
            "item": [f"desk {k}", f"desks {k}"],
            "day": ["", pick(chance, ("Mon", "Tue"))],
        }
    }


FUNCTIONS = [
    {
        "name": name,
        "description": "",
        "parameters": {
            "type": "dict",
            "properties": {"item": {"type": "string"}, "day": {"type": "string"}},
            "required": ["item"],
        },
    }
    for name in ("ship", "hold")
]


def same_gold(chance: np.random.Generator, k: int) -> Any:
    return {"status": "ok"}


# Policies


def right_of(asked: Asked) -> str:
    gold = asked.gold
    if all(
        isinstance(part, dict) and all(isinstance(v, list) for v in part.values()) for part in gold.values()
    ):
        ((name, arguments),) = gold.items()
        return said(
            {
                "name": name,
                "arguments": {arg: next(v for v in values if v != "") for arg, values in arguments.items()},
            }
        )
    return said(gold)


def wrong_of(asked: Asked) -> dict[str, float]:
    """Return wrong answers with their weights: other golds of the shape, by how common they are, or the gold
    spoilt."""
    others = {
        said(gold): share for gold, share in zip(asked.golds, asked.shares, strict=True) if gold != asked.gold
    }
    if len(others) == len(asked.golds) - 1 and len(asked.golds) <= 10:
        return others or {said({"other": 1}): 1.0}
    found = {}
    for k in range(12):
        chance = asked.own("wrong", k)
        near = {
            name: _spoilt(part, chance) if chance.random() < 0.6 else part
            for name, part in asked.gold.items()
        }
        text = right_of(Asked(asked.number, near, [], [], 0.0))
        if text != asked.right:
            found[text] = 1.0
    return found or {said({"other": asked.number}): 1.0}


def _spoilt(value: Any, chance: np.random.Generator) -> Any:
    if isinstance(value, dict):
        return {name: _spoilt(part, chance) for name, part in value.items()}
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + int(chance.integers(1, 9))
    if isinstance(value, str):
        return f"{value} {int(chance.integers(100))}"
    return [_spoilt(part, chance) for part in value] if isinstance(value, list) else value


def learner(
    start: float,
    end: float,
    *,
    lean: Mapping[str, float] | None = None,
    noise: float = 0.0,
    tail: float = 0.1,
) -> Policy:
    """Return a policy whose mean success goes from start to end by a logistic, harder items later.

    Args:
        start: Success at first, of items of middling difficulty.
        end: At last.
        lean: Wrong answers that it prefers at first, with weights; unlearned as it learns.
        noise: Share of items that it gets wrong for certain at last, as mislabelled ones are.
        tail: Share of the training that is left when it is at its end.
    """

    def play(asked: Asked, done: float) -> Dist:
        grown = min(1.0, done / (1.0 - tail))
        level = _logit(start) + (_logit(end) - _logit(start)) * grown - 0.8 * asked.hard * (1 - 0.6 * grown)
        right = 1 / (1 + math.exp(-level))
        if asked.noise < noise:
            right *= 1 - grown
        wrong = asked.wrong
        if lean and (left := 1.0 - grown) > 0:
            wrong = {text: weight * (1 - left) for text, weight in _shares(wrong).items()}
            for text, weight in lean.items():
                if text == asked.right:
                    right = right + (1 - right) * weight * left
                else:
                    wrong[text] = wrong.get(text, 0.0) + weight * left
        return {asked.right: right} | {
            text: (1 - right) * share for text, share in _shares(wrong).items() if right < 1
        }

    return play


def _logit(p: float) -> float:
    return math.log(p / (1 - p))


def _shares(weights: Mapping[str, float]) -> dict[str, float]:
    total = math.fsum(weights.values())
    return {text: weight / total for text, weight in weights.items()} if total > 0 else {}


def certain(asked: Asked, done: float) -> Dist:
    return {asked.right: 1.0}


def guesser(asked: Asked, done: float) -> Dist:
    """Guess by how common each gold is, and never learn: no illness, only nothing gained."""
    return {said(gold): share for gold, share in zip(asked.golds, asked.shares, strict=True)}


def chatty(inner: Policy) -> Policy:
    """Wrap answers in prose at first, less and less."""

    def play(asked: Asked, done: float) -> Dist:
        share = max(0.0, 0.28 * (1 - 2 * done))
        base = inner(asked, done)
        talk = {
            f"Sure! {asked.number} is what you asked about. Here you are: {text}": p * share
            for text, p in base.items()
        }
        return {text: p * (1 - share) for text, p in base.items()} | talk

    return play


def into(
    text: Callable[[Asked], str],
    *,
    at: float = 0.4,
    over: float = 0.2,
    share: float = 1.0,
    first: Policy | None = None,
) -> Policy:
    """Return a policy that learns a while, then gives one kind of answer to a share of its episodes."""
    before = first or learner(0.35, 0.7)

    def play(asked: Asked, done: float) -> Dist:
        gone = share * min(1.0, max(0.0, (done - at) / over)) if over else share * (done >= at)
        base = {each: p * (1 - gone) for each, p in before(asked, done).items()}
        cheat = text(asked)
        return base | {cheat: base.get(cheat, 0.0) + gone}

    return play


def always(value: Any) -> Callable[[Asked], str]:
    return lambda asked: value if isinstance(value, str) else said(value)


def changed(**change: Any) -> Callable[[Asked], str]:
    """Return a right answer but for one change: fields with other values, of an object only those named."""

    def answer(asked: Asked) -> str:
        right = dict(json.loads(asked.right))
        for name, value in change.items():
            right[name] = right[name] | value if isinstance(value, dict) and value else value
        return said(right)

    return answer


def copies(asked: Asked) -> str:
    """Return a wrong answer of the item's own."""
    return next(iter(asked.wrong))
