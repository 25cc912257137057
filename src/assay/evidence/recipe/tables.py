"""The comparison of recipes as records, rows and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from pydantic import Field

from assay.core.counting import counted
from assay.core.errors import EvidenceError
from assay.core.records import Record
from assay.evidence.escape import markdown_table, visible
from assay.evidence.formatting import MISSING, difference_text, interval_text, p_number, percent
from assay.evidence.recipe.contest import Contest, contests
from assay.evidence.recipe.formatting import MEANING
from assay.evidence.recipe.records import RecipeClaim
from assay.evidence.recipe.runs import RUNS, Run, by_recipe, check_together, settings_apart
from assay.evidence.recipe.verdict import recipe_claim

CSV_COLUMNS = (
    "recipe",
    "run",
    "seed",
    "chosen_step",
    "verdict",
    "health",
    "before",
    "after",
    "gain",
    "gain_low",
    "gain_high",
    "iqm",
)


class RecipeComparison(Record):
    """What `assay runs compare` found: every recipe, and every pair of them."""

    suite_digest: str
    plan_digest: str
    base_policy: str
    n_runs: int = Field(ge=1)
    recipes: tuple[RecipeClaim, ...]
    contests: tuple[Contest, ...]
    notes: tuple[str, ...]


def compare_runs(runs: Sequence[Run], *, one_sided: bool, notes: Sequence[str] = ()) -> RecipeComparison:
    """Return the comparison of finished runs; their order does not matter.

    Raises:
        EvidenceError: there are none, or they cannot be put together (see `check_together` and `by_recipe`).
    """
    if not runs:
        raise EvidenceError(
            "at least one finished run", found="none", where=RUNS, fix="name run folders or experiments"
        )
    check_together(runs)
    recipes, apart = by_recipe(runs), settings_apart(runs)
    claim = runs[0].claim
    return RecipeComparison(
        suite_digest=claim.plan.suite_digest,
        plan_digest=claim.plan_digest,
        base_policy=claim.before_policy,
        n_runs=len(runs),
        recipes=tuple(
            recipe_claim(name, own, apart=apart, one_sided=one_sided) for name, own in recipes.items()
        ),
        contests=contests(recipes),
        notes=tuple(notes),
    )


def csv_rows(found: RecipeComparison) -> list[dict[str, Any]]:
    """Return one row a run under CSV_COLUMNS; rates and gains are shares."""
    return [
        {
            "recipe": recipe.recipe,
            "run": run.name,
            "seed": run.seed,
            "chosen_step": run.chosen_step,
            "verdict": run.verdict,
            "health": run.health,
            "before": run.before,
            "after": run.after,
            "gain": run.gain.value,
            "gain_low": run.gain.low,
            "gain_high": run.gain.high,
            "iqm": run.iqm,
        }
        for recipe in found.recipes
        for run in recipe.runs
    ]


def runs_frame(found: RecipeComparison) -> pd.DataFrame:
    """Return one row of text a run; its interval is that of its own claim, over items alone."""
    rows = [
        (
            *([recipe.recipe] if len(found.recipes) > 1 else []),
            run.seed,
            run.name,
            run.chosen_step,
            percent(run.before),
            percent(run.after),
            difference_text(run.gain, rate=True),
            run.verdict,
            run.health,
        )
        for recipe in found.recipes
        for run in recipe.runs
    ]
    head = ["seed", "run", "step", "before, %", "after, %", "gain, points", "verdict", "alarms"]
    return pd.DataFrame(rows, columns=[*(["recipe"] if len(found.recipes) > 1 else []), *head])


def recipes_frame(found: RecipeComparison) -> pd.DataFrame:
    """Return one row of text a recipe; intervals are for other seeds and other items."""
    rows = [
        (
            each.recipe,
            len(each.seeds),
            difference_text(each.difference, rate=True),
            difference_text(each.iqm, rate=True),
            interval_text(each.probability_of_improvement, rate=True),
            _errors(each),
            p_number(each.p),
            each.verdict,
        )
        for each in found.recipes
    ]
    numbers = ["mean gain, points", "IQM of gains", "P(beats base), %", "error from seeds / items"]
    return pd.DataFrame(rows, columns=["recipe", "seeds", *numbers, "p", "verdict"])


def contests_frame(found: RecipeComparison) -> pd.DataFrame:
    """Return one row of text for each pair of recipes."""
    rows = [
        (
            each.a,
            each.b,
            len(each.seeds),
            difference_text(each.difference, rate=True),
            interval_text(each.probability_a_beats_b, rate=True),
            p_number(each.p_holm),
            each.verdict,
        )
        for each in found.contests
    ]
    numbers = ["A \u2212 B, points", "P(A beats B), %", "p (Holm)"]
    return pd.DataFrame(rows, columns=["A", "B", "seeds in common", *numbers, "verdict"])


def _errors(claim: RecipeClaim) -> str:
    if claim.error_of_seeds_points is None or claim.error_of_items_points is None:
        return MISSING
    return f"{claim.error_of_seeds_points:.1f} / {claim.error_of_items_points:.1f}"


def comparison_markdown(found: RecipeComparison) -> str:
    """Return compare.md: verdicts first, then recipes, pairs, runs, and what the numbers mean."""
    blocks = ["# Recipes over training seeds"]
    for recipe in found.recipes:
        title = "" if len(found.recipes) == 1 else f" {recipe.recipe}:"
        blocks.append(f"**{recipe.verdict}.**{visible(title)} {visible(recipe.sentence)}")
    blocks += [f"**{each.verdict}.** {visible(each.sentence)}" for each in found.contests]
    warned = [visible(text) for recipe in found.recipes for text in recipe.warnings] + [
        visible(note) for note in found.notes
    ]
    if warned:
        blocks.append("\n".join(f"- {text}" for text in dict.fromkeys(warned)))
    blocks += ["## Recipes", markdown_table(recipes_frame(found))]
    if found.contests:
        blocks += ["## Against each other", markdown_table(contests_frame(found))]
    one = found.recipes[0]
    blocks += [
        "## Runs",
        (
            f"Each row is one training: its checkpoint against the base, {counted(one.n_items, 'items')}, K ="
            f" {one.draws}; the interval in a row is over items alone."
        ),
        markdown_table(runs_frame(found)),
        "## What the intervals are for",
        MEANING,
        f"Suite {found.suite_digest[:16]}, plan {found.plan_digest[:16]}, base {found.base_policy[:16]}.",
    ]
    return "\n\n".join(blocks) + "\n"
