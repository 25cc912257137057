"""The figure of the checkpoints of one training: how the validation suite was played on the way."""

from __future__ import annotations

import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assay.evidence.figures.drawing import (
    GREY,
    bare_figure,
    beside,
    column,
    legend,
    look,
    mark_gaps,
    say_missing,
    step_axis,
    styled,
)
from assay.evidence.figures.training_figures import always_zero, mark_chosen, size_text

# Behind the rates of the flags; drawn beside the mean they belong to.
_SPECIAL = ("best_of_k_", "greedy_")


@styled
def checkpoint_progression(
    frame: pd.DataFrame, chosen_step: int | None, *, steps: int | None = None
) -> Figure:
    """Return reward, success and rates over checkpoints with 95 % intervals; the chosen checkpoint is marked.

    `frame` has the columns of checkpoint_evals.csv; rates are `success_rate`, `<x>_acc` and other
    `<flag>_rate`. Reward and success are drawn as mean, best of k and greedy where those were played; without
    them success is one of the rates. `steps` is where the axis ends, None: at the last checkpoint. Where a
    title says "n up to", some of what is drawn has fewer: best of k and greedy have one value an item, and
    some rates are not defined for every episode.
    """
    # Truncation stays in the table: few need it, and every line makes the others harder to read.
    rates = [n for n in frame.columns if n.endswith(("_rate", "_acc")) and n != "truncated_rate"]
    rates = [name for name in rates if not name.startswith(_SPECIAL)]
    split = any(name.startswith(_SPECIAL) for name in frame.columns)
    n = column(frame, "episodes")
    most = f"{size_text(n, most=True)} each"
    every = most if split else f"{size_text(n)} each"
    figure = bare_figure(height=8.0 if split else 4.4)
    panels_of = [
        (_ways(frame, "mean_reward"), f"Validation reward, {every}", "reward per episode, 95 % interval")
    ]
    if split:
        rates.remove("success_rate")
        panels_of.append(
            (_ways(frame, "success_rate"), f"Validation success, {most}", "share of episodes, 95 % interval")
        )
        grid = figure.add_gridspec(2, 1, height_ratios=[1, 1.1])
        upper = grid[0, 0].subgridspec(1, 2)
        panels = [figure.add_subplot(place) for place in (upper[0, 0], upper[0, 1], grid[1, 0])]
    else:
        grid = figure.add_gridspec(1, 2, width_ratios=[1, 1.25])
        panels = [figure.add_subplot(grid[0, k]) for k in range(2)]
    panels_of.append(
        ({name: name for name in rates}, f"Validation rates, {most}", "share of episodes, 95 % interval")
    )
    for axes, (names, title, unit) in zip(panels, panels_of, strict=True):
        checkpoint_panel(axes, frame, names, chosen_step, steps)
        axes.set_title(title)
        axes.set_ylabel(unit)
    for axes in panels[1:]:
        axes.set_ylim(-0.03, 1.03)
    for axes in panels[:-1]:
        legend(axes, columns=2, below=True)
    beside(panels[-1])
    return figure


def _ways(frame: pd.DataFrame, name: str) -> dict[str, str]:
    """Return the columns that show one measure in different ways, with their labels."""
    k = column(frame, "best_of")
    best = "best of k" if k is None else f"best of {np.nanmax(k):.0f}"
    ways = {name: name, f"best_of_k_{name}": best, f"greedy_{name}": "greedy"}
    found = {way: label for way, label in ways.items() if way == name or way in frame.columns}
    return found if len(found) == 1 else found | {name: "mean of the draws"}


def checkpoint_panel(
    axes: Axes, frame: pd.DataFrame, names: dict[str, str], chosen_step: int | None, last: int | None = None
) -> None:
    """Draw columns of a table over its steps, with what `<column>_low` and `_high` say as their 95 %
    intervals.

    `names` holds column → label. The axis ends at `last`, None: at the last step of the table.
    """
    steps = column(frame, "step")
    step_axis(axes)
    if steps is None:
        say_missing(axes, "validations")
        return
    # Lines stand side by side, so that their intervals can be told apart, and within half the way to the next
    # checkpoint.
    end = max(float(np.nanmax(steps)), last or 0, 1)
    axes.set_xlim(-0.03 * end, 1.03 * end)
    apart = min(0.006 * end, 0.5 * float(np.diff(steps).min(initial=np.inf)) / max(1, len(names)))
    # Only flags: where nothing was ever solved, that is what the figure has to show.
    zero = [
        name for name, label in names.items() if name == label != "mean_reward" and always_zero(frame, name)
    ]
    shown = [name for name in names if name not in zero]
    for k, name in enumerate(shown):
        shift = (k - (len(shown) - 1) / 2) * apart
        _with_interval(axes, frame, name, names[name], k, shift)
    if zero and not shown:
        axes.plot(frame["step"], [0.0] * len(frame), color=GREY)
    for name in zero:
        axes.plot([], [], " ", label=f"{names[name]}: always 0")
    if not names:
        say_missing(axes, "rates")
    mark_chosen(axes, chosen_step)


def _with_interval(axes: Axes, frame: pd.DataFrame, name: str, label: str, k: int, shift: float) -> None:
    y = column(frame, name)
    if y is None:
        axes.plot([], [], " ", label=f"{label}: missing")
        return
    x = frame["step"].to_numpy(np.float64) + shift
    style, nothing = look(k), np.full(len(x), np.nan)
    axes.plot(x, y, ms=4.5, label=label, **style)
    low, high = (column(frame, f"{name}_{end}") for end in ("low", "high"))
    low, high = (nothing if end is None else end for end in (low, high))
    axes.vlines(x, low, high, color=style["color"], lw=1.3, alpha=0.75)
    bare = np.isfinite(y) & ~(np.isfinite(low) & np.isfinite(high))
    if bare.any():
        axes.plot(x[bare], y[bare], "o", mfc="none", mec=GREY, ms=9, label="interval missing")
    mark_gaps(axes, x, y, label)
