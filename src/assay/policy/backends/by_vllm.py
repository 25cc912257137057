"""vLLM as the engine, in this process: an optional extra, imported late. Written against vLLM 0.30, never run
with it.

Tests run it against a stand-in that keeps vLLM's signatures (`LLM`, `LLM.generate`, `SamplingParams`,
`LoRARequest`); no claim on speed or memory is made. vLLM holds a second copy of the base on the same GPU;
`by_server` speaks to one that has a GPU of its own. An adapter is handed over as `Handover` says, under a new
number whenever its weights have changed.
"""

from __future__ import annotations

import atexit
import copy
import hashlib
import importlib
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from assay.core.config.places import setting
from assay.core.decoding import Completion, Decoding
from assay.core.errors import ConfigError
from assay.core.seeds import derive_seed
from assay.policy.backends.select import Transcripts

ADAPTER = "default"  # what peft calls the only one
ORIGIN = ("base_model_name_or_path", "revision", "inference_mode", "peft_version")
# Source: vllm/config/lora.py of vLLM 0.30.0, MaxLoRARanks: it takes these values and no others.
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)


class Handover:
    """Writes the adapter of a model under training to a folder of its own whenever its weights have changed.

    The name of an adapter is a digest of its weights and settings, so that two processes with the same
    adapter call it the same and no two adapters share a name. That matters beyond tidiness: vLLM finds what
    it has read before by the name of the adapter, and would go on with what the old weights made of a text
    (vllm-project/vllm#42125). The base is never merged with it, which for a 4-bit base would round the sum to
    4 bits.
    """

    def __init__(self) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="assay-adapter-"))  # under TMPDIR, where that is set
        atexit.register(shutil.rmtree, self._root, ignore_errors=True)
        self._written: list[Path] = []

    def name(self, model: Any) -> str | None:
        """Return what the adapter is called as it is now, None where there is none."""
        if not getattr(model, "peft_config", None):
            return None
        # Where it came from says nothing of what it does.
        config = {
            name: value for name, value in model.peft_config[ADAPTER].to_dict().items() if name not in ORIGIN
        }
        digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=_plain).encode())
        for key, tensor in sorted(_tensors(model).items()):
            digest.update(f"\n{key}\0{tensor.dtype}{tuple(tensor.shape)}\0".encode())
            digest.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
        return f"assay-{digest.hexdigest()[:24]}"

    def folder(self, model: Any, name: str) -> Path:
        """Return the folder that holds the adapter of this name, which is the model's, written if it is not
        there yet.

        The one before it stays, since another process may have been told of it; what is older goes. The
        model's own `save_pretrained` is not used, since it notes in the model where the base lies, which
        would be published.
        """
        folder = self._root / name
        if not folder.is_dir():
            copy.copy(model.peft_config[ADAPTER]).save_pretrained(str(folder))
            save_file(_tensors(model), folder / "adapter_model.safetensors")
            self._written.append(folder)
            for old in self._written[:-2]:
                shutil.rmtree(old, ignore_errors=True)
            del self._written[:-2]
        return folder


def _tensors(model: Any) -> dict[str, torch.Tensor]:
    from peft import get_peft_model_state_dict

    found = get_peft_model_state_dict(model, adapter_name=ADAPTER, save_embedding_layers=False)
    return {name: tensor.detach().cpu().contiguous() for name, tensor in found.items()}


def largest_rank(model: Any) -> int | None:
    """Return the smallest limit that vLLM knows and that holds the model's adapters, None for a model without
    one."""
    ranks = [int(each.r) for each in getattr(model, "peft_config", {}).values()]
    return next((limit for limit in RANKS if limit >= max(ranks)), max(ranks)) if ranks else None


def sampling(decoding: Decoding, seed: int, text: Sequence[int], end_ids: Sequence[int]) -> dict[str, Any]:
    """Return how vLLM is to choose the tokens behind a text, the same for its server and inside of our
    process.

    Everything that a model's generation_config.json could ask for is set, since training scores without it.
    The ends are stop tokens, and no others: a base's own list of ends may hold more than the dialogue knows
    of.

    Source: vllm/sampling_params.py and vllm/entrypoints/openai/completion/protocol.py of vLLM 0.30.0.
    """
    return {
        "temperature": decoding.temperature,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "max_tokens": decoding.max_new_tokens,
        "seed": derive_seed("vllm", seed, len(text)),
        "logprobs": 0,
        "ignore_eos": True,
        "stop_token_ids": list(end_ids),
    }


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, set | frozenset) else str(value)


INSTALL = "./run python -m pip install -c constraints.txt --no-build-isolation -e '.[vllm]'"
GPU_SHARE = 0.4  # of the memory; the rest is for training

# One engine a base, kept as long as the process: it takes minutes to start.
_ENGINES: dict[str, _Engine] = {}


class _Engine:
    """vLLM with one base, and the adapter it was last given."""

    def __init__(self, model: Any) -> None:
        try:
            self._llm = importlib.import_module("vllm")
            self._lora = importlib.import_module("vllm.lora.request")
        except ImportError as error:
            raise ConfigError(
                "vLLM (generation.backend: vllm)",
                found=f"that it cannot be imported ({error})",
                where=setting("generation.backend"),
                fix=f"{INSTALL}, or set generation.backend: cached",
            ) from None
        rank = largest_rank(model)
        four_bit = bool(getattr(model, "is_loaded_in_4bit", False))
        self.engine = self._llm.LLM(
            model=model.config._name_or_path,
            dtype="auto",
            enable_prefix_caching=True,
            generation_config="vllm",
            logprobs_mode="processed_logprobs",
            gpu_memory_utilization=GPU_SHARE,
            enable_lora=rank is not None,
            **({} if rank is None else {"max_lora_rank": rank}),
            # Never a second copy of the weights in another form, which the digest leaves out.
            **({"quantization": "bitsandbytes"} if four_bit else {"load_format": "safetensors"}),
        )
        self._handover, self._name, self._number = Handover(), "", 0

    def params(self, **named: Any) -> Any:
        """Return vLLM's SamplingParams."""
        return self._llm.SamplingParams(**named)

    def adapter(self, model: Any) -> Any:
        """Return the request for the adapter as it is now, None where there is none."""
        name = self._handover.name(model)
        if name is None:
            return None
        if name != self._name:
            self._name, self._number = name, self._number + 1
        # Its number is what the engine knows an adapter by; under an old one it would go on with the old
        # weights.
        return self._lora.LoRARequest(name, self._number, str(self._handover.folder(model, name)))


class VllmConversations(Transcripts):
    """Conversations by token ids; vLLM's prefix cache keeps what was read.

    Raises:
        ConfigError: vLLM is not installed.
    """

    def _open(self, model: Any) -> None:
        base = str(model.config._name_or_path)
        if base not in _ENGINES:
            _ENGINES[base] = _Engine(model)
        self._engine = _ENGINES[base]
        self._adapter = self._engine.adapter(model)

    def complete(self) -> list[Completion]:
        """Let every row write until a token that ends it or the token limit."""
        params = [
            self._engine.params(**sampling(self._decoding, seed, text, self._ends), detokenize=False)
            for text, seed in zip(self._texts, self._seeds, strict=True)
        ]
        prompts = [{"prompt_token_ids": list(text)} for text in self._texts]
        found: list[Completion] = []
        answers = self._engine.engine.generate(prompts, params, use_tqdm=False, lora_request=self._adapter)
        for text, answer in zip(self._texts, answers, strict=True):
            ids = [int(i) for i in answer.outputs[0].token_ids]
            logprobs = [float(at[i].logprob) for i, at in zip(ids, answer.outputs[0].logprobs, strict=True)]
            found.append(Completion(ids, logprobs))
            text += ids
        return found
