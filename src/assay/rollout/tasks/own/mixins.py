"""The mix-ins of a task by the names of `task.abilities`: looked for in its code, and answered as JSON."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from assay.core.errors import ConfigError
from assay.rollout.tasks.own.api import (
    AnswerKey,
    Batched,
    Environment,
    Generated,
    Illustrated,
    JsonAnswers,
    Records,
    Shaped,
    Taught,
    Told,
)
from assay.rollout.tasks.own.calls import Ask
from assay.rollout.tasks.own.settings import Ability, OwnTask

MIXINS: Mapping[Ability, type] = {
    "answer_key": AnswerKey,
    "schema": JsonAnswers,
    "teach": Taught,
    "illustrate": Illustrated,
    "batch_step": Batched,
    "shape": Shaped,
    "records": Records,
    "generate": Generated,
}
_VALUES = ("plane", "marks")  # of Illustrated, which are no methods
_OWNER: Mapping[str, type] = {
    name: mixin
    for mixin in MIXINS.values()
    for name in (*vars(mixin), *(_VALUES if mixin is Illustrated else ()))
    if name[0] != "_"
}
# What is asked in a moment of an episode; all else of a record, or of the task.
OF_MOMENT = frozenset({"picture", "mark", "spent", "potential"})

StepBatch = Callable[[Sequence[Any], Sequence[str]], Sequence[Told]]


def refuse_abilities(settings: OwnTask, home: type | ModuleType, where: str) -> None:
    """Refuse an ability that is declared and not there, or of a class there and not declared.

    Args:
        settings: Of the task.
        home: Its class, or the file of its reward function or of an adapter's players.
        where: That file.

    Raises:
        ConfigError: Names what is missing.
    """
    for name, mixin in MIXINS.items():
        declared, out = name in settings.abilities, f"take {name} out of task.abilities"
        if isinstance(home, type):
            if issubclass(home, mixin) and not declared:
                fix = f"task.abilities: [{', '.join([*settings.abilities, name])}]"
                found = ", ".join(settings.abilities) or "none"
                raise ConfigError(f"{name} among task.abilities", found=found, where=where, fix=fix)
            if declared and not issubclass(home, mixin):
                fix = f"class {home.__name__}({mixin.__name__}, Environment), of assay.rollout; or {out}"
                raise ConfigError(
                    f"a class of {mixin.__name__}", found=f"class {home.__name__}", where=where, fix=fix
                )
        elif mixin is Batched and not settings.entry.startswith("assay.adapters:"):
            continue  # a reward function is one: TRL calls it with a batch
        if declared:
            needed = [each for each, owner in _OWNER.items() if owner is mixin]
            there = [each for each in needed if _stands_in(home, each)]
            always = {*getattr(mixin, "__abstractmethods__", ()), *(_VALUES if mixin is Illustrated else ())}
            if lost := sorted(always - {*there}) or ([] if there else needed):
                fix = f"define {lost[0]} as assay.rollout describes it; or {out}"
                raise ConfigError(f"{name}: {', '.join(lost)}", found="none", where=where, fix=fix)


def _stands_in(home: type | ModuleType, name: str) -> bool:
    found = getattr(home, name, None)
    return found is not None and not getattr(found, "__isabstractmethod__", False)


def answered(environment: Environment, ask: Ask) -> str:
    """Return what a method of a mix-in gives, as JSON.

    Raises:
        TypeError: There is no such method, or what it gives is no JSON.
        ValueError: It holds no finite number.
    """
    side, known = _side(environment, ask.player), json.loads(ask.given or "{}")
    found = getattr(side, ask.player)
    if callable(found):
        known |= {"row": ask.call.row, "completions": list(ask.call.completions)}
        known["rng"] = np.random.default_rng(ask.seed)
        parameters = inspect.signature(found).parameters
        found = found(**{name: known[name] for name in parameters if name in known})
    return json.dumps(found, default=_plain, allow_nan=False)


def step_batch_of(environment: Environment) -> StepBatch:
    """Return what steps many environments at once."""
    found: StepBatch = _side(environment, "step_batch").step_batch
    return found


def _side(environment: Environment, name: str) -> Any:
    if name not in _OWNER:
        raise TypeError(f"no mix-in has {name}")
    home = getattr(environment, "home", None)
    # What stands in the file of a task goes before what an adapter brings.
    in_file = isinstance(home, str) and hasattr(sys.modules.get(home), name)
    if isinstance(environment, _OWNER[name]) and not in_file:
        return environment
    if not isinstance(home, str):
        raise TypeError(f"{type(environment).__name__} is no {_OWNER[name].__name__}")
    return _of_file(home, _OWNER[name])


@functools.lru_cache(maxsize=64)
def _of_file(module: str, mixin: type) -> Any:
    """Return an instance of a mix-in whose methods are the functions of a file."""
    there = vars(sys.modules[module])
    own = {name: there[name] for name, owner in _OWNER.items() if owner is mixin and name in there}
    return type(
        mixin.__name__, (mixin,), {k: staticmethod(v) if callable(v) else v for k, v in own.items()}
    )()


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON")
