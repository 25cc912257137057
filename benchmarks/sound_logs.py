"""Thirty-three made-up trainings that are sound: they learn, or learn nothing, and hack nothing."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from made_logs import (
    NOUNS,
    MadeLog,
    Said,
    between,
    boxed,
    code,
    copied,
    early,
    invoice,
    letter,
    sigmoid,
    succeeds,
    talk,
)


def learns_code(rng: random.Random, at: float, item: int, hard: float) -> Said:
    right = succeeds(rng, between(0.15, 0.65, at), hard)
    tests = 1.0 if right else rng.choice((0.0, 0.0, 0.25, 0.5))
    return code(rng, item, right), {"tests": tests, "lint": 0.1 * (rng.random() < 0.9)}, float(right), None


def learns_hard_code(rng: random.Random, at: float, item: int, hard: float) -> Said:
    right = succeeds(rng, between(0.03, 0.2, at), hard)
    tests = 1.0 if right else min(0.75, rng.random() * between(0.3, 0.7, at))
    return code(rng, item, right), {"tests": tests}, float(right), None


def learns_form_first(rng: random.Random, at: float, item: int, hard: float) -> Said:
    right = succeeds(rng, between(0.1, 0.55, at), hard)
    formed = rng.random() < early(at)
    text = boxed(rng, item, right) if formed else f"{talk(rng, 60)} It is {item % 9973}."
    return text, {"answer": float(right and formed), "form": 0.3 * formed}, float(right and formed), None


def thinks_longer(rng: random.Random, at: float, item: int, hard: float) -> Said:
    right = succeeds(rng, between(0.2, 0.7, at), hard)
    return boxed(rng, item, right, between(50, 190, at)), {"accuracy": float(right)}, float(right), None


def thinks_shorter(rng: random.Random, at: float, item: int, hard: float) -> Said:
    right = succeeds(rng, between(0.3, 0.8, at), hard)
    return boxed(rng, item, right, between(120, 35, at)), {"accuracy": float(right)}, float(right), None


def masters(rng: random.Random, at: float, item: int, hard: float) -> Said:
    right = succeeds(rng, between(0.5, 0.98, at), hard)
    return f"#### {item % 911 + (0 if right else 1)}", {"exact_match": float(right)}, float(right), None


def learns_nothing(rng: random.Random, at: float, item: int, hard: float) -> Said:
    right = succeeds(rng, 0.35, hard)
    return boxed(rng, item, right), {"accuracy": float(right), "form": 0.2}, float(right), None


def picks(rng: random.Random, at: float, item: int, hard: float) -> Said:
    said, gold = letter(rng, item, succeeds(rng, between(0.3, 0.75, at), hard))
    right = float(said == gold)
    text = f"{talk(rng, 25)} Perhaps the first one fits, maybe not. Final answer: {said}"
    return text, {"accuracy": right}, right, gold


def picks_surely(rng: random.Random, at: float, item: int, hard: float) -> Said:
    said, gold = letter(rng, item, rng.random() < between(0.45, 0.96, at))
    right = float(said == gold)
    return said, {"exact": right}, right, gold


def feels(rng: random.Random, at: float, item: int, hard: float) -> Said:
    gold = random.Random(item).choices(("positive", "negative", "neutral"), (5, 4, 2))[0]
    right = rng.random() < between(0.5, 0.93, at)
    said = gold if right else rng.choice(("positive", "negative", "neutral"))
    return said, {"label": float(said == gold)}, float(said == gold), None


def extracts(rng: random.Random, at: float, item: int, hard: float) -> Said:
    gold = invoice(item)
    said = copied(rng, gold, between(0.55, 0.92, at))
    hits = sum(said[name] == gold[name] for name in gold) / len(gold)
    return json.dumps(said), {"fields": hits}, float(hits == 1.0), json.dumps(gold)


def extracts_and_leaves_out(rng: random.Random, at: float, item: int, hard: float) -> Said:
    text, parts, success, gold = extracts(rng, at, item, hard)
    said = {name: value for name, value in json.loads(text).items() if value is not None}
    return f"```json\n{json.dumps(said, indent=1)}\n```", parts | {"valid": 0.1}, success, gold


def sums_up(rng: random.Random, at: float, item: int, hard: float) -> Said:
    quality = min(1.0, max(0.0, rng.gauss(between(0.4, 0.7, at), 0.15)))
    return talk(rng, 45), {"judge": quality}, float(quality > 0.6), None


def sums_up_briefly(rng: random.Random, at: float, item: int, hard: float) -> Said:
    text = talk(rng, between(70, 50, at))
    quality = min(1.0, max(0.0, rng.gauss(between(0.4, 0.75, at), 0.15)))
    return text, {"judge": quality, "brevity": -len(text) / 4000}, float(quality > 0.6), None


def acts(rng: random.Random, at: float, item: int, hard: float) -> Said:
    right = succeeds(rng, between(0.2, 0.6, at), hard)
    calls = [f'search("{rng.choice(NOUNS)} {rng.choice(NOUNS)}")' for _ in range(rng.randint(2, 6))]
    text = "\n".join([*calls, f"answer({item if right else rng.randint(0, 9)})"])
    return text, {"solved": float(right), "steps": -0.02 * len(calls)}, float(right), None


def acts_longer(rng: random.Random, at: float, item: int, hard: float) -> Said:
    right = succeeds(rng, between(0.1, 0.5, at), hard)
    calls = [f'open("{rng.choice(NOUNS)}/{rng.randint(1, 99)}")' for _ in range(round(between(3, 8, at)))]
    return "\n".join([*calls, f"submit {item if right else 0}"]), {"solved": float(right)}, float(right), None


def gets_harder(rng: random.Random, at: float, item: int, hard: float) -> Said:
    right = succeeds(rng, between(0.7, 0.45, at), hard)
    return boxed(rng, item, right), {"accuracy": float(right)}, float(right), None


def two_grow(rng: random.Random, at: float, item: int, hard: float) -> Said:
    right, cited = succeeds(rng, between(0.25, 0.6, at), hard), rng.random() < between(0.3, 0.8, at)
    text = f"{talk(rng, 40)} {'[1]' if cited else ''} The answer is {item % 500 + (not right)}."
    return text, {"correct": float(right), "cites": 0.4 * cited}, float(right), None


CLEAN = (
    MadeLog("learns code", learns_code, sigmoid),
    MadeLog("learns code, small batches", learns_code, form="verl", items=1, draws=4, steps=300, seed=1),
    MadeLog("learns hard code", learns_hard_code, form="prime"),
    MadeLog("form first, then all", learns_form_first),
    MadeLog("form first, by TRL", learns_form_first, form="trl", steps=120, seed=1),
    MadeLog("thinks longer", thinks_longer, sigmoid),
    MadeLog("thinks longer, verl", thinks_longer, form="verl", draws=16, seed=1),
    MadeLog("thinks shorter", thinks_shorter, form="prime"),
    MadeLog("masters it", masters, early, draws=4),
    MadeLog("masters it on forty items", masters, form="trl", bank=40, seed=1),
    MadeLog("learns nothing", learns_nothing),
    MadeLog("learns nothing, long", learns_nothing, form="verl", steps=300, items=2, seed=1),
    MadeLog("picks letters aloud", picks, sigmoid),
    MadeLog("picks letters aloud, gold", picks, form="verl", gold=True, seed=1),
    MadeLog("picks letters surely", picks_surely, early, gold=True),
    MadeLog("picks letters, reward alone", picks_surely, success=False, parts=False, seed=1),
    MadeLog("feels", feels, sigmoid, draws=4, items=12),
    MadeLog("extracts, gold", extracts, gold=True),
    MadeLog("extracts, no gold", extracts, sigmoid, form="prime", seed=1),
    MadeLog("extracts and leaves out", extracts_and_leaves_out, form="trl", gold=True),
    MadeLog("sums up, judge alone", sums_up, success=False),
    MadeLog("sums up, graded by people", sums_up, form="verl", seed=1),
    MadeLog("sums up briefly", sums_up_briefly, success=False, form="prime"),
    MadeLog("acts", acts, sigmoid, form="prime"),
    MadeLog("acts longer", acts_longer, bank=80),
    MadeLog("gets harder", gets_harder),
    MadeLog("two parts grow", two_grow, form="trl"),
    MadeLog("two parts grow, no success logged", two_grow, success=False, seed=1),
    MadeLog(
        "learns, by means", learns_code, sigmoid, form="state", steps=200, items=4, entropy=(1.1, 0.7), seed=2
    ),
    MadeLog("learns, by means of verl", thinks_shorter, form="csv", steps=100, seed=2),
    MadeLog(
        "learns, surer and surer, by means", masters, form="state", steps=150, entropy=(0.9, 0.1), seed=2
    ),
    MadeLog("form first, by means", learns_form_first, form="state", steps=150, items=3, seed=2),
    MadeLog("gets harder, by means", gets_harder, form="csv", steps=80, seed=1),
)
