"""The figure of a sweep: reward and success of every checkpoint with intervals, and how far each is from step
0."""

from __future__ import annotations

import textwrap

import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assay.core.counting import counted
from assay.evidence.figures.drawing import BEFORE, GREY, column, legend, new_figure, styled
from assay.evidence.figures.training_figures import checkpoint_panel, size_text
from assay.evidence.tables.sweep_table import EXPLORATORY, Sweep, caption, sweep_rows

RED = "#B00000"
_CHARACTERS = 178  # of small text in a figure of the house's width


@styled
def sweep_figure(sweep: Sweep) -> Figure:
    """Return reward and success over checkpoints, above their paired differences to step 0; the caption
    stands below."""
    rows, columns = sweep_rows(sweep)
    frame = pd.DataFrame(rows, columns=columns)
    figure, panels = new_figure(2, 2, height=7.6)
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
