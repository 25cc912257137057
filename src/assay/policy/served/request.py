"""What is said of a served model: where it is, by options or settings, and which variable has its key."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from assay.core.config.served import EXAMPLE, LIMIT, ServedBase, odd_address, odd_fields
from assay.core.errors import ConfigError, RecordError
from assay.core.storage.json import loads

KEY = "ASSAY_API_KEY"
CHAT = "/chat/completions"
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


def read_key(variable: str, names: Names = NAMES) -> str:
    """Return the key of a variable of the environment.

    Raises:
        ConfigError: It is not set, or holds what is no key.
    """
    key, where = os.environ.get(variable, "").strip(), f"environment variable {variable}"
    if not key:
        fix = f"export {variable}=..., or leave {names.key} out where the server wants none"
        raise ConfigError("a key", found="nothing", where=where, fix=fix)
    if not _SENDABLE.fullmatch(key):
        found = "something else, which is not shown"
        fix = "export the key alone, without quotes, spaces or a line end in it"
        raise ConfigError(
            "8 or more printable ASCII characters without a space", found=found, where=where, fix=fix
        )
    return key


def served_base(given: Mapping[str, Any]) -> ServedBase | None:
    """Return the served model that options of a command describe; None where they name no server.

    Args:
        given: By name, each None where it was not given: `served`, the URL, and the fields of a ServedBase;
            `extra` as the text of a JSON object. Where no variable is named, ASSAY_API_KEY has the key, if it
            is set. No other variable is read unasked: a key is told to whoever is asked.

    Raises:
        ConfigError: One of them cannot be, or stands beside no --served.
    """
    values = {name: given.get(name) for name in ServedBase.model_fields if name not in ("kind", "url")}
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
    values |= {"kind": "served", "url": given["served"], "extra": _read_extra(values["extra"])}
    try:
        return ServedBase.model_validate(values)
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
    for name, expected, _ in odd_fields(extra, max_new_tokens):
        if name in OPTIONS and extra[name] is None:  # no suite is played both sampled and greedy
            continue
        fix = f"use {OPTIONS[name]}" if name in OPTIONS else f"leave {name} out"
        if name == LIMIT:
            fix = f"--max-new-tokens {extra[name]}, or the same number in --extra"
        raise ConfigError(expected, found=str(extra[name]), where=f"--extra, {name}", fix=fix)
