"""The one YAML reader: YAML 1.2, as DVC reads params.yaml, so that 1e-6 is a number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from assay.errors import ConfigError, RecordError
from assay.storage.files import read_text


def read_yaml(path: Path, *, fix: str) -> dict[str, Any]:
    """Read a YAML mapping.

    Raises:
        ConfigError: The file is missing, not YAML, or not a mapping; names the line where it breaks.
    """
    try:
        value = YAML(typ="safe", pure=True).load(read_text(path, fix=fix))
    except RecordError as error:
        raise ConfigError("a readable YAML file", found=error.found, where=path.name, fix=fix) from None
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path.name}, line {mark.line + 1}, column {mark.column + 1}" if mark else path.name
        found = str(getattr(error, "problem", None) or error).split("\n")[0]
        raise ConfigError("valid YAML", found=found, where=where, fix=fix) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError("valid YAML", found=str(error).split("\n")[0], where=path.name, fix=fix) from None
    if not isinstance(value, dict):
        raise ConfigError("a mapping of settings", found=type(value).__name__, where=path.name, fix=fix)
    return value
