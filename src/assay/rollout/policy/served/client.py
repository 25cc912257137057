"""One question to an OpenAI-compatible server, and one answer: asked again where the server or the way to it
failed, never faster than it allows.

Source: https://platform.openai.com/docs/api-reference/chat/create; RFC 9110, section 10.2.3 (Retry-After).
"""

from __future__ import annotations

import email.utils
import json
import random
import re
import ssl
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import urllib3
from pydantic import BaseModel, Field, ValidationError

from assay.core.console import complain
from assay.core.errors import PolicyError
from assay.core.records import Record
from assay.rollout.policy.served.pace import Pace
from assay.rollout.policy.served.request import CHAT, Address, ServedModel, read_key
from assay.rollout.tasks.wrappings import read_message

CONNECT_S = 10.0
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0  # before a request is made again; twice as long each time
LONGEST_HELD_S = 900.0  # by Retry-After; whoever is told to wait longer had better come again
MAX_ANSWER_BYTES, PART = 4_000_000, 65_536
PASSING = (408, 409, 425, 429)  # beside 500 and above
NOT_YET = (502, 503, 504)  # of /v1/models, which some servers do not have and answer with any other number
NO_CREDIT = "insufficient_quota"  # OpenAI's word in a 429 that no waiting helps
AGAIN = "call the same command again: what was answered is kept and is not asked again"
_SECONDS = re.compile(r"\d{1,9}(\.\d+)?")
_HALF_PAIR = re.compile("[\ud800-\udfff]")


class ServedAnswer(Record):
    """What of an answer is used; null where the server does not say."""

    text: str = Field(description="what the message says, calls of tools behind it in <tool_call> tags")
    reasoning: str | None = Field(
        default=None, description="what a reasoning parser of the server took out of it; null: nothing"
    )
    finish: str | None = Field(description="finish_reason: stop, length, ...")
    prompt_tokens: int | None = Field(ge=0)
    completion_tokens: int | None = Field(ge=0, description="as billed, hidden reasoning included")
    model: str | None = Field(description="what the server calls who answered")
    fingerprint: str | None = Field(description="system_fingerprint")

    @property
    def hides_all(self) -> bool:
        """Whether there is reasoning and no answer."""
        return bool(self.reasoning) and not self.text.strip()


# Of what the server says, what is used; the rest is its own business.
class _Said(BaseModel, extra="allow"):
    content: str | list[dict[str, Any]] | None = None


class _Chosen(BaseModel):
    message: _Said
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: int | None = Field(default=None, ge=0)
    completion_tokens: int | None = Field(default=None, ge=0)


class _Reply(BaseModel):
    choices: list[_Chosen] = Field(min_length=1)
    usage: _Usage | None = None
    model: str | None = None
    system_fingerprint: str | None = None


class _Card(BaseModel, extra="allow"):
    id: str


class _Cards(BaseModel):
    data: list[_Card]


class _Passing(Exception):
    """What may be over when asked again.

    Args:
        kind: In a word or two, to be counted.
        told: What was found.
        after: Seconds that the server wants to be left alone, if it says so.
    """

    def __init__(self, kind: str, told: str, after: float | None = None) -> None:
        self.kind, self.told, self.after = kind, told, after
        super().__init__(told)


class Client:
    """Asks one server; may be used by many threads.

    Args:
        address: Where.
        key: What is sent as bearer token, None for nothing. It is in no message, and taken out of whatever
            the server says.
        timeout: Seconds for an answer to be there, whole.
        retries: How often a question is asked again.
        pace: How fast.
    """

    def __init__(
        self, address: Address, key: str | None, *, timeout: float, retries: int, pace: Pace
    ) -> None:
        self.url, self.pace, self._timeout, self._retries = address.url, pace, timeout, retries
        self._secret = None if key is None else _in_json(key)
        bearer = {} if key is None else {"Authorization": f"Bearer {key}"}
        # urllib3 asks no proxy unless told to.
        self._pool: dict[str, Any] = {
            "headers": {"Connection": "close", "Accept": "application/json", **bearer},
            "timeout": urllib3.Timeout(connect=CONNECT_S, read=timeout),
            "retries": False,
            "ssl_context": ssl.create_default_context(),
        }
        self._lock = threading.Lock()
        self.again: Counter[str] = Counter()  # by why, how often a question was asked again

    def cards(self) -> list[dict[str, Any]] | None:
        """Return what the server says of its models; None where it does not.

        Raises:
            PolicyError: It does not answer, or not with this key.
        """
        path = "/models"
        try:
            status, _, data = self._send(path, None)
            if status in (*PASSING, *NOT_YET):  # else the model would be another once it says more of itself
                raise _Passing(str(status), f"{status}: {_message(data)}")
        except _Passing as error:
            fix = "start the server and wait until it answers, or name another by --served"
            raise PolicyError("an answer", found=error.told, where=self.url + path, fix=fix) from None
        if status in (401, 403):
            raise self._refused(path, status, data)
        try:
            return [card.model_dump() for card in _Cards.model_validate_json(data).data]
        except ValidationError:
            return None

    def ask(self, body: Mapping[str, Any], guess: int) -> ServedAnswer:
        """Return the answer to a question.

        Args:
            body: The request.
            guess: Tokens of prompt and answer, roughly, for the first of all.

        Raises:
            PolicyError: The server refuses, or failed too often.
            Stopped: Nobody wants it any more.
        """
        for again in range(self._retries + 1):
            sent = self.pace.enter(guess)
            try:
                answer = self._answered(body)
            except _Passing as error:
                last = error
                if error.after is not None:
                    self.pace.hold(error.after)
                if again < self._retries:
                    with self._lock:
                        self.again[error.kind] += 1
                    self.pace.pause(wait_before(again + 1))
                continue
            if answer.prompt_tokens is not None and answer.completion_tokens is not None:
                self.pace.count(sent, answer.prompt_tokens + answer.completion_tokens)
            return answer
        fix = f"see to the server, or lower --in-flight or --requests-per-minute; then {AGAIN}"
        found = f"{last.told} ({self._retries + 1} times)"
        raise PolicyError("an answer", found=found, where=self.url + CHAT, fix=fix)

    def _answered(self, body: Mapping[str, Any]) -> ServedAnswer:
        status, headers, data = self._send(CHAT, body)
        if status in PASSING or status >= 500:
            said = f"{status}: {_message(data)}"
            if NO_CREDIT in said or _code(data) == NO_CREDIT:
                raise self._refused(CHAT, status, data)
            after = seconds_to_wait(headers.get("Retry-After"))
            if after is not None and after > LONGEST_HELD_S:
                raise PolicyError(
                    f"to be let in within {LONGEST_HELD_S:g} s",
                    found=f"Retry-After {after:g} s ({said})",
                    where=self.url + CHAT,
                    fix=f"wait as long, then {AGAIN}",
                )
            raise _Passing(str(status), said, after)
        if status != 200:
            raise self._refused(CHAT, status, data)
        try:
            reply = _Reply.model_validate(json.loads(data))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(step) for step in first["loc"]) or "the answer"
            raise _Passing("no answer in it", f"{place}: {first['msg']} ({_message(data)})") from None
        except (ValueError, RecursionError):
            raise _Passing("no JSON", f"no JSON ({_message(data)})") from None
        chosen, usage = reply.choices[0], reply.usage or _Usage()
        text, thought = read_message(chosen.message.model_dump())
        return ServedAnswer(
            text=_whole(text or ""),
            reasoning=_whole(thought) or None,
            finish=chosen.finish_reason,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            model=reply.model,
            fingerprint=reply.system_fingerprint,
        )

    def _send(self, path: str, body: Mapping[str, Any] | None) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers and content, the key taken out of it.

        Raises:
            _Passing: No answer, or not a whole one in time.
        """
        end = time.monotonic() + self._timeout
        method, url = "GET" if body is None else "POST", self.url + path
        try:
            # Each request has a connection of its own: one that is kept, and that the server closes just
            # then, would meet the next request half-way, which were asked twice.
            with (
                urllib3.PoolManager(**self._pool) as http,
                http.request(method, url, json=body, redirect=False, preload_content=False) as reply,
            ):
                data = b""
                while part := reply.read1(PART):
                    data += part
                    if len(data) > MAX_ANSWER_BYTES:
                        raise _Passing("too long", f"more than {MAX_ANSWER_BYTES:,} bytes")
                    if time.monotonic() > end:
                        raise _Passing("time-out", f"nothing whole within {self._timeout:g} s")
        except urllib3.exceptions.TimeoutError as error:
            slow = isinstance(error, urllib3.exceptions.ReadTimeoutError)
            told = f"nothing within {self._timeout if slow else CONNECT_S:g} s"
            raise _Passing("time-out", told) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            told = str(error).partition("): ")[2] or str(error) or type(error).__name__
            raise _Passing("connection", f"no connection ({told})") from None
        if self._secret is not None:
            data = self._secret.sub(b"***", data)
        return reply.status, reply.headers, data

    def _refused(self, path: str, status: int, data: bytes) -> PolicyError:
        fix = "correct what it names; --extra '{\"FIELD\": null}' leaves a field of the request out"
        if status in (401, 403):
            held = "the key it was sent" if self._secret is not None else "no key: none was sent"
            fix = f"export its key and name the variable by --key-variable; it has {held}"
        elif status == 404:
            fix = "correct --served or --model"
        elif 300 <= status < 400:
            fix = "give the URL that it redirects to by --served; a key is sent nowhere else"
        found = f"{status}: {_message(data)}"
        return PolicyError("an answer", found=found, where=self.url + path, fix=f"{fix}; then {AGAIN}")


def _whole(text: str) -> str:
    return _HALF_PAIR.sub("\N{REPLACEMENT CHARACTER}", text)


def client_of(model: ServedModel) -> Client:
    """Return who asks a model; nothing is asked yet.

    Raises:
        ConfigError: The address is none, or its key is not there.
    """
    address = Address.of(model.url)
    key = None if model.key_variable is None else read_key(model.key_variable)
    if key is not None and address.plain:
        complain(f"the key goes to {address.url} in plain text: anyone on the way can read it")
    pace = Pace(model.requests_per_minute, model.tokens_per_minute)
    return Client(address, key, timeout=model.timeout, retries=model.retries, pace=pace)


def _in_json(key: str) -> re.Pattern[bytes]:
    """Return what finds a key as it is, and as JSON may have it: any sign of it may be escaped."""
    slash = {sign: r"\\?" for sign in '"/\\'}
    signs = (rf"(?:{slash.get(sign, '')}{re.escape(sign)}|\\u(?i:{ord(sign):04x}))" for sign in key)
    return re.compile("".join(signs).encode())


def wait_before(again: int) -> float:
    """Return the seconds of waiting before a question is asked for the n-th time again: twice as many each
    time, and by chance up to half less, so that not all come back at once."""
    longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(again - 1, 16))
    return longest * random.uniform(0.5, 1.0)


def seconds_to_wait(said: str | None) -> float | None:
    """Return the seconds that a Retry-After says, as number or date; None where it says nothing.

    >>> seconds_to_wait("20"), seconds_to_wait("Wed, 21 Oct 2015 07:28:00 GMT"), seconds_to_wait("soon")
    (20.0, 0.0, None)
    """
    if said is None:
        return None
    if _SECONDS.fullmatch(said.strip()):
        return float(said)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(said).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _error(data: bytes) -> Any:
    try:
        told = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return told.get("error", told) if isinstance(told, dict) else None


def _message(data: bytes) -> str:
    """Return what an error says: OpenAI's form, FastAPI's, or the beginning of whatever it is."""
    error = _error(data)
    if isinstance(error, dict) and (said := error.get("message") or error.get("detail")):
        return str(said).rstrip(".")[:400]
    if isinstance(error, str):
        return error[:400]
    return data[:200].decode("utf-8", "replace") or "nothing"


def _code(data: bytes) -> Any:
    error = _error(data)
    return error.get("code") if isinstance(error, dict) else None
