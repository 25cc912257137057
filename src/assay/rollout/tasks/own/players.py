"""Players that a task brings along, called with what they ask for by name."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from assay.rollout.tasks.own.api import Environment
from assay.rollout.tasks.own.calls import Ask, Reply
from assay.rollout.tasks.own.loading import IMPORTED


def move(environment: Environment, ask: Ask, told: Reply, rng: np.random.Generator) -> str:
    """Return what a player says next.

    Raises:
        TypeError: There is no such player, it asks for what is not there, or says no text.
    """
    player = player_of(environment, ask.player)
    observation = told.messages[-1]["content"] if told.messages else ""
    known: dict[str, Any] = dict(ask.call.row)
    known |= {"row": ask.call.row, "observation": observation, "messages": list(told.messages), "rng": rng}
    known["completions"] = list(ask.call.completions)
    parameters = inspect.signature(player).parameters
    wanted = [
        name for name, each in parameters.items() if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]
    if lost := [
        name for name in wanted if name not in known and parameters[name].default is inspect.Parameter.empty
    ]:
        raise TypeError(f"it asks for {', '.join(lost)}; there are {', '.join(known)}")
    takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    said = player(**(known if takes_all else {name: known[name] for name in wanted if name in known}))
    if not isinstance(said, str):
        raise TypeError(f"it said {type(said).__name__}, not a text")
    return said


def player_of(environment: Environment, name: str) -> Callable[..., Any]:
    """Return a player: a method of the environment, or a function of its `home`, the file of a reward
    function or of an adapter's players.

    Raises:
        TypeError: There is none of this name.
    """
    file = getattr(environment, "home", None)
    home: Any = environment
    if isinstance(file, str) and file.startswith(IMPORTED):
        home = sys.modules[file]
    found = getattr(home, name, None)
    if not callable(found):
        raise TypeError("there is no function of this name")
    return found  # type: ignore[no-any-return]
