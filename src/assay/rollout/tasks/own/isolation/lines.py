"""Calls and what they lead to as lines of JSON, between this process and the one that runs somebody's code.

A request is one line, {"tell": [call ...]} or {"say": [ask ...]}. Its answer is a line for each place, in any
order, {"place": n, "reply" or "said" or "failed": ...}, before it {"at": n} as the place is begun and now and
then while it goes on, and {"end": calls that overran and still go on} at last.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.core.errors import AssayError, ConfigError, EnvironmentFailure
from assay.core.storage.json import digest
from assay.core.storage.untrusted import sha256_contents
from assay.rollout.tasks.own.api import Told
from assay.rollout.tasks.own.calls import Ask, Call, Failed, Reply, checked
from assay.rollout.tasks.own.isolation.inline import Inline
from assay.rollout.tasks.own.settings import OwnTask

BEAT_S = 0.1
SLACK_S = 2.0  # that an answer may be late beyond task.timeout_s, which the other process sees to itself
MOST_BYTES = 1 << 24  # of one line of an answer


class Silent(EnvironmentFailure):
    """The other process said nothing for too long, is gone, or says what nobody can read."""


@dataclass(slots=True)
class Answers:
    """What came back of a request: answers by place, places that were begun, and calls that still go on."""

    found: dict[int, Reply | str | Failed] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)
    stuck: int = 0


def request_of(calls: Sequence[Call] | Sequence[Ask]) -> dict[str, Any]:
    """Return a request as JSON."""
    if calls and isinstance(calls[0], Ask):
        asks = [each for each in calls if isinstance(each, Ask)]
        return {
            "say": [
                {**_call(ask.call), "player": ask.player, "chances": ask.seed, "given": ask.given}
                for ask in asks
            ]
        }
    return {"tell": [_call(each) for each in calls if isinstance(each, Call)]}


def _call(call: Call) -> dict[str, Any]:
    return {"row": dict(call.row), "seed": call.seed, "completions": list(call.completions)}


def read_answers(lines: Iterator[bytes], n: int, parts: frozenset[str], into: Answers) -> None:
    """Read answers up to their end.

    Args:
        lines: Each raises `Silent` where it does not come.
        n: Places that were asked for.
        parts: Names that rewards may have.
        into: Holds what came, however it ends.

    Raises:
        Silent: They break off.
        ConfigError: There is nobody that could answer.
    """
    for line in lines:
        found = read_line(line)
        if "end" in found:
            into.stuck = int(found["end"])
            if len(into.found) < n:
                raise Silent("answers to less than was asked")
            return
        if "at" in found:
            into.begun.add(int(found["at"]))
            continue
        place = found.get("place")
        if not isinstance(place, int) or not 0 <= place < n:
            raise Silent("an answer to nothing that was asked")
        into.found[place] = _answer(found, parts)
    raise Silent("the connection ended")


def read_line(line: bytes) -> Mapping[str, Any]:
    """Return what a line says.

    Raises:
        Silent: Nobody can read it.
        ConfigError: It is an error of settings.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise Silent(f"an answer that is no JSON: {line[:80]!r}") from None
    if not isinstance(found, dict):
        raise Silent(f"an answer that is no object: {line[:80]!r}")
    if "error" in found:
        names = ("expected", "found", "where", "fix")
        expected, said, where, fix = (str(found["error"].get(name)) for name in names)
        raise ConfigError(expected, found=said, where=where, fix=fix)
    return found


def _answer(found: Mapping[str, Any], parts: frozenset[str]) -> Reply | str | Failed:
    try:
        if "failed" in found:
            kind, reason = found["failed"]
            return Failed(kind, str(reason))
        if "said" in found:
            return str(found["said"])
        messages, rewards, success, failure, *more = found["reply"]
        return checked(Told(messages or None, rewards, success, failure, *more), parts)
    except (KeyError, TypeError, ValueError) as error:
        raise Silent(f"an answer that is no reply: {error}") from None


def answer(inline: Inline, request: Mapping[str, Any], write: Callable[[bytes], object]) -> None:
    """Play a request and write its answers; `write` raises nothing."""
    answered = set[int]()
    latest = dict[int, float]()

    def line(**said: Any) -> None:
        write(json.dumps(said).encode() + b"\n")

    def heard(place: int, found: Reply | str | Failed | None) -> None:
        now = time.monotonic()
        if found is None and now - latest.get(place, 0.0) < BEAT_S:
            return
        latest[place] = now
        if found is None:
            line(at=place)
        else:
            line(place=place, **_said(found))
            answered.add(place)

    results: Sequence[Reply | str | Failed]
    if "say" in request:
        asks = [
            Ask(each["player"], _heard_call(each), each["chances"], each["given"]) for each in request["say"]
        ]
        results = inline.say(asks, heard)
    else:
        results = inline.tell([_heard_call(each) for each in request["tell"]], heard)
    for place, found in enumerate(results):
        if place not in answered:  # it overran
            line(place=place, **_said(found))
    line(end=inline.stuck)


def _heard_call(said: Mapping[str, Any]) -> Call:
    return Call(said["row"], said["seed"], tuple(said["completions"]))


def _said(found: Reply | str | Failed) -> dict[str, Any]:
    if isinstance(found, str):
        return {"said": found}
    if isinstance(found, Failed):
        return {"failed": [found.kind, found.reason]}
    more = found.more
    said = [dict(more.flags), dict(more.metrics), more.action, more.repaired, more.ending]
    return {"reply": [list(found.messages), dict(found.parts), found.success, found.failure, *said]}


def error_line(error: AssayError) -> bytes:
    """Return an error of settings as an answer."""
    told = {"expected": error.expected, "found": error.found, "where": error.where, "fix": error.fix}
    return json.dumps({"error": told}).encode() + b"\n"


def identity(settings: OwnTask, root: str) -> str:
    """Return the digest of what decides how a task's code answers: its folder, entry, options and parts."""
    code = sha256_contents(Path(root) / settings.code)
    return digest([code, settings.entry, settings.options, sorted(settings.parts)])
