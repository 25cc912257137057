"""Reward parts, rates and validations of a training, a small panel each: no line hides another."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from assay.verdict.evidence.figures.drawing import (
    AFTER,
    BEFORE,
    GREY,
    INK,
    Values,
    bare_figure,
    column,
    mark_gaps,
    say_missing,
    step_axis,
    styled,
    thinned,
)
from assay.verdict.evidence.figures.training_figures import (
    MOST_FAINT,
    SMOOTH_FROM,
    always_zero,
    mark_chosen,
    size_text,
    smoothed,
    smoothing_window,
)
from assay.verdict.evidence.labels import LABELS, labelled

COLUMNS = 2
LONGEST_HEAD = 20  # characters over a panel
# Behind the rates of the flags; drawn beside the mean they belong to.
_SPECIAL = ("best_of_k_", "greedy_")


def _panels(n: int, height: float, foot: str, large: int = 0) -> tuple[Figure, list[Axes]]:
    """Return n panels in columns, the first `large` ones as wide as the figure and half as high again."""
    n = max(1, n)
    rows, text = large + -(-(n - large) // COLUMNS), textwrap.fill(foot, 74, break_on_hyphens=False)
    heights = [1.5 if row < large else 1.0 for row in range(rows)]
    figure = bare_figure(height=0.5 + height * sum(heights) + 0.16 * (1 + text.count("\n")))
    grid, axes = figure.add_gridspec(rows, COLUMNS, height_ratios=heights), list[Axes]()
    for k in range(n):
        row, place = (k, slice(None)) if k < large else divmod(k - large, COLUMNS)
        each = figure.add_subplot(
            grid[row + large if k >= large else row, place], sharex=axes[0] if axes else None
        )
        each.tick_params(labelsize=8, labelbottom=k + COLUMNS >= n or k < large)
        step_axis(each, 9 if k < large else 4)
        each.set_xlabel("")
        axes.append(each)
    figure.supxlabel(f"optimizer step\n{text}", fontsize=8.5)
    return figure, axes


def _head(axes: Axes, name: str, right: str = "") -> None:
    short = name if len(name) <= LONGEST_HEAD else f"{name[: LONGEST_HEAD - 1]}\u2026"
    axes.set_title(short, fontsize=9, loc="left")
    axes.set_title(right, fontsize=8, loc="right", color=GREY)


def _shown_name(name: str) -> str:
    return labelled(name if name in LABELS else name.removeprefix("mean_"))


@styled
def reward_components(frame: pd.DataFrame, chosen_step: int | None = None) -> Figure:
    """Return reward, success and what else moved most over optimizer steps, a panel each, of reward parts,
    rates and turns; for a task of one turn of its metrics instead of turns. In each head: the means of the
    first and of the last tenth of the steps.

    `frame` has the columns of reward_components.csv: step, n, then `mean_<part>`, `<flag>_rate` and
    `metric.<name>` in any number, and any number of rows, also none.
    """
    parts = [name for name in frame.columns if name.startswith("mean_") and name != "mean_n_steps"]
    rates = [name for name in frame.columns if name.endswith("_rate")]
    metrics, turns = [n for n in frame.columns if n.startswith("metric.")], column(frame, "mean_n_steps")
    further = metrics if metrics and turns is not None and (turns == 1).all() else ["mean_n_steps"]
    zero = [name for name in (*parts, *rates) if always_zero(frame, name)]
    found = [name for name in (*parts, *rates) if name not in zero] + further
    shown, left = _most_moved(frame, found)
    said = [f"{size_text(column(frame, 'n'))} a step, for rates at most"]
    if len(frame) >= SMOOTH_FROM:
        said.append(f"bold: mean of {smoothing_window(len(frame))} steps")
    if chosen_step is not None:
        said.append(f"dotted: step {chosen_step}, which was chosen")
    if left:
        said.append(f"only in the table: {', '.join(map(_shown_name, left))}")
    if zero:
        said.append(f"always 0: {', '.join(map(_shown_name, zero))}")
    figure, panels = _panels(len(shown), 1.5, "; ".join(said))
    for axes, name in zip(panels, shown, strict=True):
        unit = "reward" if name in parts else "share" if name in rates else "mean"
        head = f"part: {_shown_name(name)}" if name in parts else _shown_name(name)
        _line(axes, frame, name, unit, "whole reward" if name == "mean_cumulative" else head)
        if name in rates:
            axes.set_ylim(-0.04, 1.04)
        mark_chosen(axes, chosen_step)
    return figure


MOST_PANELS = 4


def _most_moved(frame: pd.DataFrame, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return which columns are drawn, and which are not: the whole reward and success first, then what moved
    most for its spread; a part that is the whole reward is not drawn twice."""
    first = [name for name in ("mean_cumulative", "success_rate") if name in names]
    parts = [n for n in names if n.startswith("mean_") and n not in (*first, "mean_n_steps")]
    same = {n for n in parts if first and frame[n].equals(frame.get(first[0]))}

    def moved(name: str) -> float:
        y = column(frame, name)
        if y is None:
            return math.inf  # that it is missing is to be seen
        n, spread = max(1, len(y) // 10), float(np.nanstd(y))
        if np.isnan(y[:n]).all() or np.isnan(y[-n:]).all():
            return 0.0
        return float(abs(np.nanmean(y[-n:]) - np.nanmean(y[:n])) / spread) if spread else 0.0

    rest = sorted((n for n in names if n not in first and n not in same), key=moved, reverse=True)
    shown = [*first, *rest[: MOST_PANELS - len(first)]]
    return shown, [name for name in names if name not in shown]


def _line(axes: Axes, frame: pd.DataFrame, name: str, unit: str, shown: str) -> None:
    y, x = column(frame, name), column(frame, "step")
    axes.set_ylabel(unit, fontsize=8)
    if y is None or x is None:
        _head(axes, shown)
        say_missing(axes, name)
        return
    gaps = int(np.isnan(y).sum())
    _head(axes, shown, f"missing ({gaps})" if gaps else _ends(y))
    kept = thinned(y, MOST_FAINT)
    if len(x) >= SMOOTH_FROM:
        axes.plot(x[kept], y[kept], color=INK, lw=0.6, alpha=0.3)
        y = smoothed(y)
        kept = thinned(y, MOST_FAINT)
    axes.plot(x[kept], y[kept], color=INK, lw=1.6, marker="o" if len(x) < 3 else None, label=shown)
    mark_gaps(axes, x, y, shown)


def _ends(y: Values) -> str:
    n = max(1, len(y) // 10)
    ends = y[:n].mean(), y[-n:].mean()
    places = 2 if max(map(abs, ends)) >= 0.01 else 3
    first, last = (f"{end:.{places}f}".replace("-", "\u2212") for end in ends)
    return f"{first} \u2192 {last}"


@styled
def checkpoint_progression(
    frame: pd.DataFrame, chosen_step: int | None, *, steps: int | None = None
) -> Figure:
    """Return reward, success and rates over checkpoints with 95 % intervals, a panel each; base and chosen
    checkpoint in their colours.

    `frame` has the columns of checkpoint_evals.csv, with `<column>_low`, `_high` and `_n` where they are
    known; rates are `success_rate`, `<x>_acc` and other `<flag>_rate`. Reward and success are drawn as mean,
    best of k and greedy where those were played. `steps` is where the axis ends, None: at the last
    checkpoint. In each head: n, of one checkpoint.
    """
    # Truncation stays in the table: few need it.
    rates = [n for n in frame.columns if n.endswith(("_rate", "_acc")) and n != "truncated_rate"]
    rates = [n for n in rates if n != "success_rate" and not n.startswith(_SPECIAL)]
    zero = [name for name in rates if always_zero(frame, name)]
    full = [name for name in rates if _is_full(frame, name)]
    shown = ["success_rate", "mean_reward", *(name for name in rates if name not in (*zero, *full))]
    said = (("always 0", zero), ("never below 99 %", full))
    foot = "; ".join(f"{how}: {', '.join(map(_shown_name, own))}" for how, own in said if own)
    figure, panels = _panels(len(shown), 1.15, foot, large=1)
    x = column(frame, "step")
    if x is None:
        for axes, name in zip(panels, shown, strict=True):
            _head(axes, _shown_name(name))
            say_missing(axes, "validations")
        return figure
    end = max(float(np.nanmax(x)), steps or 0, 1)
    ways: dict[str, str] = {}
    for axes, name in zip(panels, shown, strict=True):
        axes.set_xlim(-0.04 * end, 1.04 * end)
        axes.set_ylabel("reward" if name == "mean_reward" else "%", fontsize=8)
        own = _ways(frame, name)
        ways |= own
        _validated(axes, frame, x, name, own, chosen_step)
        if name != "mean_reward":
            axes.set_ylim(-0.08, 1.08)
            axes.set_yticks([0, 0.5, 1], ["0", "50", "100"])
    bare = any(_is_bare(frame, name) for name in shown)
    entries = _entries(list(ways.values()), x, chosen_step, bare=bare)
    figure.legend(entries, [str(each.get_label()) for each in entries], ncols=3, loc="outside upper left")
    return figure


_STYLES = {"greedy": ("--", GREY), "best": (":", GREY)}


def _ways(frame: pd.DataFrame, name: str) -> dict[str, str]:
    """Return the columns that show one measure in different ways, with their labels; the mean last, on
    top."""
    k = column(frame, "best_of")
    best = "best of k" if k is None else f"best of {np.nanmax(k):.0f}"
    ways = {f"best_of_k_{name}": best, f"greedy_{name}": "greedy"}
    return {way: label for way, label in ways.items() if way in frame.columns} | {name: "mean of the draws"}


def _style(label: str) -> tuple[Any, str]:
    return _STYLES.get(label.split()[0], ("-", INK))


def _is_full(frame: pd.DataFrame, name: str) -> bool:
    y = column(frame, name)
    return y is not None and bool((y >= 0.99).all())


def _is_bare(frame: pd.DataFrame, name: str) -> bool:
    """Return whether any value of a column has no interval."""
    y, low, high = (column(frame, each) for each in (name, f"{name}_low", f"{name}_high"))
    if y is None:
        return False
    return low is None or high is None or bool((np.isfinite(y) & ~np.isfinite(low + high)).any())


def _entries(labels: Sequence[str], x: Values, chosen_step: int | None, *, bare: bool) -> list[Line2D]:
    found = []
    for label in dict.fromkeys(labels):
        style, colour = _style(label)
        found.append(Line2D([], [], ls=style, color=colour, label=label))
    if (x == 0).any():
        found.append(Line2D([], [], ls="", marker="o", color=BEFORE, label="base: step 0"))
    if chosen_step is not None:
        found.append(Line2D([], [], ls="", marker="s", color=AFTER, label=f"chosen: step {chosen_step}"))
    if bare:
        found.append(Line2D([], [], ls="", marker="o", color=INK, mfc="white", label="interval missing"))
    return found


def _validated(
    axes: Axes, frame: pd.DataFrame, x: Values, name: str, ways: dict[str, str], chosen_step: int | None
) -> None:
    n = column(frame, f"{name}_n")
    if n is None:
        n = column(frame, "episodes") if name in ("mean_reward", "success_rate") else None
    _head(axes, _shown_name(name), size_text(None if n is None else np.nan_to_num(n)))
    for way, label in ways.items():
        y = column(frame, way)
        if y is None:
            say_missing(axes, way)
            continue
        style, colour = _style(label)
        axes.plot(x, y, color=colour, ls=style, lw=1.3, label=label)
        if way == name:
            _points(axes, frame, x, y, name, chosen_step)
            mark_gaps(axes, x, y, _shown_name(name))


def _points(
    axes: Axes, frame: pd.DataFrame, x: Values, y: Values, name: str, chosen_step: int | None
) -> None:
    nothing = np.full(len(x), np.nan)
    low, high = (column(frame, f"{name}_{end}") for end in ("low", "high"))
    low, high = (nothing if end is None else end for end in (low, high))
    for k, step in enumerate(x):
        if not np.isfinite(y[k]):
            continue
        colour, marker = (AFTER, "s") if step == chosen_step else (BEFORE, "o") if step == 0 else (INK, "o")
        known = np.isfinite(low[k]) and np.isfinite(high[k])
        if known:
            axes.vlines(step, low[k], high[k], color=colour, lw=1.6, alpha=0.8)
        axes.plot(step, y[k], marker, color=colour, mfc=colour if known else "white", ms=4.5, zorder=3)
