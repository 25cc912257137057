"""Summaries of logs as tables: frames of text for people, and one long table of numbers for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.counting import counted
from assay.evaluation.log_summary import AlarmRate, EpisodesSummary, Series
from assay.evaluation.report import column_name, is_rate
from assay.evidence.hostile_text import visible
from assay.evidence.page.elements import cell_text
from assay.evidence.wording import MISSING, NO_INTERVAL, interval_text, percent
from assay.records import Interval

LONGEST = 80  # characters of a name that a file brought along
LONGEST_SAID = 400
LONGEST_FILE = 5000  # a path is at most 4,096 bytes long
SPEEDS = ("tokens_per_second",)
STEPS_NOTE = (
    "Over steps, which are not independent and follow a trend: intervals (95 %, block bootstrap) describe how this training "
    "scattered and test nothing. "
    "p50, p95, p99: the smallest measured value that so many % of the steps do not exceed."
)
EPISODES_NOTE = (
    "95 % intervals over clusters (rates: Wilson at the effective number; means: studentised bootstrap); rates in %. n: "
    "episodes in which the question arises. That two intervals overlap, or do not, tests no difference. Means are resampled "
    "by other labels than in the stages' reports: their ends may differ by a few per cent of the interval."
)
COLUMNS = (
    "file", "kind", "part", "measure", "unit", "n", "value", "low", "high", "first", "last", "p50", "p95", "p99", "largest",
    "note",
)  # fmt: skip
_MAIN = ("mean_reward", "success_rate", "parsed_rate", "truncated_rate", "mean_n_steps", "mean_tokens_per_completion")
Row = dict[str, Any]


def name_text(name: str, longest: int = LONGEST) -> str:
    r"""Return a name that a file brought along, on one line, no longer than that, and no formula of a spreadsheet.

    >>> name_text("=1+1\n"), name_text("a" * 100)[-3:]
    ("'=1+1 ", 'aa…')
    """
    flat = visible(name).replace("\n", " ").replace("\t", " ")
    flat = flat if len(flat) <= longest else flat[: longest - 1] + "\u2026"
    return f"'{flat}" if flat[:1] in "=+-@" and flat else flat


def file_text(path: str) -> str:
    """Return the name of a file as a name, but whole."""
    return name_text(path, LONGEST_FILE)


def _number(found: Interval) -> str:
    if found.value is None:
        return MISSING
    ends = NO_INTERVAL if found.low is None or found.high is None else f"[{cell_text(found.low)}, {cell_text(found.high)}]"
    return f"{cell_text(found.value)} {ends}"


def _steps(series: Series) -> str:
    return str(series.n) if series.n == series.n_rows else f"{series.n} of {series.n_rows}"


def _timed(series: Series) -> bool:
    return series.is_time or series.name in SPEEDS


def numbers_frame(found: Sequence[Series]) -> pd.DataFrame:
    """Return what is no time as text: number, steps in which it was measured, first, last, mean with interval, largest."""
    rows = [
        (
            name_text(each.name), _steps(each), cell_text(each.first), cell_text(each.last),
            "runs on" if each.mean is None else _number(each.mean), "" if each.mean is None else cell_text(each.largest),
        )
        for each in found
        if not _timed(each)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["number", "steps", "first", "last", "mean [95 %]", "largest"])


def times_frame(found: Sequence[Series]) -> pd.DataFrame:
    """Return times and speeds of a step as text: what, unit, steps, p50, p95, p99, largest, mean with interval."""
    rows = [
        (
            name_text(each.name), unit_of(each), _steps(each), *map(cell_text, (each.p50, each.p95, each.p99, each.largest)),
            MISSING if each.mean is None else _number(each.mean),
        )
        for each in found
        if _timed(each)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["each step", "unit", "steps", "p50", "p95", "p99", "largest", "mean [95 %]"])


def unit_of(series: Series) -> str:
    """Return the unit of a number, nothing where the log does not say."""
    if series.name.endswith("_s"):
        return "s"
    return "tokens/s" if series.name in SPEEDS else ""


def alarms_frame(found: Sequence[AlarmRate]) -> pd.DataFrame:
    """Return the rules that rang as text: rule, worst level, times it left GREEN, logged steps beyond it, their share in %."""
    rows = [(each.rule, each.worst, each.times, f"{each.n_steps} of {each.of_steps}", percent(each.share)) for each in found]
    return pd.DataFrame(rows, columns=["rule", "worst", "times", "steps not GREEN", "share, %"])


def episodes_frame(found: EpisodesSummary) -> pd.DataFrame:
    """Return every measure as text: measure, value with interval, n."""
    rows = [
        (name_text(column_name(name)), interval_text(each, rate=is_rate(name)), each.n) for name, each in found.measures.items()
    ]
    return pd.DataFrame(rows, columns=["measure", "value [95 %]", "n"])


def endings_frame(found: EpisodesSummary) -> pd.DataFrame:
    """Return why episodes stopped as text: ending, episodes, share in %, mean reward of these."""
    rows = [
        (name_text(each.name), each.n, interval_text(each.share, rate=True), interval_text(each.mean_reward, rate=False))
        for each in found.endings
    ]
    return pd.DataFrame(rows, columns=["ending", "episodes", "share, % [95 %]", "mean reward [95 %]"])


def side_by_side_frame(found: Mapping[tuple[str, ...], EpisodesSummary], heads: Sequence[str]) -> pd.DataFrame:
    """Return the main measures of several sets of episodes as text, a row each; `heads` are the columns of the keys."""
    rows = [
        (
            *map(file_text, key), each.n_episodes,
            *(interval_text(each.measures.get(name), rate=is_rate(name)) for name in _MAIN),
        )
        for key, each in found.items()
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=[*heads, "episodes", *(f"{m}, %" if is_rate(m) else m for m in _MAIN)])


def counts_said(found: EpisodesSummary) -> str:
    """Return how many episodes these are."""
    items = counted(found.n_items, "items")
    return f"{counted(found.n_episodes, 'episodes')}, {items}, {counted(found.n_clusters, 'clusters')}"


def _row(file: str, kind: str, part: str, measure: str, **known: Any) -> Row:
    row: Row = dict.fromkeys(COLUMNS) | {"unit": "", "note": ""} | known
    return row | {"file": file_text(file), "kind": kind, "part": name_text(part), "measure": name_text(measure)}


def _ends(found: Interval) -> Row:
    return {"n": found.n, "value": found.value, "low": found.low, "high": found.high}


def series_rows(file: str, found: Sequence[Series]) -> list[Row]:
    """Return the numbers of a log for the long table."""
    note = "mean over steps, descriptive: they are not independent"
    return [
        _row(
            file, "steps", "all", each.name, unit=unit_of(each), first=each.first, last=each.last, p50=each.p50, p95=each.p95,
            p99=each.p99, largest=each.largest, note="runs on over the steps" if each.mean is None else note,
            **({"n": each.n} if each.mean is None else _ends(each.mean)),
        )
        for each in found
    ]  # fmt: skip


def alarm_rows(file: str, found: Sequence[AlarmRate]) -> list[Row]:
    """Return the alarms for the long table: the share of logged steps that were not GREEN."""
    return [
        _row(
            file, "alarms", each.worst, each.rule, unit="share", n=each.of_steps, value=each.share,
            note=f"left GREEN {each.times} x",
        )
        for each in found
    ]  # fmt: skip


def episode_rows(file: str, part: str, found: EpisodesSummary) -> list[Row]:
    """Return the measures and endings of episodes for the long table; rates are shares."""
    rows = [
        _row(file, "episodes", part, column_name(name), unit="share" if is_rate(name) else "", **_ends(each))
        for name, each in found.measures.items()
    ]
    for each in found.endings:
        rows.append(_row(file, "ending", part, f"{each.name}: share", unit="share", **_ends(each.share)))
        rows.append(_row(file, "ending", part, f"{each.name}: mean_reward", **_ends(each.mean_reward)))
    return rows


def left_out_row(file: str, n_lines: int, left_out: Sequence[tuple[int, str]], missing: int) -> Row:
    """Return what was passed over in a file for the long table."""
    note = name_text(left_out_said(left_out, missing), LONGEST_SAID)
    return _row(file, "left out", "all", "lines", n=n_lines, value=len(left_out), note=note)


def left_out_said(left_out: Sequence[tuple[int, str]], missing: int) -> str:
    """Return what was passed over in a file in words, the first line of it by number; nothing for nothing.

    >>> left_out_said([(3, "NaN is not JSON")], 1)
    '1 line left out, the first is line 3: NaN is not JSON; 1 record missing'
    """
    told = []
    if left_out:
        number, reason = left_out[0]
        told.append(f"{counted(len(left_out), 'lines')} left out, the first is line {number}: {name_text(reason)}")
    if missing:
        told.append(f"{counted(missing, 'records')} missing")
    return "; ".join(told)
