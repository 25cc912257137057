"""A difference that hangs on one part of the suite is told as such, beside the headline."""

from __future__ import annotations

import numpy as np
import pytest

from assay.core.records import Episode
from assay.verdict.evidence.claim.left_out import leave_one_out
from assay.verdict.evidence.words.sentences import controls_said, left_out_said
from conftest import make_claim
from synthetic_episodes import episode


def gains(wins: dict[int, tuple[int, int]], tier: str = "easy") -> tuple[list[Episode], list[Episode]]:
    """Return both arms of one-item clusters that went from so many successes in four draws to so many."""
    arms: tuple[list[Episode], list[Episode]] = ([], [])
    for item, counts in wins.items():
        for arm, count, name in zip(arms, counts, ("base", "trained"), strict=True):
            arm += [
                episode(item, draw, success=draw < count, arm=name, tier=tier if item % 2 else "hard")
                for draw in range(4)
            ]
    return arms


def test_the_ends_are_those_of_leaving_every_part_out_by_hand() -> None:
    wins = {k: (k % 3, min(4, k % 3 + k % 4)) for k in range(12)}
    before, after = gains(wins)
    found = leave_one_out(before, after, "success_rate", 0.05, shown=True)
    assert found is not None and (found.n_clusters, found.n_strata) == (12, 2)
    each = {k: (b - a) / 4 for k, (a, b) in wins.items()}
    by_hand = [np.mean([gain for k, gain in each.items() if k != out]) for out in wins]
    by_hand += [np.mean([gain for k, gain in each.items() if k % 2 != odd]) for odd in (0, 1)]
    assert found.smallest.difference == pytest.approx(min(by_hand), abs=1e-9)
    assert found.largest.difference == pytest.approx(max(by_hand), abs=1e-9)


def test_a_gain_of_one_stratum_does_not_hold_without_it_and_the_sentence_says_which() -> None:
    before, after = gains({k: (0, 4 if k % 2 else k % 4 // 2) for k in range(20)})
    found = leave_one_out(before, after, "success_rate", 0.05, shown=True)
    assert found is not None and found.smallest.part == "tier=easy" and found.largest.part == "tier=hard"
    even = gains({k: (0, 3) if k != 7 else (0, 4) for k in range(20)})
    held = leave_one_out(*even, "success_rate", 0.05, shown=True)
    assert held is not None and held.holds is True
    assert "without cluster scenario-007" in left_out_said(held, "scenarios")
    assert "always on the same side of 0" in left_out_said(held, "scenarios")
    hangs = leave_one_out(
        *gains({k: (1, 4 if k % 2 else 1) for k in range(20)}), "success_rate", 0.05, shown=True
    )
    assert hangs is not None and hangs.holds is False and hangs.smallest.difference == 0.0
    assert "0 can no longer be excluded" in left_out_said(hangs, "scenarios")


def test_nothing_is_said_of_a_direction_that_is_not_there_nor_of_two_clusters() -> None:
    found = leave_one_out(
        *gains({k: (2, 2 + (-1) ** k) for k in range(10)}), "success_rate", 0.05, shown=True
    )
    assert found is not None and found.holds is None
    unshown = leave_one_out(*gains({k: (0, 4) for k in range(9)}), "success_rate", 0.05, shown=False)
    assert unshown is not None and unshown.holds is None
    assert leave_one_out(*gains({0: (0, 1), 1: (0, 2)}), "success_rate", 0.05, shown=True) is None
    assert left_out_said(None, "scenarios") == ""


def test_the_claim_and_every_page_that_tells_its_controls_have_it(
    before: list[Episode], after: list[Episode]
) -> None:
    claim = make_claim(before, after)
    assert claim.leave_one_out is not None and claim.difference is not None
    ends = claim.leave_one_out.smallest.difference, claim.leave_one_out.largest.difference
    assert ends[0] <= (claim.difference.value or 0.0) <= ends[1]
    assert left_out_said(claim.leave_one_out, "scenarios") in controls_said(claim)


def test_a_name_of_the_data_is_no_markup() -> None:
    before, after = gains({k: (0, 4) for k in range(4)}, tier="<b>|[x](y)")
    found = leave_one_out(before, after, "success_rate", 0.05, shown=True)
    assert found is not None
    hostile = found.model_copy(
        update={"smallest": found.smallest.model_copy(update={"part": "tier=<b>|[x](y)"})}
    )
    assert not set("<>|[]()") & set(left_out_said(hostile, "x").replace("(without", "").replace(")", ""))
