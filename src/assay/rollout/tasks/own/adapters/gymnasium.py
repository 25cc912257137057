"""Environments of gymnasium: words for actions, and an observation told by a function of the task's folder.

A record may hold `seed` and `options`, which reset is given, and `kwargs` the environment is made with.

Source: Towers et al. (2024), Gymnasium: a standard interface for reinforcement learning environments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from assay.core.config.base import Settings
from assay.core.errors import ConfigError
from assay.core.storage.json import digest
from assay.rollout.tasks.own.adapters import called, home_of, imported, named
from assay.rollout.tasks.own.api import Environment, Generated, Told
from assay.rollout.tasks.own.loading import options_of
from assay.rollout.tasks.own.settings import OwnTask

WHERE = "assay.adapters:gymnasium"
OF_WORLD = frozenset({"id", "seed", "options", "kwargs"})  # columns that reset and make are given


class Options(Settings):
    """What task.options say of an environment of gymnasium."""

    id: str = Field(description="as gymnasium.make takes it", examples=["FrozenLake-v1"])
    kwargs: dict[str, Any] = Field(default={}, description="it is made with, beside those of a record")
    text: str = Field(
        pattern=r"^[\w./-]+\.py:\w+$",
        description="function that tells an observation; takes what it needs of observation, info, row,"
        " environment and turn by name",
    )
    actions: Annotated[list[str], Field(min_length=1)] | dict[str, Any] = Field(
        description="words, of actions in their order, or each with its action"
    )
    no_action: Literal["turn", "end"] = Field(
        default="turn", description="what a text costs that is the word of no action: a turn, or the episode"
    )
    success: str | None = Field(default=None, description="what of info says whether an episode succeeded")


def environments(settings: OwnTask, root: str) -> Callable[[], Environment]:
    """Return what makes an environment.

    Raises:
        ConfigError: gymnasium is not installed, knows no such environment, or the options are refused.
    """
    options: Options = options_of(Options, settings, WHERE)
    gymnasium = imported("gymnasium", extra="gymnasium", package="gymnasium")
    if isinstance(options.actions, list):
        actions: dict[str, Any] = {word: number for number, word in enumerate(options.actions)}
    else:
        actions = dict(options.actions)
    try:
        gymnasium.spec(options.id)
    except Exception as error:  # its own errors, and those of a module that an id names
        fix = "task.options.id: one of gymnasium.envs.registry"
        raise ConfigError(
            "an environment of gymnasium", found=str(error), where="task.options.id", fix=fix
        ) from error
    tell, home = named(settings, root, options.text), home_of(settings, root)
    return lambda: Played(gymnasium.make, options, actions, tell, home)


class Played(Generated, Environment):
    """One environment of gymnasium, and its last observation.

    Args:
        make: gymnasium.make.
        options: Of the settings.
        actions: By their words.
        tell: Function that tells an observation.
        home: Module in which players stand.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        options: Options,
        actions: Mapping[str, Any],
        tell: Callable[..., Any],
        home: str | None,
    ) -> None:
        self._make, self.options, self._tell, self.home = make, options, tell, home
        self._actions = {word.casefold(): action for word, action in actions.items()}
        self._made: tuple[str, Any] | None = None

    def generate(
        self, rows: Sequence[Mapping[str, Any]], rng: np.random.Generator, n: int
    ) -> list[dict[str, Any]] | None:
        """Return the rows' worlds under new seeds; None where a row holds more than its world's seed, which
        only who made it can make again."""
        if any("seed" not in row or row.keys() - OF_WORLD for row in rows):
            return None
        picked = [rows[place] for place in rng.integers(len(rows), size=n).tolist()]
        seeds = rng.integers(2**32, size=n).tolist()
        return [{**row, "seed": seed} for row, seed in zip(picked, seeds, strict=True)]

    def reset(self, row: Mapping[str, Any], seed: int) -> str:
        """Begin an episode; a record's own seed goes before the world's."""
        self._row, self._turn = row, 0
        self._env = self._opened(self.options.kwargs | row.get("kwargs", {}))
        first = row.get("seed", seed)
        self._seen, self._info = self._env.reset(seed=int(first) % 2**32, options=row.get("options"))
        return self._told()

    def _opened(self, kwargs: dict[str, Any]) -> Any:
        key = digest(kwargs)
        if self._made is None or self._made[0] != key:
            self.close()
            env = self._make(self.options.id, disable_env_checker=True, **kwargs)
            for word, action in self._actions.items():
                if not env.action_space.contains(action):
                    raise TypeError(f"action {action!r} of the word {word!r} is not in {env.action_space}")
            self._made = key, env
        return self._made[1]

    def _told(self) -> str:
        known = {"observation": self._seen, "info": self._info, "row": self._row, "turn": self._turn}
        told: str = called(self._tell, known | {"environment": self._env.unwrapped})
        return told

    def step(self, completion: str) -> Told:
        """Play the action of a word."""
        word = completion.strip().casefold()
        self._turn += 1
        if word not in self._actions:
            ends = self.options.no_action == "end"
            return Told(None if ends else self._told(), 0.0, False if ends else None, failure="no action")
        self._seen, reward, terminated, truncated, self._info = self._env.step(self._actions[word])
        over = bool(terminated or truncated)
        success = None
        if self.options.success is not None and over:
            success = bool(self._info.get(self.options.success, False))
        return Told(None if over else self._told(), float(reward), success)

    def close(self) -> None:
        """Close the environment."""
        if self._made is not None:
            self._made[1].close()
            self._made = None
