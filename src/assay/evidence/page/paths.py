"""Lines of a figure in few bytes: as many points as a screen can show, written as short steps from point to point."""

from __future__ import annotations

import re
from itertools import groupby, pairwise

Point = tuple[float, float]
Run = tuple[str, list[Point]]
LONG = 400  # points of one line from which on it is thinned
_TOKEN = re.compile(r"[A-Za-z]|-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_ABSOLUTE = {"M": 1, "L": 1, "Q": 2, "C": 3, "Z": 0}  # points that one command takes


def number(value: float, places: int) -> str:
    """Return a number without needless characters.

    >>> number(0.5, 1), number(-0.04, 1), number(12.0, 1)
    ('.5', '0', '12')
    """
    text = f"{value:.{places}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    text = re.sub(r"^(-?)0\.", r"\1.", text)
    return "0" if text in ("", "-", "-0") else text


def joined(numbers: list[str]) -> str:
    """Return numbers in one string; a minus sign needs no space before it.

    >>> joined(["1", "-2", ".5"])
    '1-2 .5'
    """
    return "".join(text if k == 0 or text.startswith("-") else f" {text}" for k, text in enumerate(numbers))


def thinned(points: list[Point], width: float = 1.5) -> list[Point]:
    """Return a long line with its lowest and highest point in each column of `width`, two pixels of a screen, and both ends.

    A line that goes forth and back (the edge of a band) is thinned on each way by itself.
    """
    if len(points) < LONG:
        return points
    ways: list[list[Point]] = [[points[0]]]
    forward: bool | None = None
    for last, point in pairwise(points):
        step = point[0] - last[0]
        if step and forward is not None and (step > 0) != forward:
            ways.append([])
        forward = step > 0 if step else forward
        ways[-1].append(point)
    return [points[0], *(point for way in ways for point in _one_way(way, width)), points[-1]]


def _one_way(points: list[Point], width: float) -> list[Point]:
    kept: list[Point] = []
    for _, group in groupby(points, key=lambda point: int(point[0] / width)):
        column = list(group)
        heights = [point[1] for point in column]
        ends = {heights.index(min(heights)), heights.index(max(heights))}
        kept += [column[k] for k in sorted(ends)]
    return kept


def _runs(text: str) -> list[Run] | None:
    """Return a path as (command, points); None where it holds a command that matplotlib does not write."""
    runs: list[Run] = []
    tokens = _TOKEN.findall(text)
    k = 0
    while k < len(tokens):
        command = tokens[k].upper()
        if command not in _ABSOLUTE or (tokens[k] != command and command != "Z"):
            return None
        k += 1
        if command == "Z":
            runs.append(("Z", []))
            continue
        values: list[float] = []
        while k < len(tokens) and not tokens[k].isalpha():
            values.append(float(tokens[k]))
            k += 1
        points = list(zip(values[::2], values[1::2], strict=True))
        if not points or len(points) % _ABSOLUTE[command]:
            return None
        if runs and command == "L" and runs[-1][0] == "L":
            runs[-1][1].extend(points)
        else:
            runs.append((command, points))
    return runs


def straightened(text: str) -> str:
    """Return the same path with every other curve left out and the others as straight lines: a small circle gets corners.

    >>> straightened("M 0 0 C 1 1 2 2 3 3 C 4 4 5 5 6 6 C 7 7 8 8 9 9 C 1 1 1 1 0 0 z")
    'M 0 0 L 6 6 L 0 0 z'
    """
    curve = r"C\s*(-?[\d.]+(?:\s+-?[\d.]+){5})\s*"

    def line(found: re.Match[str]) -> str:
        return f"L {' '.join(found[2].split()[-2:])} "

    return re.sub(curve + curve, line, text)


def compact(text: str, places: int = 1) -> str:
    """Return the same path in relative steps, rounded to `places` decimals without the errors adding up.

    >>> compact("M 10 20 L 30 20 L 30 40 z")
    'm10 20 20 0 0 20z'
    """
    runs = _runs(text)
    if runs is None:
        return text
    scale = 10**places
    at = start = (0, 0)
    out: list[str] = []
    last = ""
    for command, points in runs:
        if command == "Z":
            out.append("z")
            at, last = start, "Z"
            continue
        numbers: list[str] = []
        per = _ABSOLUTE[command]
        shown = thinned(points) if command == "L" else points
        for k, (x, y) in enumerate(shown):
            to = (round(x * scale), round(y * scale))
            if command == "L" and to == at and len(shown) > 2:
                continue
            numbers += [number((to[0] - at[0]) / scale, places), number((to[1] - at[1]) / scale, places)]
            if (k + 1) % per == 0:  # the points of one curve are all measured from its beginning
                at = to
            if command == "M":
                start = to
        if numbers:
            implicit = (command == "L" and last in ("M", "L")) or (command == last != "M")
            text_of = joined(numbers)
            out.append(("" if text_of.startswith("-") else " ") + text_of if implicit else command.lower() + text_of)
            last = command
    return "".join(out)
