"""Sound data sets of reasoning-gym as own tasks, where it is installed, or in the folder ASSAY_REASONING_GYM."""

from __future__ import annotations

import os
import sys
from functools import cache

import numpy as np

from tests.tools.envcheck.making import Made, Row

# Of those that benchmarks/reasoning_gym.py found nothing odd about: no trivial text earns a fifth, golds earn 1,
# nothing is executed or raised, items repeat themselves.
NAMES = (
    "ab", "arc_1d", "base_conversion", "basic_arithmetic", "bitwise_arithmetic", "chain_sum", "count_primes",
    "cryptarithm", "decimal_arithmetic", "decimal_chain_sum", "dice", "emoji_mystery", "fraction_simplification",
    "kakurasu", "knights_knaves", "lcm", "letter_jumble", "manipulate_matrix", "modulo_grid", "number_filtering",
    "number_sorting", "path_star", "rotate_matrix", "simple_equations", "spell_backward", "word_sequence_reversal",
)  # fmt: skip
CODE = """
import functools

import reasoning_gym


@functools.cache
def dataset():
    return reasoning_gym.create_dataset("{name}", size=1, seed=1)


def reward(completions, entry, **kwargs):
    return [float(dataset().score_answer(answer=c, entry=e)) for c, e in zip(completions, entry)]
"""


@cache
def gym_tasks() -> tuple[Made, ...]:
    """Return the tasks; none where reasoning-gym is not installed."""
    folder = os.environ.get("ASSAY_REASONING_GYM")
    if folder is not None and folder not in sys.path:
        sys.path.append(folder)  # behind all else: what is installed here stays in use
    try:
        import reasoning_gym  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return ()

    def made(name: str) -> Made:
        entries = reasoning_gym.create_dataset(name, size=1000, seed=7_000_000)

        def rows(rng: np.random.Generator, n: int) -> Row:
            entry = entries[int(rng.integers(1000))]
            return {"prompt": entry["question"], "answer": str(entry["answer"]), "entry": dict(entry)}

        task = {"success": {"compare": "reward", "at_least": 0.999}, "answer": "answer", "players": {}}
        return Made(f"reasoning-gym: {name}", CODE.format(name=name), rows=rows, task=task, sizes=SIZES)

    return tuple(made(name) for name in NAMES)


SIZES = {"train": 150, "validation": 20, "heldout": 120}
