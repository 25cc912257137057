"""How tokens are chosen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decoding:
    """How tokens are chosen: temperature 0 means greedy; max_new_tokens bounds one completion."""

    temperature: float
    max_new_tokens: int
