"""A small adapter added to its weights says and learns what peft's layers say and learn, and leaves nothing
behind."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import Linear as Lora

from assay.policy.engine import fused_lora as module
from assay.policy.engine.fused_lora import summed
from tests.policy.architectures import build

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
