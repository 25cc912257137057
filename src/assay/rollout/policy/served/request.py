"""What is said of a served model: where it is, which variable has its key, and how it is asked."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field, ValidationError

from assay.core.config.base import From0, Natural, Settings
from assay.core.errors import ConfigError, RecordError
from assay.core.storage.json import loads

EXAMPLE = "http://127.0.0.1:8000/v1"
KEY = "ASSAY_API_KEY"
CHAT = "/chat/completions"
PerMinute = Annotated[int, Field(ge=1, le=10**9)]
# What assay sends itself, or could not read the answers of.
OURS = ("messages", "model", "n", "stream", "tools")
LIMIT = "max_completion_tokens"
# What has an option of its own, and may only be left out here.
OPTIONS = {"temperature": "--temperature", "max_tokens": "--max-new-tokens", "seed": "--seed"}
# What an option has to be, and an example.
MEANT = {
    "--model": ("the name of a model", "--model NAME, as the server lists it under /v1/models"),
    "--price-in": ("a price", "--price-in 0.15, for a million tokens"),
    "--price-out": ("a price", "--price-out 0.60, for a million tokens"),
    "--timeout": ("a time above 0", "--timeout 600, seconds"),
}
_SENDABLE = re.compile(r"[!-~]{8,}")


class ServedModel(Settings):
    """A model behind an address, and how fast it may be asked, which decides no answer."""

    url: str = Field(description="where /chat/completions is")
    model: Annotated[str, Field(min_length=1)] = Field(description="as the server lists it")
    key_variable: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = Field(
        description="variable of the environment that holds the key; null: none"
    )
    price_in: From0 | None = Field(description="of a million tokens that are read; null: not counted")
    price_out: From0 | None = Field(description="of a million tokens written")
    extra: dict[str, Any] = Field(description="further fields of each request; null leaves one out")
    in_flight: Annotated[int, Field(ge=1, le=1024)] = Field(description="questions at once")
    timeout: Annotated[float, Field(gt=0, le=86_400)] = Field(
        description="seconds for an answer to be there, whole"
    )
    retries: Natural = Field(description="how often a question is asked again")
    requests_per_minute: PerMinute | None
    tokens_per_minute: PerMinute | None


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is asked, without a key: `url` ends before /chat/completions."""

    url: str
    plain: bool  # whether what is sent can be read on the way

    @classmethod
    def of(cls, url: str) -> Address:
        """Return the address that somebody wrote: with or without /v1 or /chat/completions.

        Raises:
            ConfigError: It is no URL, or holds what has no place in one.
        """
        where, fix = "--served", f"--served {EXAMPLE}"
        if odd := odd_address(url):
            fix += f", and the key in the variable {KEY}" * ("not shown" in odd)
            raise ConfigError(f"a URL such as {EXAMPLE}", found=odd, where=where, fix=fix)
        parts = urlsplit(url)
        host = str(parts.hostname)
        path = parts.path.rstrip("/").removesuffix(CHAT) or "/v1"
        loopback = host in ("localhost", "::1") or host.startswith("127.")
        return cls(f"{parts.scheme}://{parts.netloc}{path}", parts.scheme == "http" and not loopback)


def odd_address(url: str) -> str | None:
    """Return what is wrong with the address of a server, without a secret in it; None: nothing.

    >>> odd_address("http://127.0.0.1:8000/v1"), odd_address("https://me@host/v1")
    (None, 'a user, a password or a query in it, which is not shown')
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:  # no such port, or an open bracket
        return repr(url)
    if "@" in parts.netloc or parts.query or parts.fragment:  # urls are said in messages
        return "a user, a password or a query in it, which is not shown"
    fine = parts.scheme in ("http", "https") and host and url.isprintable() and " " not in url
    return None if fine else repr(url)


def read_key(variable: str) -> str:
    """Return the key of a variable of the environment.

    Raises:
        ConfigError: It is not set, or holds what is no key.
    """
    key, where = os.environ.get(variable, "").strip(), f"environment variable {variable}"
    if not key:
        fix = f"export {variable}=..., or leave --key-variable out where the server wants none"
        raise ConfigError("a key", found="nothing", where=where, fix=fix)
    if not _SENDABLE.fullmatch(key):
        found = "something else, which is not shown"
        fix = "export the key alone, without quotes, spaces or a line end in it"
        raise ConfigError(
            "8 or more printable ASCII characters without a space", found=found, where=where, fix=fix
        )
    return key


def served_model(given: Mapping[str, Any]) -> ServedModel | None:
    """Return the served model that options of a command describe; None where they name no server.

    Args:
        given: By name, each None where it was not given: `served`, the URL, and the fields of a ServedModel;
            `extra` as the text of a JSON object. Where no variable is named, ASSAY_API_KEY has the key, if it
            is set. No other variable is read unasked: a key is told to whoever is asked.

    Raises:
        ConfigError: One of them cannot be, or stands beside no --served.
    """
    values = {name: given.get(name) for name in ServedModel.model_fields if name != "url"}
    if given.get("served") is None:
        for option in (_option(name) for name, value in values.items() if value is not None):
            fix = f"--served {EXAMPLE}"
            raise ConfigError(f"{option} beside --served", found="no --served", where=option, fix=fix)
        return None
    if (values["price_in"] is None) != (values["price_out"] is None):
        one, other = ("--price-in", "--price-out")[:: 1 if values["price_out"] is None else -1]
        raise ConfigError("both prices or none", found=one, where=other, fix=f"{other} 0.60, or 0")
    own_key = KEY if os.environ.get(KEY, "").strip() else None
    usual = {"key_variable": own_key, "in_flight": 8, "timeout": 600.0, "retries": 8}
    values |= {name: value for name, value in usual.items() if values[name] is None}
    values |= {"url": given["served"], "extra": _read_extra(values["extra"])}
    try:
        return ServedModel.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        option, value = _option(str(first["loc"][0])), first["input"]
        found = "none" if value in (None, "") else str(value)
        expected, fix = MEANT.get(option, (first["msg"], f"correct {option}"))
        raise ConfigError(expected, found=found, where=option, fix=fix) from None


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _read_extra(text: str | None) -> dict[str, Any]:
    fix = """--extra '{"top_k": 20}'"""
    try:
        extra = loads("{}" if text is None else text, where="--extra", fix=fix)
    except RecordError as error:
        raise ConfigError("a JSON object", found=error.found, where="--extra", fix=fix) from None
    if not isinstance(extra, dict):
        raise ConfigError("a JSON object", found=type(extra).__name__, where="--extra", fix=fix)
    return extra


def check_extra(extra: dict[str, Any], max_new_tokens: int) -> None:
    """Refuse further fields of each request that have an option of their own, or that assay sends.

    Raises:
        ConfigError: There is one.
    """
    odd = [(name, "nothing: assay sends it", f"leave {name} out") for name in sorted({*extra} & {*OURS})]
    odd += [
        (name, "null, or nothing", f"use {option}")
        for name, option in OPTIONS.items()
        if extra.get(name) is not None
    ]
    if extra.get(LIMIT) not in (None, max_new_tokens):
        fix = f"--max-new-tokens {extra[LIMIT]}, or the same number in --extra"
        odd.append((LIMIT, f"{max_new_tokens}, the limit of a completion", fix))
    for name, expected, fix in odd:
        raise ConfigError(expected, found=str(extra[name]), where=f"--extra, {name}", fix=fix)
