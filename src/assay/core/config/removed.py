"""Settings that earlier versions had: each is refused with what takes its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.core.config.config_errors import quoted
from assay.core.config.places import place
from assay.core.errors import ConfigError

LAST = "26ddeca0"  # the last commit that knows all of them
IN_MESSAGES = (
    "./run assay evaluate --tasks FILE --task TASK --surface json --served URL --model NAME --out before, the"
    " same of the tuned model with --out after, then ./run assay judge before after"
)
CACHED = "set generation.backend: cached"


class RemovedSetting(ConfigError):
    """A setting asks for what only earlier versions can do."""


def refuse_removed(raw: Mapping[str, Any], where: str | None) -> None:
    """Refuse settings that earlier versions had; arguments as of `parse_params`.

    Raises:
        RemovedSetting: There is one.
    """
    base, train, generation = (
        found if isinstance(found := raw.get(name), Mapping) else {}
        for name in ("base", "train", "generation")
    )
    backend = generation.get("backend")
    vllm = backend in ("vllm", "vllm_server")
    for is_there, name, found, expected, fix in (
        (base.get("kind") == "served", "base.kind", "'served'", "scratch or pretrained", IN_MESSAGES),
        ("served" in train, "train.served", "a served model", "train.folder", IN_MESSAGES),
        (vllm, "generation.backend", quoted(backend), "cached, lean or transformers", CACHED),
    ):
        if is_there:
            found += ", which was removed"
            raise RemovedSetting(expected, found=found, where=place(name, where), fix=fix)
