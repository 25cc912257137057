"""Known families are read flat by layers of our own, which have the numbers of transformers' modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest import mock

import pytest
import torch
from peft import LoraConfig, get_peft_model

from assay.rollout.policy.engine.fused_lora import summed
from assay.rollout.policy.engine.lean_weights import Unserved
from assay.training import flat, flat_attention
from assay.training.flat_pack import Pack, Rule, Stretch
from tests.policy.architectures import build
from tests.training.test_flat import anything_is_read_flat, gradients, read

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning"),
    pytest.mark.usefixtures("anything_is_read_flat"),
]
__all__ = ["anything_is_read_flat"]
SERVED = [
    "llama",
    "llama with biases and a scaled rope",
    "mistral",
    "qwen2",
    "qwen3",
    "qwen3 tied",
    "qwen3 with sliding layers",
]


def adapted(name: str, targets: str | Sequence[str] = "all-linear", **more: Any) -> Any:
    """Return a model with an adapter that is not the identity, learning."""
    chosen = targets if isinstance(targets, str) else list(targets)
    lora = LoraConfig(r=2, target_modules=chosen, init_lora_weights=False, task_type="CAUSAL_LM", **more)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model: Any = get_peft_model(build(name), lora).train()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter *= 0.5
    return model


def by_modules() -> AbstractContextManager[Any]:
    return mock.patch.object(flat, "Layers", side_effect=Unserved("nothing"))


def by_layers() -> AbstractContextManager[Any]:
    """Fail where layers of our own are refused."""

    class Told(flat.Layers):
        def __init__(self, *given: Any) -> None:
            try:
                super().__init__(*given)
            except Unserved as why:
                raise AssertionError(f"refused: {why}") from why

    return mock.patch.object(flat, "Layers", Told)


def numbers(model: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    found = read(model)
    return found.detach(), gradients(model, found)


@pytest.mark.parametrize(
    "targets", ["all-linear", ("q_proj", "v_proj"), ("k_proj", "up_proj"), ("o_proj", "down_proj")]
)
@pytest.mark.parametrize("name", SERVED)
def test_layers_have_the_numbers_and_gradients_of_modules(name: str, targets: str | Sequence[str]) -> None:
    model = adapted(name, targets)
    with by_modules():
        expected, slopes = numbers(model)
    for added in (False, True):  # an adapter may be added to its weight before
        with by_layers(), summed(model.get_base_model()) if added else nullcontext():
            found = read(model)
        torch.testing.assert_close(found, expected, rtol=0, atol=5e-6)
        mine = gradients(model, found)
        assert mine.keys() == slopes.keys()
        for each, slope in slopes.items():
            assert (mine[each] - slope).norm() <= 2e-5 * slope.norm(), each


def test_layers_read_the_base_where_its_adapter_is_switched_off() -> None:
    model = adapted("qwen3").eval()
    with torch.no_grad():
        with model.disable_adapter():
            with by_modules():
                expected = read(model)
            with by_layers():
                assert torch.allclose(read(model), expected, rtol=0, atol=5e-6)
        with by_layers():
            assert not torch.allclose(read(model), expected, rtol=0, atol=1e-2)


@pytest.mark.parametrize("name", ["qwen3", "mistral", "gemma2"])
def test_a_model_that_always_reads_flat_does_so_where_layers_serve_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flat, "reads_flat", lambda *_, **__: False)
    model = adapted(name, ("q_proj", "v_proj"))
    with mock.patch.object(flat, "_flat_states", side_effect=flat._flat_states) as passes:
        expected, slopes = numbers(model)
        assert not passes.called
        flat.always_read_flat(model.get_base_model())
        with mock.patch.object(flat, "complain") as complain:
            found, mine = numbers(model)
            read(model)
        assert passes.called is (name != "gemma2")
    told = [call.args[0] for call in complain.call_args_list]
    assert (len(told), all("lean does not serve" in line for line in told)) == (name == "gemma2", True)
    torch.testing.assert_close(found, expected, rtol=0, atol=5e-6)
    for each, slope in slopes.items():
        assert (mine[each] - slope).norm() <= 2e-5 * slope.norm(), each


def unfreeze(model: Any) -> None:
    model.get_base_model().model.norm.weight.requires_grad_()


def checkpoint(model: Any) -> None:
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.enable_input_require_grads()


def hook(model: Any) -> None:
    model.get_base_model().model.layers[0].mlp.register_forward_hook(lambda *_: None)


def with_gelu(model: Any) -> None:
    base = model.get_base_model()
    base.config.hidden_act = "gelu"
    for layer in base.model.layers:
        layer.mlp.act_fn = torch.nn.GELU()


@pytest.mark.parametrize(
    ("name", "settings", "change"),
    [
        ("gemma2", {}, None),
        ("phi", {}, None),
        ("qwen3", {"use_dora": True}, None),
        ("qwen3", {"lora_bias": True}, None),
        ("qwen2", {"modules_to_save": ["norm"]}, None),
        ("llama", {}, unfreeze),
        ("llama", {}, checkpoint),
        ("llama", {}, hook),
        ("mistral", {}, with_gelu),
    ],
)
def test_a_model_that_they_do_not_serve_is_read_flat_by_its_modules(
    name: str, settings: dict[str, Any], change: Callable[[Any], None] | None
) -> None:
    model = adapted(name, ("q_proj", "v_proj") if name != "phi" else "all-linear", **settings)
    if change is not None:
        change(model)
    with by_modules():
        expected, slopes = numbers(model)
    with pytest.raises(AssertionError, match="refused: "), by_layers():
        read(model)
    with mock.patch.object(flat, "complain") as complain:
        found, mine = numbers(model)
    assert not complain.called
    assert torch.equal(found, expected)
    assert all(torch.equal(mine[each], slope) for each, slope in slopes.items()) and mine


@pytest.mark.parametrize(
    ("name", "stated"),
    [("llama", {"sliding_window": 4}), ("mistral", {"layer_types": ["full_attention"] * 2})],
)
def test_a_window_that_is_stated_and_not_that_of_the_modules_is_not_taken_for_theirs(
    name: str, stated: dict[str, Any]
) -> None:
    model = adapted(name)
    with mock.patch.object(flat, "reads_flat", lambda *_, **__: False):
        expected = read(model)
        for key, value in stated.items():
            setattr(model.get_base_model().config, key, value)
    with pytest.raises(AssertionError, match="refused: windows"), by_layers():
        read(model)
    with mock.patch.object(flat, "complain"):
        torch.testing.assert_close(read(model), expected, rtol=0, atol=5e-6)


@pytest.mark.parametrize(("window", "softcap"), [(None, None), (4, None), (3, 2.0)])
def test_attention_to_what_decides_is_that_to_all_where_nothing_else_is_asked(
    window: int | None, softcap: float | None
) -> None:
    here, generator = torch.device("cpu"), torch.Generator().manual_seed(0)
    kept = torch.tensor([7, 8, 6, 6, 14, 21, 25, 26, 29, 25])  # twice the last of a prompt
    shapes = (4, 30, 8), (2, 30, 8), (2, 30, 8)
    q, k, v = (torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes)
    above = torch.zeros(30, 4, 8, dtype=torch.float64)
    above[kept] = torch.randn(len(kept), 4, 8, generator=generator, dtype=torch.float64)
    rule, found = Rule(0.6, softcap, window), []
    for deciding in (False, True):
        pack = Pack([Stretch(0, 7, [3, 5, 1], here), Stretch(16, 0, [6], here), Stretch(22, 4, [2, 2], here)])
        pack.keep(kept)
        out, sums = flat_attention.attend_flat(q, k, v, pack, rule, deciding=deciding)
        into = [torch.full_like(x, torch.nan) for x in (q, k, v)]
        flat_attention.attend_back(above, (q, k, v), out, sums, pack, rule, into, deciding=deciding)
        found.append([out[kept], *into])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-11, atol=1e-12)
