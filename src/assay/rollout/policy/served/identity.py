"""Who a served model is, as far as anyone can tell from outside, and what asking it came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field

from assay.core.counting import counted
from assay.core.decoding import Decoding
from assay.core.records import Record
from assay.core.storage.json import digest
from assay.rollout.policy.served.client import ServedAnswer

NOTE = (
    "A served model cannot be pinned: the same name may be other weights, another template or other settings"
    " tomorrow, and nothing here would show it."
)
MILLION = 1_000_000
# Of a card of /v1/models what stays the same while the model does; vLLM, for one, makes up the others anew.
STABLE = ("id", "root", "parent", "owned_by", "max_model_len", "context_length", "context_window", "meta")


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


class Prices(Record):
    """Of a million tokens, in the user's currency."""

    prompt: float = Field(ge=0)
    completion: float = Field(ge=0)


class ServedFacts(Record):
    """What served.json holds: who answered, as far as it is known, and what it came to."""

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
    note: str
    policy_digest: str = Field(description="of the identity; who played the episodes")
    identity: ServedIdentity
    kept: int = Field(ge=0, description="of them answered in an earlier call, and not asked again")
    asked_again: dict[str, int] = Field(description="requests of this call made again, by why")


def settings_of(decoding: Decoding, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request beside model, messages and seed; one that is None is left out of it."""
    asked: dict[str, Any] = {"temperature": decoding.temperature, "max_tokens": decoding.max_new_tokens}
    if decoding.temperature > 0:
        asked["top_p"] = 1.0
    return asked | dict(extra)


def identity_of(
    model: str, settings: Mapping[str, Any], cards: Sequence[Mapping[str, Any]] | None
) -> ServedIdentity:
    """Return who is asked, as it is known before the first answer."""
    card = next((each for each in cards or () if each["id"] == model), None)
    kept = None if card is None else {name: card[name] for name in STABLE if card.get(name) is not None}
    return ServedIdentity(model=model, settings=dict(settings), card=kept)


def find_served_cautions(
    identity: ServedIdentity, cards: Sequence[Mapping[str, Any]] | None, max_prompt_tokens: int | None
) -> list[str]:
    """Return what a reader should know before the first answer, a sentence each."""
    found = [NOTE]
    if cards and identity.card is None:
        names = ", ".join(str(each["id"]) for each in cards[:5])
        found.append(
            f"/v1/models does not list {identity.model!r} but {names}: some servers answer to any name"
        )
    if max_prompt_tokens is not None:
        limit = f"prompts are sent whole: the limit of {max_prompt_tokens} tokens (task.max_prompt_tokens)"
        found.append(f"{limit} needs the tokenizer, which a server does not show")
    return found


def facts_of(
    asked: ServedIdentity,
    answers: Sequence[ServedAnswer],
    *,
    kept: int,
    again: Mapping[str, int],
    prices: Prices | None,
) -> ServedFacts:
    """Return what asking came to, and who answered."""
    names = {f"{each.model or '?'} {each.fingerprint or ''}".strip() for each in answers}
    identity = asked.model_copy(update={"answered_as": tuple(sorted(names))})
    read = _sum(each.prompt_tokens for each in answers)
    written = _sum(each.completion_tokens for each in answers)
    cost = None
    if prices is not None and read is not None and written is not None:
        cost = round((read * prices.prompt + written * prices.completion) / MILLION, 6)
    lengths = [each.prompt_tokens for each in answers if each.prompt_tokens is not None]
    return ServedFacts(
        note=NOTE,
        policy_digest=identity.digest,
        identity=identity,
        kept=kept,
        asked_again=dict(sorted(again.items())),
        answers=len(answers),
        finish_reasons=dict(sorted(Counter(each.finish or "" for each in answers).items())),
        without_usage=sum(each.completion_tokens is None for each in answers),
        prompt_tokens=read,
        completion_tokens=written,
        longest_prompt=max(lengths, default=None),
        prices=prices,
        cost=cost,
    )


def _sum(values: Iterable[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def facts_said(use: ServedFacts) -> list[str]:
    """Return what asking came to, as sentences."""
    tokens = "tokens not counted by the server"
    if use.prompt_tokens is not None and use.completion_tokens is not None:
        tokens = f"{use.prompt_tokens:,} tokens read and {use.completion_tokens:,} written"
    line = f"{counted(use.answers, 'answers')} ({use.kept} of an earlier call): {tokens}"
    line += "" if use.cost is None else f", cost {use.cost:g}"
    said = [line]
    if use.asked_again:
        told = ", ".join(f"{why} {n}x" for why, n in use.asked_again.items())
        said.append(f"asked again: {told}; what failed may have been billed, and is not in these numbers")
    return said


def find_answer_cautions(use: ServedFacts, max_prompt_tokens: int | None) -> list[str]:
    """Return what is odd about the answers, a sentence each."""
    found = []
    answers = counted(use.answers, "answers")
    if len(use.identity.answered_as) > 1:
        names = "; ".join(use.identity.answered_as)
        found.append(f"more than one answered, so these are not the episodes of one policy: {names}")
    if odd := {name: n for name, n in use.finish_reasons.items() if name not in ("stop", "length")}:
        told = ", ".join(f"{name or 'none given'} {n}x" for name, n in odd.items())
        found.append(f"of {answers} some ended neither by themselves nor at the limit: {told}")
    if use.without_usage:
        where = f"{use.without_usage} of {answers} came without counts of tokens"
        found.append(f"{where}: their n_tokens is 0, and means of tokens say nothing")
    longest = use.longest_prompt
    if max_prompt_tokens is not None and longest is not None and longest > max_prompt_tokens:
        found.append(f"the longest prompt had {longest} tokens, more than task.max_prompt_tokens")
    return found
