"""Settings of a base whose weights nobody here has: a model behind an address, which is asked in messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field

from assay.core.config.base import From0, Natural, PlainBase, Settings

EXAMPLE = "http://127.0.0.1:8000/v1"
Price = From0
PerMinute = Annotated[int, Field(ge=1, le=10**9)]
# What assay sends itself, or could not read the answers of.
OURS = ("messages", "model", "n", "stream", "tools")
# What the settings decide; a field that a server refuses may be left out by null, but for the temperature,
# since a suite is played sampled and greedy.
DECIDED = {
    "temperature": "generation.temperature and evaluation_temperature",
    "max_tokens": "task.max_new_tokens",
    "seed": "null, where the server refuses it",
}
LIMIT = "max_completion_tokens"


class ServedModel(Settings):
    """Where a model is asked, and by which name. The address and the name are part of the package."""

    url: str = Field(description="where /chat/completions is", examples=[EXAMPLE])
    model: Annotated[str, Field(min_length=1)] = Field(
        description="as the server lists it under /v1/models", examples=["my-model"]
    )
    key_variable: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = Field(
        description="variable of the environment that holds the key; null: none is sent"
    )
    price_in: Price | None = Field(description="of a million tokens that are read; null: not counted")
    price_out: Price | None = Field(description="of a million tokens written")


class ServedBase(ServedModel, PlainBase):
    """A base behind an address. How fast it is asked holds for the tuned one too, and decides no answer."""

    kind: Literal["served"]
    extra: dict[str, Any] = Field(
        description="further fields of each request, {} for none; null leaves one out",
        examples=[{"top_k": 20}],
    )
    in_flight: Annotated[int, Field(ge=1, le=1024)] = Field(description="questions at once")
    timeout: Annotated[float, Field(gt=0, le=86_400)] = Field(
        description="seconds for an answer to be there, whole"
    )
    retries: Natural = Field(description="how often a question is asked again")
    requests_per_minute: PerMinute | None
    tokens_per_minute: PerMinute | None

    @property
    def asked(self) -> list[Any]:
        """Return what of it decides an answer."""
        return [self.url, self.model, self.extra]


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


def odd_fields(extra: dict[str, Any], max_new_tokens: int) -> Iterator[tuple[str, str, str]]:
    """Yield (field, what is expected, fix) of each further field of a request that the settings decide."""
    for name in sorted({*extra} & {*OURS}):
        yield name, "nothing: assay sends it", "leave it out"
    for name, where in DECIDED.items():
        if name in extra and (extra[name] is not None or name == "temperature"):
            expected = "a model that takes a temperature" if extra[name] is None else "null, or nothing"
            fix = "measure it with assay evaluate --served, and compare with assay judge"
            yield name, expected, fix if extra[name] is None else f"set {where}"
    if extra.get(LIMIT) not in (None, max_new_tokens):
        yield LIMIT, f"{max_new_tokens}, the limit of a completion", "set task.max_new_tokens"
