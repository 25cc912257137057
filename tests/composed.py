"""The settings of two presets as `compose` gives them, in a hundredth of its time: put together of files that
are read once."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from assay.core.config.composition import preset_values, presets
from tests.house import ROOT


def composed(grpo: str, task: str = "collider") -> Any:
    """Return settings of one's own to change; tests/test_composition.py holds them against Hydra's."""
    return json.loads(_text(grpo, task))


@cache
def _text(grpo: str, task: str) -> str:
    both = f"{grpo}-{task}"
    last = _part("both", both) if both in presets(ROOT, "both") else {}
    values: Any = {"version": 1, "seed": 0}
    for part in (_part("grpo", grpo), _part("task", task), last):
        values = _over(values, part)
    return json.dumps(values)


_part = cache(lambda group, name: preset_values(ROOT, group, name))


def _over(below: Any, above: Any) -> Any:
    """Return the values below with those above in their place."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: _over(below.get(key), value) for key, value in above.items()}
