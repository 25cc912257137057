"""Rewards that mean nothing: the tosses of a coin."""

from __future__ import annotations

from assay.core.seeds import derive_seed


def coin(seed: int, step: int, item_id: str, member: int) -> float:
    """Return 0.0 or 1.0, a function of training seed, step, item and place in the group, and of nothing that
    was played.

    Source: the random reward of Shao et al. (2025), arXiv 2506.10947, section 2, with probability one half.
    """
    return float(derive_seed("random reward", seed, step, item_id, member) & 1)
