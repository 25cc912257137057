"""Which rows go through a model together: little padding, few passes, and a prompt that several rows share
read once.

Everything here is arithmetic on lengths, so that the same lengths always give the same passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

# What beginning one more pass costs for each layer, in multiply-adds that could have been made instead.
# Measured on one CPU core (best of 1e5 to 1e9 on a step of 64 rows); on a GPU arithmetic is faster by far
# more than a launch.
PASS_COST = {"cpu": 1e7, "cuda": 2e10}


class Work(NamedTuple):
    """Multiply-adds of a model, roughly: for a token, for a pair of tokens that look at each other, for one
    more pass."""

    token: float
    pair: float
    begin: float

    @classmethod
    def of(cls, config: Any, device: str) -> Work:
        """Return the estimate for a decoder by its text configuration; what it does not say is taken as
        usual."""
        layers, hidden = config.num_hidden_layers, config.hidden_size
        inner = getattr(config, "intermediate_size", None) or 4 * hidden
        begin = PASS_COST.get(device, PASS_COST["cuda"])
        return cls(layers * hidden * (4 * hidden + 3 * inner), 2 * layers * hidden, layers * begin)


class Unit(NamedTuple):
    """Rows that stay together: `prompt` tokens they share and that are read once (0: nothing), then up to
    `width` each."""

    prompt: int
    rows: tuple[int, ...]
    width: int


def rows_alone(lengths: Sequence[int]) -> list[Unit]:
    """Return one unit for each row that has tokens."""
    return [Unit(0, (row,), length) for row, length in enumerate(lengths) if length > 0]


def rows_by_prompt(
    prompts: Sequence[int], prompt_lengths: Sequence[int], widths: Sequence[int], most: int
) -> list[Unit]:
    """Return one unit for each prompt, of at most so many rows.

    Args:
        prompts: Which prompt each row has.
        prompt_lengths: Tokens of each row's prompt.
        widths: Tokens of each row after it; below 0: the row is left out.
        most: Rows in one pass.
    """
    members: dict[int, list[int]] = {}
    for row, prompt in enumerate(prompts):
        if widths[row] >= 0:
            members.setdefault(prompt, []).append(row)
    chunks = [rows[start : start + most] for rows in members.values() for start in range(0, len(rows), most)]
    return [
        Unit(prompt_lengths[rows[0]], tuple(rows), max(1, *(widths[row] for row in rows))) for rows in chunks
    ]


def passes(units: Sequence[Unit], work: Work, most: int) -> tuple[float, list[list[Unit]]]:
    """Return the cheapest way to cut units, sorted by length, into passes, and its cost in multiply-adds.

    Args:
        units: What has to be read.
        work: What the model costs.
        most: Rows in one pass, unless one unit alone has more.
    """
    ordered = sorted(units, key=lambda unit: (-unit.width, -unit.prompt, unit.rows))
    prompt, width, rows = np.array([(unit.prompt, unit.width, len(unit.rows)) for unit in ordered], float).T
    best, cut = np.zeros(len(ordered) + 1), np.zeros(len(ordered), int)
    for first in reversed(range(len(ordered))):
        n_rows = rows[first:].cumsum()
        n_rows = n_rows[: max(1, int(np.searchsorted(n_rows, most, side="right")))]
        stop = first + len(n_rows)
        # All in one pass are as long as the longest of them.
        p, w = np.maximum.accumulate(prompt[first:stop]), width[first]
        n_prompts = np.arange(1, len(n_rows) + 1)
        shared = np.where(p > 0, work.begin + n_prompts * p * (work.token + work.pair * p), 0)
        cost = (
            work.begin + shared + n_rows * w * (work.token + work.pair * (p + w)) + best[first + 1 : stop + 1]
        )
        chosen = int(cost.argmin())
        best[first], cut[first] = cost[chosen], first + 1 + chosen
    found, first = [], 0
    while first < len(ordered):
        found.append(ordered[first : cut[first]])
        first = cut[first]
    return float(best[0]), found


def regrouped(batches: Sequence[dict[str, torch.Tensor]]) -> list[dict[str, torch.Tensor]]:
    """Return the micro-batches of one optimizer step, dealt anew: rows of one prompt together, then those of
    like length.

    Args:
        batches: Of equal size, as TRL keeps them; what has no dimension belongs to all of them alike.
    """
    whole = {
        name: torch.cat([b[name] for b in batches]) if x.ndim > 0 else x for name, x in batches[0].items()
    }
    openings = whole["prompt_ids"].masked_fill(whole["prompt_mask"] == 0, -1)
    prompts = torch.unique(openings, dim=0, return_inverse=True)[1].tolist()
    lengths = whole["completion_mask"].sum(dim=1).tolist()
    longest: dict[int, int] = {}
    for prompt, length in zip(prompts, lengths, strict=True):
        longest[prompt] = max(length, longest.get(prompt, 0))
    order = sorted(
        range(len(lengths)), key=lambda row: (-longest[prompts[row]], prompts[row], -lengths[row], row)
    )
    size = len(order) // len(batches)
    return [
        {name: x[order[start : start + size]] if x.ndim > 0 else x for name, x in whole.items()}
        for start in range(0, len(order), size)
    ]
