"""How tokens are chosen and by what engine, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Backend = Literal["cached", "lean", "transformers"]


@dataclass(frozen=True, slots=True)
class Decoding:
    """How tokens are chosen: temperature 0 means greedy; max_new_tokens bounds one completion.

    `backend` is one of `policy/backends/`; `cuda_graphs` makes `cached` replay a captured step for each
    token; `drafts` is how many tokens `lean` guesses ahead.
    """

    temperature: float
    max_new_tokens: int
    backend: Backend = "cached"
    cuda_graphs: bool = False
    drafts: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """Token ids of one completion and the log-probability of each under the sampling distribution."""

    ids: list[int]
    logprobs: list[float]
