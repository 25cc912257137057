"""Figures of one training run: its curve and its reward parts. Missing values are drawn as missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assay.evidence.figures import (
    AFTER,
    BEFORE,
    GREY,
    PALETTE,
    column,
    legend,
    look,
    mark_gaps,
    new_figure,
    say_missing,
    styled,
)
from assay.evidence.wording import counted

Values = np.ndarray[tuple[int], np.dtype[np.float64]]
SMOOTH_FROM = 40


def _window(n: int) -> int:
    return max(5, n // 12)


def _smooth(y: Values) -> Values:
    # Running mean, blank where the value itself is missing: smoothing must not bridge a gap.
    mean = pd.Series(y).rolling(_window(len(y)), center=True, min_periods=3).mean().to_numpy(np.float64)
    return np.where(np.isfinite(y), mean, np.nan)


def _curve(axes: Axes, frame: pd.DataFrame, name: str, colour: str, title: str, unit: str) -> None:
    y = column(frame, name)
    axes.set_title(title)
    axes.set_xlabel("optimizer step")
    axes.set_ylabel(unit)
    if y is None:
        say_missing(axes, name)
        return
    x = frame["step"].to_numpy(np.float64)
    axes.plot(x, y, color=colour, label=name, marker="o" if len(x) < 3 else None)
    mark_gaps(axes, x, y)


@styled
def training_curve(log: pd.DataFrame) -> Figure:
    """Return reward with a band of one reward_std, loss, KL and gradient norm over optimizer steps.

    `log` has the columns of training_log.csv; the reward of a step is the mean over its episodes.
    """
    figure, panels = new_figure(2, 2, width=9.0, height=6.0)
    steps = counted(len(log), "logged steps")
    _curve(panels[0], log, "reward", BEFORE, f"Training reward, {steps}", "reward per episode")
    reward, spread = column(log, "reward"), column(log, "reward_std")
    if reward is not None and spread is not None:
        x = log["step"].to_numpy(np.float64)
        panels[0].fill_between(
            x, reward - spread, reward + spread, color=BEFORE, alpha=0.18, lw=0, label="\u00b1 reward_std"
        )
        if len(x) >= SMOOTH_FROM:
            panels[0].plot(x, _smooth(reward), color="black", lw=1.1, ls="--", label=f"mean of {_window(len(x))} steps")
    elif reward is not None:
        panels[0].plot([], [], " ", label="reward_std: missing")
    legend(panels[0])
    _curve(panels[1], log, "loss", AFTER, "Loss", "loss")
    _curve(panels[2], log, "kl", PALETTE[2], "KL to the base policy", "nat per token")
    _curve(panels[3], log, "grad_norm", PALETTE[3], "Gradient norm", "norm before clipping")
    for panel in panels[1:]:
        if len(panel.get_lines()) > 1:
            legend(panel)
    return figure


def _lines(axes: Axes, frame: pd.DataFrame, names: list[str], title: str, unit: str, strip: str) -> None:
    axes.set_title(title)
    axes.set_xlabel("optimizer step")
    axes.set_ylabel(unit)
    x = frame["step"].to_numpy(np.float64)
    drawn, zero = 0, [name for name in names if always_zero(frame, name)]
    for k, name in enumerate(name for name in names if name not in zero):
        y, label = column(frame, name), name.removeprefix("mean_").removesuffix(strip)
        if y is None:
            axes.plot([], [], " ", label=f"{label}: missing")
            continue
        drawn += 1
        style: dict[str, Any] = look(k) | {"markevery": max(1, len(x) // 8), "ms": 4}
        if len(x) >= SMOOTH_FROM:
            axes.plot(x, y, color=style["color"], lw=0.6, alpha=0.35)
            axes.plot(x, _smooth(y), label=label, **style)
        else:
            axes.plot(x, y, label=label, **style)
        mark_gaps(axes, x, y)
    if zero and not drawn:
        axes.plot(x, np.zeros(len(x)), color=GREY, marker="o" if len(x) < 3 else None)
        axes.set_ylim(-0.03, 1.03)
    elif not drawn:
        say_missing(axes, unit)
    legend(axes, columns=3, below=True, zero=[name.removeprefix("mean_").removesuffix(strip) for name in zero])


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


@styled
def reward_components(frame: pd.DataFrame) -> Figure:
    """Return reward parts, rates and turns over optimizer steps; for a task of one turn its metrics instead of turns.

    `frame` has the columns of reward_components.csv: step, n, then `mean_<part>`, `<flag>_rate` and `metric.<name>` in
    any number.
    """
    parts = [name for name in frame.columns if name.startswith("mean_") and name != "mean_n_steps"]
    rates = [name for name in frame.columns if name.endswith("_rate")]
    figure, panels = new_figure(1, 3, width=13.0, height=4.2, ratios=[1, 1, 0.75])
    n = column(frame, "n")
    smooth = f"; bold: mean of {_window(len(frame))} steps" if len(frame) >= SMOOTH_FROM else ""
    _lines(panels[0], frame, parts, f"Reward parts, {size_text(n)} a step{smooth}", "mean reward per episode", "")
    _lines(panels[1], frame, rates, "Rates", "share of episodes", "_rate")
    panels[1].set_ylim(-0.03, 1.03)
    metrics, turns = [name for name in frame.columns if name.startswith("metric.")], column(frame, "mean_n_steps")
    if not metrics or turns is None or not (turns == 1).all():
        _curve(panels[2], frame, "mean_n_steps", BEFORE, "Turns", "mean turns per episode")
        return figure
    place = panels[2].get_subplotspec()
    assert place is not None
    panels[2].remove()
    grid = place.subgridspec(len(metrics), 1)
    for k, name in enumerate(metrics):
        short = name.removeprefix("metric.")
        _curve(figure.add_subplot(grid[k, 0]), frame, name, PALETTE[k % len(PALETTE)], short, "mean per episode")
    return figure
