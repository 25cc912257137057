"""Episodes of structured output made up for tests: one JSON answer an item, graded in parts, in strata of
difficulty."""

from __future__ import annotations

from assay.core.records import Episode, Turn
from assay.core.seeds import derive_seed, rng

PARTS = {"parsed_strict": 0.05, "parsed_extracted": 0.0, "schema_valid": 0.15, "fields": 0.3, "exact": 0.5}
FLAGS = (
    "parsed_strict",
    "parsed_extracted",
    "schema_valid",
    "exact",
    "empty_fields",
    "blocked",
    "full_reward_but_wrong",
)
METRICS = ("field_f1", "completion_chars")
STRATA = {
    "difficulty": ("easy", "medium", "hard"),
    "family": ("order", "return", "address", "invoice"),
    "task_type": ("extract", "call"),
}


def answer(item: int, draw: int, skill: float, *, arm: str, gold: bool = True) -> Episode:
    """Return one answer: parsed, then valid, then right, each the likelier the more skill and the less
    difficulty."""
    chance, level = rng("structured", arm, item, draw), item % 3
    ease = skill - 0.18 * level

    def passes(bonus: float) -> bool:
        return bool(chance.random() < min(1.0, max(0.0, ease + bonus)))

    strict = passes(0.3)
    extracted = not strict and passes(0.1)
    valid = (strict or extracted) and passes(0.2)
    exact = valid and gold and passes(0.0)
    empty = valid and not exact and bool(chance.random() < 0.2)
    share = 1.0 if exact else round(float(chance.random()), 3) if valid and not empty else 0.0
    worth = 1.0 if strict else 0.25
    found = {
        "parsed_strict": float(strict),
        "parsed_extracted": float(extracted),
        "schema_valid": worth * valid,
    }
    found |= {"fields": worth * share, "exact": worth * exact}
    parts = {name: PARTS[name] * value for name, value in found.items()}
    flags: dict[str, bool | None] = dict.fromkeys(FLAGS, False)
    flags |= {"parsed_strict": strict, "parsed_extracted": extracted, "schema_valid": valid}
    flags |= {"exact": exact if gold else None, "empty_fields": empty if valid else None}
    text = '{"sku":"A-17","n":3}' if strict else "Sure: {...}"
    turn = Turn(
        prompt_digest="0" * 64,
        completion=text,
        n_tokens=12 + item % 5,
        truncated=not strict and not extracted,
        outcome="ok" if strict else "repaired" if extracted else "failed",
        failure=None if strict or extracted else "no JSON object",
        action=text if strict else None,
        observation=None,
        parts={name: value for name, value in parts.items() if value},
    )
    name = f"item-{item:03d}"
    return Episode(
        item_id=name,
        cluster=f"prompt-{item:03d}",
        strata={label: values[item % len(values)] for label, values in STRATA.items()},
        draw=draw,
        seed=derive_seed(arm, name, draw),
        turns=(turn,),
        prompt_chars_cut=0,
        ending="answered",
        reward=sum(parts.values()),
        parts=parts,
        success=strict and valid and (exact or not gold),
        flags=flags,
        metrics={"field_f1": share if gold else None, "completion_chars": float(len(text))},
    )


def structured_arm(arm: str, skill: float, *, items: int = 48, draws: int = 4) -> list[Episode]:
    """Return one arm on the same items; every twelfth item has no gold answer."""
    return [answer(i, draw, skill, arm=arm, gold=i % 12 != 11) for i in range(items) for draw in range(draws)]
