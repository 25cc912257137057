"""The figure of a sweep: reward and success of every checkpoint with intervals, and how far each is from step
0."""

from __future__ import annotations

import textwrap

import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assay.core.counting import counted
from assay.verdict.evidence.figures.drawing import (
    BEFORE,
    GREY,
    WIDE,
    column,
    legend,
    look,
    mark_gaps,
    new_figure,
    say_missing,
    step_axis,
    styled,
)
from assay.verdict.evidence.figures.training_figures import always_zero, mark_chosen, size_text
from assay.verdict.evidence.tables.sweep_table import EXPLORATORY, Sweep, caption, sweep_rows

RED = "#B00000"
_CHARACTERS = 178  # of small text in a figure of the house's width


@styled
def sweep_figure(sweep: Sweep) -> Figure:
    """Return reward and success over checkpoints, above their paired differences to step 0; the caption
    stands below."""
    rows, columns = sweep_rows(sweep)
    frame = pd.DataFrame(rows, columns=columns)
    figure, panels = new_figure(2, 2, width=WIDE, height=7.6)
    n = size_text(column(frame, "episodes"))
    pairs = f"n = {counted(sweep.n_items, 'pairs')} of items each"
    for k, (name, said, unit) in enumerate(
        (("mean_reward", "Reward", "reward per episode"), ("success_rate", "Success", "share of episodes"))
    ):
        upper, lower = panels[k], panels[2 + k]
        checkpoint_panel(upper, frame, {name: name}, sweep.chosen_step)
        upper.set_title(f"{said}, {n} each")
        upper.set_ylabel(f"{unit}, 95 % interval")
        _reference(upper, sweep.checkpoints[0].row[name])
        gap = f"{name}_difference"
        checkpoint_panel(
            lower, frame[frame["step"] > 0], {gap: "checkpoint \u2212 step 0"}, sweep.chosen_step
        )
        lower.set_title(f"{said} against step 0, {pairs}")
        lower.set_ylabel(f"{unit}, difference")
        lower.axhline(0, color="black", lw=0.9)
        lower.set_xlim(upper.get_xlim())
    panels[1].set_ylim(-0.03, 1.03)
    for axes in panels:
        legend(axes, columns=3, below=True)
    exploratory = sweep.split == "heldout"
    heading = (
        EXPLORATORY
        if exploratory
        else f"{counted(len(sweep.checkpoints), 'checkpoints')} on the validation suite"
    )
    figure.suptitle(
        f"{heading} \u2014 {sweep.task}, run {sweep.run}"[:110],
        color=RED if exploratory else "black",
        fontsize=11,
    )
    left_out = [f"Left out: {counted(len(sweep.left_out), 'damaged checkpoints')}."] if sweep.left_out else []
    text = " ".join([caption(sweep, table=False), *sweep.notes, *left_out])
    figure.supxlabel(textwrap.fill(text, _CHARACTERS), fontsize=7.5, color=GREY, x=0.01, ha="left")
    return figure


def _reference(axes: Axes, value: float | int | None) -> None:
    if value is not None:
        axes.axhline(value, color=BEFORE, ls=(0, (6, 2)), lw=1.1, label="base (step 0)", zorder=1)


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
