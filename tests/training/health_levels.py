"""Levels of alarms, tasks and episodes for the tests of alarms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.core.config.health import HealthSettings
from assay.core.records import Episode, HealthEvent, Turn

SETTINGS = HealthSettings.model_validate(
    {
        "preflight": True,
        "on_non_finite": "stop",
        "max_skipped": 3,
        "retries": 2,
        "max_lost_share": 0.5,
        "baseline_steps": 2,
        "zero_variance": {
            "amber": 0.5,
            "amber_for": 5,
            "red": 0.8,
            "red_for": 10,
            "stop": 1.0,
            "stop_for": 3,
        },
        "entropy": {"amber": 0.5, "amber_for": 1, "red": 0.33, "red_for": 5},
        "kl": {"amber": 0.1, "amber_for": 1, "red": 1.0, "red_for": 1},
        "truncated": {"amber": 0.1, "amber_for": 1, "red": 0.5, "red_for": 5, "stop": 0.99, "stop_for": 5},
        "length": {"amber": 2.0, "red": 4.0},
        "parsed": {"amber": 0.9, "amber_for": 1, "red": 0.7, "red_for": 1},
        "parsed_drop": 0.05,
        "distinct": {"amber": 0.25, "amber_for": 5, "red": 0.1, "red_for": 5},
        "top_share": {"amber": 0.05, "amber_for": 1, "red": 0.2, "red_for": 1},
        "top_share_window": 3,
        "field_collapse": {"amber": 0.15, "amber_for": 1, "red": 0.3, "red_for": 1},
        "clip": {"amber": 3.0, "amber_for": 1, "red": 10.0, "red_for": 1},
        "grad_norm": {"amber": 3.0, "amber_for": 1, "red": 10.0, "red_for": 2},
        "infrastructure": {"amber": 0.01, "amber_for": 1, "red": 0.05, "red_for": 1},
        "validation": {"evaluations": 3, "gap": 0.05, "correlation": 0.5, "part_share": 0.8},
    }
)


class Parts:
    """What the monitor needs to know of a task."""

    def __init__(self, **kinds: str) -> None:
        self.parts = kinds


ONE_PART: Any = Parts(terminal="outcome")
THREE_PARTS: Any = Parts(answer="outcome", detail="outcome", form="format")
Told = list[tuple[int, str, str]]


def told(events: Sequence[HealthEvent]) -> Told:
    """Return step, rule and level of events; STOP for the RED that ends a training."""
    return [(event.step, event.rule, "STOP" if event.stop else event.level) for event in events]


def turn() -> Turn:
    return Turn(
        prompt_digest="0",
        completion="x",
        n_tokens=3,
        truncated=False,
        outcome="ok",
        failure=None,
        action="x",
        observation=None,
        parts={},
    )


def episode(item: str, reward: float, success: bool, parts: Mapping[str, float] | None = None) -> Episode:
    return Episode(
        item_id=item,
        cluster=item,
        strata={},
        draw=0,
        seed=0,
        turns=(turn(),),
        prompt_chars_cut=0,
        ending="done",
        reward=reward,
        parts={"terminal": reward} if parts is None else dict(parts),
        success=success,
        flags={},
        metrics={},
    )
