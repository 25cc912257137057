"""An alarm rings when a flag is raised more often than its task tolerates, and not before."""

from __future__ import annotations

import pytest

from assay.core.records import Episode
from assay.rollout.evaluation.alarms import alarms
from tests.evaluation.test_statistics import play
from tests.training.toy_task import Letters


def flagged(*values: bool | None) -> list[Episode]:
    return [
        play("item", draw, False).model_copy(update={"flags": {"early": v}}) for draw, v in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("tolerated", "values", "rings"),
    [
        (0.5, [True, False], False),
        (0.5, [True, True, False], True),
        (0.0, [False, False], False),
        (0.0, [False] * 99 + [True], True),
        (0.5, [True, None, None, None], True),
    ],
)
def test_it_rings_beyond_the_tolerated_rate_of_the_known(
    tolerated: float, values: list[bool | None], rings: bool
) -> None:
    assert bool(alarms(Letters(alarms={"early": tolerated}), flagged(*values))) is rings


def test_it_says_rate_threshold_and_how_many_episodes_it_rests_on() -> None:
    found = alarms(Letters(alarms={"early": 0.1}), flagged(True, False, None, False, False))
    assert [(a.flag, a.rate, a.threshold, a.n) for a in found] == [("early", 0.25, 0.1, 4)]


def test_a_question_that_never_arose_rings_nothing() -> None:
    assert alarms(Letters(alarms={"early": 0.0}), flagged(None, None)) == []


def test_a_task_without_alarms_never_rings() -> None:
    assert alarms(Letters(), flagged(True, True)) == []
