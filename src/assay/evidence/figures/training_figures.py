"""Figures of one training run: its curve, its reward parts, and the validation suite over its checkpoints.
Missing values are drawn as missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assay.core.counting import counted
from assay.core.records import HealthEvent, HealthRule
from assay.evidence.figures.drawing import (
    AFTER,
    BEFORE,
    GREY,
    PALETTE,
    Values,
    bare_figure,
    beside,
    column,
    legend,
    look,
    mark_gaps,
    say_missing,
    step_axis,
    styled,
    thinned,
)
from assay.evidence.figures.health_figure import draw_strip, spans

SMOOTH_FROM = 40
MOST_FAINT = 240  # points of a line that only shows the spread behind a bold one


def _window(n: int) -> int:
    return max(5, n // 12)


def _smooth(y: Values) -> Values:
    # Running mean, blank where the value itself is missing: smoothing must not bridge a gap.
    mean = pd.Series(y).rolling(_window(len(y)), center=True, min_periods=3).mean().to_numpy(np.float64)
    return np.where(np.isfinite(y), mean, np.nan)


def _curve(axes: Axes, frame: pd.DataFrame, name: str, colour: str, title: str, unit: str) -> None:
    y, x = column(frame, name), column(frame, "step")
    axes.set_title(title)
    axes.set_ylabel(unit)
    if y is None or x is None:
        say_missing(axes, name)
        return
    kept = thinned(y)
    axes.plot(x[kept], y[kept], color=colour, label=name, marker="o" if len(x) < 3 else None)
    mark_gaps(axes, x, y)


def mark_chosen(axes: Axes, chosen_step: int | None) -> None:
    """Mark the checkpoint that was chosen, once one is."""
    if chosen_step is not None:
        axes.axvline(
            chosen_step, color="black", lw=1.2, ls=":", label=f"chosen: step {chosen_step}", zorder=1
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
    rows = None if alarms is None else max(1, len(spans(alarms, 1)))
    heights = [2.7, 1.5, 1.5, 1.5] if rows is None else [0.75 + 0.28 * rows, 2.7, 1.5, 1.5, 1.5]
    figure = bare_figure(height=sum(heights) + 0.9)
    grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
    first = figure.add_subplot(grid[-4, 0])
    panels = [first, *(figure.add_subplot(grid[k, 0], sharex=first) for k in (-3, -2, -1))]
    logged = column(log, "step")
    each = "" if episodes is None else f", {size_text(episodes)} episodes a step"
    _curve(
        first,
        log,
        "reward",
        BEFORE,
        f"Training reward, {counted(len(log), 'logged steps')}{each}",
        "reward per episode",
    )
    reward, spread = column(log, "reward"), column(log, "reward_std")
    if reward is not None and logged is not None:
        _band(first, logged, reward, spread)
    _curve(panels[1], log, "loss", AFTER, "Loss", "loss")
    _curve(panels[2], log, "kl", PALETTE[2], "KL to the base policy", "nat per token")
    _curve(panels[3], log, "grad_norm", PALETTE[3], "Gradient norm before clipping", "norm")
    for panel in panels:
        mark_chosen(panel, chosen_step)
        panel.tick_params(labelbottom=panel is panels[-1])
    end = steps or (1 if logged is None else int(np.nanmax(logged)))
    if alarms is not None:
        strip = figure.add_subplot(grid[0, 0], sharex=first)
        draw_strip(strip, alarms, end, unmeasured, reached=reached)
        strip.tick_params(labelbottom=False)
    first.set_xlim(0, end + 1)
    step_axis(panels[-1])
    legend(first, 2)
    for panel in panels[1:]:
        if len(panel.get_lines()) > 1 + (chosen_step is not None):
            legend(panel)
    return figure


def _band(axes: Axes, x: Values, reward: Values, spread: Values | None) -> None:
    if spread is None:
        axes.plot([], [], " ", label="reward_std: missing")
    else:
        kept = np.union1d(thinned(reward - spread), thinned(reward + spread))
        ends = (reward[kept] - spread[kept], reward[kept] + spread[kept])
        if len(x) < 3:  # too few for an area
            axes.vlines(x[kept], *ends, color=BEFORE, alpha=0.3, lw=7, label="\u00b1 reward_std")
        else:
            axes.fill_between(x[kept], *ends, color=BEFORE, alpha=0.18, lw=0, label="\u00b1 reward_std")
    if len(x) >= SMOOTH_FROM:
        smooth = _smooth(reward)
        kept = thinned(smooth)
        axes.plot(
            x[kept], smooth[kept], color="black", lw=1.1, ls="--", label=f"mean of {_window(len(x))} steps"
        )


def _lines(axes: Axes, frame: pd.DataFrame, names: list[str], title: str, unit: str, strip: str) -> list[str]:
    # Returns what is always 0, for the legend.
    axes.set_title(title)
    step_axis(axes)
    axes.set_ylabel(unit)
    x = column(frame, "step")
    if x is None or not names:
        say_missing(axes, unit)
        return []
    drawn, zero = 0, [name for name in names if always_zero(frame, name)]
    for k, name in enumerate(name for name in names if name not in zero):
        y, label = column(frame, name), name.removeprefix("mean_").removesuffix(strip)
        if y is None:
            axes.plot([], [], " ", label=f"{label}: missing")
            continue
        drawn += 1
        bold = _smooth(y) if len(x) >= SMOOTH_FROM else y
        kept = thinned(bold)
        style: dict[str, Any] = look(k) | {"markevery": max(1, len(kept) // 8), "ms": 4}
        if len(x) >= SMOOTH_FROM and not strip:  # behind many lines the single steps would hide what is bold
            faint = thinned(y, MOST_FAINT)
            axes.plot(x[faint], y[faint], color=style["color"], lw=0.6, alpha=0.3)
        axes.plot(x[kept], bold[kept], label=label, **style)
        mark_gaps(axes, x, y, label)
    if zero and not drawn:
        axes.plot(x, np.zeros(len(x)), color=GREY, marker="o" if len(x) < 3 else None)
        axes.set_ylim(-0.03, 1.03)
    elif not drawn:
        say_missing(axes, unit)
    return [name.removeprefix("mean_").removesuffix(strip) for name in zero]


def always_zero(frame: pd.DataFrame, name: str) -> bool:
    """Return whether a column is known everywhere and 0; several such lines would hide each other."""
    y = column(frame, name)
    return y is not None and bool((y == 0).all())


def size_text(n: Values | None, *, most: bool = False) -> str:
    """Return how many observations stand behind each point, in words.

    `most` is for several measures of which some are defined on fewer of them: then only the most is said.
    """
    if n is None:
        return "n missing"
    if most:
        return f"n up to {np.nanmax(n):.0f}"
    low, high = f"{np.nanmin(n):.0f}", f"{np.nanmax(n):.0f}"
    return f"n = {low}" if low == high else f"n = {low} to {high}"


@styled
def reward_components(frame: pd.DataFrame, chosen_step: int | None = None) -> Figure:
    """Return reward parts, rates and turns over optimizer steps; for a task of one turn its metrics instead
    of turns.

    `frame` has the columns of reward_components.csv: step, n, then `mean_<part>`, `<flag>_rate` and
    `metric.<name>` in any number, and any number of rows, also none.
    """
    parts = [name for name in frame.columns if name.startswith("mean_") and name != "mean_n_steps"]
    rates = [name for name in frame.columns if name.endswith("_rate")]
    figure = bare_figure(height=7.6)
    grid = figure.add_gridspec(2, 1, height_ratios=[1, 1.1])
    upper = grid[0, 0].subgridspec(1, 2, width_ratios=[1.2, 1])
    panels = [figure.add_subplot(upper[0, 0]), figure.add_subplot(grid[1, 0])]
    n = column(frame, "n")
    smooth = f"; bold: mean of {_window(len(frame))} steps" if len(frame) >= SMOOTH_FROM else ""
    zero = _lines(
        panels[0], frame, parts, f"Reward parts, {size_text(n)} a step{smooth}", "mean reward per episode", ""
    )
    mark_chosen(panels[0], chosen_step)
    legend(panels[0], columns=3, below=True, zero=zero)
    smooth = smooth.replace("bold: ", "")
    zero = _lines(
        panels[1],
        frame,
        rates,
        f"Rates, {size_text(n, most=True)} a step{smooth}",
        "share of episodes",
        "_rate",
    )
    panels[1].set_ylim(-0.03, 1.03)
    mark_chosen(panels[1], chosen_step)
    beside(panels[1], zero)
    metrics, turns = (
        [name for name in frame.columns if name.startswith("metric.")],
        column(frame, "mean_n_steps"),
    )
    shown = {"mean_n_steps": ("Turns", "mean turns per episode")}
    if metrics and turns is not None and (turns == 1).all():
        shown = {name: (name.removeprefix("metric."), "mean per episode") for name in metrics}
    right = upper[0, 1].subgridspec(len(shown), 1)
    for k, (name, (title, unit)) in enumerate(shown.items()):
        axes = figure.add_subplot(right[k, 0])
        _curve(axes, frame, name, PALETTE[k % len(PALETTE)], title, unit)
        axes.tick_params(labelbottom=k == len(shown) - 1)
        if k == len(shown) - 1:
            step_axis(axes)
    return figure


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
