"""vLLM's backend against a stand-in with vLLM's own signatures (0.30): what is asked of it, not what it would
answer."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from safetensors.torch import load_file

from assay.core.decoding import Decoding
from assay.core.errors import ConfigError
from assay.policy.backends import by_vllm
from assay.policy.backends.select import converse
from assay.policy.base.adapter_files import Weights
from tests.policy.adapted import adapted_base

# transformers 5.23 renames gradient_checkpointing; peft 0.21 still asks for the old name.
pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
SAMPLED = Decoding(0.8, 4, backend="vllm")


@dataclass
class SamplingParams:
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    logprobs: int | None = None
    detokenize: bool = True


@dataclass
class LoRARequest:
    lora_name: str
    lora_int_id: int
    lora_path: str = ""


class LLM:
    """Answers with 9, its prompt's length and, where there is room, the stop token."""

    made: ClassVar[list[LLM]] = []

    def __init__(
        self,
        model: str,
        *,
        dtype: str = "auto",
        quantization: str | None = None,
        gpu_memory_utilization: float = 0.9,
        enable_prefix_caching: bool | None = None,
        enable_lora: bool = False,
        max_lora_rank: int = 16,
        logprobs_mode: str = "raw_logprobs",
        generation_config: str = "auto",
        load_format: str = "auto",
    ) -> None:
        assert max_lora_rank in (1, 8, 16, 32, 64, 128, 256, 320, 512)
        self.model, self.quantization, self.enable_lora = model, quantization, enable_lora
        self.prefixes, self.mode = enable_prefix_caching, logprobs_mode
        assert load_format == ("safetensors" if quantization is None else "auto")
        self.asked: list[tuple[list[dict[str, Any]], list[SamplingParams], LoRARequest | None]] = []
        LLM.made.append(self)

    def generate(
        self,
        prompts: list[dict[str, Any]],
        sampling_params: list[SamplingParams],
        *,
        use_tqdm: bool = True,
        lora_request: LoRARequest | None = None,
    ) -> list[Any]:
        self.asked.append((prompts, sampling_params, lora_request))
        assert lora_request is None or (Path(lora_request.lora_path) / "adapter_model.safetensors").is_file()
        answers = []
        for prompt, params in zip(prompts, sampling_params, strict=True):
            assert params.stop_token_ids is not None and params.max_tokens is not None
            ids = [9, len(prompt["prompt_token_ids"]), params.stop_token_ids[0]][: params.max_tokens]
            at = [{i: types.SimpleNamespace(logprob=-0.5 * i, rank=1, decoded_token=None)} for i in ids]
            answers.append(types.SimpleNamespace(outputs=[types.SimpleNamespace(token_ids=ids, logprobs=at)]))
        return answers


@pytest.fixture
def weights(tmp_path: Path) -> Weights:
    return adapted_base(tmp_path)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> type[LLM]:
    package, requests = types.ModuleType("vllm"), types.ModuleType("vllm.lora.request")
    package.LLM, package.SamplingParams, requests.LoRARequest = LLM, SamplingParams, LoRARequest  # type: ignore[attr-defined]
    for name, module in (
        ("vllm", package),
        ("vllm.lora", types.ModuleType("vllm.lora")),
        ("vllm.lora.request", requests),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(by_vllm, "_ENGINES", {})
    monkeypatch.setattr(LLM, "made", [])
    return LLM


def test_conversations_go_by_token_ids_and_each_request_has_a_seed_of_its_own(
    served: type[LLM], weights: Weights
) -> None:
    policy = weights.policy()
    end = policy.dialogue.eos_id
    talk = converse(policy, [[5, 6], [7]], [1, 2], SAMPLED)
    first = talk.complete()
    assert [one.ids for one in first] == [[9, 2, end], [9, 1, end]]
    assert first[0].logprobs == [-4.5, -1.0, -0.5 * end]
    talk.keep([1])
    talk.tell([end], [[30, 31]])
    talk.admit([[5, 6]], [1])
    assert [one.ids for one in talk.complete()] == [[9, 6, end], [9, 2, end]]
    (engine,) = served.made
    assert (engine.model, engine.prefixes, engine.mode) == (str(weights.base), True, "processed_logprobs")
    (_, begun, _), (prompts, params, _) = engine.asked
    assert [p["prompt_token_ids"] for p in prompts] == [[7, 9, 1, end, 30, 31], [5, 6]]
    assert all(
        p.temperature == 0.8 and p.max_tokens == 4 and p.stop_token_ids == [end] and p.ignore_eos
        for p in params
    )
    assert params[1].seed == begun[0].seed and len({p.seed for p in begun + params}) == 3


def test_an_adapter_has_a_new_number_whenever_its_weights_have_changed_and_only_then(
    served: type[LLM], weights: Weights
) -> None:
    policy = weights.policy()
    changed = next(p for name, p in policy.model.named_parameters() if "lora_B" in name)
    numbers, names = [], []
    for change in (False, False, True):
        if change:
            with torch.no_grad():
                changed.add_(1.0)
        converse(policy, [[5]], [1], SAMPLED).complete()
        request = served.made[0].asked[-1][2]
        assert request is not None
        numbers.append(request.lora_int_id)
        names.append(request.lora_name)
        tensors = load_file(Path(request.lora_path) / "adapter_model.safetensors")
        assert any(torch.equal(each, changed.detach()) for each in tensors.values())
    assert (
        numbers == [1, 1, 2]
        and names[0] == names[1] != names[2]
        and len(served.made) == 1
        and served.made[0].enable_lora
    )


def test_without_vllm_the_way_to_install_it_is_said(
    monkeypatch: pytest.MonkeyPatch, weights: Weights
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    monkeypatch.setattr(by_vllm, "_ENGINES", {})
    with pytest.raises(ConfigError, match=r"\[vllm\]") as told:
        converse(weights.policy(), [[5]], [1], SAMPLED)
    assert "generation.backend" in str(told.value)


def test_cuda_graphs_are_refused_where_nothing_could_replay_them(weights: Weights) -> None:
    for backend in ("cached", "transformers"):
        with pytest.raises(ConfigError, match="cuda_graphs"):
            converse(weights.policy(), [[5]], [1], Decoding(0.8, 4, backend, cuda_graphs=True))  # type: ignore[arg-type]
