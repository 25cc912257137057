"""Means by step that are not one flat object a step: metrics nested under a name, one metric a row, lists by
metric, objects by step; each becomes rows as `means` reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.rollout.tables.columns import read_step
from assay.rollout.tables.lines import rows_of_columns

# What a tool calls the object that holds all its metrics; it says nothing about them.
HOLDERS = frozenset(("metrics", "scalars", "stats", "logs", "log", "info", "data", "values", "summary"))
NAMES_A_METRIC = ("tag", "metric", "metric_name", "key", "name", "variable")
LISTS = ("log_history", "history", "metrics", "logs", "log", "records", "rows", "data")
Row = Mapping[str, Any]


def unfold(record: Row) -> Row:
    """Return a record of means as one flat row: nested metrics by their path, a metric and its value as that
    metric.

    >>> unfold({"step": 1, "metrics": {"reward": 0.5, "kl": {"mean": 0.1}}})
    {'step': 1, 'reward': 0.5, 'kl/mean': 0.1}
    >>> unfold({"step": 1, "tag": "reward", "value": 0.5})
    {'step': 1, 'reward': 0.5}
    """
    name = next((each for each in NAMES_A_METRIC if isinstance(record.get(each), str)), None)
    if name is not None and "value" in record:
        rest = {key: value for key, value in record.items() if key not in (name, "value")}
        return {**rest, record[name]: record["value"]}
    if not any(isinstance(value, Mapping) for value in record.values()):
        return record
    flat: dict[str, Any] = {}
    todo: list[tuple[str, Any]] = [(str(key), value) for key, value in reversed(list(record.items()))]
    while todo:
        path, value = todo.pop()
        if isinstance(value, Mapping):
            before = "" if path in HOLDERS else f"{path}/"
            todo += [(f"{before}{key}", each) for key, each in reversed(list(value.items()))]
        else:
            flat.setdefault(path, value)
    return flat


def rows_of(value: object) -> Sequence[Any] | None:
    """Return the records that a JSON file holds as one value; None where it holds none.

    >>> rows_of({"step": [1, 2], "reward": [0.1, 0.2]})
    [{'step': 1, 'reward': 0.1}, {'step': 2, 'reward': 0.2}]
    >>> rows_of({"1": {"reward": 0.1}, "2": {"reward": 0.2}})
    [{'step': 1, 'reward': 0.1}, {'step': 2, 'reward': 0.2}]
    """
    if isinstance(value, list):
        return value or None
    if not isinstance(value, Mapping) or not value:
        return None
    for name in LISTS:
        told = value.get(name)
        if isinstance(told, list) and told and isinstance(told[0], Mapping):
            return told
    steps = {key: read_step(str(key)) for key in value}
    if None not in steps.values() and all(isinstance(each, Mapping) for each in value.values()):
        return [{"step": steps[key], **each} for key, each in value.items()]
    return rows_of_columns(value)
