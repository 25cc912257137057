"""Figures of a recipe over training seeds: the forest of seeds, and the performance profile before and
after."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assay.core.counting import counted
from assay.core.records import Interval
from assay.verdict.evidence.figures.drawing import (
    AFTER,
    BEFORE,
    INK,
    legend,
    look,
    new_figure,
    say_missing,
    styled,
)
from assay.verdict.evidence.figures.forest_rows import ROW, ForestRow, draw_forest
from assay.verdict.evidence.formatting import difference_text, interval_text, p_text
from assay.verdict.evidence.recipe.records import ProfilePoint, RecipeClaim, SeedRun

MOST_IN_TITLE = 60  # characters of a recipe's name


def _short(name: str) -> str:
    return name if len(name) <= MOST_IN_TITLE else name[: MOST_IN_TITLE - 1] + "\u2026"


@styled
def seeds_forest(recipes: Sequence[RecipeClaim], smallest_effect_points: float, primary: str) -> Figure:
    """Return the gain of every seed with its own interval, over items alone, and below them the recipe's as a
    diamond, over both.

    `primary` is the plan's measure, by its name.
    """
    rows = []
    for recipe in recipes:
        # Of several recipes each says which one it is, under its own diamond.
        kind = textwrap.fill(_short(recipe.recipe), 32) if len(recipes) > 1 else ""
        rows += [
            ForestRow(f"seed {run.seed}", run.gain, f"n = {counted(recipe.n_items, 'items')}", AFTER)
            for run in recipe.runs
        ]
        n = f"n = {counted(len(recipe.seeds), 'seeds')}"
        whole = recipe.difference
        if recipe.verdict == "NOT EVALUABLE":
            whole, n = None, f"{n}: not evaluable"
        rows.append(ForestRow("all seeds", whole, n, INK, whole=True, kind=kind))
    figure, (axes,) = new_figure(1, 1, width=6.4, height=1.5 + ROW * len(rows))
    draw_forest(
        axes,
        rows,
        sides=("before", "after"),
        label=f"gain in held-out {primary}, points, 95 % intervals; grey:"
        f" under {smallest_effect_points:g} points",
        margins=(smallest_effect_points, smallest_effect_points),
    )
    first = recipes[0]
    said = (
        f"{first.verdict}, {first.sided} {p_text(first.p)}"
        if len(recipes) == 1
        else counted(len(recipes), "recipes")
    )
    axes.set_title(f"{said}; {counted(first.n_items, 'items')}, K = {first.draws}")
    return figure


@styled
def performance_profile(recipes: Sequence[RecipeClaim], primary: str) -> Figure:
    """Return, a panel for each recipe, the share of runs x items that score above each threshold, before and
    after.

    The bands are pointwise: 95 % for one threshold at a time. A recipe that is not evaluable has an empty
    panel that says so.
    """
    figure, panels = new_figure(1, len(recipes), width=max(6.4, 4.6 * len(recipes)), height=4.0)
    for axes, recipe in zip(panels, recipes, strict=True):
        title = "Performance profile" if len(recipes) == 1 else _short(recipe.recipe)
        cells = (
            f"{counted(len(recipe.seeds), 'seeds')} x {counted(recipe.n_items, 'items')}, K = {recipe.draws}"
        )
        axes.set_title(f"{title}\n{cells}")
        axes.set_xlabel(
            f"score \u03c4 (mean {primary} of an item's draws)\nbands: 95 %, for one \u03c4 at a time"
        )
        axes.set_ylabel("share of runs x items above \u03c4")
        if not recipe.profile:
            say_missing(axes, "NOT EVALUABLE; profile")
            continue
        edges = np.array([*(point.threshold for point in recipe.profile), 1.0])
        for k, (name, colour) in enumerate((("before", BEFORE), ("after", AFTER))):
            _profile(axes, edges, recipe.profile, name, colour, str(look(k)["ls"]))
        axes.set_ylim(-0.02, 1.02)
        axes.set_xlim(0, 1)
        legend(axes)
    return figure


def _profile(
    axes: Axes, edges: np.ndarray, points: Sequence[ProfilePoint], name: str, colour: str, style: str
) -> None:
    # A score is a number of successes of K draws: between two possible scores the profile is level.
    found = [point.before if name == "before" else point.after for point in points]
    value, low, high = (
        np.array([np.nan if v is None else v for v in column])
        for column in zip(*((each.value, each.low, each.high) for each in found), strict=True)
    )
    axes.stairs(value, edges, baseline=None, color=colour, ls=style, lw=1.8, label=name)
    axes.fill_between(
        edges, np.append(low, low[-1]), np.append(high, high[-1]), step="post", color=colour, alpha=0.2, lw=0
    )


@styled
def every_seed(runs: Sequence[SeedRun], whole: Interval | None, primary: str) -> Figure:
    """Return the gain of every training seed over the base, and of all together as a diamond; a failed one is
    missing."""
    rows = [
        ForestRow(
            f"seed {run.seed}",
            run.gain,
            "" if run.gain is None else f"n = {run.gain.n} items",
            AFTER,
            kind=f"step {run.chosen_step}" if run.gain else "not evaluable" if run.verdict else run.state,
        )
        for run in runs
    ]
    n = sum(run.gain is not None for run in runs)
    rows.append(ForestRow("all seeds", whole, f"n = {counted(n, 'seeds')}", INK, whole=True))
    figure, (axes,) = new_figure(1, 1, height=0.95 + ROW * len(rows))
    draw_forest(
        axes, rows, sides=("before", "after"), label=f"gain in held-out {primary}, points, 95 % intervals"
    )
    return figure


def seeds_frame(runs: Sequence[SeedRun]) -> pd.DataFrame:
    """Return a row a seed: verdict, chosen step, worst alarm, before, after, gain, p, controls."""
    rows = [
        {
            "seed": run.seed,
            "verdict": run.verdict or run.state,
            "chosen step": run.chosen_step,
            "worst alarm": run.health,
            "before, %": interval_text(run.before, rate=True),
            "after, %": interval_text(run.after, rate=True),
            "gain, points": difference_text(run.gain, rate=True),
            "p": p_text(run.p),
            "A/A": {True: "passed", False: "not passed", None: "not run"}[run.aa_passed],
            "random rewards": "not run"
            if run.random_reward is None
            else difference_text(run.random_reward.difference, rate=True),
        }
        for run in runs
    ]
    return pd.DataFrame(rows)
