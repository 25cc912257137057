"""A pair of episodes as a reader steps through it: what either policy did and had in hand at each turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.core.records import Episode, Turn
from assay.rollout.tasks.protocol import Panel, Picture
from assay.verdict.evidence.figures.illustrated_figures import highest, panels_shown
from assay.verdict.evidence.tables.trajectories import Stepped

WIDTH, HEIGHT = 128, 44  # of a small panel, in the units of its drawing


@dataclass(frozen=True, slots=True)
class SmallPanel:
    """A panel as paths of an SVG of WIDTH x HEIGHT; `named` is where a stretch begins and how wide it is."""

    name: str
    measured: str
    expected: str
    named: tuple[int, int] | None
    right: int | None


@dataclass(frozen=True, slots=True)
class Moment:
    """What one policy did in turn `number` of `total`; where it had ended before, it stays at its last."""

    arm: str
    number: int
    total: int
    turn: Turn
    said: str
    panels: Sequence[SmallPanel]
    episode: Episode
    over: bool


def moments(shown: Stepped) -> list[tuple[Moment, Moment]]:
    """Return a pair of moments a turn, as many as the longer episode has."""
    before, after = shown.pair.before, shown.pair.after
    return [
        (_moment(shown, 0, before, k), _moment(shown, 1, after, k))
        for k in range(max(len(before.turns), len(after.turns)))
    ]


def _moment(shown: Stepped, arm: int, episode: Episode, k: int) -> Moment:
    last = min(k, len(episode.turns) - 1)
    said, panels = "", list[SmallPanel]()
    if shown.pictures is not None:
        picture = shown.pictures[arm][last + 1]
        tops = _tops(shown.pictures)
        places = panels_shown(shown.pictures)
        said, panels = picture.said, [_small(picture.panels[place], tops[place]) for place in places]
    name = ("before", "after")[arm]
    return Moment(name, last + 1, len(episode.turns), episode.turns[last], said, panels, episode, k > last)


def _tops(pictures: tuple[Sequence[Picture], Sequence[Picture]]) -> list[float]:
    """Return how high each panel reaches at any moment of either episode: one scale for all of them."""
    ends = [own[-1].panels for own in pictures]
    return [highest(both) for both in zip(*ends, strict=True)]


def _small(panel: Panel, top: float) -> SmallPanel:
    low, high = panel.edges[0], panel.edges[-1]

    def place(value: float) -> int:
        return round(WIDTH * (min(max(value, low), high) - low) / (high - low))

    named = None
    if panel.named is not None:
        start, end = map(place, panel.named)
        named = start, max(1, end - start)
    xs = [place(edge) for edge in panel.edges]
    return SmallPanel(
        panel.name,
        f"{_steps(xs, panel.measured, top)}V{HEIGHT}H0z" if any(panel.measured) else "",
        _steps(xs, panel.expected, top) if any(panel.expected) else "",
        named,
        None if panel.right is None else place(panel.right),
    )


def _steps(xs: Sequence[int], values: Sequence[float], top: float) -> str:
    """Return a path of steps.

    >>> _steps([0, 64, 128], [0.0, 5.0], 10.0)
    'M0 44H64V23H128'
    """
    heights = [HEIGHT - round((HEIGHT - 2) * value / top) for value in values]
    path = f"M{xs[0]} {heights[0]}"
    for k, (x, height) in enumerate(zip(xs[1:], heights, strict=True)):
        following = heights[k + 1] if k + 1 < len(heights) else None
        if following != height:
            path += f"H{x}" + ("" if following is None else f"V{following}")
    return path
