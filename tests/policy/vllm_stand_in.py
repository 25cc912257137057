"""A server with vLLM 0.30's API, strict on what it is sent, that answers by our own engine; for one base and
its adapters.

It keeps what could be read in vLLM's source: names of fields, statuses and messages. What it cannot show is
vLLM itself.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from assay.core.decoding import Decoding
from assay.policy.engine import engine
from assay.policy.model import Policy, load, playing

# Every field, and whether its value will do; one that is missing or unknown is refused, unlike by vLLM.
COMPLETION: dict[str, Any] = {
    "model": lambda v: isinstance(v, str),
    "prompt": lambda v: isinstance(v, list) and v and all(type(i) is int and i >= 0 for i in v),
    "max_tokens": lambda v: type(v) is int and v > 0,
    "temperature": lambda v: type(v) in (int, float) and 0 <= v <= 2,
    "top_p": lambda v: v == 1.0,
    "top_k": lambda v: v == 0,
    "min_p": lambda v: v == 0.0,
    "repetition_penalty": lambda v: v == 1.0,
    "presence_penalty": lambda v: v == 0.0,
    "frequency_penalty": lambda v: v == 0.0,
    "seed": lambda v: type(v) is int and -(2**63) <= v < 2**63,
    "logprobs": lambda v: v == 0,
    "ignore_eos": lambda v: v is True,
    "stop_token_ids": lambda v: isinstance(v, list) and v and all(type(i) is int for i in v),
    "return_token_ids": lambda v: v is True,
    "watermarking": lambda v: v is False,
}
LOAD = {"lora_name": lambda v: isinstance(v, str) and v, "lora_path": lambda v: Path(v).is_absolute()}
UNLOAD = {"lora_name": LOAD["lora_name"]}


class StandIn:
    """What the server knows, and what it was asked; `spoil` may change an answer before it is sent."""

    def __init__(self, base: Path, *, max_lora_rank: int = 8, max_model_len: int = 4096) -> None:
        self.base, self.max_lora_rank, self.max_model_len = base, max_lora_rank, max_model_len
        self.adapters: dict[str, Path] = {}
        # There is room for one, as by default; another is read anew when asked
        self.held: tuple[str, Policy] | None = None
        self.plain = self._loaded(None)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.root = str(base)
        self.spoil: Any = None
        self._lock = threading.Lock()  # one model, one thread at a time

    def _loaded(self, adapter: Path | None) -> Policy:
        return load(self.base, adapter=adapter, device="cpu", dtype="float32", quantization=None)

    def answer(self, path: str, body: dict[str, Any] | None) -> tuple[int, Any]:
        """Return status and content."""
        with self._lock:
            if body is not None:
                self.asked.append((path, body))
            fields = {
                "/v1/completions": COMPLETION,
                "/v1/load_lora_adapter": LOAD,
                "/v1/unload_lora_adapter": UNLOAD,
            }
            if path == "/v1/models" and body is None:
                return 200, self._models()
            if path not in fields or body is None:
                return 404, _error("Not Found", 404)
            odd = sorted({*fields[path]} ^ {*body}) or [
                name for name, holds in fields[path].items() if not holds(body[name])
            ]
            if odd:
                return 400, _error(f"what about {', '.join(odd)}?", 400)
            status, content = getattr(self, path.removeprefix("/v1/"))(**body)
            return (status, content) if self.spoil is None else self.spoil(path, status, content)

    def _models(self) -> Any:
        base = {
            "id": "base",
            "object": "model",
            "root": self.root,
            "parent": None,
            "max_model_len": self.max_model_len,
        }
        return {
            "object": "list",
            "data": [
                base,
                *(
                    {"id": name, "object": "model", "root": str(path), "parent": "base"}
                    for name, path in self.adapters.items()
                ),
            ],
        }

    def load_lora_adapter(self, lora_name: str, lora_path: str) -> tuple[int, Any]:
        """Load a folder that peft wrote."""
        if lora_name in self.adapters:
            return 400, _error(f"The lora adapter '{lora_name}' has already been loaded.", 400)
        config = json.loads((Path(lora_path) / "adapter_config.json").read_text())
        if config["r"] > self.max_lora_rank:
            return 500, _error(
                f"LoRA rank {config['r']} is greater than max_lora_rank {self.max_lora_rank}.", 500
            )
        self.adapters[lora_name] = Path(lora_path)
        self.held = (lora_name, self._loaded(Path(lora_path)))
        return 200, f"Success: LoRA adapter '{lora_name}' added successfully."

    def unload_lora_adapter(self, lora_name: str) -> tuple[int, Any]:
        """Forget an adapter; one that is held no more is refused, and stays listed."""
        if lora_name not in self.adapters:
            return 404, _error(f"The lora adapter '{lora_name}' cannot be found.", 404)
        if self.held is None or self.held[0] != lora_name:
            return 500, _error(f"Failed to remove lora adapter '{lora_name}' from the engine.", 500)
        del self.adapters[lora_name]
        self.held = None
        return 200, f"Success: LoRA adapter '{lora_name}' removed successfully."

    def completions(self, **body: Any) -> tuple[int, Any]:
        """Write behind one prompt."""
        name, prompt, ends = body["model"], body["prompt"], body["stop_token_ids"]
        if name != "base" and name not in self.adapters:
            return 404, _error(f"The model `{name}` does not exist.", 404)
        room = self.max_model_len - len(prompt)
        if room < 1:
            return 400, _error(f"This model's maximum context length is {self.max_model_len} tokens.", 400)
        if name != "base" and (self.held is None or self.held[0] != name):
            self.held = (name, self._loaded(self.adapters[name]))
        policy = self.plain if name == "base" or self.held is None else self.held[1]
        decoding = Decoding(body["temperature"], min(room, body["max_tokens"]))
        with playing(policy.model):
            session = engine.Session(
                policy.model, [prompt], [body["seed"]], decoding, end_ids=ends, pad_id=policy.pad_id
            )
            (written,) = session.complete()
        stopped = written.ids[-1] in ends
        choice = {
            "index": 0,
            "text": policy.dialogue.text(written.ids),
            "finish_reason": "stop" if stopped else "length",
            "stop_reason": written.ids[-1] if stopped else None,
            "token_ids": written.ids,
            "prompt_token_ids": prompt,
            "logprobs": {
                "token_logprobs": written.logprobs,
                "tokens": [],
                "top_logprobs": [],
                "text_offset": [],
            },
        }
        return 200, {
            "id": "cmpl-1",
            "object": "text_completion",
            "model": name,
            "choices": [choice],
            "usage": {},
        }


def _error(message: str, code: int) -> Any:
    return {"error": {"message": message, "type": "BadRequestError", "param": None, "code": code}}


@contextmanager
def serving(stand_in: StandIn) -> Iterator[str]:
    """Serve on a free port of this machine, and give the URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self, body: dict[str, Any] | None) -> None:
            try:
                status, content = stand_in.answer(self.path, body)
            except Exception as error:  # noqa: BLE001
                status, content = 500, _error(repr(error), 500)
            if content is None:  # hang up in the middle
                self.close_connection = True
                return
            data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
            with suppress(BrokenPipeError, ConnectionResetError):  # nobody waits any more
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == "application/json"
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
