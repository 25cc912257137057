"""What all checks share: episodes of the players who know and who do not, and every trouble any play met."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from assay.tasks.own.success import is_right, number
from assay.tasks.settings.own import OF_TEXT
from assay.tools.envcheck.case import Case, World
from assay.tools.envcheck.episodes import Episode, Says, Trouble, always, open_episode, play, player
from assay.tools.findings import Deadline, DoctorCheck, Finding

MOST_WORLDS, FEWEST_WORLDS = 24, 4
SLOW = 0.03  # seconds of an episode from which on fewer texts are tried
CALLS_PER_SECOND = 6.0  # a check that plays a text on every world should take a second for six texts at most


@dataclass
class Evidence:
    """One examination.

    Attributes:
        case: What is looked at.
        deadline: By when it has to be over.
        troubles: Of every episode so far.
        played: How many episodes there were.
        slow: Whether an episode takes long.
        at_start: State of the process before anything was played.
    """

    case: Case
    deadline: Deadline
    troubles: list[Trouble] = field(default_factory=list)
    played: int = 0
    slow: bool = False
    at_start: dict[str, Any] = field(default_factory=dict)

    def play(self, world: World, says: Says, most: int | None = None) -> Episode:
        """Play an episode and note its trouble."""
        return self.noted(play(self.case, world, says, most))

    def noted(self, episode: Episode) -> Episode:
        """Take an episode in."""
        self.played += 1
        if episode.trouble is not None:
            self.troubles.append(episode.trouble)
        return episode

    @cached_property
    def worlds(self) -> list[World]:
        """Worlds of train: fewer where a call is slow."""
        worlds = self.case.worlds(MOST_WORLDS)
        self.noted(open_episode(self.case, worlds[0]))  # what is imported late is imported now
        begun = time.monotonic()
        for world in worlds[:2]:
            self.play(world, always("0"))
        seconds = (time.monotonic() - begun) / 2
        self.slow = seconds > SLOW
        n = int(1.0 / CALLS_PER_SECOND / max(seconds, 1e-4))
        return worlds[: max(FEWEST_WORLDS, min(MOST_WORLDS, n))]

    @cached_property
    def ceiling(self) -> list[Episode]:
        """Episodes of the player who knows what is right; none where there is no such player."""
        task = self.case.task
        if task.ceiling == task.floor or task.ceiling not in task.baselines():
            return []
        return [self.play(world, player(self.case, task.ceiling)) for world in self.worlds]

    @cached_property
    def floor(self) -> list[Episode]:
        """Episodes of the floor player."""
        return [self.play(world, player(self.case, self.case.task.floor)) for world in self.worlds]

    @cached_property
    def sound(self) -> list[Episode]:
        """Those of the ceiling that came to an end."""
        return [episode for episode in self.ceiling if episode.trouble is None and episode.ending is not None]

    @cached_property
    def pool(self) -> list[str]:
        """What the ceiling player says, on these and further worlds, each once."""
        said = [text for episode in self.sound for text in episode.said]
        said += [gold for world in self.case.worlds(200) if (gold := self.case.gold(world.item)) is not None]
        return list(dict.fromkeys(said))

    @property
    def scale(self) -> tuple[float, float] | None:
        """Mean reward of floor and ceiling; None where there is no such distance."""
        low = [episode.reward for episode in self.floor if episode.trouble is None]
        high = [episode.reward for episode in self.sound]
        if not low or not high:
            return None
        found = sum(low) / len(low), sum(high) / len(high)
        return found if found[1] > found[0] + 1e-12 else None

    @cached_property
    def weak(self) -> str | None:
        """Name of the player who stands in for a base: weak, else none."""
        own = self.case.own
        players = {} if own is None else own.settings.players
        return next((name for name, kind in players.items() if kind == "weak"), None)

    def is_right(self, text: str, episode: Episode) -> bool:
        """Return whether a text is what the ceiling player said in an episode, or the record's own answer."""
        known = [
            self.case.gold(episode.world.item),
            *(episode.said[:1] if len(set(episode.said)) == 1 else []),
        ]
        own = self.case.own
        if own is not None and own.settings.success.compare in OF_TEXT:
            row = episode.world.item.hidden
            if isinstance(row, Mapping) and is_right(text, row, own.settings.success):
                return True
        return any(gold is not None and _alike(text, gold) for gold in known)

    def timed(self, seconds: float) -> Callable[[], bool]:
        """Return what says whether so many seconds from now, or all time, are over."""
        until = time.monotonic() + min(seconds, self.deadline.left)
        return lambda: time.monotonic() > until


def _alike(one: str, other: str) -> bool:
    if one.strip().casefold() == other.strip().casefold():
        return True
    first, second = number(one), number(other)
    return first is not None and first == second


def rates(ceiling: Sequence[Episode], found: Sequence[Sequence[Episode]]) -> tuple[float, float]:
    """Return the share of items on which all episodes of a row earn what the ceiling does, or succeed; and
    the mean of the smallest reward of each row less that of the ceiling."""
    hits = sum(
        all(each.trouble is None and (each.success or each.reward >= 0.95 * top.reward > 0) for each in row)
        for top, row in zip(ceiling, found, strict=True)
    )
    gaps = [min(each.reward for each in row) - top.reward for top, row in zip(ceiling, found, strict=True)]
    return hits / max(1, len(gaps)), sum(gaps) / max(1, len(gaps))


def check(name: str, expected: str, where: str) -> DoctorCheck:
    """Return a check by its name of CHECKS."""
    assert name in CHECKS, name
    return DoctorCheck(name, expected, where)


def not_looked_at(name: str, why: str) -> Finding:
    """Return that a check could not be made."""
    return check(name, "a look", "this examination").note(f"not looked at: {why}")


def out_of_time(name: str) -> Finding:
    """Return that there was no time for a check, which may have found something."""
    fix = "./run assay task check on a quieter machine, or a faster grader"
    return check(name, "a look", "this examination").warning("not looked at: there was no time left", fix)


CHECKS = (
    "oracle beats floor",
    "trivial players",
    "hedging",
    "bad completions",
    "reward parts",
    "ending",
    "gold in prompt",
    "replay",
    "other order",
    "interleaved",
    "old state",
    "pickle",
    "global state",
    "other process",
    "41 days later",
    "four threads",
    "memory",
    "time",
    "network",
    "execution",
    "held-out overlap",
    "signal",
    "headroom",
    "alarms",
    "shaping",
    "gold through JSON",
    "sharpening",
)
