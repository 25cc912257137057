"""How every figure looks and becomes bytes; the figures themselves are in training_figures and
comparison_figures.

Only matplotlib's object interface is used, because pyplot keeps global state and may open windows.
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec

import matplotlib as mpl
import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.image import imsave
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

from assay.verdict.evidence.escape import visible

# Source: Okabe and Ito (2008), Color Universal Design, palette for all kinds of colour vision.
# One meaning each, in every figure: the base, the trained policy, a control, who has to be beaten, and what
# is neither of them, such as a training on its way.
BEFORE, AFTER, CONTROL, RIVAL, GREY, INK = "#0072B2", "#D55E00", "#CC79A7", "#009E73", "#5F5F5F", "#333333"
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
DPI = 110
SHARP = 2  # pixels of a PNG for each one of the layout: sharp on dense screens and on slides
WIDTH = 4.75  # inches, 522 pixels: two stand side by side on a page, and a telephone shows one legibly
WIDE = 10.0  # of figures that stand alone in a file
TITLE = FontProperties(family=["DejaVu Sans"], size=11, weight="bold")
MOST_POINTS = 600  # of one line: about as many as such a page has pixels for
P = ParamSpec("P")
Values = np.ndarray[tuple[int], np.dtype[np.float64]]
STYLE: dict[Any, Any] = {
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
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
    "text.parse_math": False,  # a name from a data set is no formula, and half of one would end the drawing
}


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Return the drawing function with the house style in force while it runs; no global setting outlives the
    call."""

    @functools.wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with mpl.rc_context(STYLE):
            return draw(*args, **kwargs)

    return drawn


def new_figure(
    rows: int, columns: int, *, width: float = WIDTH, height: float, ratios: Sequence[float] | None = None
) -> tuple[Figure, list[Axes]]:
    """Return an empty figure of `width` x `height` inches with rows x columns panels, row by row."""
    figure = bare_figure(width=width, height=height)
    grid = figure.subplots(
        rows, columns, squeeze=False, gridspec_kw={"width_ratios": ratios} if ratios else None
    )
    return figure, [axes for row in grid for axes in row]


def bare_figure(*, width: float = WIDTH, height: float) -> Figure:
    """Return a figure of `width` x `height` inches without panels, for those that place them by a grid."""
    return Figure(figsize=(width, height), dpi=DPI, layout=ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.07))


# What the colours of a figure become where a reader's screen is dark; the page around it does the same.
_DARK = {
    "#ffffff": "#161616",
    "#000000": "#e8e8e4",
    "#333333": "#d0d0cc",
    "#5f5f5f": "#aeaea8",
    "#e3e3e3": "#3a3a38",
    "#ededed": "#2b2b2a",
    "#dadada": "#3d3d3b",
    "#0072b2": "#56b4e9",
    "#009e73": "#2fc499",
    "#b00000": "#ff8a80",
}


def in_the_dark(svg: str) -> str:
    """Return an SVG that turns its paper and its ink where the reader's screen is dark; light stays as it
    was."""
    rules = [
        f'[style*="{what}: {light}"]{{{what}:{dark}!important}}'
        for light, dark in _DARK.items()
        for what in ("fill", "stroke")
        if f"{what}: {light}" in svg
    ]
    # Text and strokes without a colour of their own are black by default.
    rules.append("text:not([style*='fill']){fill:#e8e8e4}")
    style = f"<style>@media(prefers-color-scheme:dark){{{''.join(rules)}}}</style></svg>"
    return style.join(svg.rsplit("</svg>", 1))


_COORDINATES, _DIGITS = re.compile(r'( (?:d|x|y)=")([^"]*)'), re.compile(r"(\.\d\d)\d+")
_MARKERS = re.compile(r'<use [^>]*? style="([^"]*)"/>(?:\s*<use [^>]*? style="\1"/>)+')


def _smaller(svg: str) -> str:
    """Return an SVG that looks the same: places to a hundredth of a point, the look of a row of markers said
    once, and no indentation."""
    svg = _COORDINATES.sub(lambda found: found[1] + _DIGITS.sub(r"\1", found[2]), svg)
    svg = _MARKERS.sub(_said_once, svg)
    return re.sub(r"\n +", "\n", svg)


def _said_once(found: re.Match[str]) -> str:
    style = f' style="{found[1]}"'
    return f"<g{style}>{found[0].replace(style, '')}</g>"


def render(figure: Figure, title: str = "") -> dict[str, bytes]:
    """Return the figure as {"png": ..., "svg": ...}; equal figures give equal bytes: no date, version or
    random ids.

    The layout is solved once and then kept, because solving it again moves panels by fractions of a pixel.
    `title` stands above the PNG, which is shown alone; a page has it as text above the SVG.
    """
    with mpl.rc_context(STYLE):
        png, svg = io.BytesIO(), io.BytesIO()
        layout = figure.get_layout_engine()
        if layout is not None:
            FigureCanvasAgg(figure)
            for _ in range(2):  # the second time with the legends where the first put them
                layout.execute(figure)
            figure.set_layout_engine("none")
            _snap(figure)
        # Figure.savefig would draw each once more, only to let a layout settle. An SVG leaves the figure at
        # 72 dpi.
        pixels = [_pixels(each) for each in (_title_band(figure, title), figure) if each is not None]
        imsave(png, np.concatenate(pixels), format="png", metadata={"Software": None}, dpi=SHARP * DPI)  # type: ignore[dict-item,unused-ignore]
        FigureCanvasSVG(figure).print_svg(svg, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call,unused-ignore]
    return {"png": png.getvalue(), "svg": in_the_dark(_smaller(visible(svg.getvalue().decode()))).encode()}


def _pixels(figure: Figure) -> np.ndarray[Any, np.dtype[np.uint8]]:
    figure.set_dpi(SHARP * DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call,unused-ignore]
    return np.array(canvas.buffer_rgba())  # type: ignore[no-untyped-call,unused-ignore]


def _title_band(figure: Figure, title: str) -> Figure | None:
    if not title:
        return None
    width = float(figure.get_size_inches()[0])
    lines = _wrapped(visible(title), width - 0.18)
    band = Figure(figsize=(width, 0.12 + 0.2 * len(lines)), dpi=DPI)
    band.text(0.09 / width, 0.5, "\n".join(lines), va="center", fontproperties=TITLE)
    return band


def _wrapped(text: str, inches: float) -> list[str]:
    """Return the lines of a title as wide as they will be drawn."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        width, _, _ = text_to_path.get_text_width_height_descent(longer, TITLE, ismath=False)
        if lines and width <= 72 * inches:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _snap(figure: Figure) -> None:
    # The solver of the layout goes by addresses in memory, so equal figures differ by some 1e-13: put panels
    # on whole pixels. Shifted a little, lest a value that is half a pixel falls now to one side and now to
    # the other.
    size = np.tile(np.asarray(figure.get_size_inches(), np.float64) * DPI, 2)
    for axes in figure.axes:
        edges = np.round(np.asarray(axes.get_position().extents, np.float64) * size + 0.123) / size
        axes.set_position((edges[0], edges[1], edges[2] - edges[0], edges[3] - edges[1]))


def look(k: int) -> dict[str, Any]:
    """Return colour, line style and marker of the k-th line of a panel; no two of the first 49 look alike."""
    n = len(PALETTE)
    turned = (k + k // n) % n  # beyond one round a colour comes with another line and marker
    return {"color": PALETTE[k % n], "ls": LINES[turned], "marker": MARKERS[turned]}


def say_missing(axes: Axes, what: str) -> None:
    """Write that data are missing into an empty panel, and take away scales that would suggest values."""
    axes.text(0.5, 0.5, f"{what}: missing", transform=axes.transAxes, ha="center", va="center", color=GREY)
    # Not by taking the ticks away: panels that share an axis share its ticks.
    axes.tick_params(
        bottom=False, left=False, right=False, labelbottom=False, labelleft=False, labelright=False
    )
    axes.grid(visible=False)


def step_axis(axes: Axes, most: int = 9) -> None:
    """Make the horizontal axis one of optimizer steps: at most so many whole numbers, and one more."""
    axes.set_xlabel("optimizer step")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=most, integer=True, steps=[1, 2, 5, 10]))


def column(frame: pd.DataFrame, name: str) -> Values | None:
    """Return a column as floats with nan where missing; None if the column is absent or wholly missing."""
    if name not in frame.columns:
        return None
    values = pd.to_numeric(frame[name], errors="coerce").to_numpy(np.float64, na_value=np.nan)
    values = np.where(np.isfinite(values), values, np.nan)
    return None if np.isnan(values).all() else values


def thinned(y: Values, most: int = MOST_POINTS) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return the positions to draw of a line of many values: first, lowest, highest, last and a gap of each
    run of them.

    So a spike or a gap of one step is seen however long the line; a line of at most `most` values keeps all
    of them.

    >>> thinned(np.array([0.0, 1.0, 9.0, 1.0, 0.0, np.nan, 0.0, 0.0]), 5).tolist()
    [0, 2, 5, 6, 7]
    """
    n = len(y)
    if n <= most:
        return np.arange(n)
    width = -(-4 * n // most)
    kept: set[int] = set()
    for start in range(0, n, width):
        run = y[start : start + width]
        places = {0, len(run) - 1}
        gaps = np.isnan(run)
        if gaps.any():
            places.add(int(gaps.argmax()))
        if not gaps.all():
            places |= {int(np.nanargmin(run)), int(np.nanargmax(run))}
        kept |= {start + place for place in places}
    return np.array(sorted(kept), np.intp)


def mark_gaps(axes: Axes, x: Iterable[float], y: Iterable[float], name: str = "") -> None:
    """Mark positions without a value by a cross on the lower edge, so that a gap is seen as missing."""
    where = [a for a, b in zip(x, y, strict=True) if not np.isfinite(b)]
    if where:
        axes.plot(
            where,
            [0.015] * len(where),
            "x",
            transform=axes.get_xaxis_transform(),
            color=GREY,
            markersize=4,
            label=f"{name} missing ({len(where)})".strip(),
            clip_on=False,
        )


def legend(axes: Axes, columns: int = 1, *, below: bool = False, above: bool = False) -> None:
    """Draw the panel's legend, one entry per label, if there is any; under or over the panel where lines
    would hide it."""
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    if unique:
        place: dict[str, Any] = {"loc": "best"}
        if below:  # by inches, so that it clears the label of the axis whatever the panel's height
            under = axes.transAxes + ScaledTranslation(0, -0.42, axes.figure.dpi_scale_trans)
            place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": under}
        if above:
            axes.set_title(axes.get_title("left"), pad=20)
            place = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.1}
            place |= {"handlelength": 1.4, "columnspacing": 1.0, "fontsize": 8}
        axes.legend(list(unique.values()), list(unique), ncols=columns, **place)
