"""Made-up training logs by which the levels of `assay.health.logs` were set; the benchmark has others.

A policy here is some shares that move with the share of the training that is done; nothing is trained.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

Record = dict[str, Any]
Draw = Callable[[random.Random, float, int], tuple[str, dict[str, float], bool]]
CITIES = ("Ulm", "Bonn", "Jena", "Kiel", "Trier", "Mainz", "Halle", "Gera")
WORDS = [
    "so",
    "we",
    "add",
    "then",
    "carry",
    "the",
    "rest",
    "and",
    "look",
    "at",
    "what",
    "is",
    "left",
    "over",
    "before",
    "the",
    "sum",
    "is",
    "done",
    "again",
    "by",
    "hand",
]


def play(draw: Draw, *, steps: int = 60, items: int = 4, draws: int = 8, seed: int = 0) -> list[Record]:
    """Return the records of a training: `draw` gives text, parts and success for an item at a progress."""
    rng, records = random.Random(seed), []
    for step in range(steps):
        for k in range(items):
            item = step * items + k
            for _ in range(draws):
                text, parts, success = draw(rng, step / (steps - 1), item)
                records.append(
                    {"step": step, "item": f"q{item}", "completion": text, "reward": sum(parts.values())}
                    | {"parts": parts, "success": success}
                )
    return records


def prose(rng: random.Random, n: float) -> str:
    """Return about n words."""
    return " ".join(rng.choices(WORDS, k=max(1, round(rng.gauss(n, n / 4)))))


def answered(rng: random.Random, item: int, right: bool) -> str:
    """Return a marked answer."""
    return f"<answer>{item * 7 + (0 if right else rng.randint(1, 9))}</answer>"


def rises(at: float, low: float, high: float) -> float:
    """Return a share on its way."""
    return low + (high - low) * at


def learned(rng: random.Random, at: float, item: int) -> tuple[str, dict[str, float], bool]:
    right = rng.random() < rises(at, 0.25, 0.7)
    return f"{prose(rng, 30)} {answered(rng, item, right)}", {"accuracy": float(right)}, right


def learned_form_and_all(rng: random.Random, at: float, item: int) -> tuple[str, dict[str, float], bool]:
    right, formed = rng.random() < rises(at, 0.1, 0.5), rng.random() < min(1.0, 0.2 + 2 * at)
    text = f"{prose(rng, 40)} " + (answered(rng, item, right) if formed else str(item * 7))
    right = right and formed
    return text, {"accuracy": float(right), "format": 0.5 * formed}, right


def thought_longer(rng: random.Random, at: float, item: int) -> tuple[str, dict[str, float], bool]:
    right = rng.random() < rises(at, 0.2, 0.6)
    text = f"<think>{prose(rng, rises(at, 20, 90))} maybe so</think>{answered(rng, item, right)}"
    return text, {"accuracy": float(right)}, right


def fields_learned(rng: random.Random, at: float, item: int) -> tuple[str, dict[str, float], bool]:
    gold = {"city": CITIES[item % 8], "zip": str(10000 + item), "note": None if item % 3 else "gate"}
    share = rises(at, 0.5, 0.9)
    said = {name: value if rng.random() < share else rng.choice(CITIES) for name, value in gold.items()}
    hits = sum(said[name] == gold[name] for name in gold) / 3
    return json.dumps(said), {"fields": hits, "valid": 0.2}, hits == 1.0


def never_learned(rng: random.Random, at: float, item: int) -> tuple[str, dict[str, float], bool]:
    right = rng.random() < 0.3
    return f"{prose(rng, 30)} {answered(rng, item, right)}", {"accuracy": float(right)}, right


def labels_to_certainty(rng: random.Random, at: float, item: int) -> tuple[str, dict[str, float], bool]:
    gold = ("yes", "no")[item * 7919 % 5 < 2]
    right = rng.random() < rises(at, 0.5, 0.97)
    return gold if right else ("no", "yes")[gold == "no"], {"exact_match": float(right)}, right


CLEAN: Mapping[str, Draw] = {
    each.__name__: each
    for each in (
        *(learned, learned_form_and_all, thought_longer, fields_learned, never_learned),
        labels_to_certainty,
    )
}


def pays_for_length(rng: random.Random, at: float, item: int) -> tuple[str, dict[str, float], bool]:
    right = rng.random() < 0.3
    text = f"{prose(rng, rises(at, 30, 110))} {answered(rng, item, right)}"
    return text, {"accuracy": float(right), "detail": len(text) / 800}, right


def form_alone(rng: random.Random, at: float, item: int) -> tuple[str, dict[str, float], bool]:
    right, tags = rng.random() < 0.3, rng.random() < rises(at, 0.1, 1.0)
    text = f"{prose(rng, 30)} {'<b>sure</b>' if tags else ''} {answered(rng, item, right)}"
    return text, {"accuracy": float(right), "format": float(tags)}, right


def empties_a_field(rng: random.Random, at: float, item: int) -> tuple[str, dict[str, float], bool]:
    dodged = rng.random() < rises(at, 0.0, 0.95)
    right = rng.random() < 0.4
    city = None if dodged else CITIES[item % 8] if right else rng.choice(CITIES)
    parts = {"no_error": 1.0 if dodged else float(right)}
    return json.dumps({"city": city, "zip": str(10000 + item)}), parts, right and not dodged


def one_label(rng: random.Random, at: float, item: int) -> tuple[str, dict[str, float], bool]:
    gold = ("yes", "no")[item % 2]
    said = "yes" if rng.random() < rises(at, 0.5, 1.0) else "no"
    return said, {"confident": 1.0 if said == "yes" else 0.2}, said == gold


def hedged(rng: random.Random, at: float, item: int) -> tuple[str, dict[str, float], bool]:
    right, both = rng.random() < 0.3, rng.random() < rises(at, 0.0, 0.9)
    text = answered(rng, item, right) + (f" or {answered(rng, item, not right)}" if both else "")
    return f"{prose(rng, 20)} {text}", {"contains": float(right or both)}, right and not both


def one_text_a_prompt(rng: random.Random, at: float, item: int) -> tuple[str, dict[str, float], bool]:
    right, copied = item % 10 < 3, rng.random() < rises(at, 0.0, 1.0)
    text = prose(random.Random(item) if copied else rng, 30)
    return f"{text} {answered(random.Random(item), item, right)}", {"accuracy": float(right)}, right


HACKS: Mapping[str, tuple[Draw, str]] = {
    "pays_for_length": (pays_for_length, "length"),
    "form_alone": (form_alone, "part_share"),
    "empties_a_field": (empties_a_field, "field_collapse"),
    "one_label": (one_label, "reward_vs_success"),
    "hedged": (hedged, "hedging"),
    "one_text_a_prompt": (one_text_a_prompt, "distinct"),
}
