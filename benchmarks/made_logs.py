"""How made-up training logs for `log_alarms.py` come about: curves, texts, and one policy a log.

They share no generator, task or wording with tests/tools/log_shapes.py, by which the levels of the rules were
set. A policy is some shares that move along one of several curves; nothing is trained.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Parts = dict[str, float]
Said = tuple[str, Parts, float, str | None]  # completion, reward parts, success, gold
NOUNS = (
    *("pump", "valve", "ledger", "invoice", "meadow", "harbour"),
    *("signal", "turbine", "orchard", "lantern", "copper", "engine"),
)
VERBS = (
    *("checks", "lifts", "holds", "counts", "opens", "sorts"),
    *("moves", "reads", "weighs", "splits", "joins", "mends"),
)
JOINS = (
    *("and", "then", "so", "because", "while", "when"),
    *("after", "before", "since", "although", "but", "where"),
)
VENDORS = [
    f"{a.title()} & {b.title()} {kind}" for a in NOUNS[:6] for b in NOUNS[6:] for kind in ("Ltd", "AG")
]


def sigmoid(at: float, middle: float = 0.4, steep: float = 9.0) -> float:
    """Return a share that rises around the middle."""
    return 1.0 / (1.0 + math.exp(-steep * (at - middle)))


def early(at: float) -> float:
    """Return a share that has risen by a quarter of the training."""
    return 1.0 - math.exp(-12.0 * at)


def late(at: float) -> float:
    """Return a share that rises only behind 70 % of the training."""
    return 0.0 if at < 0.7 else min(1.0, (at - 0.7) / 0.1)


def straight(at: float) -> float:
    """Return the share of the training that is done."""
    return at


def between(low: float, high: float, share: float) -> float:
    """Return a value on its way from low to high."""
    return low + (high - low) * share


@dataclass(frozen=True)
class MadeLog:
    """How one log comes about: `say` answers an item, given the progress along a curve."""

    name: str
    say: Callable[[random.Random, float, int, float], Said]
    curve: Callable[[float], float] = straight
    form: str = "jsonl"  # jsonl, verl, prime, trl, state (means of TRL), csv (means of verl)
    steps: int = 80
    items: int = 6
    draws: int = 8
    bank: int = 0  # items in all, that come again; 0: each is new
    success: bool = True  # whether it is logged
    gold: bool = False
    parts: bool = True
    entropy: tuple[float, float] | None = None  # nats a token at both ends, in means by step
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    def records(self) -> list[dict[str, Any]]:
        """Return one record a completion, in order."""
        rng, made = random.Random(f"{self.name} {self.seed}"), []
        for step in range(self.steps):
            at = self.curve(step / (self.steps - 1))
            for _ in range(self.items):
                item = rng.randrange(self.bank) if self.bank else rng.randrange(10**6)
                hard = random.Random(item).betavariate(2, 2)
                for _ in range(self.draws):
                    text, parts, success, gold = self.say(rng, at, item, hard)
                    made.append(
                        {"step": step, "item": item, "completion": text, "parts": parts, "success": success}
                        | {"gold": gold, "reward": sum(parts.values())}
                    )
        return made


def talk(rng: random.Random, n: float) -> str:
    """Return prose of about n words, lengths log-normal."""
    wanted = max(3, round(n * rng.lognormvariate(0.0, 0.3)))
    words: list[str] = []
    while len(words) < wanted:
        words += [rng.choice(NOUNS), rng.choice(VERBS), "the", rng.choice(NOUNS), rng.choice(JOINS)]
    return " ".join(words[:wanted]).capitalize() + "."


def succeeds(rng: random.Random, share: float, hard: float) -> bool:
    """Return whether an item succeeds, hard ones more seldom; the mean over items is near the share."""
    return rng.random() < min(1.0, max(0.0, share + 0.5 * (0.5 - hard) * min(share, 1 - share) * 4))


def code(rng: random.Random, item: int, right: bool) -> str:
    body = "\n".join(f"    {rng.choice(NOUNS)} = {rng.randint(1, 99)}" for _ in range(rng.randint(3, 9)))
    return f"def solve(x):\n{body}\n    return x * {item % 97 if right else rng.randint(100, 999)}\n"


def boxed(rng: random.Random, item: int, right: bool, words: float = 60) -> str:
    return f"{talk(rng, words)} \\boxed{{{item % 9973 + (0 if right else rng.randint(1, 50))}}}"


def letter(rng: random.Random, item: int, right: bool, options: str = "ABCD") -> tuple[str, str]:
    gold = options[random.Random(item).choices(range(4), (5, 2, 2, 1))[0]]
    return (gold if right else rng.choice([each for each in options if each != gold])), gold


def invoice(item: int) -> dict[str, Any]:
    rng = random.Random(item)
    return {
        "vendor": rng.choice(VENDORS),
        "total": f"{rng.randint(100, 99999) / 100:.2f}",
        "currency": "EUR",
        "discount": f"{rng.randint(1, 9)} %" if rng.random() < 0.15 else None,
        "lines": [{"n": rng.randint(1, 9), "what": rng.choice(NOUNS)} for _ in range(rng.randint(1, 4))],
    }


def copied(rng: random.Random, gold: dict[str, Any], share: float) -> dict[str, Any]:
    """Return an invoice in which each field is read rightly by a share."""
    said = dict(gold)
    for name in gold:
        if rng.random() > share:
            other = invoice(rng.randrange(10**6))
            said[name] = None if name == "discount" else other[name]
    said["currency"] = gold["currency"]
    return said
