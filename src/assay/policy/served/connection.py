"""A served model opened as a policy: who it is, as far as that can be known, and the answers it gave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.decoding import Decoding
from assay.core.storage.locks import hold
from assay.dataset.served import ServedIdentity
from assay.policy.served.asking import Served
from assay.policy.served.client import Client
from assay.policy.served.identity import identity_of, settings_of
from assay.policy.served.journal import Journal
from assay.policy.served.pace import Pace
from assay.policy.served.request import Address, ServedRequest, check_request, read_extra, read_key

ANSWERS = "answers.jsonl"


@dataclass(frozen=True, slots=True)
class Connection:
    """A server that was seen to be there, and the model that is asked."""

    client: Client
    address: Address
    identity: ServedIdentity
    cards: Sequence[Mapping[str, Any]] | None  # what /v1/models says; None: nothing
    limit: int  # tokens of one completion
    keyed: bool  # whether a key is sent

    @contextmanager
    def answering(self, folder: Path) -> Iterator[Served]:
        """Let it play while the block runs; its answers are kept in a folder, and none is asked for again.

        Raises:
            RunningAlready: Another process plays there.
            RecordError: What is kept there cannot be read; nothing was changed.
        """
        with hold(folder / "answers.lock"), Journal(folder / ANSWERS) as journal:
            yield Served(self.client, journal, self.identity, self.limit)


def connect(of: ServedRequest, decoding: Decoding) -> Connection:
    """Return the connection to a served model; nothing but /v1/models is asked.

    Raises:
        ConfigError: What was asked for cannot be.
        PolicyError: No server is there, or not for this key.
    """
    check_request(of)
    address, key, extra = Address.of(of.served), read_key(of.key_variable), read_extra(of.extra)
    settings, pace = settings_of(decoding, extra), Pace(of.requests_per_minute, of.tokens_per_minute)
    client = Client(address, key, timeout=of.timeout, retries=of.retries, pace=pace)
    cards = client.cards()
    identity = identity_of(str(of.model), settings, cards)
    return Connection(client, address, identity, cards, decoding.max_new_tokens, key is not None)
