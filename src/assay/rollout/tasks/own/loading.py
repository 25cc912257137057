"""From settings to environments: somebody's file is imported here, a reward function made an environment."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel, ValidationError

from assay.core.errors import ConfigError
from assay.rollout.tasks.own import api
from assay.rollout.tasks.own.api import Batched, Environment, Message, Told
from assay.rollout.tasks.own.mixins import refuse_abilities
from assay.rollout.tasks.own.settings import OwnTask

ADAPTERS = "assay.adapters:"
# Where the files of tasks imported from before there was `assay.rollout`; they need not be changed.
sys.modules.setdefault("assay.tasks.own.api", api)
IMPORTED = "assay_own_"  # what names of imported files begin with
# What TRL passes to a reward function beside the columns, as far as there is such a thing for a text alone.
OF_TRL = {"trainer_state": None, "log_extra": lambda *_: None, "log_metric": lambda *_: None}


def load(settings: OwnTask, root: str) -> Callable[[], Environment]:
    """Return what makes an environment of the entry, with its options read.

    Raises:
        ConfigError: There is no such file, or name in it; it cannot be imported; options are refused.
    """
    if settings.entry.startswith(ADAPTERS):
        return _adapter(settings, root)
    module, name = module_of(settings, root), settings.entry.rpartition(":")[2]
    found = getattr(module, name, None)
    where = f"{settings.code}/{settings.entry.partition(':')[0]}"
    if not callable(found):
        there = [key for key, value in vars(module).items() if _is_of(value, module) and key[0] != "_"]
        fix = f"task.entry: one of {', '.join(there) or 'its functions, of which it has none'}"
        raise ConfigError(f"a function or class {name}", found="none", where=where, fix=fix)
    if isinstance(found, type):
        if not issubclass(found, Environment):
            fix = "class NAME(Environment), of assay.rollout"
            raise ConfigError("a class of Environment", found=f"class {name}", where=where, fix=fix)
        _refuse_players(settings, found, where)
        refuse_abilities(settings, found, where)
        return lambda: _opened(found, settings, where)
    _refuse_players(settings, module, where)
    refuse_abilities(settings, module, where)
    options = options_of(getattr(module, "Options", None), settings, where)
    _refuse_reward(found, name, where)
    return lambda: RewardFunction(found, options)


def _refuse_players(settings: OwnTask, home: Any, where: str) -> None:
    for name in settings.players:
        if not callable(getattr(home, name, None)):
            there = [key for key, value in vars(home).items() if key[0] != "_" and inspect.isfunction(value)]
            raise ConfigError(
                f"a player {name}, as task.players names it",
                found=", ".join(there) or "no function",
                where=where,
                fix=f"def {name}(rng): return a text; or correct task.players",
            )


def _adapter(settings: OwnTask, root: str) -> Callable[[], Environment]:
    name = settings.entry.removeprefix(ADAPTERS)
    try:
        module = importlib.import_module(f"assay.rollout.tasks.own.adapters.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("assay."):
            raise
        fix = "reasoning_gym, gymnasium, openenv, trl_factory or verifiers"
        raise ConfigError("an adapter", found=name, where="task.entry", fix=fix) from None
    if settings.abilities:
        refuse_abilities(settings, module_of(settings, root, "task.py"), f"{settings.code}/task.py")
    made: Callable[[OwnTask, str], Callable[[], Environment]] = module.environments
    return made(settings, root)


def module_of(settings: OwnTask, root: str, file: str | None = None) -> ModuleType:
    """Return a file of the task's folder as a module; of equal path and content it is imported once.

    Raises:
        ConfigError: There is no such file, or importing it fails.
    """
    file = file or settings.entry.partition(":")[0]
    folder = Path(root) / settings.code
    path = (folder / file).resolve()
    if not path.is_file():
        there = ", ".join(sorted(each.name for each in folder.glob("*.py"))) or "no .py file"
        fix = "correct task.code or task.entry, or ./run assay task new NAME"
        raise ConfigError(f"a file {settings.code}/{file}", found=there, where="task.entry", fix=fix)
    key = hashlib.sha256(str(path).encode() + path.read_bytes()).hexdigest()[:16]
    name = f"{IMPORTED}{path.stem}_{key}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(folder.resolve()) not in sys.path:  # what stands beside it may be imported by name
        sys.path.append(str(folder.resolve()))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # somebody's code may raise anything
        del sys.modules[name]
        line = _line_in(error, path)
        raise ConfigError(
            "a file that can be imported",
            found=f"{type(error).__name__}: {error}",
            where=f"{settings.code}/{file}{line}",
            fix="mend it, or install what it imports and name that in task.requires",
        ) from error
    return module


def _is_of(value: Any, module: ModuleType) -> bool:
    return callable(value) and getattr(value, "__module__", None) == module.__name__


def _line_in(error: BaseException, path: Path) -> str:
    at, traceback = "", error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == str(path):
            at = f", line {traceback.tb_lineno}"
        traceback = traceback.tb_next
    return at


def options_of(declared: Any, settings: OwnTask, where: str) -> Any:
    """Return task.options as the entry's own model reads them; as they are where it declares none.

    Raises:
        ConfigError: The model refuses them, or there is none and options are given.
    """
    if declared is None:
        if settings.options:
            fix = f"declare class Options(pydantic.BaseModel) in {where}, or remove task.options"
            raise ConfigError("no options", found=", ".join(settings.options), where="task.options", fix=fix)
        return None
    assert issubclass(declared, BaseModel)
    try:
        return declared.model_validate(settings.options)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(["task.options", *map(str, first["loc"])])
        raise ConfigError(
            first["msg"], found=repr(first.get("input"))[:80], where=place, fix=f"see Options in {where}"
        ) from None


def _opened(kind: type[Environment], settings: OwnTask, where: str) -> Environment:
    made = kind()
    made.options = options_of(kind.Options, settings, where)
    return made


def _refuse_reward(function: Callable[..., Any], name: str, where: str) -> None:
    """Refuse a function that cannot be called as TRL calls it, or grades tokens, which kept texts lack."""
    parameters = inspect.signature(function).parameters
    takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    if {"solution_str", "ground_truth"} <= parameters.keys():
        source = "data_source=None, " if "data_source" in parameters else ""
        fix = (
            "add to the file, and name as task.entry: def reward(completions, answer, **kwargs): return"
            f" [{name}({source}solution_str=c if isinstance(c, str) else c[0]['content'], ground_truth=a)"
            " for c, a in zip(completions, answer)]"
        )
        raise ConfigError(
            "a function of lists, as TRL calls it",
            found="one of single answers, as verl calls it",
            where=f"{where}:{name}",
            fix=fix,
        )
    if "completions" not in parameters and not takes_all:
        fix = f"def {name}(completions, **kwargs)"
        raise ConfigError(
            "a parameter completions", found=", ".join(parameters), where=f"{where}:{name}", fix=fix
        )
    needs = parameters.get("completion_ids")
    if needs is not None and needs.default is inspect.Parameter.empty:
        raise ConfigError(
            "a function of texts",
            found="one that needs completion_ids",
            where=f"{where}:{name}",
            fix="take completions",
        )


class RewardFunction(Environment, Batched):
    """TRL's reward function as an environment of one turn.

    Args:
        function: Takes prompts, completions and columns by name, all lists; returns a list of numbers, of
            dicts of named parts, or of None (lost); may be a coroutine function.
        options: Given as `options` where the function takes it.
    """

    def __init__(self, function: Callable[..., Any], options: Any) -> None:
        self.function, self.options = function, options
        self.home = function.__module__  # where players stand
        self._takes, self._takes_all, self._takes_more, self._needs = taken(function)

    def reset(self, row: Mapping[str, Any], seed: int) -> str | list[Message]:
        """Return the record's prompt."""
        self._row = row
        opening: str | list[Message] = row["prompt"]
        return opening

    def step(self, completion: str) -> Told:
        """Grade the one completion.

        Raises:
            NoReward: The function returned None for it.
            NoColumn: It asks for a column that the record lacks.
            TypeError: What it returned is no reward.
        """
        return Told(None, parts_of(self.called([self._row], [completion])))

    @staticmethod
    def step_batch(environments: Sequence[Any], completions: Sequence[str]) -> Sequence[Told]:
        """Grade the completions in one call."""
        found = environments[0].called([each._row for each in environments], completions)
        return [Told(None, each) for each in rewards_of(found, len(completions))]

    def called(self, rows: Sequence[Mapping[str, Any]], completions: Sequence[str]) -> Any:
        """Return what the function says of completions, one of each row, in one call.

        Raises:
            NoColumn: It asks for a column that the rows lack.
        """
        prompts = [row["prompt"] for row in rows]
        names = dict.fromkeys(name for row in rows for name in row if name != "prompt")
        given: dict[str, Any] = {name: [row.get(name) for row in rows] for name in names}
        given["prompts"] = prompts
        given["completions"] = [
            said if isinstance(prompt, str) else _spoken(said)
            for said, prompt in zip(completions, prompts, strict=True)
        ]
        for name in self._takes_more:
            given[name] = self.options if name == "options" else OF_TRL[name]
        if lost := [name for name in self._needs if name not in given]:
            raise NoColumn(f"it asks for the column {', '.join(lost)}; records have {', '.join(rows[0])}")
        if not self._takes_all:
            given = {name: given[name] for name in self._takes if name in given}
        found = self.function(**given)
        return asyncio.run(found) if inspect.iscoroutine(found) else found


@functools.lru_cache(maxsize=64)
def taken(function: Callable[..., Any]) -> tuple[tuple[str, ...], bool, tuple[str, ...], tuple[str, ...]]:
    """Return the names of parameters, whether all others are taken too, which are no columns, and which have
    to be given."""
    parameters = inspect.signature(function).parameters
    takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    more = tuple(name for name in (*OF_TRL, "options") if name in parameters)
    free = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    needs = tuple(
        name for name, each in parameters.items() if each.default is each.empty and each.kind not in free
    )
    return tuple(parameters), takes_all, more, needs


def _spoken(completion: str) -> list[Message]:
    return [{"role": "assistant", "content": completion}]


class NoColumn(TypeError):
    """A reward function asks for what the records do not have."""


class NoReward(Exception):
    """A reward of None: it could not be told, and nothing is rewarded 0 for it."""


def rewards_of(found: Any, n: int) -> list[Mapping[str, float] | float]:
    """Return the rewards of n completions that were graded in one call.

    Raises:
        NoReward: One is None.
        TypeError: They are no list of n numbers or dicts of numbers, or dict of such lists.
    """
    values = found.tolist() if hasattr(found, "tolist") else found
    if isinstance(values, Mapping):
        lists = {str(name): list(each) for name, each in values.items()}
        if any(len(each) != n for each in lists.values()):
            raise TypeError(f"other than {n} numbers for {n} completions")
        return [parts_of({name: [each[k]] for name, each in lists.items()}) for k in range(n)]
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != n:
        raise TypeError(f"other than {n} numbers for {n} completions")
    return [parts_of([value]) for value in values]


def parts_of(found: Any) -> Mapping[str, float] | float:
    """Return the one reward of a list of one; a dict of lists is of named parts.

    Raises:
        NoReward: It is None.
        TypeError: It is no list of one number or of one dict of numbers.
    """
    if type(found) is list and len(found) == 1 and type(found[0]) is float:
        return found[0]
    if isinstance(found, Mapping):
        return {str(name): _only(value, str(name)) for name, value in found.items()}
    if (
        isinstance(found, Sequence)
        and not isinstance(found, str)
        and len(found) == 1
        and isinstance(found[0], Mapping)
    ):
        return {str(name): _number(value, str(name)) for name, value in found[0].items()}
    return _only(found, "reward")


def _only(found: Any, name: str) -> float:
    values = found.tolist() if hasattr(found, "tolist") else found
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise TypeError(f"{name} is {type(found).__name__}, not a list with a number for each completion")
    if len(values) != 1:
        raise TypeError(f"{name} has {len(values)} numbers for 1 completion")
    return _number(values[0], name)


def _number(value: Any, name: str) -> float:
    if value is None:
        raise NoReward(f"{name} is None")
    if hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, int | float):
        raise TypeError(f"{name} is {type(value).__name__}, not a number")
    return float(value)
