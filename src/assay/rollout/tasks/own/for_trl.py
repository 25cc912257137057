"""A reward function of assay's as TRL's GRPOTrainer takes one: a number for each completion, parts logged by
name."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay.core.config.tasks import Wrapping
from assay.rollout.tasks.own.loading import NoReward, parts_of, taken
from assay.rollout.tasks.wrappings import cut_off, read_message

PART = "parts/{}"  # by which name TRL logs the mean of a part


def as_trl(
    reward: Callable[..., Any], *, options: Any = None, cut: Sequence[Wrapping] = ()
) -> Callable[..., Any]:
    """Return a reward function for GRPOTrainer; it is called with a batch, as TRL calls any.

    Rewards are the sums of their parts, whose means TRL logs as `parts/NAME`. Of a completion without a
    reward, or with a part that is None, TRL is given None. A coroutine function stays one.

    Args:
        reward: As docs/own-task.md has it.
        options: What `task.options` are read as, for a function that takes `options`.
        cut: What `task.cut` cuts off each completion.

    Raises:
        TypeError: When called: what the function returned is no reward.
    """
    takes, takes_all, more, _ = taken(reward)

    def given(completions: Sequence[Any], columns: Mapping[str, Any]) -> dict[str, Any]:
        all_ = {**columns, "completions": [_bare(each, cut) for each in completions] if cut else completions}
        all_ |= {"options": options} if "options" in more else {}
        return all_ if takes_all else {name: all_[name] for name in takes if name in all_}

    def told(found: Any, completions: Sequence[Any], columns: Mapping[str, Any]) -> list[float | None]:
        return _summed(found, len(completions), columns.get("log_metric"))

    if inspect.iscoroutinefunction(reward) or inspect.iscoroutinefunction(type(reward).__call__):

        async def awaited(completions: Sequence[Any], **columns: Any) -> list[float | None]:
            return told(await reward(**given(completions, columns)), completions, columns)

        return _named(awaited, reward)

    def called(completions: Sequence[Any], **columns: Any) -> list[float | None]:
        found = reward(**given(completions, columns))
        if inspect.iscoroutine(found):
            found = asyncio.run(found)
        return told(found, completions, columns)

    return _named(called, reward)


def _named(function: Callable[..., Any], reward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function under the name by which TRL logs the other."""
    while isinstance(reward, functools.partial):
        reward = reward.func
    function.__name__ = getattr(reward, "__name__", type(reward).__name__)
    return function


def _bare(completion: Any, cut: Sequence[Wrapping]) -> Any:
    if isinstance(completion, str):
        return cut_off(completion, cut)
    return [{**message, "content": cut_off(read_message(message)[0] or "", cut)} for message in completion]


def _summed(found: Any, n: int, log: Callable[[str, float], None] | None) -> list[float | None]:
    """Return a reward for each completion, None where there is none, and tell the mean of each part."""
    if isinstance(found, Mapping):
        found = _by_completion(found, n)
    sums, parts = list[float | None](), defaultdict[str, list[float]](list)
    for each in found.tolist() if hasattr(found, "tolist") else found:
        try:
            paid = parts_of([each])
        except NoReward:
            sums.append(None)
            continue
        if isinstance(paid, Mapping):
            for name, value in paid.items():
                parts[name].append(value)
        sums.append(sum(paid.values()) if isinstance(paid, Mapping) else paid)
    for name, values in parts.items():
        if log is not None:
            log(PART.format(name), sum(values) / len(values))
    return sums


def _by_completion(found: Mapping[str, Any], n: int) -> list[dict[str, Any]]:
    """Return the parts of each completion from a list of each part.

    Raises:
        TypeError: A list has not one number for each.
    """
    lists = {name: each.tolist() if hasattr(each, "tolist") else each for name, each in found.items()}
    for name, each in lists.items():
        if not isinstance(each, Sequence) or len(each) != n:
            raise TypeError(f"{name} is no list with a number for each of {n} completions")
    return [{name: each[k] for name, each in lists.items()} for k in range(n)]
