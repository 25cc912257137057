"""Settings that earlier versions had: each is refused with what takes its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.core.config.config_errors import quoted
from assay.core.config.places import place
from assay.core.errors import ConfigError


class RemovedSetting(ConfigError):
    """A setting asks for what only earlier versions can do."""


# Setting, what it said, what is expected in its place, what to do.
REMOVED = (
    (
        "generation.backend",
        ("vllm", "vllm_server"),
        "cached, lean or transformers: vLLM never ran here, and was removed",
        "set generation.backend: cached",
    ),
)


def refuse_removed(raw: Mapping[str, Any], where: str | None) -> None:
    """Refuse settings that earlier versions had; arguments as of `parse_params`.

    Raises:
        RemovedSetting: There is one.
    """
    for name, values, expected, fix in REMOVED:
        section, _, key = name.partition(".")
        told = raw.get(section)
        found = told.get(key) if isinstance(told, Mapping) else None
        if isinstance(found, str) and found in values:
            raise RemovedSetting(expected, found=quoted(found), where=place(name, where), fix=fix)
