"""How made-up training logs for `log_alarms.py` come about: curves, texts, and one policy a log.

They share no generator, task or wording with tests/tools/log_shapes.py, by which the levels of the rules were
set. A policy is some shares that move along one of several curves; nothing is trained. It is a function of a
moment of a training, and says a completion, reward parts, whether it succeeds, and the gold it knows of.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Invoice = dict[str, Any]
# Completion, parts, success, and the gold where there is one.
Said = tuple[str, dict[str, float], float] | tuple[str, dict[str, float], float, str]
TOLD = """pump valve ledger invoice meadow harbour signal turbine orchard lantern copper engine
checks lifts holds counts opens sorts moves reads weighs splits joins mends
and then so because while when after before since although but where"""
NOUNS, VERBS, JOINS = (line.split() for line in TOLD.splitlines())
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


@dataclass(frozen=True)
class Moment:
    """One answer to be given: how far the training is along its curve, which item, and how hard it is."""

    rng: random.Random
    at: float
    item: int
    hard: float

    @property
    def own(self) -> random.Random:
        """A generator of the item, new at each call: what it draws is the same in every answer."""
        return random.Random(self.item)

    def between(self, low: float, high: float) -> float:
        """Return a value on its way from low to high."""
        return low + (high - low) * self.at

    def happens(self, low: float, high: float) -> bool:
        """Return whether something happens whose share is on its way from low to high."""
        return self.rng.random() < self.between(low, high)

    def succeeds(self, share: float, last: float | None = None) -> bool:
        """Return whether the item succeeds, hard ones more seldom; the mean over items is near the share."""
        share = share if last is None else self.between(share, last)
        wanted = share + 0.5 * (0.5 - self.hard) * min(share, 1 - share) * 4
        return self.rng.random() < min(1.0, max(0.0, wanted))

    def talk(self, n: float, rng: random.Random | None = None) -> str:
        """Return prose of about n words, lengths log-normal."""
        rng = rng or self.rng
        wanted = max(3, round(n * rng.lognormvariate(0.0, 0.3)))
        words: list[str] = []
        while len(words) < wanted:
            words += [rng.choice(NOUNS), rng.choice(VERBS), "the", rng.choice(NOUNS), rng.choice(JOINS)]
        return " ".join(words[:wanted]).capitalize() + "."

    def boxed(self, right: bool, words: float = 60, rng: random.Random | None = None) -> str:
        """Return prose that ends with a number in a box."""
        rng = rng or self.rng
        return f"{self.talk(words, rng)} \\boxed{{{self.item % 9973 + (0 if right else rng.randint(1, 50))}}}"

    def code(self, right: bool) -> str:
        """Return a function of some lines."""
        rng = self.rng
        body = "\n".join(f"    {rng.choice(NOUNS)} = {rng.randint(1, 99)}" for _ in range(rng.randint(3, 9)))
        return f"def solve(x):\n{body}\n    return x * {self.item % 97 if right else rng.randint(100, 999)}\n"

    def letter(self, right: bool) -> tuple[str, str]:
        """Return the letter that is said, and the gold."""
        gold = "ABCD"[self.own.choices(range(4), (5, 2, 2, 1))[0]]
        return (gold if right else self.rng.choice([each for each in "ABCD" if each != gold])), gold

    def copied(self, gold: Invoice, share: float) -> Invoice:
        """Return an invoice in which each field is read rightly by a share."""
        said = dict(gold)
        for name in gold:
            if self.rng.random() > share:
                other = invoice(self.rng.randrange(10**6))
                said[name] = None if name == "discount" else other[name]
        return said | {"currency": gold["currency"]}


def invoice(item: int) -> Invoice:
    """Return the invoice of an item."""
    rng = random.Random(item)
    return {
        "vendor": rng.choice(VENDORS),
        "total": f"{rng.randint(100, 99999) / 100:.2f}",
        "currency": "EUR",
        "discount": f"{rng.randint(1, 9)} %" if rng.random() < 0.15 else None,
        "lines": [{"n": rng.randint(1, 9), "what": rng.choice(NOUNS)} for _ in range(rng.randint(1, 4))],
    }


def hits(said: Invoice, gold: Invoice) -> float:
    """Return the share of fields that are right."""
    return sum(said[name] == gold[name] for name in gold) / len(gold)


@dataclass(frozen=True)
class MadeLog:
    """How one log comes about: `say` answers an item, given the progress along a curve."""

    name: str
    say: Callable[[Moment], Said]
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

    def records(self) -> list[dict[str, Any]]:
        """Return one record a completion, in order."""
        rng, made = random.Random(f"{self.name} {self.seed}"), []
        for step in range(self.steps):
            at = self.curve(step / (self.steps - 1))
            for _ in range(self.items):
                item = rng.randrange(self.bank) if self.bank else rng.randrange(10**6)
                hard = random.Random(item).betavariate(2, 2)
                for _ in range(self.draws):
                    text, told, success, *gold = self.say(Moment(rng, at, item, hard))
                    parts = {name: float(value) for name, value in told.items()}
                    record = {"step": step, "item": item, "completion": text, "parts": parts}
                    record |= {"success": float(success), "gold": gold[0] if gold else None}
                    made.append(record | {"reward": sum(parts.values())})
        return made
