"""What is said of a served model: where it is, how fast it is asked, and which variable has its key."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import urlsplit

from assay.core.config.served import EXAMPLE, OURS, odd_address
from assay.core.errors import ConfigError, RecordError
from assay.core.storage.json import loads

KEY = "ASSAY_API_KEY"
CHAT = "/chat/completions"
# What has an option of its own, and may only be left out here.
OPTIONS = {"temperature": "--temperature", "max_tokens": "--max-new-tokens", "seed": "--seed"}
_SENDABLE = re.compile(r"[!-~]{8,}")


@dataclass(frozen=True, slots=True)
class Names:
    """By which names a person knows what a message is about: options of a command, or settings."""

    server: str = "--served"
    model: str = "--model"
    key: str = "--key-variable"
    leaves_out: str = "--extra '{\"FIELD\": null}'"
    pace: str = "--in-flight or --requests-per-minute"


NAMES = Names()


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """What the command line says of a served model.

    `served` is its URL; `timeout` seconds; prices are of a million tokens, in any currency; `extra` is a JSON
    object of further fields of each request, null leaving one out.
    """

    served: str
    model: str | None = None
    key_variable: str | None = None
    in_flight: int = 8
    timeout: float = 600.0
    retries: int = 8
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    price_in: float | None = None
    price_out: float | None = None
    extra: str | None = None


def check_unserved(asked: Mapping[str, Any]) -> None:
    """Refuse options of a served model where none is named.

    Raises:
        ConfigError: There is one.
    """
    for name in (each.name for each in fields(ServedRequest)):
        if asked.get(name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise ConfigError(
                f"{option} beside --served", found="no --served", where=option, fix=f"--served {EXAMPLE}"
            )


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


def read_key(variable: str | None, names: Names = NAMES) -> str | None:
    """Return the key of a variable of the environment, that of ASSAY_API_KEY if none is named; None if that
    is not set.

    No other variable is read unasked: a key is told to whoever is asked.

    Raises:
        ConfigError: The variable that is named is not set, or holds what is no key.
    """
    key = os.environ.get(variable or KEY, "").strip()
    where = f"environment variable {variable or KEY}"
    if not key:
        if variable is None:
            return None
        fix = f"export {variable}=..., or leave {names.key} out where the server wants none"
        raise ConfigError("a key", found="nothing", where=where, fix=fix)
    if not _SENDABLE.fullmatch(key):
        found = "something else, which is not shown"
        fix = "export the key alone, without quotes, spaces or a line end in it"
        raise ConfigError(
            "8 or more printable ASCII characters without a space", found=found, where=where, fix=fix
        )
    return key


def read_extra(text: str | None) -> Mapping[str, Any]:
    """Return further fields of each request.

    Raises:
        ConfigError: They are no JSON object, or name what assay sends.
    """
    if text is None:
        return {}
    fix = """--extra '{"top_k": 20}'"""
    try:
        extra = loads(text, where="--extra", fix=fix)
    except RecordError as error:
        raise ConfigError("a JSON object", found=error.found, where="--extra", fix=fix) from None
    if not isinstance(extra, dict):
        raise ConfigError("a JSON object", found=type(extra).__name__, where="--extra", fix=fix)
    if named := sorted({*extra} & {*OURS}):
        expected = f"none of {', '.join(OURS)}"
        raise ConfigError(expected, found=", ".join(named), where="--extra", fix=f"leave {named[0]} out")
    for name, option in OPTIONS.items():
        if extra.get(name) is not None:
            where = f"--extra, {name}"
            raise ConfigError("null, or nothing", found=str(extra[name]), where=where, fix=f"use {option}")
    return extra


def check_request(asked: ServedRequest) -> None:
    """Refuse what cannot be.

    Raises:
        ConfigError: No model is named, or a number has no meaning.
    """
    if not asked.model:
        fix = "--model NAME, as the server lists it under /v1/models"
        raise ConfigError("the name of a model", found="none", where="--model", fix=fix)
    for option, value in (("--price-in", asked.price_in), ("--price-out", asked.price_out)):
        if value is not None and not 0 <= value < math.inf:
            fix = f"{option} 0.15, for a million tokens"
            raise ConfigError("a price", found=str(value), where=option, fix=fix)
    if (asked.price_in is None) != (asked.price_out is None):
        given, other = ("--price-in", "--price-out")[:: 1 if asked.price_out is None else -1]
        raise ConfigError("both prices or none", found=given, where=other, fix=f"{other} 0.60, or 0")
    if not 0 < asked.timeout < math.inf:
        fix = "--timeout 600, seconds"
        raise ConfigError("a time above 0", found=str(asked.timeout), where="--timeout", fix=fix)
