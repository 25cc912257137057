"""GGUF files as llama.cpp writes them, as small as tests need them, by the description of the format alone.

Source: ggml, docs/gguf.md; llama.cpp, convert_hf_to_gguf.py (the order of rows of q and k) and ggml-quants.c
(Q4_1).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

F32, Q4_1 = 0, 3
ALIGNMENT, BLOCK, HEADS, KV_HEADS = 32, 32, 4, 2
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
Array = NDArray[np.float32]


def byte_letters() -> list[str]:
    """Return the letter that byte-level BPE writes for each byte. Source: GPT-2, encoder.py."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = [
    "1 2",
    "\u0120 \u0120",
    "\u0120\u0120 1",
    "\u0120 1",
    "\u010a \u010a",
    "\u010a\u010a 1",
    "a b",
    "\u0120 a",
]
TOKENS = [*SPECIAL, *byte_letters(), *(merge.replace(" ", "") for merge in MERGES)]


def header(**others: Any) -> dict[str, Any]:
    """Return what a small file says of itself; `others` take another value, None takes one out. Dots are
    written as double underscores."""
    told: dict[str, Any] = {
        "general.architecture": "llama",
        "general.type": "model",
        "general.name": "Tiny",
        "general.license": "apache-2.0",
        "llama.block_count": 2,
        "llama.context_length": 128,
        "llama.embedding_length": 64,
        "llama.feed_forward_length": 96,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 10000.0,
        "llama.rope.dimension_count": 16,
        "llama.vocab_size": len(TOKENS),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": [3] * len(SPECIAL) + [1] * (len(TOKENS) - len(SPECIAL)),
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.padding_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }
    told |= {name.replace("__", "."): value for name, value in others.items()}
    kind = told["general.architecture"]
    told = {name.replace("llama.", f"{kind}.", 1): value for name, value in told.items()}
    return {name: value for name, value in told.items() if value is not None}


def tensors(seed: int = 0) -> dict[str, Array]:
    """Return random weights under the names that transformers has for them."""
    chance = np.random.default_rng(seed)

    def drawn(*shape: int) -> Array:
        return (chance.standard_normal(shape) * 0.2).astype(np.float32)

    found = {"model.embed_tokens.weight": drawn(len(TOKENS), 64), "model.norm.weight": 1 + drawn(64)}
    for layer in range(2):
        parts = {"input_layernorm": 1 + drawn(64), "post_attention_layernorm": 1 + drawn(64)}
        parts |= {"self_attn.q_proj": drawn(64, 64), "self_attn.o_proj": drawn(64, 64)}
        parts |= {f"self_attn.{name}": drawn(32, 64) for name in ("k_proj", "v_proj")}
        parts |= {
            "mlp.gate_proj": drawn(96, 64),
            "mlp.up_proj": drawn(96, 64),
            "mlp.down_proj": drawn(64, 96),
        }
        found |= {f"model.layers.{layer}.{name}.weight": value for name, value in parts.items()}
    return found


NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "model.layers.": "blk.",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def as_ggml(weights: Mapping[str, Array]) -> dict[str, Array]:
    """Return weights under llama.cpp's names, rows of q and k in its order."""
    found = {}
    for name, value in weights.items():
        for heads, part in ((HEADS, "q_proj"), (KV_HEADS, "k_proj")):
            if part in name:
                parted = value.reshape(heads, 2, value.shape[0] // heads // 2, value.shape[1])
                value = parted.swapaxes(1, 2).reshape(value.shape)
        for ours, theirs in NAMES.items():
            name = name.replace(ours, theirs)
        found[name] = value
    return found


def in_4_bits(value: Array) -> tuple[bytes, Array]:
    """Return a matrix as Q4_1 blocks, and what these blocks say."""
    rows = value.reshape(-1, BLOCK)
    least = rows.min(axis=1).astype(np.float16)
    step = ((rows.max(axis=1) - rows.min(axis=1)) / 15).astype(np.float16)
    wide, low = step.astype(np.float32)[:, None], least.astype(np.float32)[:, None]
    levels = np.clip(np.rint((rows - low) / np.maximum(wide, 1e-8)), 0, 15).astype(np.uint8)
    packed = levels[:, : BLOCK // 2] | (levels[:, BLOCK // 2 :] << 4)
    blocks = b"".join(
        struct.pack("<ee", float(d), float(m)) + each.tobytes()
        for d, m, each in zip(step, least, packed, strict=True)
    )
    return blocks, (levels * wide + low).astype(np.float32).reshape(value.shape)


def write(path: Path, told: Mapping[str, Any], weights: Mapping[str, Array] | None = None) -> Path:
    """Write a file with these weights, matrices in 4 bits, and return where."""
    table, data = b"", b""
    for name, value in (weights or {}).items():
        kind, content = (F32, value.tobytes()) if value.ndim == 1 else (Q4_1, in_4_bits(value)[0])
        sizes = [struct.pack("<Q", size) for size in reversed(value.shape)]
        table += _text(name) + struct.pack("<I", value.ndim) + b"".join(sizes)
        table += struct.pack("<IQ", kind, len(data))
        data += content + b"\0" * (-len(content) % ALIGNMENT)
    start = struct.pack("<4sIQQ", b"GGUF", 3, len(weights or {}), len(told))
    start += b"".join(_text(name) + _value(value) for name, value in told.items()) + table
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(start + b"\0" * (-len(start) % ALIGNMENT) + data)
    return path


def _text(text: str) -> bytes:
    content = text.encode()
    return struct.pack("<Q", len(content)) + content


def _value(value: Any) -> bytes:
    kind, content = _plain(value)
    if isinstance(value, list):
        inner = _plain(value[0])[0]
        content = struct.pack("<IQ", inner, len(value)) + b"".join(_plain(each)[1] for each in value)
        kind = 9
    return struct.pack("<I", kind) + content


def _plain(value: Any) -> tuple[int, bytes]:
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, int):
        return 4, struct.pack("<I", value)
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    return (8, _text(value)) if isinstance(value, str) else (9, b"")
