"""vLLM as the engine: an optional extra, imported late. Written against the signatures of vLLM 0.30, never run with it.

Tests run it against a stand-in that keeps those signatures (`LLM`, `LLM.generate`, `SamplingParams`, `LoRARequest`); no
claim on speed or memory is made. vLLM holds a second copy of the base. An adapter is handed over as a LoRA request, under
a new number whenever its weights have changed, and never merged, which for a 4-bit base would round the sum to 4 bits.
"""

from __future__ import annotations

import atexit
import importlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay.errors import ConfigError
from assay.policy.decoding import Completion, Decoding
from assay.policy.digests import digest_folder
from assay.seeds import derive_seed

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
                where="params.yaml, generation.backend",
                fix=f"{INSTALL}, or set generation.backend: cached",
            ) from None
        adapters = getattr(model, "peft_config", {})
        four_bit = bool(getattr(model, "is_loaded_in_4bit", False))
        self.engine = self._llm.LLM(
            model=model.config._name_or_path, dtype="auto", enable_prefix_caching=True, generation_config="vllm",
            logprobs_mode="processed_logprobs", gpu_memory_utilization=GPU_SHARE, enable_lora=bool(adapters),
            **({"max_lora_rank": max(each.r for each in adapters.values())} if adapters else {}),
            **({"quantization": "bitsandbytes"} if four_bit else {}),
        )  # fmt: skip
        self._digest, self._number = "", 0
        self._folder = Path(tempfile.mkdtemp(prefix="assay-adapter-"))
        atexit.register(shutil.rmtree, self._folder, ignore_errors=True)

    def params(self, **named: Any) -> Any:
        """Return vLLM's SamplingParams."""
        return self._llm.SamplingParams(**named)

    def adapter(self, model: Any) -> Any:
        """Return the request for the adapter as it is now, None where there is none."""
        if not getattr(model, "peft_config", None):
            return None
        folder = self._folder / str(self._number + 1)
        model.save_pretrained(str(folder))
        written = digest_folder(folder)
        if written != self._digest:
            self._digest, self._number = written, self._number + 1
        # Its number is what vLLM knows an adapter by; under an old one it would go on with the old weights.
        where = str(self._folder / str(self._number))
        return self._lora.LoRARequest(f"adapter-{self._number}", self._number, where)


class Session:
    """Conversations by token ids; vLLM's prefix cache keeps what was read. Arguments are those of `engine.Session`.

    Raises:
        ConfigError: vLLM is not installed.
    """

    def __init__(
        self, model: Any, openings: Sequence[Sequence[int]], seeds: Sequence[int], decoding: Decoding,
        *, eos_id: int, pad_id: int,
    ) -> None:  # fmt: skip
        base = str(model.config._name_or_path)
        if base not in _ENGINES:
            _ENGINES[base] = _Engine(model)
        self._engine, self._decoding, self._eos = _ENGINES[base], decoding, eos_id
        self._adapter = self._engine.adapter(model)
        self._texts: list[list[int]] = []
        self._seeds: list[int] = []
        self.admit(openings, seeds)

    def admit(self, openings: Sequence[Sequence[int]], seeds: Sequence[int]) -> None:
        """Take in further conversations behind the rows there are."""
        self._texts += [list(ids) for ids in openings]
        self._seeds += [int(seed) for seed in seeds]

    def keep(self, rows: Sequence[int]) -> None:
        """Drop every row but these."""
        self._texts, self._seeds = [self._texts[row] for row in rows], [self._seeds[row] for row in rows]

    def tell(self, last_ids: Sequence[int], replies: Sequence[Sequence[int]]) -> None:
        """Append what each row is told; what it wrote is there already."""
        for text, reply in zip(self._texts, replies, strict=True):
            text += reply

    def complete(self) -> list[Completion]:
        """Let every row write until end-of-sequence or the token limit."""
        # The end is a stop token, and no other: a base's own list of ends may hold more than the dialogue knows of.
        params = [
            self._engine.params(
                temperature=self._decoding.temperature, top_p=1.0, top_k=0, max_tokens=self._decoding.max_new_tokens,
                seed=derive_seed("vllm", seed, len(text)), logprobs=0, ignore_eos=True, stop_token_ids=[self._eos],
                detokenize=False,
            )
            for text, seed in zip(self._texts, self._seeds, strict=True)
        ]  # fmt: skip
        prompts = [{"prompt_token_ids": list(text)} for text in self._texts]
        found: list[Completion] = []
        answers = self._engine.engine.generate(prompts, params, use_tqdm=False, lora_request=self._adapter)
        for text, answer in zip(self._texts, answers, strict=True):
            ids = [int(i) for i in answer.outputs[0].token_ids]
            logprobs = [float(at[i].logprob) for i, at in zip(ids, answer.outputs[0].logprobs, strict=True)]
            found.append(Completion(ids, logprobs))
            text += ids
        return found
