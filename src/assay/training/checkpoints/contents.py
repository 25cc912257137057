"""Whether the files of a checkpoint say something that a training can go on with; nothing in them is ever
executed.

A manifest says that bytes are those that were written, and whoever can write the folder can write a manifest.
So what stands in the files is looked at as well: two of torch's formats are pickles, of which torch's reader
for weights alone takes plain values and tensors, and refuses whatever would call something.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

from assay.policy.border import said
from assay.training.log.history import ROWS

LEDGER, STATE = "ledger.json", "trainer_state.json"
# What is gone on with before the first step; the rest of a ledger is read by those whose state it is.
_KINDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    LEDGER: {
        "probe": list,
        "rows": dict,
        "watch": dict,
        "monitor": dict,
        "chain": str,
        "seconds": (int, float),
        "skipped": dict,
    },
    STATE: {
        "global_step": int,
        "max_steps": int,
        "epoch": (int, float),
        "num_train_epochs": int,
        "log_history": list,
        "train_batch_size": (int, type(None)),
        "stateful_callbacks": dict,
        "num_input_tokens_seen": int,
    },
}


def unreadable(name: str, content: bytes) -> str | None:
    """Return what is wrong with a file of a checkpoint, None if nothing is; a name of another kind is not
    looked at."""
    if name.endswith((".pt", ".pth")):
        return _pickle(name, content)
    if name.endswith(".safetensors"):
        return _tensors(name, content)
    return _mapping(name, content) if name in _KINDS else None


def _pickle(name: str, content: bytes) -> str | None:
    import torch
    from transformers.trainer_pt_utils import safe_globals

    try:
        with safe_globals():  # type: ignore[no-untyped-call]
            value = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001 - torch, zip and pickle raise what they trip over, on bytes of anybody's
        return f"{name} is none that torch reads as plain values and tensors ({said(error)[:80]})"
    return None if isinstance(value, dict) else f"{name} holds a {type(value).__name__}, not named values"


def _tensors(name: str, content: bytes) -> str | None:
    import torch
    from safetensors.torch import load

    try:
        tensors = load(content)
        odd = [key for key, tensor in tensors.items() if not torch.isfinite(tensor).all()]
    except Exception as error:  # noqa: BLE001 - as above
        return f"{name} holds no tensors ({said(error)[:80]})"
    return f"{name} holds NaN or Inf in {odd[0][:80]}" if odd else None


def _mapping(name: str, content: bytes) -> str | None:
    try:
        told: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        return f"{name} is not JSON ({said(error)[:80]})"
    if not isinstance(told, Mapping):
        return f"{name} is no mapping"
    for key, kind in _KINDS[name].items():
        value = told.get(key)
        if not isinstance(value, kind) or isinstance(value, bool):
            return f"{name} has {str(value)[:40]!r} for {key}"
    if name == LEDGER and not all(_is_text(text) for text in told["probe"]):
        return f"{name} has a probe that is none of tokens"
    return _rows(name, told["rows"]) if name == LEDGER else None


def _is_text(text: Any) -> bool:
    """Return whether a text of the probe is an opening, what came after it and which of that counts, all of
    them numbers."""
    if not (
        isinstance(text, list) and len(text) == 3 and all(isinstance(part, list) and part for part in text)
    ):
        return False
    return len(text[1]) == len(text[2]) and all(
        type(token) is int and token >= 0 for part in text for token in part
    )


def _rows(name: str, tables: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the tables of a ledger: lists of rows, those of one table with the same
    columns."""
    for table, rows in tables.items():
        if not isinstance(rows, list):
            return f"{name} has no list of {table[:40]}"
        if table in ROWS and not all(isinstance(row, dict) and row.keys() == rows[0].keys() for row in rows):
            return f"{name} has rows of {table} that differ in their columns"
    return None
