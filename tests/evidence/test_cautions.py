"""What no comparison of two arms shows is said in words, and nothing is said where all is well."""

from __future__ import annotations

import numpy as np
import pytest

from assay.core.records import Episode
from assay.evidence.claim.warnings import cut_off_said, no_gold_said, no_spread_said, untrained_said
from conftest import make_report
from synthetic_structured import FLAGS, structured_arm


def test_the_untrained_adapter_is_named() -> None:
    assert untrained_said(0) == "Validation chose step 0: the adapter is the untrained one."
    assert untrained_said(1) is None


@pytest.mark.parametrize(
    ("spread", "said"),
    [
        ([0.0] * 4, "All rewards of each step were equal"),
        ([0.0, 0.0, 0.0, 0.1], "In 75 % of 4 steps"),
        ([0.0] * 999 + [0.1], "In 99 % of 1000 steps"),
        ([0.0, 0.0, np.nan, 0.1], "In 67 % of 3 steps"),
        ([0.0, 0.1], None),
        ([np.nan], None),
        ([], None),
        (None, None),
    ],
)
def test_a_training_without_spread_is_named_with_its_share(
    spread: list[float] | None, said: str | None
) -> None:
    found = no_spread_said(spread)
    assert found is None if said is None else found is not None and found.startswith(said)


def cut(episodes: list[Episode], n: int) -> list[Episode]:
    """Return the episodes with the last turn of the first n cut off and no other."""
    return [
        e.model_copy(update={"turns": tuple(t.model_copy(update={"truncated": k < n}) for t in e.turns)})
        for k, e in enumerate(episodes)
    ]


def test_completions_that_were_cut_off_are_said_for_both_arms() -> None:
    arm = structured_arm("base", 0.3)
    few, many = make_report(cut(arm, 19)), make_report(cut(arm, 48))
    said = "9.9 % of completions before and 25.0 % of completions after were cut off at task.max_new_tokens."
    assert cut_off_said(few, many) == said
    assert cut_off_said(many, few) is not None and cut_off_said(few, few) is None


def test_items_without_gold_are_counted_where_the_task_knows_exact_answers(before: list[Episode]) -> None:
    arm = structured_arm("base", 0.3)
    said = "4 of 48 items have no gold: there a valid answer counts as a success."
    assert no_gold_said([*arm, *structured_arm("trained", 0.8)], FLAGS) == said
    assert no_gold_said(arm[:44], FLAGS) is None
    one = no_gold_said(arm[44:48], FLAGS)
    assert one == "1 of 1 item has no gold: there a valid answer counts as a success."
    assert no_gold_said(before, ("discovered",)) is None
