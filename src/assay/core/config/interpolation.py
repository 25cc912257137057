"""Settings are plain values: what `${...}` would put in their place may be a secret of this machine.

Hydra resolves it into params.yaml, which is committed and packed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.core.errors import ConfigError
from assay.core.storage.files import read_text
from assay.core.storage.yaml import line_of, read_yaml

SIGN = "${"
OWN = "${grpo}-${task}"  # in the list of presets of configs/config.yaml
_FIX = "write the value itself; a secret belongs in no setting: name the environment variable that holds it"


def refuse_in_files(configs: Path) -> None:
    """Refuse interpolation in any preset.

    Args:
        configs: The folder of presets.

    Raises:
        ConfigError: A preset has one; names file, line and setting.
    """
    for path in sorted(configs.rglob("*.yaml")):
        text = read_text(path, fix="correct it")
        if "$" not in text and "\\" not in text:  # which can write a dollar too
            continue
        for steps, found in _texts(read_yaml(path, fix="correct it"), ()):
            if SIGN in found and found != OWN:
                where = f"configs/{path.relative_to(configs).as_posix()}"
                _, line = line_of(path, steps, fix="correct it")
                raise _refusal(found, f"{where}, line {line}, {'.'.join(steps)}")


def refuse_in_overrides(overrides: Sequence[str]) -> None:
    """Refuse interpolation in what a command line sets.

    Raises:
        ConfigError: An override has one.
    """
    for each in overrides:
        if SIGN in each:
            raise _refusal(each, "-S")


def _refusal(found: str, where: str) -> ConfigError:
    return ConfigError("a value, and no interpolation", found=repr(found), where=where, fix=_FIX)


def _texts(value: Any, steps: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every text in a value, names of settings too, with the names that lead to it."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield (*steps, str(name)), str(name)
            yield from _texts(each, (*steps, str(name)))
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, steps)
    elif isinstance(value, str):
        yield steps, value
