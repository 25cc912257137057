"""vLLM as a server on a GPU of its own, over its documented HTTP API. Written against vLLM 0.30.0, whose
engine never ran.

Tests run it against a stand-in that speaks this API strictly and answers by our own engine; once, by hand, a
training went through vLLM's own routes, records and reader of adapters, with our engine in the place of its.
Only token ids travel. The server must read the base and the adapters (written under TMPDIR) by the same
paths: the same machine, or shared files. What it samples is decided by its own generators, from a seed a
request, not by our engine's noise: the same seed gives other episodes than `cached`, and need not give the
same ones twice. It rounds an adapter to the dtype of its base.

Sources: https://docs.vllm.ai/en/latest/features/lora/ ("Dynamically serving LoRA Adapters") and
https://docs.vllm.ai/en/v0.28.0/serving/online_serving/openai_compatible_server/ ("Completions API"); field by
field the package vllm 0.30.0: entrypoints/openai/completion/protocol.py,
entrypoints/openai/models/serving.py, entrypoints/serve/lora.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from pydantic import BaseModel, Field

from assay.core.decoding import Completion, Decoding
from assay.core.errors import PolicyError
from assay.policy.backends.handover import sampling
from assay.policy.backends.transcripts import Transcripts
from assay.policy.backends.vllm_server import ADDRESS, AGAIN, HERE, Server

AT_ONCE = 512  # requests under way; what the server has no room for waits there


# Of an answer, what is used; the rest is the server's own business.
class _Logprobs(BaseModel):
    token_logprobs: list[float]


class _Choice(BaseModel):
    token_ids: list[int] = Field(min_length=1)
    prompt_token_ids: list[int]
    logprobs: _Logprobs
    finish_reason: Literal["stop", "length"]


class _Answer(BaseModel):
    model: str
    choices: list[_Choice] = Field(min_length=1, max_length=1)


_SERVERS: dict[str, Server] = {}


class Session(Transcripts):
    """Conversations by token ids, a request a row and turn; the server's prefix cache keeps what it read.

    Arguments are those of `engine.Session`.

    Raises:
        ConfigError: The address is none.
        PolicyError: There is no server there, it has another base, or it cannot load the adapter.
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
        url = os.environ.get(ADDRESS) or HERE
        if url not in _SERVERS:
            _SERVERS[url] = Server(url)
        self._server, self._decoding, self._ends = _SERVERS[url], decoding, list(end_ids)
        self._name = self._server.serve(model)

    def complete(self) -> list[Completion]:
        """Let every row write until a token that ends it or the token limit.

        Raises:
            PolicyError: The server is gone, refuses, or answers something else than what was asked.
        """
        # Seeds are a request's, so each row is one; the server puts those together that are under way.
        with ThreadPoolExecutor(max(1, min(len(self._texts), AT_ONCE))) as pool:
            found = list(pool.map(self._written, self._texts, self._seeds))
        for text, completion in zip(self._texts, found, strict=True):
            text += completion.ids
        return found

    def _written(self, text: list[int], seed: int) -> Completion:
        body = {
            "model": self._name,
            "prompt": text,
            "return_token_ids": True,
            "watermarking": False,
            **sampling(self._decoding, seed, text, self._ends),
        }
        path, limit = "/v1/completions", self._decoding.max_new_tokens
        answer = self._server.told(_Answer, path, body)
        choice = answer.choices[0]
        ids, logprobs, ended = (
            choice.token_ids,
            choice.logprobs.token_logprobs,
            choice.finish_reason == "stop",
        )
        if answer.model != self._name or choice.prompt_token_ids != text or len(logprobs) != len(ids):
            expected, found = (
                f"{self._name}, behind the tokens that were sent",
                f"{answer.model}, or behind others",
            )
            fix = "let nothing that rewrites requests stand before the server"
        elif ended != (ids[-1] in self._ends):
            expected, found = (
                f"an end by one of the tokens {self._ends}",
                f"{choice.finish_reason!r} behind {ids[-1]}",
            )
            fix = f"start the server without sampling options of its own, {self._server.command}"
        elif len(ids) > limit or (not ended and len(ids) < limit):
            expected, found = f"room for {limit} tokens behind {len(text)}", f"{len(ids)}"
            fix = f"start the server with --max-model-len {len(text) + limit} or more"
        else:
            return Completion(ids, logprobs)
        raise PolicyError(expected, found=found, where=self._server.url + path, fix=f"{fix}; {AGAIN}")
