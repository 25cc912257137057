"""The one YAML reader: YAML 1.2, as DVC reads params.yaml, so that 1e-6 is a number; no anchors, so no bombs.

Values are those that JSON has as well: what is read here is compared, shown and written on as JSON.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent
from ruamel.yaml.nodes import MappingNode

from assay.core.errors import ConfigError, DataError
from assay.core.storage.untrusted import read_capped

MAX_BYTES = 1_000_000
MAX_DEPTH = 64
_LARGEST = 10**308
_SHOWN = 60  # characters of a value that a message quotes


def read_yaml(path: Path, *, fix: str) -> dict[str, Any]:
    """Read a YAML mapping.

    Raises:
        ConfigError: The file is missing, too large, not YAML, has anchors, aliases or tags, is not a mapping,
            or holds a value that JSON has not (.inf, .nan, a date, a key that is no text); names the line
            where it breaks, or the key.
    """
    try:
        text = read_capped(path, max_bytes=MAX_BYTES, fix=fix).decode("utf-8")
        _refuse_anchors(text, path.name, fix)
        value = deepcopy(_values(text))
    except DataError as error:
        raise ConfigError(error.expected, found=error.found, where=path.name, fix=fix) from None
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path.name}, line {mark.line + 1}, column {mark.column + 1}" if mark else path.name
        found = str(getattr(error, "problem", None) or error).split("\n")[0]
        raise ConfigError("valid YAML", found=found, where=where, fix=fix) from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            "UTF-8 text", found=error.reason, where=f"{path.name}, byte {error.start}", fix=fix
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError("valid YAML", found=str(error).split("\n")[0], where=path.name, fix=fix) from None
    if not isinstance(value, dict):
        raise ConfigError("a mapping of settings", found=type(value).__name__, where=path.name, fix=fix)
    refuse_foreign(value, where=path.name, fix=fix)
    return value


def yaml_text(value: Mapping[str, Any]) -> str:
    r"""Return the one text of a mapping: no comment, every list and mapping in lines.

    >>> yaml_text({"a": {"b": [1, 1e-06]}})
    'a:\n  b:\n  - 1\n  - 1e-06\n'
    """
    stream, writer = io.StringIO(), YAML()
    writer.default_flow_style = False
    writer.width = 4096
    writer.dump(value, stream)
    return stream.getvalue()


def line_of(path: Path, steps: Sequence[str], *, fix: str) -> tuple[int, int]:
    """Return how many of the keys that lead to a value a YAML file holds, and the line of the last of them;
    (0, 1) for none.

    Raises:
        ConfigError: As for `read_yaml`.
    """
    try:
        text = read_capped(path, max_bytes=MAX_BYTES, fix=fix).decode("utf-8")
        _refuse_anchors(text, path.name, fix)
        node = _nodes(text)
    except (DataError, YAMLError, ValueError, RecursionError):
        read_yaml(path, fix=fix)  # says what is wrong, and where
        return 0, 1
    depth, line = 0, 0
    for step in steps:
        pairs = node.value if isinstance(node, MappingNode) else []
        found = next(((key, value) for key, value in pairs if key.value == step), None)
        if found is None:
            break
        depth, line, node = depth + 1, found[0].start_mark.line, found[1]
    return depth, line + 1


@lru_cache(64)  # all presets, which `config check` goes through for every selection
def _values(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


@lru_cache(8)
def _nodes(text: str) -> Any:
    return YAML(typ="safe", pure=True).compose(text)


def refuse_foreign(values: dict[Any, Any], *, where: str, fix: str) -> None:
    """Refuse values that YAML has and JSON has not: no number that is finite, dates, bytes, sets, keys that
    are no text.

    Raises:
        ConfigError: There is one; names its key.
    """
    for place, expected, found in _foreign(values, ""):
        raise ConfigError(expected, found=found, where=f"{where}, {place}" if place else where, fix=fix)


def _foreign(value: Any, place: str) -> Iterator[tuple[str, str, str]]:
    """Yield where a value is none of JSON's, what belongs there, and what stands there."""
    if isinstance(value, dict):
        for key, below in value.items():
            if not isinstance(key, str) or not _is_text(key):
                yield place, "names that are texts", f"the key {_shown(key)}"
            yield from _below(below, f"{place}.{_shown(key)}" if place else str(key))
    elif isinstance(value, list):
        for number, below in enumerate(value):
            yield from _below(below, f"{place}.{number}")
    elif isinstance(value, float) and not math.isfinite(value):
        yield place, "a finite number", str(value)
    elif isinstance(value, str) and not _is_text(value):
        yield place, "a text", "half a surrogate pair"
    elif isinstance(value, int) and abs(value) > _LARGEST:
        yield place, "a number within a double", f"one of {value.bit_length()} bits"
    elif value is not None and not isinstance(value, str | int | float):
        yield place, "a value that JSON has too", f"{_shown(value)}; as a text it stands in quotes"


def _below(value: Any, place: str) -> Iterator[tuple[str, str, str]]:
    if place.count(".") >= MAX_DEPTH:
        yield place[:_SHOWN], f"at most {MAX_DEPTH} levels", "more"
    else:
        yield from _foreign(value, place)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: Any) -> str:
    """Return a value in short: a text as it is, anything else with its kind."""
    if isinstance(value, str):
        return value[:_SHOWN].encode("utf-8", "replace").decode()
    return f"{str(value)[:_SHOWN]} ({type(value).__name__})"


def _refuse_anchors(text: str, name: str, fix: str) -> None:
    """Refuse aliases before anything expands them: nine lines of them can stand for a billion values. And
    tags (`!!set`).

    A tag asks for a value of a kind that its text may not be, at which the reader raises what it trips over.
    """
    if not {"&", "*", "!"} & set(text):
        return
    for event in YAML(typ="safe", pure=True).parse(text):
        if getattr(event, "tag", None) is not None:
            where = f"{name}, line {event.start_mark.line + 1}, column {event.start_mark.column + 1}"
            raise ConfigError("values without tags", found=f"the tag {event.tag}", where=where, fix=fix)
        if getattr(event, "anchor", None) is not None:
            kind = "an alias *" if isinstance(event, AliasEvent) else "an anchor &"
            where = f"{name}, line {event.start_mark.line + 1}, column {event.start_mark.column + 1}"
            raise ConfigError("values written out", found=f"{kind}{event.anchor}", where=where, fix=fix)
