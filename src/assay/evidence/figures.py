"""How every figure looks and becomes bytes; the figures themselves are in training_figures and comparison_figures.

Only matplotlib's object interface is used, because pyplot keeps global state and may open windows.
"""

from __future__ import annotations

import functools
import io
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec

import matplotlib as mpl
import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

# Source: Okabe and Ito (2008), Color Universal Design, palette for all kinds of colour vision.
BEFORE, AFTER, GREY = "#0072B2", "#D55E00", "#5F5F5F"
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
DPI = 110
P = ParamSpec("P")
_SVG_PATH = re.compile(rb' d="[^"]*"')
STYLE: dict[Any, Any] = {
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "assay",
    "svg.fonttype": "none",
    "path.simplify": True,
}


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Return the drawing function with the house style in force while it runs; no global setting outlives the call."""

    @functools.wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with mpl.rc_context(STYLE):
            return draw(*args, **kwargs)

    return drawn


def new_figure(
    rows: int, columns: int, *, width: float, height: float, ratios: Sequence[float] | None = None
) -> tuple[Figure, list[Axes]]:
    """Return an empty figure of `width` x `height` inches with rows x columns panels, row by row."""
    figure = Figure(figsize=(width, height), dpi=DPI, layout=ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.07))
    grid = figure.subplots(rows, columns, squeeze=False, gridspec_kw={"width_ratios": ratios} if ratios else None)
    return figure, [axes for row in grid for axes in row]


def render(figure: Figure) -> dict[str, bytes]:
    """Return the figure as {"png": ..., "svg": ...}; equal figures give equal bytes: no date, version or random ids.

    The layout is solved once and then kept, because solving it again moves panels by fractions of a pixel.
    """
    with mpl.rc_context(STYLE):
        png, svg = io.BytesIO(), io.BytesIO()
        if figure.get_layout_engine() is not None:
            canvas = FigureCanvasAgg(figure)
            canvas.draw()  # type: ignore[no-untyped-call,unused-ignore]
            canvas.draw()  # type: ignore[no-untyped-call,unused-ignore]
            figure.set_layout_engine("none")
        FigureCanvasAgg(figure)
        figure.savefig(png, format="png", dpi=DPI, metadata={"Software": None})
        FigureCanvasSVG(figure)
        figure.savefig(svg, format="svg", dpi=DPI, metadata={"Date": None, "Creator": None})
    return {"png": png.getvalue(), "svg": _SVG_PATH.sub(_two_decimals, svg.getvalue())}


def _two_decimals(path: re.Match[bytes]) -> bytes:
    # A hundredth of a point is far below what a screen or printer resolves, and the page has a size limit.
    return re.sub(rb"-?\d+\.\d{3,}", lambda number: b"%.2f" % float(number[0]), path[0])


def look(k: int) -> dict[str, Any]:
    """Return colour, line style and marker of the k-th line of a panel; no two of the first 49 look alike."""
    n = len(PALETTE)
    turned = (k + k // n) % n  # beyond one round a colour comes with another line and marker
    return {"color": PALETTE[k % n], "ls": LINES[turned], "marker": MARKERS[turned]}


def say_missing(axes: Axes, what: str) -> None:
    """Write that data are missing into an empty panel, and take away scales that would suggest values."""
    axes.text(0.5, 0.5, f"{what}: missing", transform=axes.transAxes, ha="center", va="center", color=GREY)
    axes.set_xticks([])
    axes.set_yticks([])


def column(frame: pd.DataFrame, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
    """Return a column as floats with nan where missing; None if the column is absent or wholly missing."""
    if name not in frame.columns:
        return None
    values = pd.to_numeric(frame[name], errors="coerce").to_numpy(np.float64, na_value=np.nan)
    values = np.where(np.isfinite(values), values, np.nan)
    return None if np.isnan(values).all() else values


def mark_gaps(axes: Axes, x: Iterable[float], y: Iterable[float]) -> None:
    """Mark positions without a value by a cross on the lower edge, so that a gap is seen as missing."""
    where = [a for a, b in zip(x, y, strict=True) if not np.isfinite(b)]
    if where:
        axes.plot(
            where,
            [0.015] * len(where),
            "x",
            transform=axes.get_xaxis_transform(),
            color="#B00000",
            markersize=5,
            label=f"missing ({len(where)})",
            clip_on=False,
        )


def legend(axes: Axes, columns: int = 1, *, below: bool = False, zero: Sequence[str] = ()) -> None:
    """Draw the panel's legend, one entry per label, if there is any; under the panel where lines would hide it.

    `zero` names what is not drawn because it is always 0: said in wrapped lines, for entries would need more room.
    """
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    if unique or zero:
        place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.17)} if below else {"loc": "best"}
        title: dict[str, Any] = {"title": always_zero_said(zero), "alignment": "left"} if zero else {}
        axes.legend(list(unique.values()), list(unique), ncols=columns, title_fontsize=8.5, **place, **title)


def always_zero_said(names: Sequence[str], width: int = 56) -> str:
    r"""Return what is always 0, in lines that fit a panel.

    >>> always_zero_said(["blocked", "empty"], 20)
    'always 0: blocked,\nempty'
    """
    return textwrap.fill(f"always 0: {', '.join(names)}", width, break_long_words=False, break_on_hyphens=False)
