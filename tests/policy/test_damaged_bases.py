"""A base whose files say something else than they should is refused in one message, whatever its loaders trip
over."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file

from assay.core.decoding import Decoding
from assay.core.errors import PolicyError
from assay.rollout.policy.base import tiny
from assay.rollout.policy.base.model_files import own_code, refuse_unreadable
from assay.rollout.policy.engine.context import windows_of
from assay.rollout.policy.engine.engine import Session
from assay.rollout.policy.model import evaluating, load, open_tokenizer, playing
from tests.policy.architectures import logprobs_of
from tests.small_policy import small_base

Harm = Callable[[Path], Any]
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base") / "mine"
    return small_base(folder, seed=0, max_positions=64, initializer_range=0.02)


def says(name: str, **changes: Any) -> Harm:
    """Return what makes a JSON file of a base say other values."""

    def harm(folder: Path) -> None:
        told = json.loads((folder / name).read_bytes())
        (folder / name).write_text(json.dumps(told | changes), encoding="utf-8")

    return harm


def without(*names: str) -> Harm:
    def harm(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return harm


def holds(name: str, content: bytes) -> Harm:
    return lambda folder: (folder / name).write_bytes(content)


def not_finite(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    name = next(name for name in tensors if "norm" in name)
    save_file(
        tensors | {name: torch.full_like(tensors[name], float("nan"))},
        folder / "model.safetensors",
        {"format": "pt"},
    )


ODD = ("", {}, [], "x", -1, 1.5, True, [None], 10**30)
HARMS: dict[str, Harm] = {
    "a tokenizer of no version": says("tokenizer.json", version=""),
    "no files of a tokenizer": without("tokenizer.json", "tokenizer_config.json"),
    "no tokenizer.json": without("tokenizer.json"),
    "sliding_window of no size": says(
        "config.json", sliding_window="", use_sliding_window=True, layer_types=["sliding_attention"]
    ),
    "an end that is a mapping": says("tokenizer_config.json", eos_token={}),
    "an end that is a list": says("tokenizer_config.json", eos_token=[]),
    "an end that is a number": says("tokenizer_config.json", eos_token=5),
    "a template that is a number": lambda folder: (
        (folder / "chat_template.jinja").unlink(),
        says("tokenizer_config.json", chat_template=5)(folder),
    ),
    "a class of tokenizer that is a list": says("tokenizer_config.json", tokenizer_class=["x"]),
    "a tokenizer that is a list": holds("tokenizer.json", b"[]"),
    "a tokenizer nested deeply": holds("tokenizer.json", b"[" * 100_000),
    "a model without words": says("tokenizer.json", model={}),
    "a configuration that is a list": holds("config.json", b"[]"),
    "a configuration nested deeply": holds("config.json", b'{"a":' * 5000 + b"1" + b"}" * 5000),
    "no weights": without("model.safetensors"),
    "weights that are a text": holds("model.safetensors", b"no weights"),
    "weights that are no numbers": not_finite,
    "ends of a generation that are a mapping": says("generation_config.json", eos_token_id={"a": 1}),
    "a pipe for a configuration": lambda folder: (
        without("config.json")(folder),
        os.mkfifo(folder / "config.json"),
    ),
    "a pipe for weights": lambda folder: (
        without("model.safetensors")(folder),
        os.mkfifo(folder / "model.safetensors"),
    ),
    "a pipe for a template": lambda folder: (
        without("chat_template.jinja")(folder),
        os.mkfifo(folder / "chat_template.jinja"),
    ),
    "a device for weights": lambda folder: (
        without("model.safetensors")(folder),
        (folder / "model.safetensors").symlink_to("/dev/zero"),
    ),
    "a weight that is missing": lambda folder: _fewer_weights(folder),
    "a tokenizer with more words than rows": lambda folder: _more_words(folder),
    **{f"hidden_size {odd!r}": says("config.json", hidden_size=odd) for odd in ODD if odd is not True},
    **{
        f"num_attention_heads {odd!r}": says("config.json", num_attention_heads=odd)
        for odd in ("", {}, 0, -1, "x")
    },
    **{f"vocab_size {odd!r}": says("config.json", vocab_size=odd) for odd in ("", {}, 3, -1, None)},
    **{f"model_type {odd!r}": says("config.json", model_type=odd) for odd in ("", {}, 5, None, "nothing")},
    **{f"layer_types {odd!r}": says("config.json", layer_types=odd) for odd in ("", {}, [5], ["x"])},
}


def _fewer_weights(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors[next(name for name in tensors if "mlp.up_proj" in name)]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def _more_words(folder: Path) -> None:
    told = json.loads((folder / "tokenizer.json").read_bytes())
    told["model"]["vocab"] |= {f"word {number}": 1000 + number for number in range(3)}
    (folder / "tokenizer.json").write_text(json.dumps(told), encoding="utf-8")


@pytest.mark.parametrize("name", HARMS)
def test_a_damaged_base_is_refused_in_one_message(name: str, base: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(base, tmp_path / "copy"))
    HARMS[name](folder)
    with pytest.raises(PolicyError) as caught:
        load(folder, adapter=None, device="cpu", dtype="float32", quantization=None)
    assert caught.value.fix and caught.value.found.strip() and "\n" not in caught.value.found


def test_a_pipe_for_the_weights_of_an_adapter_is_refused_and_not_waited_for(
    base: Path, tmp_path: Path
) -> None:
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter/adapter_config.json").write_text("{}")
    os.mkfifo(tmp_path / "adapter/adapter_model.safetensors")
    with pytest.raises(
        PolicyError, match=r"adapter_model.safetensors, a link to nothing, a pipe or a device"
    ):
        load(base, adapter=tmp_path / "adapter", device="cpu", dtype="float32", quantization=None)


def test_a_whole_base_is_loaded_as_ever(base: Path) -> None:
    assert open_tokenizer(base, None).eos_token == tiny.END
    assert load(base, adapter=None, device="cpu", dtype="float32", quantization=None).digest


@pytest.mark.parametrize("window", ["", {}, 0, -1, 1.5, True, None])
def test_a_sliding_window_has_to_be_a_number_of_tokens(window: Any) -> None:
    class Config:
        model_type, sliding_window, layer_types = "made", window, ["sliding_attention"]

        def get_text_config(self, decoder: bool) -> Any:
            return self

    with pytest.raises(PolicyError, match="a window of at least one token"):
        windows_of(Config())


def test_a_panic_is_told_and_a_signal_is_not_caught() -> None:
    class PanicException(BaseException):
        """As a library written in Rust raises one."""

    with (
        pytest.raises(PolicyError, match="PanicException: no way"),
        refuse_unreadable("it", where="here", fix="so"),
    ):
        raise PanicException("no way")
    for signal in (KeyboardInterrupt, SystemExit):
        with pytest.raises(signal), refuse_unreadable("it", where="here", fix="so"):
            raise signal


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer_config.json", "generation_config.json", "preprocessor_config.json"]
)
@pytest.mark.parametrize("nested", [False, True])
def test_code_of_its_own_is_refused_by_whoever_loads(tmp_path: Path, name: str, nested: bool) -> None:
    mapped = {"auto_map": {"AutoModelForCausalLM": "modeling_x.X"}}
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    assert own_code(tmp_path) is None
    (tmp_path / name).write_text(json.dumps({"text_config": mapped} if nested else mapped), encoding="utf-8")
    (tmp_path / "modeling_x.py").write_text("raise SystemExit('this was run')", encoding="utf-8")
    assert own_code(tmp_path) == name
    with pytest.raises(PolicyError, match=f"auto_map in {name}"):
        open_tokenizer(tmp_path, {})
    with pytest.raises(PolicyError, match=f"auto_map in {name}"):
        load(tmp_path, adapter=None, device="cpu", dtype="float32", quantization=None)


def four_bit(folder: Path, dtype: str) -> Any:
    """Return a 4-bit model under an adapter that changes what it says."""
    small_base(folder, seed=5, hidden_size=64, intermediate_size=128, layers=2, max_positions=64)
    policy = load(folder, adapter=None, device="cpu", dtype=dtype, quantization="nf4")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        settings = LoraConfig(
            r=4, init_lora_weights=False, target_modules="all-linear", task_type="CAUSAL_LM"
        )
        return get_peft_model(policy.model, settings)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("static", [False, True])
def test_a_4_bit_base_under_an_adapter_plays_what_a_plain_pass_says(tmp_path: Path, static: bool) -> None:
    model, openings = four_bit(tmp_path, "float32"), [[9, 8, 7], [9, 8, 7], [20] * 9]
    stored = [p.detach().clone() for p in model.parameters()]
    with playing(model, add=not static):
        decoding = Decoding(1.0, 5, cuda_graphs=static)
        session = Session(model, openings, [1, 2, 3], decoding, end_ids=[2], pad_id=0)
        first = session.complete()
        session.tell([one.ids[-1] for one in first], [[30], [31, 32], [33]])
        second = session.complete()
    assert all(torch.equal(p, before) for p, before in zip(model.parameters(), stored, strict=True))
    for row, reply in enumerate([[30], [31, 32], [33]]):
        ids = [*openings[row], *first[row].ids, *reply, *second[row].ids]
        expected = logprobs_of(model.eval(), ids)[-len(second[row].ids) :]
        assert float((expected - torch.tensor(second[row].logprobs)).abs().max()) < 1e-4


@pytest.mark.filterwarnings("ignore")
def test_every_adapter_has_a_gradient_after_a_pass_in_evaluation_mode(tmp_path: Path) -> None:
    model = four_bit(tmp_path, "bfloat16")
    ids = torch.arange(18).reshape(2, 9)
    with evaluating(model):
        model(input_ids=ids)
    model.train()
    model(input_ids=ids).logits.float().square().sum().backward()
    dead = [
        name
        for name, p in model.named_parameters()
        if "lora_B" in name and not (p.grad is not None and p.grad.abs().sum() > 0)
    ]
    assert dead == []
