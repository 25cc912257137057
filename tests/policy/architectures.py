"""Small random models of several architectures, each a few layers, and what a plain forward pass says of
them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

VOCABULARY, END, PAD = 40, 2, 0
WINDOW = 6  # shorter than most of what is written, so that a sliding layer forgets
ALIKE = 64  # tokens that LongRoPE turns in one way
# As Phi-4-mini has it: three quarters of each head are turned, a head of 8 has three angles.
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.75,
    "short_factor": [1.0, 1.5, 2.0],
    "long_factor": [1.0, 4.0, 30.0],
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 100.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}


def build(name: str) -> Any:
    """Return a model by name, in evaluation mode; equal names give equal weights."""
    shape: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "initializer_range": 0.4,
        "max_position_embeddings": 256,
        "pad_token_id": PAD,
        "bos_token_id": None,
        "eos_token_id": END,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model: Any
        if name in ("qwen3", "qwen3 tied"):
            model = Qwen3ForCausalLM(
                Qwen3Config(**shape, head_dim=8, tie_word_embeddings=name == "qwen3 tied")
            )
        elif name == "qwen3 with sliding layers":
            kinds = ["full_attention", "sliding_attention"]
            settings = Qwen3Config(
                **shape, head_dim=8, use_sliding_window=True, sliding_window=WINDOW, layer_types=kinds
            )
            model = Qwen3ForCausalLM(settings)
        elif name == "qwen2":
            model = Qwen2ForCausalLM(Qwen2Config(**shape))
            for layer in model.model.layers:
                for product in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj):
                    torch.nn.init.normal_(product.bias)  # else all are 0
        elif name in ("llama", "llama with biases and a scaled rope"):
            biased = {"attention_bias": True, "mlp_bias": True, "rope_parameters": LLAMA3}
            model = LlamaForCausalLM(LlamaConfig(**shape, **(biased if name != "llama" else {})))
            for layer in model.model.layers if name != "llama" else []:
                for product in layer.modules():
                    if isinstance(product, torch.nn.Linear):
                        torch.nn.init.normal_(product.bias)
        elif name == "mistral":
            model = MistralForCausalLM(MistralConfig(**shape, sliding_window=WINDOW))
        elif name == "gemma2":
            model = Gemma2ForCausalLM(Gemma2Config(**shape, head_dim=8, sliding_window=WINDOW))
        elif name == "phi":
            settings = Phi3Config(**shape, original_max_position_embeddings=ALIKE, rope_parameters=LONGROPE)
            model = Phi3ForCausalLM(settings)
        elif name == "gpt-oss":
            experts = {"num_local_experts": 4, "num_experts_per_tok": 2}
            model = GptOssForCausalLM(GptOssConfig(**shape, **experts, head_dim=8, sliding_window=WINDOW))
            for layer in model.model.layers:
                torch.nn.init.normal_(layer.self_attn.sinks)  # else all sinks take the same share
        else:
            model = GPT2LMHeadModel(
                GPT2Config(
                    vocab_size=VOCABULARY,
                    n_embd=32,
                    n_layer=2,
                    n_head=4,
                    n_positions=256,
                    initializer_range=0.4,
                    pad_token_id=PAD,
                    bos_token_id=None,
                    eos_token_id=END,
                )
            )
    return model.eval()


NAMES = ["qwen3", "qwen3 with sliding layers", "llama", "mistral", "gemma2", "phi", "gpt-oss", "gpt2"]


def logprobs_of(model: Any, ids: Sequence[int], temperature: float = 1.0) -> torch.Tensor:
    """Return the log-probability of each id but the first by one forward pass over all of them, without a
    cache."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0].float() / temperature
    return torch.log_softmax(logits, -1)[:-1].gather(1, torch.tensor(list(ids[1:]))[:, None])[:, 0]
