"""Seeds show what one suite can show, and no more: a recipe is better on other items only if items say so."""

from __future__ import annotations

import pytest

from assay.core.records import Episode
from assay.verdict.evidence.recipe.records import RecipeClaim
from assay.verdict.evidence.recipe.tables import compare_runs
from recipe_material import run
from synthetic_episodes import arm


def test_a_small_gain_everywhere_on_few_items_excludes_no_rare_heavy_loss() -> None:
    base = arm("base", 0.0, clusters=12, items_per_cluster=1)
    null = [e.model_copy(update={"success": False}) for e in base]

    def right_in(draws: int) -> list[Episode]:
        # From another draw on in every other item, so that the halves of the base's draws are alike.
        return [
            e.model_copy(update={"success": (e.draw - 2 * (int(e.item_id[-3:]) % 2)) % 4 < draws})
            for e in base
        ]

    def six(draws: int) -> RecipeClaim:
        before, after, rivals = right_in(1), right_in(draws), {"null": null}
        found = [run(k, 0.5, before=before, after=after, rivals=rivals) for k in range(6)]
        (claim,) = compare_runs(found, one_sided=False).recipes
        return claim

    small, large = six(2), six(4)
    assert small.p_seeds == 0.03125 and small.p_seeds_items == 0.0, "neither test sees what no item showed"
    assert small.verdict == "NO EVIDENCE" and small.p == pytest.approx(2 * 1.25**-12, rel=1e-9)
    assert (large.verdict, large.p) == ("IMPROVED", 0.03125)
