"""Whether stated confidence informs: the Brier score against that of the best constant."""

from __future__ import annotations

import pytest
from tests.evidence.test_comparison_panels import HUNT

from assay.core.records import Episode
from assay.verdict.evidence.details.confidence import stated_confidence


def _state(confidences: list[float | None]) -> list[Episode]:
    """Return episodes of null worlds, of which every other one is claimed upon, with these confidences."""
    one = next(e for e in HUNT[1] if e.flags.get("false_claim") is not None)
    return [
        one.model_copy(
            update={
                "item_id": f"i{k}",
                "cluster": f"c{k}",
                "flags": {**one.flags, "false_claim": bool(k % 2)},
                "metrics": {**one.metrics, "confidence": sure},
            }
        )
        for k, sure in enumerate(confidences)
    ]


def test_confidence_that_follows_the_truth_scores_below_the_best_constant() -> None:
    found = stated_confidence(_state([0.9, 0.1] * 60))
    assert found is not None
    assert (found.right, found.brier, found.constant) == (0.5, pytest.approx(0.01), 0.25)
    assert found.difference.value == pytest.approx(-0.24) and found.difference.n == 120
    assert found.difference.high is not None and found.difference.high < 0


def test_the_best_constant_itself_gains_nothing_and_its_opposite_loses() -> None:
    same = stated_confidence(_state([0.5] * 120))
    assert same is not None and same.difference.value == 0.0
    wrong = stated_confidence(_state([0.1, 0.9] * 60))
    assert wrong is not None and wrong.difference.low is not None and wrong.difference.low > 0


def test_verdicts_that_state_none_are_left_out_and_none_at_all_is_no_score() -> None:
    told = stated_confidence(_state([0.9, 0.1, None, None] * 30))
    assert told is not None and told.difference.n == 60
    assert stated_confidence(_state([None] * 8)) is None
