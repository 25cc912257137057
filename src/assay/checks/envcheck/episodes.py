"""Episodes by scripted players, whatever goes wrong in them; of an own task its environments are played as
they are, with nothing of ours between that would hide what they do."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import re
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import assay
from assay.checks.envcheck.case import Case, World
from assay.core.errors import EnvironmentFailure
from assay.rollout.tasks.own.api import Environment
from assay.rollout.tasks.own.calls import Ask, Call, Reply, checked, messages_of
from assay.rollout.tasks.own.isolation.inline import failed
from assay.rollout.tasks.own.loading import NoColumn, NoReward, load
from assay.rollout.tasks.own.players import move
from assay.rollout.tasks.own.task import GOLD, OwnState, OwnTask
from assay.rollout.tasks.protocol import SILENT, Message, Task
from assay.rollout.tasks.wrappings import cut_off

Says = Callable[["Episode"], str]
_OURS = str(Path(assay.__file__).parent)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an episode could not go on: raised, reward (none that counts), column (the records lack one), lost,
    player."""

    kind: str
    reason: str
    item: str
    said: str | None

    def __str__(self) -> str:
        on = "when it is opened" if self.said is None else f"on {shown(self.said)}"
        return f"item {self.item}, {on}: {self.reason}"


def shown(text: str) -> str:
    """Return a text as it can be quoted in a line."""
    return repr(text if len(text) <= 60 else f"{text[:60]}… ({len(text)} characters)")


class Watch:
    """What call is under way and since when, for whoever has to break it off."""

    since: float | None = None
    what: str = ""
    longest: float = 0.0  # seconds of a call that is over
    slowest: str = ""


@dataclass(slots=True)
class Episode:
    """One episode, played step by step.

    Attributes:
        first: What the policy reads first.
        said: Completions so far.
        told: What was told after each, None at the end.
        parts: Rewards of each.
        trouble: Why it was broken off.
        seconds: Of each call.
    """

    case: Case
    world: World
    first: Sequence[Message] = ()
    said: list[str] = field(default_factory=list)
    told: list[str | None] = field(default_factory=list)
    parts: list[Mapping[str, float]] = field(default_factory=list)
    ending: str | None = None
    success: bool | None = None
    trouble: Trouble | None = None
    seconds: list[float] = field(default_factory=list)
    failures: list[str | None] = field(default_factory=list)
    state: Any = None  # of a task that is a value
    live: Environment | None = None
    reply: Reply | None = None

    @property
    def over(self) -> bool:
        """Whether it ended, or was broken off."""
        return self.ending is not None or self.trouble is not None

    @property
    def reward(self) -> float:
        """The sum of all parts so far."""
        return float(sum(sum(parts.values()) for parts in self.parts))

    @property
    def prompt(self) -> str:
        """What it reads first, as one text."""
        return "\n".join(message["content"] for message in self.first)

    @property
    def transcript(self) -> str:
        """All that was said and told, in a line."""
        turns = [
            f"{shown(said)}{'' if told is None else f' → {shown(told)}'}"
            for said, told in zip(self.said, self.told, strict=False)
        ]
        return "; ".join(turns) or "nothing said"

    @property
    def digest(self) -> str:
        """Everything that was told and paid, without clocks."""
        parts = [
            {name: repr(float(value)) for name, value in sorted(each.items()) if value} for each in self.parts
        ]
        why = None if self.trouble is None else [self.trouble.kind, self.trouble.said]
        seen = [list(self.first), self.said, self.told, parts, self.ending, self.success, why]
        return hashlib.sha256(
            json.dumps(seen, sort_keys=True, default=str).encode("utf-8", "backslashreplace")
        ).hexdigest()


def open_episode(case: Case, world: World) -> Episode:
    """Open an episode; what goes wrong is its trouble."""
    episode = Episode(case, world)
    begun = _begin(f"item {world.item.id}, its prompt")
    try:
        own = case.own
        if own is None:
            messages, episode.state = case.task.start(world.item, world.seed)
            episode.first = list(messages)
        else:
            episode.live = factory(case)()
            episode.reply = Reply(messages_of(episode.live.reset(row_of(world), world.seed)), {})
            episode.first = list(episode.reply.messages)
            if not episode.first:
                raise TypeError("reset told nothing")
    except BaseException as error:  # noqa: BLE001 - somebody's code raises anything
        _fail(episode, error, None)
    finally:
        episode.seconds.append(_end(begun))
    return episode


def row_of(world: World) -> dict[str, Any]:
    """Return the record as the code gets it: a copy of its own."""
    found: dict[str, Any] = copy.deepcopy(dict(world.item.hidden))
    return found


def factory(case: Case) -> Callable[[], Environment]:
    """Return what makes an environment of an own task."""
    assert case.own is not None
    return _factory(case.own, str(case.project.root))


@functools.lru_cache(maxsize=4)
def _factory(own: OwnTask, root: str) -> Callable[[], Environment]:
    return load(own.settings, root)


def step(episode: Episode, completion: str) -> None:
    """Play one completion."""
    if episode.over:
        return
    case, own = episode.case, episode.case.own
    begun = _begin(f"item {episode.world.item.id}, on {shown(completion)}")
    try:
        if own is None:
            _step_value(case.task, episode, completion)
        else:
            _step_live(own, episode, completion)
    except BaseException as error:  # noqa: BLE001 - somebody's code raises anything
        _fail(episode, error, completion)
    finally:
        episode.seconds.append(_end(begun))


def _step_value(task: Task, episode: Episode, completion: str) -> None:
    found = task.step(episode.state, completion)
    episode.said.append(completion)
    episode.told.append(found.observation)
    episode.parts.append({name: float(value) for name, value in found.parts.items()})
    episode.failures.append(found.failure)
    episode.state, episode.ending = found.state, found.ending
    if found.ending is not None:
        episode.success = task.judge(found.state).success


def _step_live(own: OwnTask, episode: Episode, completion: str) -> None:
    assert episode.live is not None
    completion = cut_off(completion, own.settings.cut)
    reply = checked(episode.live.step(completion), frozenset(own.settings.parts))
    episode.reply = reply
    episode.said.append(completion)
    episode.parts.append(reply.parts)
    episode.failures.append(reply.failure)
    episode.told.append("\n".join(each["content"] for each in reply.messages) if reply.messages else None)
    if not reply.messages:
        episode.ending = "ended"
    elif len(episode.said) >= own.settings.max_turns:
        episode.ending = "out_of_turns"
    if episode.ending is not None:
        item = episode.world.item
        state = OwnState(item.id, item.hidden, episode.world.seed, tuple(episode.said), (), episode.reward)
        episode.success = own.judge(replace(state, success=reply.success, ending=episode.ending)).success


def _fail(episode: Episode, error: BaseException, said: str | None) -> None:
    if isinstance(error, KeyboardInterrupt):
        raise error
    frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    ours = bool(frames) and frames[-1].startswith(_OURS) and isinstance(error, TypeError | ValueError)
    told = failed(error)
    kind = "lost" if told.kind == "lost" else "raised"
    if isinstance(error, NoReward) or (ours and episode.case.own is not None):
        kind = "reward"
    if isinstance(error, NoColumn):
        kind = "column"
    if isinstance(error, EnvironmentFailure):
        kind = "lost"
    episode.trouble = Trouble(kind, told.reason[:300], episode.world.item.id, said)


def _begin(what: str) -> float:
    Watch.what, Watch.since = what, time.monotonic()
    return time.perf_counter()


def _end(begun: float) -> float:
    took = time.perf_counter() - begun
    Watch.since = None
    if took > Watch.longest:
        Watch.longest, Watch.slowest = took, Watch.what
    return took


def play(case: Case, world: World, says: Says, most: int | None = None) -> Episode:
    """Play an episode to its end, or through so many turns."""
    episode = open_episode(case, world)
    while (
        not episode.over and (most is None or len(episode.said) < most) and len(episode.said) < case.max_turns
    ):
        try:
            text = says(episode)
        except BaseException as error:  # noqa: BLE001 - somebody's player raises anything
            _fail(episode, error, None)
            assert episode.trouble is not None
            episode.trouble = Trouble("player", episode.trouble.reason, world.item.id, None)
            break
        step(episode, text)
    return episode


def always(text: str) -> Says:
    """Return a player that says one text."""
    return lambda episode: text


def following(texts: Sequence[str]) -> Says:
    """Return a player that says these texts in order, and the last again."""
    return lambda episode: texts[min(len(episode.said), len(texts) - 1)]


def repeating(first: str) -> dict[str, Says]:
    """Return players who guess once, then say what they were told: all of it, or a word or number of it."""

    def pick_last(pick: Callable[[str], str]) -> Says:
        return lambda episode: first if not episode.told else pick(episode.told[-1] or "")

    def found(pattern: str, place: int) -> Callable[[str], str]:
        def pick(told: str) -> str:
            hits = re.findall(pattern, told)
            return str(hits[place]) if hits else ""

        return pick

    return {
        "what it is told": pick_last(str),
        "the last word it is told": pick_last(found(r"[^\s.,;:!?\"'()\[\]]+", -1)),
        "the last number it is told": pick_last(found(r"-?\d+(?:\.\d+)?", -1)),
        "the first number it is told": pick_last(found(r"-?\d+(?:\.\d+)?", 0)),
        "what it is told in quotes": pick_last(found(r"[\"'`]([^\"'`]+)[\"'`]", -1)),
    }


def player(case: Case, name: str, draw: int = 0) -> Says:
    """Return a player of the task by name, with its own chances by item and draw."""
    own = case.own
    if own is None:
        baseline = case.task.baselines()[name]

        def play_value(episode: Episode) -> str:
            rng = np.random.default_rng([draw, len(episode.said), episode.world.seed % 2**32])
            return baseline(episode.world.item, episode.state, rng)

        return play_value
    if name == SILENT:
        return always("")
    if name == GOLD and name not in own.settings.players:
        return lambda episode: str(case.gold(episode.world.item))

    def play_live(episode: Episode) -> str:
        assert episode.live is not None and episode.reply is not None
        call = Call(row_of(episode.world), episode.world.seed, tuple(episode.said))
        rng = np.random.default_rng([draw, len(episode.said), episode.world.seed % 2**32])
        return move(episode.live, Ask(name, call, 0), episode.reply, rng)

    return play_live
