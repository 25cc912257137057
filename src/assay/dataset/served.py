"""What is known of a served model: who it is, as far as that can be said, and what its answers came to."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from assay.core.records import Record
from assay.core.storage.json import digest


class ServedIdentity(Record):
    """What is known of who answers. Where the server stands is no part of it."""

    model: str = Field(description="the name that was asked for")
    settings: dict[str, Any] = Field(
        description="of each request, beside model, messages and seed; null: left out"
    )
    card: dict[str, Any] | None = Field(description="what /v1/models says of it; null: nothing")
    answered_as: tuple[str, ...] = Field(
        default=(), description="names and fingerprints (system_fingerprint) that came with answers"
    )

    @property
    def digest(self) -> str:
        """The sha256 of all of it."""
        return digest(self)


class ServedPin(Record):
    """A served model as a policy of the pipeline: which one it is, whichever way it decodes."""

    url: str
    identity: ServedIdentity = Field(description="its settings are the further fields of each request alone")

    @property
    def digest(self) -> str:
        """The sha256 of all of it: nothing says that two addresses give one model."""
        return digest(self)


class Prices(Record):
    """Of a million tokens, in the user's currency."""

    prompt: float = Field(ge=0)
    completion: float = Field(ge=0)


class ServedUse(Record):
    """What some answers came to, whenever they were asked for."""

    answers: int = Field(ge=0, description="that the episodes are made of")
    finish_reasons: dict[str, int] = Field(description="as the server gave them; '' where it gave none")
    without_usage: int = Field(ge=0, description="answers whose tokens the server does not count")
    prompt_tokens: int | None = Field(description="null where any answer lacks them")
    completion_tokens: int | None = Field(description="as billed; null where any answer lacks them")
    longest_prompt: int | None = Field(description="tokens of it, as the server counts; null: not known")
    prices: Prices | None = Field(description="of a million tokens, as they were given")
    cost: float | None = Field(
        description="of the answers at these prices, whichever call asked; failed requests are not in it"
    )


class ServedArm(ServedUse):
    """What the answers of one file of episodes came to, and who gave them."""

    policy_digest: str
    answered_as: tuple[str, ...] = Field(
        description="names and fingerprints (system_fingerprint) that came with answers"
    )


class ServedArms(Record):
    """What pre_eval_served.json and post_eval_served.json hold, by the file of episodes."""

    arms: dict[str, ServedArm]
