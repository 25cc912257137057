"""The one YAML reader: YAML 1.2, as DVC reads params.yaml, so that 1e-6 is a number; no anchors, so no bombs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent

from assay.errors import ConfigError, DataError
from assay.storage.foreign import read_capped

MAX_BYTES = 1_000_000


def read_yaml(path: Path, *, fix: str) -> dict[str, Any]:
    """Read a YAML mapping.

    Raises:
        ConfigError: The file is missing, too large, not YAML, has anchors or aliases, or is not a mapping; names the line
            where it breaks.
    """
    try:
        text = read_capped(path, max_bytes=MAX_BYTES, fix=fix).decode("utf-8")
        _refuse_anchors(text, path.name, fix)
        value = YAML(typ="safe", pure=True).load(text)
    except DataError as error:
        raise ConfigError(error.expected, found=error.found, where=path.name, fix=fix) from None
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path.name}, line {mark.line + 1}, column {mark.column + 1}" if mark else path.name
        found = str(getattr(error, "problem", None) or error).split("\n")[0]
        raise ConfigError("valid YAML", found=found, where=where, fix=fix) from None
    except UnicodeDecodeError as error:
        raise ConfigError("UTF-8 text", found=error.reason, where=f"{path.name}, byte {error.start}", fix=fix) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError("valid YAML", found=str(error).split("\n")[0], where=path.name, fix=fix) from None
    if not isinstance(value, dict):
        raise ConfigError("a mapping of settings", found=type(value).__name__, where=path.name, fix=fix)
    return value


def _refuse_anchors(text: str, name: str, fix: str) -> None:
    """Refuse aliases before anything expands them: nine lines of them can stand for a billion values."""
    if "&" not in text and "*" not in text:
        return
    for event in YAML(typ="safe", pure=True).parse(text):
        if getattr(event, "anchor", None) is not None:
            kind = "an alias *" if isinstance(event, AliasEvent) else "an anchor &"
            where = f"{name}, line {event.start_mark.line + 1}, column {event.start_mark.column + 1}"
            raise ConfigError("values written out", found=f"{kind}{event.anchor}", where=where, fix=fix)
