"""What is known of the answers of a served model, beside the episodes that they are in."""

from __future__ import annotations

from pydantic import Field

from assay.core.records import Record


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
    prices: Prices | None = Field(description="of a million tokens, as given by --price-in and --price-out")
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
