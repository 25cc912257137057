"""No number of a stranger's settings is without an upper bound, nor what several of them ask for together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from assay.core.config.reading import parse_params
from assay.core.config.settings import Params
from assay.core.errors import ConfigError
from tests.composed import composed

ENDS = {"maximum", "exclusiveMaximum", "const", "enum"}


def unbounded(node: Any, path: str = "") -> Iterator[str]:
    """Yield where a JSON schema allows a number of any size."""
    if isinstance(node, dict):
        if node.get("type") in ("integer", "number") and not ENDS & node.keys():
            yield path
        for name, inner in node.items():
            yield from unbounded(inner, f"{path}.{name}")
    elif isinstance(node, list):
        for number, inner in enumerate(node):
            yield from unbounded(inner, f"{path}[{number}]")


def test_every_number_of_every_setting_has_an_upper_bound() -> None:
    schema = Params.model_json_schema()
    assert list(unbounded(schema)) == []
    assert list(unbounded({"properties": {"x": {"type": "integer", "minimum": 1}}})) == [".properties.x"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"base.architecture.layers": 500_000_000}, "256"),
        ({"base.architecture.layers": 256, "base.architecture.hidden_size": 16_384}, "weights, at most"),
        ({"base.bpe_vocabulary": 10**9}, "65536"),
        ({"validation.items": 10**9}, "1000000"),
        ({"validation.items": 10**6, "validation.draws": 4096}, "plays, at most"),
        ({"evaluation.items": 10**6, "evaluation.draws": 4096}, "plays, at most"),
        ({"evaluation.draws": 10**9}, "4096"),
        ({"task.max_turns": 10**9}, "1000000"),
        ({"train.steps": 10**9}, "1000000"),
        ({"train.steps": 10**6, "train.items_per_step": 1000}, "steps x items_per_step"),
        ({"train.items_per_step": 10**6, "train.steps": 1}, "items_per_step x group_size"),
        ({"seed": 2**63}, "9223372036854775808"),
        ({"claim.seeds": [10**30]}, "9223372036854775808"),
        ({"health.baseline_steps": 10**12}, "1000000"),
        ({"train.learning_rate": 1e300}, "1000000000"),
    ],
)
def test_what_would_take_more_than_a_machine_has_is_refused_before_it_is_computed(
    changes: dict[str, Any], said: str
) -> None:
    raw = composed("tiny")
    for name, value in changes.items():
        *path, last = name.split(".")
        inner = raw
        for part in path:
            inner = inner[part]
        inner[last] = value
    with pytest.raises(ConfigError) as refused:
        parse_params(raw)
    assert said in refused.value.expected + refused.value.found, refused.value
