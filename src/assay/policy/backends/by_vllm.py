"""vLLM as the engine, in this process: an optional extra, imported late. Written against vLLM 0.30, never run
with it.

Tests run it against a stand-in that keeps vLLM's signatures (`LLM`, `LLM.generate`, `SamplingParams`,
`LoRARequest`); no claim on speed or memory is made. vLLM holds a second copy of the base on the same GPU;
`by_server` speaks to one that has a GPU of its own. An adapter is handed over as `handover` says, under a new
number whenever its weights have changed.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from assay.core.config.places import setting
from assay.core.decoding import Completion, Decoding
from assay.core.errors import ConfigError
from assay.policy.backends.handover import Handover, largest_rank, sampling
from assay.policy.backends.transcripts import Transcripts

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
            **({"quantization": "bitsandbytes"} if four_bit else {}),
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


class Session(Transcripts):
    """Conversations by token ids; vLLM's prefix cache keeps what was read. Arguments are those of
    `engine.Session`.

    Raises:
        ConfigError: vLLM is not installed.
    """

    def __init__(
        self,
        model: Any,
        openings: Sequence[Sequence[int]],
        seeds: Sequence[int],
        decoding: Decoding,
        *,
        end_ids: Sequence[int],
        pad_id: int,
    ) -> None:
        super().__init__(openings, seeds)
        base = str(model.config._name_or_path)
        if base not in _ENGINES:
            _ENGINES[base] = _Engine(model)
        self._engine, self._decoding, self._ends = _ENGINES[base], decoding, list(end_ids)
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
