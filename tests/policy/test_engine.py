"""How a token is chosen, how a dialogue is assembled, and adapters that are added to their layers; what whole
conversations say is in test_sessions.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import Linear as Lora

from assay.rollout.policy.engine import fused_lora as module
from assay.rollout.policy.engine.choice import BLOCK, _inverse, _inverse_by_blocks, choose
from assay.rollout.policy.engine.fused_lora import summed
from assay.rollout.policy.model import Policy
from tests.policy.architectures import build
from tests.small_policy import small_policy


@pytest.fixture(scope="module")
def policy() -> Policy:
    return small_policy(["a", "b", "c", "d", "e", "f", " "], 1)


def test_a_conversation_is_assembled_in_play_as_it_was_taught(policy: Policy) -> None:
    dialogue = policy.dialogue
    messages = [
        {"role": "user", "content": "a b"},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"},
        {"role": "assistant", "content": "e f"},
    ]
    ids, mask = dialogue.whole(messages)
    text = policy.tokenizer.apply_chat_template(messages, tokenize=False)
    assert policy.tokenizer.decode(ids) == text
    written = policy.tokenizer.decode([i for i, own in zip(ids, mask, strict=True) if own])
    assert written == "c<|end|>e f<|end|>"


def test_tokens_joined_give_the_text_back(policy: Policy) -> None:
    text = "abc def a b"
    assert policy.tokenizer.decode(policy.tokenizer(text, add_special_tokens=False)["input_ids"]) == text


SIZE = 3 * BLOCK + 17


@pytest.mark.parametrize("scale", [0.0, 1.0, 8.0])
def test_the_search_by_blocks_finds_what_one_running_sum_finds(scale: float) -> None:
    generator = torch.Generator().manual_seed(3)
    logprobs = torch.log_softmax(scale * torch.randn(400, SIZE, generator=generator), -1)
    noise = torch.rand(400, dtype=torch.float64, generator=generator)
    assert torch.equal(_inverse_by_blocks(logprobs, noise), _inverse(logprobs, noise))


@pytest.mark.parametrize("number", [0.0, 0.5, 1 - 2.0**-53])
def test_a_token_without_probability_is_never_chosen(number: float) -> None:
    logits = torch.full((4, SIZE), float("-inf"))
    alive = [0, BLOCK - 1, BLOCK, SIZE - 2]
    for row, place in enumerate(alive):
        logits[row, place] = 1.0
    ids, logprobs = choose(logits, 1.0, torch.full((4,), number, dtype=torch.float64))
    assert ids.tolist() == alive and logprobs.tolist() == [0.0] * 4


@pytest.mark.parametrize("size", [50, SIZE])
def test_tokens_come_as_often_as_their_probabilities_say(size: int) -> None:
    logits = torch.full((size,), -9.0)
    logits[[1, size // 2, size - 1]] = torch.tensor([1.0, 2.0, 3.0])
    noise = torch.as_tensor((np.arange(20_000) + 0.5) / 20_000)
    ids, _ = choose(logits.expand(20_000, -1).contiguous(), 0.7, noise)
    expected = torch.softmax(logits / 0.7, -1)
    for place in (1, size // 2, size - 1):
        assert float((ids == place).double().mean()) == pytest.approx(float(expected[place]), abs=2e-3)


pytestmark = [
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning"),
]
IDS = torch.arange(3, 23).view(2, 10)


def adapted(name: str, **settings: Any) -> Any:
    wanted: dict[str, Any] = {
        "r": 3,
        "lora_alpha": 6,
        "init_lora_weights": False,
        "target_modules": "all-linear",
    } | settings
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return get_peft_model(build(name), LoraConfig(**wanted)).train()


def learned(model: Any, *, add: bool) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return logits and the gradients of the adapter; the way back is gone after peft's layers have come
    back."""
    model.zero_grad()
    with summed(model, add=add):
        logits = model(input_ids=IDS, use_cache=False).logits
    (logits * torch.linspace(-1, 1, logits.numel()).view_as(logits)).sum().backward()
    return logits.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("name", ["qwen3", "qwen3 tied", "llama", "gemma2"])
def test_an_added_adapter_learns_what_two_layers_of_its_own_would(name: str) -> None:
    model = adapted(name)
    (logits, gradients) = learned(model, add=False)
    (summed_logits, summed_gradients) = learned(model, add=True)
    torch.testing.assert_close(summed_logits, logits, rtol=1e-4, atol=1e-4)
    assert len(gradients) > 20
    for key, gradient in gradients.items():
        assert gradient.norm() > 0
        assert (summed_gradients[key] - gradient).norm() <= 1e-4 * gradient.norm(), key  # float32


def test_a_layer_with_a_bias_keeps_it() -> None:
    inner = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 4))
    inner.get_output_embeddings = lambda: None  # type: ignore[assignment]
    settings = LoraConfig(r=2, init_lora_weights=False, target_modules=["0", "2"])
    model: Any = get_peft_model(inner, settings).train()  # type: ignore[arg-type]
    x = torch.linspace(-1, 1, 18).view(3, 6)
    before = model(x)
    with summed(model):
        assert not any(isinstance(module, Lora) for module in model.modules()), "the adapters were not added"
        torch.testing.assert_close(model(x), before)


def test_every_layer_comes_back_also_after_an_error() -> None:
    model = adapted("qwen3")
    layers = list(model.modules())
    values = {name: p.detach().clone() for name, p in model.named_parameters()}
    with pytest.raises(ZeroDivisionError), summed(model):
        assert not any(isinstance(module, Lora) for module in model.modules())
        raise ZeroDivisionError
    assert list(model.modules()) == layers
    assert all(torch.equal(p, values[name]) for name, p in model.named_parameters())


def test_a_head_is_added_where_nothing_learns_and_left_alone_where_something_does() -> None:
    model = adapted("qwen3 tied", target_modules=["lm_head", "q_proj"])
    with summed(model):
        assert isinstance(model.get_output_embeddings(), Lora), (
            "its matrix would be read without its adapter's gradient"
        )
    with torch.no_grad(), summed(model):
        assert not isinstance(model.get_output_embeddings(), Lora)


def test_dropout_keeps_its_layers_while_it_drops() -> None:
    model = adapted("qwen3", lora_dropout=0.5)
    with summed(model):
        assert any(isinstance(module, Lora) for module in model.modules())
    model.eval()
    with summed(model):
        assert not any(isinstance(module, Lora) for module in model.modules())


def test_a_model_that_gains_nothing_by_it_learns_without_a_second_copy_of_its_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = adapted("qwen3")
    linear = [layer.get_base_layer().weight.nbytes for layer in model.modules() if isinstance(layer, Lora)]
    monkeypatch.setattr(module, "LARGEST_LEARNING", sum(linear) - 1)
    with summed(model):
        assert any(isinstance(each, Lora) for each in model.modules())
    with torch.no_grad(), summed(model):
        assert not any(isinstance(each, Lora) for each in model.modules())
    monkeypatch.setattr(module, "LARGEST_LEARNING", sum(linear))
    with summed(model):
        assert not any(isinstance(each, Lora) for each in model.modules())
