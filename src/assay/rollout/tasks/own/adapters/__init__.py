"""Adapters: environments and data sets of other packages, which are imported only when one is asked for."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from assay.core.errors import ConfigError
from assay.rollout.tasks.own.loading import module_of
from assay.rollout.tasks.own.settings import OwnTask

INSTALL = (
    "./run python -m pip install --require-hashes --no-deps --no-build-isolation -r requirements/{extra}.txt"
)


def imported(module: str, *, extra: str, package: str) -> ModuleType:
    """Return somebody's package.

    Raises:
        ConfigError: It, or something that it imports, is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        fix = INSTALL.format(extra=extra)
        raise ConfigError(f"the package {package}", found=str(error), where="task.entry", fix=fix) from error


def named(settings: OwnTask, root: str, place: str) -> Callable[..., Any]:
    """Return a function of the task's folder, named as FILE.py:FUNCTION.

    Raises:
        ConfigError: There is none.
    """
    file, _, name = place.rpartition(":")
    found = getattr(module_of(settings, root, file), name, None)
    if not callable(found):
        raise ConfigError(
            f"a function {name}", found="none", where=f"{settings.code}/{file}", fix="see task.options"
        )
    return found  # type: ignore[no-any-return]


def called(function: Callable[..., Any], known: dict[str, Any]) -> Any:
    """Return what a function gives for those of the known values that it takes by name."""
    parameters = inspect.signature(function).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return function(**known)
    return function(**{name: known[name] for name in parameters if name in known})


def home_of(settings: OwnTask, root: str) -> str | None:
    """Return the name of the module in which an adapter's players and abilities stand, task.py of the task's
    folder; None where the settings name none."""
    named_ = settings.players or settings.abilities
    return module_of(settings, root, "task.py").__name__ if named_ else None
