"""How far the layers of a model look, and how many tokens it may have."""

from __future__ import annotations

from typing import Any

from assay.core.errors import PolicyError

FULL, SLIDING = "full_attention", "sliding_attention"


def windows_of(config: Any, *, recurrent: bool = False) -> dict[str, int | None]:
    """Return the kinds of attention layers of a model, with how far those of a sliding window look back.

    Args:
        config: Of the model; GPT-Neo's own list of kinds, whose windows count from the longest row, is read
            and refused.
        recurrent: Whether transformers says that the model has a state.

    Raises:
        PolicyError: There are layers of a kind whose state is more than keys and values by place.
    """
    config = config.get_text_config(decoder=True)
    window = getattr(config, "sliding_window", None)
    named = getattr(config, "layer_types", None) or getattr(config, "attention_layers", None)
    kinds = set(named or [FULL if window is None else SLIDING]) | ({"recurrent"} if recurrent else set())
    if kinds - {FULL, SLIDING}:
        raise PolicyError(
            "a model of layers with full attention or a sliding window",
            found=", ".join(sorted(kinds - {FULL, SLIDING})),
            where=f"{config.model_type}, kinds of layers",
            fix="set generation.backend: transformers",
        )
    if SLIDING in kinds and (type(window) is not int or window < 1):
        raise PolicyError(
            "a window of at least one token",
            found=repr(window)[:80],
            where=f"{config.model_type}, sliding_window",
            fix="put the model's own config.json back",
        )
    return {kind: window if kind == SLIDING else None for kind in sorted(kinds)}


def turned_alike(config: Any) -> int | None:
    """Return how many tokens LongRoPE (of Phi) turns by the same angles; None for models without it.

    As soon as one row is longer, transformers turns all rows by others: keys kept from before are then not
    what one pass over the whole conversation has, in play or in learning.
    """
    rope = getattr(config.get_text_config(decoder=True), "rope_parameters", None) or {}
    return int(rope["original_max_position_embeddings"]) if rope.get("rope_type") == "longrope" else None


def positions_of(config: Any) -> int | None:
    """Return how many tokens a conversation may have, None where the model does not say."""
    limit = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    return turned_alike(config) or (limit if isinstance(limit, int) and limit > 0 else None)
