"""What all checks share: episodes of the players who know and who do not, and every trouble any play met."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from assay.checks.envcheck.case import Case, World, folder_of
from assay.checks.envcheck.code_texts import texts_in
from assay.checks.envcheck.completions import FRAMES, framed, wrapped
from assay.checks.envcheck.episodes import Episode, Says, Trouble, always, open_episode, play, player
from assay.checks.envcheck.form import columns_read, other_form
from assay.checks.findings import Deadline, DoctorCheck, Finding
from assay.rollout.tasks.own.settings import OF_TEXT
from assay.rollout.tasks.own.success import is_right, number
from assay.rollout.tasks.own.task import GOLD
from assay.rollout.tasks.protocol import Item, answer_key

MOST_WORLDS, FEWEST_WORLDS = 24, 4
SLOW = 0.03  # seconds of an episode from which on fewer texts are tried
CALLS_PER_SECOND = 6.0  # a check that plays a text on every world should take a second for six texts at most
PATIENCE = 3.0
TRIED = 4  # worlds on which a way to write the answer has to be right


def spent() -> float:
    """Return the processor seconds of this process and of its children that ended; a third of those on the
    clock where that is more. What else runs on the machine takes no look away, and waiting still ends.

    >>> 0.0 < spent() <= spent()
    True
    """
    children = os.times()
    used = time.process_time() + children.children_user + children.children_system
    return max(used, (time.monotonic() - _BEGUN) / PATIENCE)


_BEGUN = time.monotonic()


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
        begun = spent()
        for world in worlds[:2]:
            self.play(world, always("0"))
        seconds = (spent() - begun) / 2
        self.slow = seconds > SLOW
        n = int(1.0 / CALLS_PER_SECOND / max(seconds, 1e-4))
        return worlds[: max(FEWEST_WORLDS, min(MOST_WORLDS, n))]

    @cached_property
    def knower(self) -> str | None:
        """Name of the player who knows what is right; None where there is none."""
        task, own = self.case.task, self.case.own
        if own is None:
            return task.ceiling if task.ceiling != task.floor else None
        set_so = own.settings.ceiling
        oracles = [name for name, kind in own.settings.players.items() if kind == "oracle"]
        known = [name for name in (set_so, *oracles[:1]) if name]
        if known or answer_key(own) is not None:
            return (*known, GOLD)[0]
        return GOLD if self.written is not None else None

    @cached_property
    def written(self) -> Callable[[Item], str] | None:
        """What writes a right answer where no player knows one: a column of the record, in the form in which
        it is a success on the first worlds, the best paid of them; None where none is."""
        own = self.case.own
        if own is None or self.case.max_turns > 1 or own.settings.success.compare == "environment":
            return None
        rule, tried = own.settings.success, self.worlds[:TRIED]
        best: tuple[float, Callable[[Item], str]] | None = None
        for column in [rule.column] if rule.column else columns_read(self.case):
            for frame in (rule.extract, *FRAMES):

                def write(item: Item, column: str = column, frame: str | None = frame) -> str:
                    text = str(item.hidden[column])
                    return wrapped(text, frame) if frame == rule.extract else framed(text, frame or "")

                if not all(isinstance(world.item.hidden.get(column), str | int | float) for world in tried):
                    break
                played = [self.play(world, always(write(world.item))) for world in tried]
                if all(each.success for each in played):
                    paid = sum(each.reward for each in played)
                    if best is None or paid > best[0] + 1e-9:
                        best = paid, write
        return None if best is None else best[1]

    def gold(self, item: Item) -> str | None:
        """Return a right completion; None where none is known."""
        known = self.case.gold(item)
        if known is None and self.written is not None:
            return self.written(item)
        return known

    def golds(self, n: int) -> Iterator[str]:
        """Give the right completions of up to n worlds of train."""
        for world in self.case.worlds(n):
            if (gold := self.gold(world.item)) is not None:
                yield gold

    @cached_property
    def ceiling(self) -> list[Episode]:
        """Episodes of the player who knows what is right; none where there is no such player."""
        name = self.knower
        if name is None or (name != GOLD and name not in self.case.task.baselines()):
            return []
        if name == GOLD and self.case.gold(self.worlds[0].item) is None:
            return [self.play(world, always(self.gold(world.item) or "")) for world in self.worlds]
        return [self.play(world, player(self.case, name)) for world in self.worlds]

    @cached_property
    def unplayable(self) -> Trouble | None:
        """What keeps every episode from being played, whatever is said; None where some can be."""
        troubles = [each.trouble for each in self.floor]
        if not troubles or not all(each and each.kind != "lost" for each in troubles):
            return None
        said = ["a b c", "7", *self.golds(2)]
        tried = [self.play(world, always(text)) for world in self.worlds[:2] for text in said]
        return None if any(each.trouble is None for each in tried) else self.floor[0].trouble

    @cached_property
    def in_other_form(self) -> str | None:
        """What form the prompts would have to have, where the reward reads completions of that form only: it
        raises, or pays the same to all, with the form they have, and with the other it does not."""
        text = self.gold(self.worlds[0].item) or "a b c"
        here = [each for each in (*self.floor, *self.ceiling) if each.trouble is None]
        if len({round(each.reward, 9) for each in here}) > 1:
            return None
        for world in self.worlds[:TRIED]:
            changed = other_form(self.case, world)
            if changed is None:
                return None
            form, there = changed
            rewards = [play(self.case, there, always(each)) for each in (text, "", "a b c")]
            if all(each.trouble is None for each in rewards) and (
                not here or len({round(each.reward, 9) for each in rewards}) > 1
            ):
                return form
        return None

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
        said += self.golds(200)
        return list(dict.fromkeys(said))

    @cached_property
    def code_texts(self) -> list[str]:
        """The texts that stand in the task's own code; none of a shipped one."""
        return [] if self.case.own is None else texts_in(folder_of(self.case))

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
        known = [self.gold(episode.world.item), *(episode.said[:1] if len(set(episode.said)) == 1 else [])]
        own = self.case.own
        if own is not None and own.settings.success.compare in OF_TEXT:
            row = episode.world.item.hidden
            if isinstance(row, Mapping) and is_right(text, row, own.settings.success):
                return True
        return any(gold is not None and _alike(text, gold) for gold in known)

    def timed(self, seconds: float) -> Callable[[], bool]:
        """Return what says whether so many seconds from now, or all time, are over."""
        until = spent() + min(seconds, self.deadline.left)
        return lambda: spent() > until


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
    return check(name, "a look", "this examination").warning(OUT_OF_TIME, OTHERWISE)


LOST = "mend what it waits for, or raise task.timeout_s"
OUT_OF_TIME = "not looked at: there was no time left"
OTHERWISE = "--seconds 200, a faster grader, or the same again when the machine is less busy"
CHECKS = (
    "oracle beats floor",
    "trivial players",
    "hedging",
    "bad completions",
    "reward parts",
    "ending",
    "gold in prompt",
    "contradicting golds",
    "in a batch",
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
    "abilities",
    "secondary suites",
)
