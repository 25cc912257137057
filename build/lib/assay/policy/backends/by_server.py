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

import contextlib
import json
import os
import shlex
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import urllib3
from pydantic import BaseModel, Field, ValidationError

from assay.core.decoding import Completion
from assay.core.errors import ConfigError, PolicyError
from assay.policy.backends.by_vllm import Handover, largest_rank, sampling
from assay.policy.backends.select import Transcripts

ADDRESS, HERE = (
    "ASSAY_VLLM_URL",
    "http://127.0.0.1:8000",
)  # where a server is decides no token, so it is no parameter
KEY = "VLLM_API_KEY"  # as vLLM itself calls it
CONNECT_S, ANSWER_S = 5.0, 900.0
AGAIN = "then call the same command again: a training goes on from its last checkpoint"


# Of what the server says, what is used; the rest is its own business.
class _Card(BaseModel):
    id: str
    root: str | None = None
    parent: str | None = None


class _Cards(BaseModel):
    data: list[_Card]


_Told = TypeVar("_Told", bound=BaseModel)


class _Refused(Exception):
    """Another status than 200."""


class VllmServer:
    """One server, and the adapter that this process had it load.

    Args:
        url: Where it listens.

    Raises:
        ConfigError: That is no URL.
    """

    def __init__(self, url: str) -> None:
        wrong = ConfigError(
            f"a URL such as {HERE}", found=repr(url), where=ADDRESS, fix=f"export {ADDRESS}={HERE}"
        )
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or 8000
        except ValueError:  # no such port, or an open bracket
            raise wrong from None
        if parts.scheme not in ("http", "https") or not host:
            raise wrong
        if "@" in parts.netloc:  # urls are said in messages
            found = "a user or password in it, which is not shown"
            fix = f"export {ADDRESS}={HERE}, and the key as {KEY}"
            raise ConfigError(f"a URL such as {HERE}", found=found, where=ADDRESS, fix=fix)
        key = os.environ.get(KEY)
        self._headers = {"Connection": "close"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._listens = ["--host", host, "--port", str(port)]
        self.url, self.command, self._handover, self._loaded = url.rstrip("/"), "vllm serve", Handover(), ""

    def _ask(self, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        """Return what the server answers.

        Raises:
            _Refused: It answers with another status than 200.
            PolicyError: It does not answer.
        """
        # urllib3 asks no proxy unless told to. Each request has a connection of its own: the server closes
        # idle ones after 5 seconds, which could meet the next request half-way.
        limits = urllib3.Timeout(connect=CONNECT_S, read=ANSWER_S)
        try:
            with urllib3.PoolManager(headers=self._headers, timeout=limits, retries=False) as http:
                answer = http.request("GET" if body is None else "POST", self.url + path, json=body)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            found = f"none ({str(error).partition('): ')[2] or error!r})"
            fix = f"start it, {self.command}, or name another by {ADDRESS}; {AGAIN}"
            raise PolicyError(
                "an answer of a vLLM server", found=found, where=self.url + path, fix=fix
            ) from None
        if answer.status != 200:
            hint = f" (is {KEY} what the server was started with?)" if answer.status == 401 else ""
            raise _Refused(f"{answer.status}: {_message(answer.data)}{hint}")
        return answer.data

    def told(self, kind: type[_Told], path: str, body: Mapping[str, Any] | None = None) -> _Told:
        """Return an answer as a record of this kind; without a body nothing is posted.

        Raises:
            PolicyError: There is no such answer.
        """
        try:
            return kind.model_validate_json(self._ask(path, body))
        except _Refused as refused:
            found = str(refused)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            found = f"{'.'.join(str(each) for each in first['loc']) or 'the answer'}: {first['msg']}"
        fix = f"do what it says, or start it anew with vLLM 0.30, {self.command}; {AGAIN}"
        raise PolicyError("an answer as vLLM 0.30 documents it", found=found, where=self.url + path, fix=fix)

    def serve(self, model: Any) -> str:
        """Return what to ask for: the base, or the adapter as it is now, which is loaded where the server has
        not got it.

        Raises:
            PolicyError: There is no server, it has another base, or it cannot load the adapter.
        """
        path, folder = "/v1/models", Path(str(model.config._name_or_path)).resolve()
        self.command = (
            f"VLLM_ALLOW_RUNTIME_LORA_UPDATING=True {shlex.join([*_words(model, folder), *self._listens])}"
        )
        cards = self.told(_Cards, path).data
        bases = [card for card in cards if card.parent is None]
        base = next((card.id for card in bases if card.root and Path(card.root).resolve() == folder), None)
        if base is None:
            found = ", ".join(card.root or card.id for card in bases) or "none"
            fix = f"start one with the base that is trained on, {self.command}, or name another by {ADDRESS}"
            raise PolicyError(f"a server of {folder}", found=found, where=self.url + path, fix=fix)
        name = self._handover.name(model)
        if name is not None and name not in {card.id for card in cards}:
            self.load(name, model)
        return base if name is None else name

    def load(self, name: str, model: Any) -> None:
        """Have the server take the model's adapter in the place of the one that this process had it load
        before.

        The old one goes first, since by default a server has room for one. A refusal of that is no matter: it
        may be evicted already, which vLLM 0.30 reports as a failure.

        Raises:
            PolicyError: The adapter cannot be loaded: of too high a rank, say, or in a folder that the server
                cannot read.
        """
        if self._loaded:
            with contextlib.suppress(_Refused):
                self._ask("/v1/unload_lora_adapter", {"lora_name": self._loaded})
        path, folder = "/v1/load_lora_adapter", str(self._handover.folder(model, name))
        try:
            self._ask(path, {"lora_name": name, "lora_path": folder})
        except _Refused as refused:
            # Another process of this training may have been faster.
            if name not in {card.id for card in self.told(_Cards, "/v1/models").data}:
                expected = "an adapter loaded"
                fix = f"start it where {folder} can be read, {self.command}; {AGAIN}"
                raise PolicyError(expected, found=str(refused), where=self.url + path, fix=fix) from None
        self._loaded = name


def _words(model: Any, folder: Path) -> list[str]:
    """Return what starts a server of a model, but for where it listens."""
    dtype, rank = str(getattr(model, "dtype", "auto")).removeprefix("torch."), largest_rank(model) or 16
    four_bit = ["--quantization", "bitsandbytes"] if getattr(model, "is_loaded_in_4bit", False) else []
    return [
        "vllm",
        "serve",
        str(folder),
        "--dtype",
        dtype,
        *four_bit,
        "--generation-config",
        "vllm",
        "--logprobs-mode",
        "processed_logprobs",
        "--enable-lora",
        "--max-lora-rank",
        str(rank),
    ]


def _message(data: bytes) -> str:
    try:
        return str(json.loads(data)["error"]["message"]).rstrip(".")[:400]
    except (ValueError, KeyError, TypeError):
        return data[:200].decode("utf-8", "replace")


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


_SERVERS: dict[str, VllmServer] = {}


class ServerConversations(Transcripts):
    """Conversations by token ids, a request a row and turn; the server's prefix cache keeps what it read.

    Raises:
        ConfigError: The address is none.
        PolicyError: There is no server there, it has another base, or it cannot load the adapter.
    """

    def _open(self, model: Any) -> None:
        url = os.environ.get(ADDRESS) or HERE
        if url not in _SERVERS:
            _SERVERS[url] = VllmServer(url)
        self._server = _SERVERS[url]
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
        ids, logprobs = choice.token_ids, choice.logprobs.token_logprobs
        ended = choice.finish_reason == "stop"
        if answer.model != self._name or choice.prompt_token_ids != text or len(logprobs) != len(ids):
            expected = f"{self._name}, behind the tokens that were sent"
            found = f"{answer.model}, or behind others"
            fix = "let nothing that rewrites requests stand before the server"
        elif ended != (ids[-1] in self._ends):
            expected = f"an end by one of the tokens {self._ends}"
            found = f"{choice.finish_reason!r} behind {ids[-1]}"
            fix = f"start the server without sampling options of its own, {self._server.command}"
        elif len(ids) > limit or (not ended and len(ids) < limit):
            expected, found = f"room for {limit} tokens behind {len(text)}", f"{len(ids)}"
            fix = f"start the server with --max-model-len {len(text) + limit} or more"
        else:
            return Completion(ids, logprobs)
        raise PolicyError(expected, found=found, where=self._server.url + path, fix=f"{fix}; {AGAIN}")
