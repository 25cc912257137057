"""Figures of one training run: its curve, its reward parts, its checkpoints. Missing values are drawn as missing."""

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
    LINES,
    MARKERS,
    PALETTE,
    column,
    legend,
    mark_gaps,
    new_figure,
    say_missing,
    styled,
)

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
    steps = f"{len(log)} logged steps"
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
    drawn = 0
    for k, name in enumerate(names):
        y, label = column(frame, name), name.removeprefix("mean_").removesuffix(strip)
        if y is None:
            axes.plot([], [], " ", label=f"{label}: missing")
            continue
        drawn += 1
        colour = PALETTE[k % len(PALETTE)]
        mark: dict[str, Any] = {"marker": MARKERS[k % len(MARKERS)], "markevery": max(1, len(x) // 8), "ms": 4}
        if len(x) >= SMOOTH_FROM:
            axes.plot(x, y, color=colour, lw=0.6, alpha=0.35)
            axes.plot(x, _smooth(y), color=colour, ls=LINES[k % len(LINES)], label=label, **mark)
        else:
            axes.plot(x, y, color=colour, ls=LINES[k % len(LINES)], label=label, **mark)
        mark_gaps(axes, x, y)
    if not drawn:
        say_missing(axes, unit)
    legend(axes, columns=3, below=True)


def _size(n: Values | None) -> str:
    if n is None:
        return "n missing"
    low, high = f"{np.nanmin(n):.0f}", f"{np.nanmax(n):.0f}"
    return f"n = {low}" if low == high else f"n = {low} to {high}"


@styled
def reward_components(frame: pd.DataFrame) -> Figure:
    """Return reward parts, rates and turns over optimizer steps.

    `frame` has the columns of reward_components.csv: step, n, then `mean_<part>` and `<flag>_rate` in any number.
    """
    parts = [name for name in frame.columns if name.startswith("mean_") and name != "mean_n_steps"]
    rates = [name for name in frame.columns if name.endswith("_rate")]
    figure, panels = new_figure(1, 3, width=13.0, height=4.2, ratios=[1, 1, 0.75])
    n = column(frame, "n")
    smooth = f"; bold: mean of {_window(len(frame))} steps" if len(frame) >= SMOOTH_FROM else ""
    _lines(panels[0], frame, parts, f"Reward parts, {_size(n)} a step{smooth}", "mean reward per episode", "")
    _lines(panels[1], frame, rates, "Rates", "share of episodes", "_rate")
    panels[1].set_ylim(-0.03, 1.03)
    _curve(panels[2], frame, "mean_n_steps", BEFORE, "Turns", "mean turns per episode")
    return figure


@styled
def checkpoint_progression(frame: pd.DataFrame, chosen_step: int | None) -> Figure:
    """Return mean reward and rates over checkpoints with 95 % intervals; the chosen checkpoint is marked.

    `frame` has the columns of checkpoint_evals.csv; rates are `success_rate`, `<x>_acc` and other `<flag>_rate`.
    """
    # Truncation stays in the table: an eighth line would have to share a colour.
    rates = [n for n in frame.columns if n.endswith(("_rate", "_acc")) and n != "truncated_rate"]
    figure, panels = new_figure(1, 2, width=11.0, height=4.4, ratios=[1, 1.25])
    n = column(frame, "episodes")
    spread = np.ptp(frame["step"].to_numpy(np.float64)) if len(frame) else 0.0
    for axes, names, title, unit in (
        (panels[0], ["mean_reward"], f"Validation reward, {_size(n)} each", "reward per episode, 95 % interval"),
        (panels[1], rates, f"Validation rates, {_size(n)} each", "share of episodes, 95 % interval"),
    ):
        axes.set_title(title)
        axes.set_xlabel("optimizer step")
        axes.set_ylabel(unit)
        for k, name in enumerate(names):
            shift = (k - (len(names) - 1) / 2) * 0.006 * spread
            _with_interval(axes, frame, name, k, shift)
        if chosen_step is not None:
            axes.axvline(chosen_step, color="black", lw=1.2, ls=":", label=f"chosen: step {chosen_step}", zorder=1)
    panels[1].set_ylim(-0.03, 1.03)
    legend(panels[0])
    handles, labels = panels[1].get_legend_handles_labels()
    panels[1].legend(handles, labels, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8.5)
    return figure


def _with_interval(axes: Axes, frame: pd.DataFrame, name: str, k: int, shift: float) -> None:
    y = column(frame, name)
    if y is None:
        axes.plot([], [], " ", label=f"{name}: missing")
        return
    x = frame["step"].to_numpy(np.float64) + shift
    colour, nothing = PALETTE[k % len(PALETTE)], np.full(len(x), np.nan)
    axes.plot(x, y, color=colour, ls=LINES[k % len(LINES)], marker=MARKERS[k % len(MARKERS)], ms=4.5, label=name)
    low, high = (column(frame, f"{name}_{end}") for end in ("low", "high"))
    low, high = (nothing if end is None else end for end in (low, high))
    axes.vlines(x, low, high, color=colour, lw=1.3, alpha=0.75)
    bare = np.isfinite(y) & ~(np.isfinite(low) & np.isfinite(high))
    if bare.any():
        axes.plot(x[bare], y[bare], "o", mfc="none", mec=GREY, ms=9, label="interval missing")
    mark_gaps(axes, x, y)
