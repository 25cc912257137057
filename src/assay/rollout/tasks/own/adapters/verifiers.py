"""Task sets of verifiers (its v1) of one turn, without sandbox: prompts frozen as records, rewards scored.

`python -m assay.rollout.tasks.own.adapters.verifiers TASKSET data/NAME --config JSON` freezes them. A record
holds the data of its task as `data`, by which the package scores. Rewards that need a running sandbox are
refused. Parts are the names of the task set's rewards, weighted as it says.

Source: verifiers 0.4, verifiers.v1.taskset and verifiers.v1.task.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import inspect
import json
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import Field

from assay.core.config.base import Settings
from assay.core.console import complain, say
from assay.core.errors import AssayError, ConfigError
from assay.rollout.tasks.own.adapters import home_of, imported
from assay.rollout.tasks.own.adapters.freeze import TRIES, distinct, through_json, write_splits
from assay.rollout.tasks.own.api import Environment, Message, Told
from assay.rollout.tasks.own.loading import NoReward, options_of
from assay.rollout.tasks.own.settings import OwnTask

WHERE = "assay.adapters:verifiers"


class Options(Settings):
    """What task.options say of a task set of verifiers."""

    taskset: str = Field(description="its id, a package that exports it", examples=["gsm8k"])
    config: dict[str, Any] = Field(default={}, description="of the task set")


def environments(settings: OwnTask, root: str) -> Callable[[], Environment]:
    """Return what makes an environment of one task.

    Raises:
        ConfigError: verifiers, or the task set, is not installed, takes other options, or needs more than a
            reply.
    """
    options: Options = options_of(Options, settings, WHERE)
    taskset, home = _loaded(options), home_of(settings, root)
    package = imported("verifiers.v1", extra="verifiers", package="verifiers==0.4.0")
    kind = package.task_type(options.taskset)
    if kind.NEEDS_CONTAINER:
        fix = "a task set of one turn whose rewards read the reply alone"
        raise ConfigError("tasks that need no sandbox", found=kind.__name__, where="task.options", fix=fix)
    return lambda: OneTurn(package, kind, taskset.config.task, home)


def _loaded(options: Options) -> Any:
    package = imported("verifiers.v1", extra="verifiers", package="verifiers==0.4.0")
    try:
        config = package.taskset_config_type(options.taskset)(id=options.taskset, **options.config)
        return package.load_taskset(config)
    except Exception as error:  # a task set is somebody's code
        fix = "install the package that exports it, and see its config"
        found = f"{options.taskset}: {type(error).__name__}: {error}"
        raise ConfigError("a task set of verifiers", found=found, where="task.options", fix=fix) from error


class OneTurn(Environment):
    """One task: a prompt, a reply, rewards.

    Args:
        package: verifiers.v1.
        kind: Class of its tasks.
        config: Of a task.
        home: Module in which players stand.
    """

    def __init__(self, package: Any, kind: Any, config: Any, home: str | None) -> None:
        self._package, self._kind, self._config, self.home = package, kind, config, home

    def reset(self, row: Mapping[str, Any], seed: int) -> list[Message]:
        """Return the task's prompt."""
        self._task = self._kind(self._kind.data_type().model_validate(row["data"]), self._config)
        for reward in self._task.hooks("reward"):
            needed = inspect.signature(reward).parameters.get("runtime")
            if needed is not None and needed.default is inspect.Parameter.empty:
                raise TypeError(f"the reward {reward.__name__} needs a sandbox, and there is none")
        return messages_of(self._task.data)

    def step(self, completion: str) -> Told:
        """Score the reply."""
        package, task = self._package, self._task
        state_cls = importlib.import_module("verifiers.v1.state").state_cls
        trace = package.Trace(
            task=package.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
            state=state_cls(type(task))(),
            agent=package.AgentInfo(config=package.AgentConfig()),
        )
        for message in messages_of(task.data):
            made = {"user": package.UserMessage, "system": package.SystemMessage}[message["role"]]
            self._said(trace, made(content=message["content"]), sampled=False)
        self._said(trace, package.AssistantMessage(content=completion), sampled=True)
        asyncio.run(task.score(trace))
        lost = [name for name, reward in trace.rewards.items() if reward is None]
        if lost:
            raise NoReward(f"{', '.join(lost)}: no score")
        return Told(None, {name: reward.value for name, reward in trace.rewards.items()})

    def _said(self, trace: Any, message: Any, *, sampled: bool) -> None:
        parent = len(trace.nodes) - 1 if trace.nodes else None
        trace.nodes.append(self._package.MessageNode(parent=parent, message=message, sampled=sampled))


def messages_of(data: Any) -> list[Message]:
    """Return the prompt of a task's data."""
    said = [{"role": "system", "content": data.system_prompt}] if data.system_prompt else []
    if isinstance(data.prompt, str):
        return [*said, {"role": "user", "content": data.prompt}]
    return [*said, *({"role": each.role, "content": str(each.content)} for each in data.prompt or [])]


def main(arguments: list[str] | None = None) -> int:
    """Freeze a task set; returns the exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m {__name__}", description=__doc__.split("\n")[0])
    parser.add_argument("taskset")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--config", type=json.loads, default={}, metavar="JSON")
    for split, size in (("train", 2048), ("validation", 256), ("heldout", 512)):
        parser.add_argument(f"--{split}", type=int, default=size)
    asked = parser.parse_args(arguments)
    sizes = {split: getattr(asked, split) for split in ("train", "validation", "heldout")}
    try:
        taskset = _loaded(Options(taskset=asked.taskset, config=asked.config))
        total = sum(sizes.values())
        rows = distinct(map(_record, islice(taskset, TRIES * total)), set(), total, asked.taskset)
        splits, start = {}, 0
        for split, size in sizes.items():
            splits[split] = rows[start : start + size]
            start += size
        write_splits(asked.folder, splits)
    except AssayError as error:
        complain(str(error))
        return 2
    say(f"{asked.folder}: {', '.join(f'{split} {len(found)}' for split, found in splits.items())}")
    return 0


def _record(task: Any) -> dict[str, Any]:
    data = through_json(task.data.model_dump(mode="json", exclude_defaults=True), str(task.data.idx))
    row = {"prompt": task.data.prompt_text, "data": data}
    answer = data.get("answer")
    return row | {"answer": answer} if isinstance(answer, str) else row


if __name__ == "__main__":
    raise SystemExit(main())
