"""Rows of numbers out of what a trainer printed: TRL's dicts between progress bars, verl's
"step:3 - name:0.1", OpenRLHF's "Global step 3: {...}", NeMo RL's lists under "Step 3/100", torchtune's and
anybody's "step 3 | loss:0.1 reward=0.5"."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from statistics import median
from typing import Any

from assay.health.logs.means import is_known
from assay.rollout.tables.columns import read_step

LONGEST = 20_000  # characters of a line that is looked at
_DICT = re.compile(r"\{(?:'[^'{}]*'|\"[^\"{}]*\")\s*:[^{}]*\}")
_BARE = re.compile(r"(?<=[:\s\[(])(-?)(nan|inf(?:inity)?)(?=[,}\s\])])", re.I)
_WRAPPED = re.compile(r"(?:np|numpy)\.float\d+\(([^()]*)\)|tensor\(([^(),]*)[^()]*\)")
_BAR = re.compile(r"\|\s*(\d{1,9})/(\d{1,9})\s*\[")
_PAIRS_OF_VERL = re.compile(r"\bstep:\s*(\d{1,12})\s+-\s+(\S.*:.*)$")
_STEP = re.compile(r"\bstep[\s:=#]+(\d{1,12})\b(?!\.)", re.I)
_HEADING = re.compile(r"(?<!=)=+\s*(?:Step|Iteration|Update)\s+(\d{1,12})\s*/\s*\d+", re.I)
_LISTED = re.compile(r"^\W*[•*-]\s+(?P<name>[A-Za-z][^:]{1,60}):\s*(?P<value>[-+\w.]+)\s*$")
# Of a table: a head such as `| rollout/ | |`, and a metric below it.
_CELLS = re.compile(r"^\|\s*(?P<name>[A-Za-z][\w ./@-]{0,60}?)\s*\|\s*(?P<value>[-+\w.]*)\s*\|$")
STEPS_OF_TABLE = ("time/total_timesteps", "total_timesteps", "time/iterations", "time/episodes")
_NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:e[-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)"
_PAIR = re.compile(
    rf"(?P<name>[A-Za-z_][\w/.@-]*)(?P<sign>\s*[:=]\s*|\s+)(?P<value>{_NUMBER})(?![\w.:/-])", re.I
)
_ANY_STEP = re.compile(
    r"\b(?:global_?|train(?:ing)?_)?(?:step|iter(?:ation)?|update)[\s:=#]+(\d{1,12})\b(?!\.)", re.I
)
_EVALUATION = re.compile(r"\b(?:eval(?:uation|uating)?|val(?:id(?:ation)?)?|test)(?:\b|_)", re.I)
Row = dict[str, Any]


def read_printed(lines: Iterable[str]) -> list[Row]:
    """Return what was printed as rows of numbers, each with "step".

    A printed dict that says no step has that of the progress bar after it, which is drawn again once it is
    printed; between bars steps are counted on by how far the bars go from dict to dict, and without any bar
    the dicts are counted.
    """
    rows, after, totals = list[Row](), dict[int, int](), Counter[int]()
    bars = list[tuple[int, int, int]]()  # rows before, done, of how many
    heading: Row | None = None
    table, above = Row(), ""
    for line in lines:
        for piece in line.split("\r"):
            piece = piece.strip("\n")[:LONGEST]
            if match := _CELLS.match(piece.strip()):
                above = match["name"] if not match["value"] else above if "/" in above else ""
                name = f"{above}{match['name']}"
                if name in table:  # the next one, of which nothing but the cells was kept
                    rows.append(_of_table(table))
                    table = Row()
                if match["value"]:
                    table[name] = match["value"]
                continue
            if table:
                rows.append(_of_table(table))
                table, above = Row(), ""
            if match := _HEADING.search(piece):
                heading = {"step": int(match[1])}
                rows.append(heading)
            elif heading is not None and (match := _LISTED.match(piece)):
                heading.setdefault(match["name"].strip(), match["value"])
            for _, found in _pieces(piece):
                if isinstance(found, tuple):
                    bars.append((len(rows), *found))
                    totals[found[1]] += 1
                else:
                    rows.append(found)
    last = _of_table(table)
    if "step" in last or (last and not rows):  # of one that is cut off the step may lack
        rows.append(last)
    if totals:
        most = totals.most_common(1)[0][0]
        for before, done, total in bars:
            if total == most and before:
                after.setdefault(before - 1, done)
    _count_steps(rows, after)
    return [row for row in rows if len(row) > 1]


def _of_table(cells: Row) -> Row:
    steps = (read_step(cells.get(name)) for name in STEPS_OF_TABLE)
    step = next((each for each in steps if each is not None), None)
    return cells if step is None else {"step": step} | cells


def _pieces(line: str) -> Iterator[tuple[int, Row | tuple[int, int]]]:
    """Yield the dicts and bars of a line in their order."""
    if match := _PAIRS_OF_VERL.search(line):
        pairs = (each.rpartition(":") for each in match[2].split(" - "))
        numbers = {name.strip(): _WRAPPED.sub(r"\1\2", value).strip() for name, _, value in pairs if name}
        yield 0, {"step": int(match[1])} | numbers
        return
    found: list[tuple[int, Row | tuple[int, int]]] = [
        (match.start(), (int(match[1]), int(match[2]))) for match in _BAR.finditer(line)
    ]
    for match in _DICT.finditer(line):
        row = _read_dict(match[0])
        if row is not None:
            said = _STEP.search(line[: match.start()])
            step = {} if said is None or _BAR.search(line[: match.start()]) else {"step": int(said[1])}
            found.append((match.start(), step | row))
    if not found and (row := _read_pairs(line)) is not None:
        found.append((0, row))
    yield from sorted(found, key=lambda each: each[0])


def _read_pairs(line: str) -> Row | None:
    """Return a line that names a step and values of it, one of which is a known signal; None for any other,
    and of an evaluation, whose rewards have the same names."""
    step = _ANY_STEP.search(line)
    if step is None or _EVALUATION.search(line):
        return None
    pairs = [
        (match["name"].strip("_."), match["value"])
        for match in _PAIR.finditer(_WRAPPED.sub(r"\1\2", line))
        if match["sign"].strip() or is_known(match["name"])
    ]
    if not any(is_known(name) for name, _ in pairs):
        return None
    return dict(pairs) | {"step": int(step[1])}


def _read_dict(text: str) -> Row | None:
    """Return a printed dict of numbers; None for what is none, or says nothing of a training step."""
    try:
        value = ast.literal_eval(_BARE.sub(r"'\1\2'", _WRAPPED.sub(r"\1\2", text)))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(value, Mapping) or not {"loss", "reward", "policy_loss"} & {
        str(name) for name in value
    }:
        return None
    return {str(name): each for name, each in value.items()}


def _count_steps(rows: list[Row], after: Mapping[int, int]) -> None:
    """Give each row without a step one."""
    lacking = [k for k, row in enumerate(rows) if "step" not in row]
    told = {k: done for k, done in after.items() if k in set(lacking)}
    strides = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(sorted(told.items()))]
    stride = max(1, round(median(strides))) if strides else 1
    step = 0
    for k in lacking:
        step = max(step + stride, told.get(k, 0)) if k else told.get(k, stride)
        rows[k] = {"step": step} | rows[k]
