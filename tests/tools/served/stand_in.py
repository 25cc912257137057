"""A server with OpenAI's chat completions, strict on what it is sent, that fails as it is told to.

What a real server does is seen in test_real_server.py; this one has the faults that no real one has to order.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]
# Every field, and whether its value will do; one that is missing or unknown is refused.
FIELDS: dict[str, Callable[[Any], bool]] = {
    "model": lambda v: isinstance(v, str),
    "messages": lambda v: isinstance(v, list) and bool(v),
    "temperature": lambda v: type(v) in (int, float) and 0 <= v <= 2,
    "max_tokens": lambda v: type(v) is int and v > 0,
    "seed": lambda v: type(v) is int and 0 <= v < 2**31,
}
OPTIONAL: dict[str, Callable[[Any], bool]] = {
    "top_p": lambda v: v == 1.0,
    "top_k": lambda v: type(v) is int,
    "max_completion_tokens": lambda v: type(v) is int and v > 0,
}


class StandIn:
    """What it knows, what it was asked, and what goes wrong.

    `say` answers; `faults` are taken one a request, first come first served; `spoil` may change an answer
    before it is sent. Fields in `needed` have to be there. `asked` has (time, body) of every question.
    """

    def __init__(self, say: Callable[[Body], str]) -> None:
        self.say, self.key, self.needed = say, "", {*FIELDS}
        self.faults: deque[Callable[[Handler], None]] = deque()
        self.spoil: Callable[[Body], Any] = lambda reply: reply
        self.delay, self.cards = 0.0, [{"id": "tiny", "object": "model", "created": 1, "max_model_len": 512}]
        self.asked: list[tuple[float, Body]] = []
        self.headers: list[dict[str, str]] = []
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        self.url = ""


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def reply(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        """Send a status and JSON, or bytes as they are."""
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(OSError):  # whoever asked may be gone
            self.wfile.write(data)

    def error(self, status: int, message: str, headers: dict[str, str] | None = None, code: str = "") -> None:
        """Send an error as OpenAI does."""
        self.reply(status, {"error": {"message": message, "type": "error", "code": code}}, headers)

    def refused(self) -> bool:
        """Return whether the key is wrong; the message has it, as some servers' have."""
        held = self.headers.get("Authorization", "")
        if self.server.known.key and held != f"Bearer {self.server.known.key}":
            self.error(401, f"Incorrect API key provided: {held.removeprefix('Bearer ')}.")
            return True
        return False

    def do_GET(self) -> None:
        """List the models."""
        if not self.refused():
            if self.path == "/v1/models":
                self.reply(200, {"object": "list", "data": self.server.known.cards})
            else:
                self.error(404, "Not Found")

    def do_POST(self) -> None:
        """Answer a question, or fail."""
        known = self.server.known
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.refused():
            return
        with known.lock:
            known.asked.append((time.monotonic(), body))
            known.headers.append(dict(self.headers))
            fault = known.faults.popleft() if known.faults else None
            known.at_once += 1
            known.most_at_once = max(known.most_at_once, known.at_once)
        try:
            if fault is not None:
                fault(self)
            elif odd := _odd(self.path, body, known.needed):
                self.error(400, odd)
            else:
                time.sleep(known.delay)
                self.reply(200, known.spoil(answer(known.say(body), body)))
        finally:
            with known.lock:
                known.at_once -= 1


def answer(text: str, body: Body) -> Body:
    """Return an answer, a token a letter, cut at the limit."""
    limit = body.get("max_tokens", body.get("max_completion_tokens"))
    cut = text[:limit]
    read = sum(len(message["content"]) for message in body["messages"])
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": f"{body['model']}-2026",
        "system_fingerprint": "fp_1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": cut},
                "finish_reason": "length" if len(cut) < len(text) else "stop",
            }
        ],
        "usage": {"prompt_tokens": read, "completion_tokens": len(cut), "total_tokens": read + len(cut)},
    }


def _odd(path: str, body: Body, needed: set[str]) -> str:
    if path != "/v1/chat/completions":
        return f"no such path: {path}"
    known = FIELDS | OPTIONAL
    wrong = sorted(needed - {*body} | {*body} - {*known})
    wrong += [name for name, value in body.items() if name in known and not known[name](value)]
    if wrong:
        return f"what about {', '.join(wrong)}?"
    roles = [message["role"] for message in body["messages"] if message["role"] != "system"]
    fine = roles == (["user", "assistant"] * len(roles))[: len(roles)] and roles[-1] == "user"
    if not fine or any({*message} != {"role", "content"} for message in body["messages"]):
        return f"messages of {', '.join(roles)}"
    return ""


def status(
    code: int, message: str = "busy", error_code: str = "", **headers: str
) -> Callable[[Handler], None]:
    """Return a fault: an error, `Retry_After` for a header of that name."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.error(code, message, sent, error_code)


def reset(handler: Handler) -> None:
    """Cut the connection with RST, nothing said."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def torn(handler: Handler) -> None:
    """Promise more than is sent."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.close_connection = True


def slow(seconds: float) -> Callable[[Handler], None]:
    """Return a fault: nothing for so long."""

    def wait(handler: Handler) -> None:
        time.sleep(seconds)
        with suppress(OSError):
            handler.error(500, "too late")

    return wait


def dripping(handler: Handler) -> None:
    """Send a byte now and then, for long."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    with suppress(OSError):
        for _ in range(100):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.1)


def saying(content: Any) -> Callable[[Handler], None]:
    """Return a fault: status 200 and this."""
    return lambda handler: handler.reply(200, content)


class Server(ThreadingHTTPServer):
    """Of one stand-in."""

    daemon_threads, request_queue_size = True, 128
    known: StandIn

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: whoever asked was killed."""


@contextmanager
def serving(say: Callable[[Body], str]) -> Iterator[StandIn]:
    """Serve on loopback while the block runs."""
    server = Server(("127.0.0.1", 0), Handler)
    server.known = StandIn(say)
    server.known.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.known
    finally:
        server.shutdown()
        server.server_close()
