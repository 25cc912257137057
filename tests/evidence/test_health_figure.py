"""The strip of alarms shows every level without colour, and what was not measured as such."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.records import HEALTH_RULES, HealthEvent
from assay.evidence.figures.drawing import render
from assay.evidence.figures.health_figure import health_strip, spans


def event(rule: str, level: str, step: int, *, stop: bool = False) -> HealthEvent:
    known: dict[str, Any] = {
        "value": 0.2,
        "threshold": 0.1,
        "baseline": None,
        "item_ids": (),
        "message": "Something is odd.",
    }
    return HealthEvent(rule=rule, level=level, stop=stop, step=step, first_step=step, **known)  # type: ignore[arg-type]


SOME = [
    event("kl", "AMBER", 30),
    event("grad_norm", "AMBER", 41),
    event("grad_norm", "GREEN", 42),
    event("kl", "RED", 60),
    event("kl", "AMBER", 70),
    event("zero_variance", "RED", 90, stop=True),
]


def words(events: list[HealthEvent], steps: int = 100, unmeasured: tuple[Any, ...] = ()) -> str:
    return render(health_strip(events, steps, unmeasured))["svg"].decode()


def test_a_span_lasts_from_one_event_of_its_rule_to_the_next_or_to_the_end() -> None:
    assert spans(SOME, 101) == {
        "kl": [(30.0, 60.0, "AMBER"), (60.0, 70.0, "RED"), (70.0, 101.0, "AMBER")],
        "grad_norm": [(41.0, 42.0, "AMBER")],
        "zero_variance": [(90.0, 101.0, "RED")],
    }


def test_a_training_without_alarms_says_so() -> None:
    shown = words([])
    assert (
        "no alarm" in shown
        and f"all green ({len(HEALTH_RULES)} rules)" in shown
        and "100 optimizer steps" in shown
    )


def test_alarms_have_a_row_with_letters_and_the_others_are_counted() -> None:
    shown = words(SOME)
    assert all(f">{name}</text>" in shown for name in ("kl", "grad_norm", "zero_variance", "A", "R"))
    assert f"all others green ({len(HEALTH_RULES) - 3} rules)" in shown
    assert "training stopped" in shown and "not measured" not in shown


def test_rules_without_a_measurement_are_named_and_not_called_green() -> None:
    shown = words(SOME, unmeasured=("entropy", "part_share"))
    assert f"all others green ({len(HEALTH_RULES) - 5} rules); not measured: entropy, part_share" in shown


def test_a_training_that_runs_claims_no_step_it_has_not_made_and_calls_no_rule_green() -> None:
    shown = render(health_strip([], 200, reached=14))["svg"].decode()
    assert "14 of 200 optimizer steps" in shown and "no alarm so far" in shown and "green" not in shown
    figure = health_strip(SOME, 200, reached=95)
    shown = render(figure)["svg"].decode()
    assert f"others: no alarm so far ({len(HEALTH_RULES) - 3} rules)" in shown and "green" not in shown
    bars = [patch for patch in figure.axes[0].patches if patch.get_label() != "not made yet"]
    assert max(bar.get_x() + bar.get_width() for bar in bars) == 95  # type: ignore[attr-defined]


@pytest.mark.parametrize("steps", [1, 7, 100_000])
def test_a_span_of_one_step_is_drawn_however_long_the_training(steps: int) -> None:
    short = [event("kl", "RED", 0), event("kl", "GREEN", 1)]
    bar, *_ = health_strip(short, steps).axes[0].patches
    assert bar.get_width() >= 0.004 * steps  # type: ignore[attr-defined]


def test_every_rule_can_have_a_row() -> None:
    assert "all others green (0 rules)" in words(
        [event(rule, "AMBER", k) for k, rule in enumerate(HEALTH_RULES)]
    )


def test_equal_events_give_equal_bytes() -> None:
    assert render(health_strip(SOME, 100)) == render(health_strip(SOME, 100))
