"""Questions to a served model: each asked once, so many under way at once, every one in a thread of its
own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from types import TracebackType

from assay.core.storage.json import digest
from assay.rollout.policy.served.client import Client, ServedAnswer
from assay.rollout.policy.served.identity import ServedIdentity
from assay.rollout.policy.served.journal import Journal
from assay.rollout.policy.served.pace import Stopped
from assay.rollout.tasks.protocol import Message

CHARS_A_TOKEN = 3  # few, so that a first guess is rather too high


class Served:
    """A served model with the answers that it gave: every question is asked once.

    Args:
        client: Asks.
        journal: What was answered.
        identity: Who is asked.
        limit: Tokens of one completion, as the settings of the identity have it.
    """

    def __init__(self, client: Client, journal: Journal, identity: ServedIdentity, limit: int) -> None:
        self.client, self.journal, self.limit, self._identity = client, journal, limit, identity
        # Where it stands is no part of who it is; but answers of another server are not taken for its.
        self._asked = digest([client.url, identity.digest])

    def ask(self, messages: Sequence[Message], seed: int) -> tuple[ServedAnswer, bool]:
        """Return the answer to a conversation so far, and whether it was there already.

        Raises:
            PolicyError: There is none.
            Stopped: Nobody wants it any more.
        """
        key = digest([self._asked, list(messages), seed])
        if (known := self.journal.get(key)) is not None:
            return known, True
        asked = {"model": self._identity.model, "messages": list(messages), "seed": seed}
        asked |= self._identity.settings
        body = {name: value for name, value in asked.items() if value is not None}
        letters = sum(len(message["content"]) for message in messages)
        answer = self.client.ask(body, letters // CHARS_A_TOKEN + self.limit)
        self.journal.put(key, answer)
        return answer, False


class Asking:
    """Threads that ask, each a question at a time.

    Left with an error, it waits for what is under way, since that is paid for and kept; after Ctrl-C it does
    not.
    """

    def __init__(self, served: Served, n: int) -> None:
        self._served, self._n = served, n
        self._questions: queue.SimpleQueue[tuple[int, list[Message], int] | None] = queue.SimpleQueue()
        self._found: queue.SimpleQueue[tuple[int, ServedAnswer, bool] | BaseException] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(n)]

    def _work(self) -> None:
        while (question := self._questions.get()) is not None:
            place, messages, seed = question
            try:
                self._found.put((place, *self._served.ask(messages, seed)))
            except Stopped:
                return
            except BaseException as error:  # noqa: BLE001  # raised where it is waited for
                self._found.put(error)
                return

    def put(self, place: int, messages: Sequence[Message], seed: int) -> None:
        """Have a question asked; `place` says whose it is."""
        self._questions.put((place, list(messages), seed))

    def take(self) -> list[tuple[int, ServedAnswer, bool]]:
        """Return the answers that are there, at least one.

        Raises:
            PolicyError: A question has none.
        """
        found = [self._found.get()]
        while not self._found.empty():
            found.append(self._found.get())
        for each in found:
            if isinstance(each, BaseException):
                raise each
        return [each for each in found if not isinstance(each, BaseException)]

    def __enter__(self) -> Asking:
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, with no further question."""
        if error is not None:
            self._served.client.pace.stop()
        for _ in self._threads:
            self._questions.put(None)
        if error is None or isinstance(error, Exception):
            for thread in self._threads:
                thread.join()
