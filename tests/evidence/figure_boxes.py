"""What is wrong with the layout of a figure, by the boxes of its texts and panels once it is laid out."""

from __future__ import annotations

from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

SMALLEST = 8.0  # points
LEAST_PLOT = 0.6  # of a figure's width that its panels reach over, in the mean over their height


def faults(figure: Figure) -> list[str]:
    """Return every text that is too small, leaves the figure or covers another, and narrow panels."""
    canvas = FigureCanvasAgg(figure)
    for _ in range(2):  # the second time with the legends where the first put them
        canvas.draw()  # type: ignore[no-untyped-call,unused-ignore]
    width, height = canvas.get_width_height()
    unseen = _left_out(figure)
    shown = [
        (text, text.get_window_extent())
        for text in figure.findobj(Text)
        if isinstance(text, Text) and text.get_visible() and text.get_text().strip()
        if id(text) not in unseen
    ]
    found = [f"small: {text.get_text()!r}" for text, _ in shown if text.get_fontsize() < SMALLEST]
    found += [
        f"outside: {text.get_text()!r}"
        for text, box in shown
        if box.x0 < -1 or box.y0 < -1 or box.x1 > width + 1 or box.y1 > height + 1
    ]
    for (one, box), (other, place) in combinations(shown, 2):
        if _overlap(box, place) > 0.1:
            found.append(f"{one.get_text()!r} over {other.get_text()!r}")
    panels = [axes.get_window_extent() for axes in figure.axes if axes.get_visible()]
    plot = sum(box.width * box.height for box in panels) / sum(
        width * box.height / sum(1 for each in panels if each.y0 < box.y1 and box.y0 < each.y1)
        for box in panels
    )
    return found + ([f"panels take {plot:.0%} of the width"] if plot < LEAST_PLOT else [])


def _left_out(figure: Figure) -> set[int]:
    """Return texts that exist and are not drawn: of hidden panels, and labels of ticks out of view."""
    found = {id(text) for axes in figure.axes if not axes.get_visible() for text in axes.findobj(Text)}
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not (low <= tick.get_loc() <= high) or not tick.get_visible():
                    found |= {id(tick.label1), id(tick.label2)}
    return found


def _overlap(one: Bbox, other: Bbox) -> float:
    """Return which share of the smaller box the other one covers."""
    both = Bbox.intersection(one, other)
    if both is None:
        return 0.0
    smaller = min(one.width * one.height, other.width * other.height)
    return float(both.width * both.height / smaller) if smaller else 0.0
