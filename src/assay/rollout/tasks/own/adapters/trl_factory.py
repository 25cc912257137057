"""TRL's environment_factory: an object whose public methods are tools that the policy calls, and that pays.

A completion is a call, `{"name": "guess", "arguments": {"word": "fern"}}`, alone or in `<tool_call>` as Qwen
writes it; any other text is the last word, after which `get_reward()` pays. So does it when turns run out.
What a tool raises is told to the policy, as TRL does it. Where the object is a success after its last
turn, it may say so by a property `success`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import Field

from assay.core.config.base import Settings
from assay.core.errors import EnvironmentFailure
from assay.rollout.tasks.own.adapters import home_of, named
from assay.rollout.tasks.own.api import Environment, Message, Told
from assay.rollout.tasks.own.loading import NoReward, options_of
from assay.rollout.tasks.own.settings import OwnTask

WHERE = "assay.adapters:trl_factory"
_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


class Options(Settings):
    """What task.options say of an environment_factory."""

    entry: str = Field(
        pattern=r"^[\w./-]+\.py:\w+$", description="the factory: a class, or a function without arguments"
    )


def environments(settings: OwnTask, root: str) -> Callable[[], Environment]:
    """Return what makes an environment.

    Raises:
        ConfigError: There is no such factory.
    """
    options: Options = options_of(Options, settings, WHERE)
    factory, home = named(settings, root, options.entry), home_of(settings, root)
    return lambda: Tools(factory(), settings.max_turns, home)


class Tools(Environment):
    """An object of an environment_factory.

    Args:
        made: The object.
        max_turns: Completions of an episode, after which it pays.
        home: Module in which players stand.
    """

    def __init__(self, made: Any, max_turns: int, home: str | None) -> None:
        self._made, self._max_turns, self.home = made, max_turns, home
        methods = inspect.getmembers(type(made), inspect.isfunction)  # on the class: no property is evaluated
        own = [name for name, _ in methods if name not in ("reset", "get_reward") and name[0] != "_"]
        self._tools = {name: getattr(made, name) for name in own}

    def reset(self, row: Mapping[str, Any], seed: int) -> list[Message]:
        """Return the record's prompt, and at its end what the object tells."""
        self._turn = 0
        told = _awaited(self._made.reset(**row))
        prompt = row.get("prompt", "")
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        if told is not None:
            if not isinstance(told, str):
                raise TypeError(f"reset returned {type(told).__name__}, not a text or None")
            messages[-1] = messages[-1] | {"content": messages[-1]["content"] + told}
        return messages

    def step(self, completion: str) -> Told:
        """Call a tool, or end the episode."""
        self._turn += 1
        called = _call_of(completion)
        if called is None:
            return self._paid(None)
        name, arguments = called
        failure = None
        try:
            if name not in self._tools:
                raise ValueError(f"Tool {name} not found.")
            told = str(_awaited(self._tools[name](**arguments)))
        except EnvironmentFailure:
            raise
        except Exception as error:  # noqa: BLE001 - as TRL has it: what a tool raises is told
            failure = str(error) or type(error).__name__
            told = str({"error": str(error)})
        return self._paid(failure) if self._turn >= self._max_turns else Told(told, failure=failure)

    def _paid(self, failure: str | None) -> Told:
        reward = _awaited(self._made.get_reward())
        if reward is None:
            raise NoReward("get_reward() is None")
        success = getattr(self._made, "success", None)
        return Told(None, float(reward), success if isinstance(success, bool) else None, failure)


def _awaited(value: Any) -> Any:
    return asyncio.run(value) if inspect.iscoroutine(value) else value


def _call_of(completion: str) -> tuple[str, dict[str, Any]] | None:
    """Return the tool and arguments of a call; None for any other text.

    >>> _call_of('{"name": "guess", "arguments": {"word": "fern"}}'), _call_of("fern")
    (('guess', {'word': 'fern'}), None)
    """
    wrapped = _CALL.search(completion)
    try:
        found = json.loads(wrapped.group(1) if wrapped else completion)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        return None
    arguments = found.get("arguments", {})
    return (found["name"], arguments) if isinstance(arguments, dict) else None
