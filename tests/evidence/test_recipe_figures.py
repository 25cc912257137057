"""The forest shows every seed and the recipe apart from them; the profile both arms; what was refused is not
drawn."""

from __future__ import annotations

import pytest

from assay.evidence.figures.drawing import render
from assay.evidence.figures.recipe_figures import performance_profile, seeds_forest
from assay.evidence.recipe.tables import compare_runs
from recipe_material import runs

ONE = compare_runs(runs(6, 0.6), one_sided=False).recipes
TWO = compare_runs([*runs(6, 0.6), *runs(3, 0.4, recipe="b")], one_sided=False).recipes


def words(figure: object) -> str:
    return render(figure)["svg"].decode()  # type: ignore[arg-type]


def test_the_forest_has_a_row_a_seed_and_one_for_the_recipe() -> None:
    shown = words(seeds_forest(ONE, 3.0, "success"))
    assert all(f"seed {seed}" in shown for seed in range(6))
    assert "all 6 seeds" in shown and "IMPROVED, two-sided p = .031" in shown and "under 3 points" in shown
    assert "interval over seeds and items" in shown


def test_a_recipe_that_is_not_evaluable_is_shown_as_such_beside_one_that_is() -> None:
    shown = words(seeds_forest(TWO, 3.0, "success"))
    assert shown.count("not evaluable") == 1 and "train.learning_rate=b" in shown
    assert "NOT EVALUABLE; profile: missing" in words(performance_profile(TWO, "success"))


def test_a_run_without_an_interval_is_an_empty_marker_that_the_legend_explains() -> None:
    bare = ONE[0].runs[0].gain.model_copy(update={"low": None, "high": None})
    rows = (ONE[0].runs[0].model_copy(update={"gain": bare}), *ONE[0].runs[1:])
    assert "empty: interval missing" in words(
        seeds_forest([ONE[0].model_copy(update={"runs": rows})], 3.0, "success")
    )
    assert "empty" not in words(seeds_forest(ONE, 3.0, "success"))


def test_the_profile_draws_both_arms_with_bands() -> None:
    (axes,) = performance_profile(ONE, "success").axes
    assert [line.get_label() for line in axes.patches] == ["before", "after"]
    assert len(axes.collections) == 2


@pytest.mark.parametrize(
    "draw", [lambda: seeds_forest(ONE, 3.0, "success"), lambda: performance_profile(TWO, "success")]
)
def test_equal_numbers_give_equal_bytes(draw) -> None:  # type: ignore[no-untyped-def]
    assert render(draw()) == render(draw())


def test_the_axes_name_the_measure_of_the_plan() -> None:
    forest, profile = (
        words(seeds_forest(ONE, 3.0, "mass_correct")),
        words(performance_profile(ONE, "mass_correct")),
    )
    assert "gain in held-out mass_correct, points" in forest and "mean mass_correct of an item" in profile
    assert "success" not in forest and "succeed" not in profile
