"""The curve of one training run; missing values are drawn as missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assay.core.counting import counted
from assay.core.records import HealthEvent, HealthRule
from assay.verdict.evidence.figures.drawing import (
    AFTER,
    GREY,
    INK,
    Values,
    bare_figure,
    column,
    legend,
    mark_gaps,
    say_missing,
    step_axis,
    styled,
    thinned,
)
from assay.verdict.evidence.figures.health_figure import draw_strip, spans

SMOOTH_FROM = 40
MOST_FAINT = 240  # points of a line that only shows the spread behind a bold one


def smoothing_window(n: int) -> int:
    """Return over how many of n steps a bold line is averaged."""
    return max(5, n // 12)


def smoothed(y: Values) -> Values:
    """Return the running mean of a line."""
    # Running mean, blank where the value itself is missing: smoothing must not bridge a gap.
    mean = (
        pd.Series(y).rolling(smoothing_window(len(y)), center=True, min_periods=3).mean().to_numpy(np.float64)
    )
    return np.where(np.isfinite(y), mean, np.nan)


def _curve(axes: Axes, frame: pd.DataFrame, name: str, title: str, unit: str) -> None:
    """Draw a column: a long one faint, with its running mean in bold."""
    y, x = column(frame, name), column(frame, "step")
    axes.set_title(title)
    axes.set_ylabel(unit)
    if y is None or x is None:
        say_missing(axes, name)
        return
    smooth = len(x) >= SMOOTH_FROM
    faint: dict[str, Any] = {"lw": 0.8, "alpha": 0.45, "label": "each step"} if smooth else {"label": name}
    kept = thinned(y)
    axes.plot(x[kept], y[kept], color=INK, marker="o" if len(x) < 3 else None, **faint)
    if smooth:
        mean = smoothed(y)
        kept = thinned(mean)
        axes.plot(x[kept], mean[kept], color=INK, lw=1.8, label=f"mean of {smoothing_window(len(x))} steps")
    mark_gaps(axes, x, y)


def mark_chosen(axes: Axes, chosen_step: int | None, *, named: bool = False) -> None:
    """Mark the checkpoint that was chosen, once one is; `named`: say so beside the line."""
    if chosen_step is None:
        return
    axes.axvline(chosen_step, color=AFTER, lw=1.4, ls=":", zorder=1)
    if named:
        left = chosen_step < sum(axes.get_xlim()) / 2
        axes.annotate(
            f"chosen: step {chosen_step}",
            (chosen_step, 0.0),
            xycoords=axes.get_xaxis_transform(),
            xytext=(4 if left else -4, 5),
            textcoords="offset points",
            ha="left" if left else "right",
            fontsize=8,
            color=AFTER,
        )


@styled
def training_curve(
    log: pd.DataFrame,
    alarms: Sequence[HealthEvent] | None = None,
    *,
    steps: int | None = None,
    unmeasured: Sequence[HealthRule] = (),
    chosen_step: int | None = None,
    episodes: Values | None = None,
    reached: int | None = None,
) -> Figure:
    """Return reward with a band of one reward_std, loss, KL and gradient norm over optimizer steps, alarms
    above them.

    Args:
        log: The columns of training_log.csv; the reward of a step is the mean over its episodes. May have few
            rows or none.
        alarms: The lines of health.jsonl, oldest first; None leaves out the strip.
        steps: Where the axis ends; None: at the last logged step.
        unmeasured: Rules of health that had nothing to read.
        chosen_step: The chosen checkpoint; None: none is yet.
        episodes: How many episodes each step was rewarded on; None: not known, and not said.
        reached: The newest step while the training runs; None: it has ended.
    """
    rang = len(spans(alarms or (), 1))
    rows = None if alarms is None or (not rang and reached is None) else max(1, rang)
    curves = [2.0, 1.0, 1.0, 1.0]
    heights = curves if rows is None else [0.45 + 0.22 * rows, *curves]
    figure = bare_figure(height=sum(heights) + 0.9)
    grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
    first = figure.add_subplot(grid[-4, 0])
    panels = [first, *(figure.add_subplot(grid[k, 0], sharex=first) for k in (-3, -2, -1))]
    logged = column(log, "step")
    each = "" if episodes is None else f", {size_text(episodes)} episodes each"
    _curve(first, log, "reward", f"Reward, {counted(len(log), 'steps')}{each}", "per episode")
    reward, spread = column(log, "reward"), column(log, "reward_std")
    if reward is not None and logged is not None:
        _band(first, logged, reward, spread)
    _curve(panels[1], log, "loss", "Loss", "loss")
    measured = log if column(log, "kl") is None else log.dropna(subset="kl")
    seldom = "" if len(measured) == len(log) else f", at {len(measured)} of {len(log)} steps"
    _curve(panels[2], measured, "kl", f"KL to the base{seldom}", "nat per token")
    _curve(panels[3], log, "grad_norm", "Gradient norm before clipping", "norm")
    for panel in panels:
        panel.tick_params(labelbottom=panel is panels[-1])
    end = steps or (1 if logged is None else int(np.nanmax(logged)))
    if alarms is not None and rows is not None:
        strip = figure.add_subplot(grid[0, 0], sharex=first)
        said = draw_strip(strip, alarms, end, unmeasured, reached=reached)
        strip.set_xlabel(said, fontsize=8, color=GREY)
        strip.tick_params(labelbottom=False)
    first.set_xlim(0, end + 1)
    step_axis(panels[-1])
    for panel in panels:
        mark_chosen(panel, chosen_step, named=panel is first)
    legend(first, 4, above=True)
    for panel in panels[1:]:
        if any("missing" in said for said in panel.get_legend_handles_labels()[1]):
            legend(panel)
    return figure


def _band(axes: Axes, x: Values, reward: Values, spread: Values | None) -> None:
    if spread is None:
        axes.plot([], [], " ", label="sd: missing")
    else:
        kept = np.union1d(thinned(reward - spread), thinned(reward + spread))
        ends = (reward[kept] - spread[kept], reward[kept] + spread[kept])
        if len(x) < 3:  # too few for an area
            axes.vlines(x[kept], *ends, color=INK, alpha=0.3, lw=7, label="\u00b1 1 sd")
        else:
            axes.fill_between(x[kept], *ends, color=INK, alpha=0.18, lw=0, label="\u00b1 1 sd")


def always_zero(frame: pd.DataFrame, name: str) -> bool:
    """Return whether a column is known everywhere and 0; several such lines would hide each other."""
    y = column(frame, name)
    return y is not None and bool((y == 0).all())


def size_text(n: Values | None) -> str:
    """Return how many observations stand behind each point, in words."""
    if n is None:
        return "n missing"
    low, high = f"{np.nanmin(n):.0f}", f"{np.nanmax(n):.0f}"
    return f"n = {low}" if low == high else f"n = {low} to {high}"
