"""`assay runs summarize`: logs of trainings and files of episodes in short, as text, CSV or Markdown.

Everything is one long table, a row a measure, and CSV is that table; people are shown it file by file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.core.console import complain, progress, say, say_table
from assay.core.counting import counted
from assay.core.errors import ConfigError
from assay.core.records import Episode, HealthSummary, Interval
from assay.core.seeds import rng
from assay.core.storage.files import real, write_text
from assay.core.storage.tables import csv_text
from assay.evaluation.clusters import cluster_sums
from assay.evaluation.measures import column_name, is_rate, measure_names, value_of
from assay.evidence.escape import markdown_table, one_line, visible
from assay.evidence.formatting import MISSING, NO_INTERVAL, missing_interval_said
from assay.evidence.page.shell import cell_text
from assay.statistics.intervals import mean_interval, median_interval, missing, rate_interval
from assay.statistics.timing import block_interval
from assay.tools.logs.log_reader import Log, read_log

Row = dict[str, Any]
FORMATS = {"table": "", "csv": ".csv", "markdown": ".md"}
NUMBERS = ("n", "value", "low", "high", "first", "last", "p50", "p95", "p99", "largest")
COLUMNS = ("file", "kind", "part", "measure", "unit", *NUMBERS, "note")
RUNS_ON = ("step", "epoch", "num_tokens", "wall_time_s")  # their first and last is all there is to say
MAIN: tuple[str, ...] = ("mean_reward", "success_rate", "parsed_rate", "truncated_rate", "mean_n_steps")
MAIN += ("mean_tokens_per_completion",)
NOTES = {
    "steps": (
        "Steps are not independent and follow a trend: intervals (95 %, block bootstrap) describe how this"
        " training scattered and test nothing. p50, p95, p99: the smallest measured value that so many % of"
        " the steps do not exceed."
    ),
    "episodes": (
        "95 % intervals over clusters (rates: Wilson at the effective number; means: studentised bootstrap)."
        " n: episodes in which the question arises. That two intervals overlap, or do not, tests no"
        " difference. Means are resampled by other labels than in the stages' reports: their ends may differ"
        " by a few per cent of the interval."
    ),
}


def run(files: Sequence[Path], *, form: str | None, out: Path | None, skip_damaged: bool) -> None:
    """Show files as tables; with `out` write them there instead.

    Raises:
        AssayError: A file is damaged or none that is known; nothing is written then.
    """
    where, ending = "assay runs summarize", out.suffix.lower() if out else ""
    form = form or next((name for name, each in FORMATS.items() if each == ending), "table")
    if form not in FORMATS:
        known = f"one of {', '.join(FORMATS)}"
        raise ConfigError(known, found=repr(form), where=f"{where} --format", fix="--format csv")
    if out is not None and form == "table":
        fix = "--format csv or --format markdown, or a name that ends so"
        raise ConfigError("a format for a file", found=f"table for {out}", where=f"{where} --out", fix=fix)
    if len({real(path) for path in files}) < len(files):
        raise ConfigError("each file once", found="one of them twice", where=where, fix="name it once")
    rows = summarize(files, skip_damaged=skip_damaged)
    text = csv_text(rows, COLUMNS) if form == "csv" else format_markdown(rows)
    if out is not None:
        write_text(out, text)
        say(f"wrote {counted(len(files), 'files')} in short to {out}")
    elif form != "table":
        say(text.rstrip("\n"))
    else:
        for heading, frame in make_tables(rows):
            say(f"\n{heading}")
            say_table(list(frame.columns), frame.to_numpy().tolist())
        for note in find_notes(rows):
            say(f"\n{note}")
    for warning in find_warnings(rows):  # beside the tables, so that a pipe does not swallow it
        complain(f"warning: {warning}")


def summarize(files: Sequence[Path], *, skip_damaged: bool) -> list[Row]:
    """Return the measures of files, in the order given; AssayError: as `run`."""
    rows: list[Row] = []
    seen: set[Path] = set()
    with progress("summarize", len(files)) as advance:
        for path in files:
            log, health = read_log(path, skip_damaged=skip_damaged), path.parent / "health.jsonl"
            if log.kind != "steps":
                for part, played in log.rows.groupby("part", sort=False):
                    rows += _summarize_episodes(log, part, played.record.tolist())
            else:
                rows += _summarize_steps(log)
                if health.is_file() and real(health) not in seen:
                    seen.add(real(health))
                    alarms = read_log(health, skip_damaged=skip_damaged, kind="alarms")
                    rows += _summarize_alarms(alarms, log.rows.step.tolist()) + _count_left_out(alarms)
            rows += _count_left_out(log)
            advance(1)
    return rows


def _make_row(
    log: Log, kind: str, part: str, measure: str, found: Interval | None = None, **known: Any
) -> Row:
    row: Row = dict.fromkeys(COLUMNS) | {"unit": "", "note": ""} | known
    row |= found.model_dump() if found else {}
    return row | {"file": clean(str(log.path), 5000), "kind": kind, "part": part, "measure": clean(measure)}


def _summarize_steps(log: Log) -> list[Row]:
    frame = log.rows.astype(float)
    rows: list[Row] = []
    if "wall_time_s" in frame and "step_s" not in frame:  # of the clock that runs on, what each step took
        frame["step_s"] = frame.wall_time_s.diff().where(frame.step.diff() == 1).round(6)
    for name, column in frame.items():
        known = column.dropna().tolist()
        unit = "tokens/s" if name == "tokens_per_second" else "s" if str(name).endswith("_s") else ""
        row = _make_row(log, "steps", "all", str(name), missing(), unit=unit)
        if known:
            row |= {"n": len(known), "first": known[0], "last": known[-1], "note": "runs on"}
        if known and name not in RUNS_ON:
            p95, p99 = (float(np.quantile(known, share, method="inverted_cdf")) for share in (0.95, 0.99))
            row |= {"p50": round(float(np.median(known)), 10), "p95": p95, "p99": p99, "largest": max(known)}
            row |= block_interval(known, rng("log summary"), 2000).model_dump() | {"note": ""}
        rows.append(row)
    return rows


def _summarize_episodes(log: Log, part: str, episodes: Sequence[Episode]) -> list[Row]:
    episodes = sorted(episodes, key=lambda each: (each.item_id, each.draw))
    clusters = [each.cluster for each in episodes]
    n_items = len({each.item_id for each in episodes})
    counts = (("episodes", len(episodes)), ("items", n_items), ("clusters", len(set(clusters))))
    rows = [_make_row(log, "episodes", part, name, n=n) for name, n in counts]
    columns: list[tuple[str, str, bool, tuple[str, ...], list[float | None]]] = []
    for name in measure_names(episodes):
        values = [value_of(each, name) for each in episodes]
        columns.append(("episodes", column_name(name), is_rate(name), (name,), values))
    for name in sorted({each.ending for each in episodes}):
        ended: list[float | None] = [float(each.ending == name) for each in episodes]
        earned = [each.reward if each.ending == name else None for each in episodes]
        columns.append(("ending", f"{name}: share", True, (), ended))
        columns.append(("ending", f"{name}: mean_reward", False, ("ending", name), earned))
    for kind, name, is_share, labels, values in columns:
        sums = cluster_sums(values, clusters)
        found = rate_interval(sums) if is_share else mean_interval(sums, rng("log summary", *labels))
        rows.append(_make_row(log, kind, part, name, found, unit="share" if is_share else ""))
        if name == "mean_reward":
            median = median_interval([each.reward for each in episodes], clusters)
            rows.append(_make_row(log, kind, part, "median_reward", median))
    return rows


def _summarize_alarms(log: Log, steps: Sequence[int]) -> list[Row]:
    events = [] if log.rows.empty else log.rows.record.tolist()
    rows = [_make_row(log, "alarms", "GREEN", "all rules", n=len(steps), note="no rule left GREEN")]
    for k, rule in enumerate(HealthSummary.of(events).rules):
        # A level holds from its step until the next of its rule.
        levels = pd.Series({event.step: event.level for event in events if event.rule == rule.rule})
        share = float((levels.reindex(steps, method="ffill").fillna("GREEN") != "GREEN").mean())
        known: Row = {"n": len(steps), "value": share, "unit": "share", "note": f"left GREEN {rule.times} x"}
        rows[k:] = [_make_row(log, "alarms", rule.level, rule.rule, **known)]
    return rows


def _count_left_out(log: Log) -> list[Row]:
    told = []
    if log.left_out:
        number, why = log.left_out[0]
        lines = counted(len(log.left_out), "lines")
        told.append(f"{lines} left out, the first is line {number}: {clean(why)}")
    if log.missing:
        told.append(f"{counted(log.missing, 'records')} missing")
    known: Row = {"n": log.n_lines, "value": len(log.left_out), "note": "; ".join(told)}
    row = _make_row(log, "left out", "all", "lines", **known)
    return [row] if log.skip_damaged else []


def clean(name: str, longest: int = 80) -> str:
    r"""Return what a file brought along as one line, not too long, and no formula of a spreadsheet.

    >>> clean("=1+1\n"), clean("a" * 100)[-3:]
    ("'=1+1 ", 'aa…')
    """
    flat = visible(name).replace("\n", " ").replace("\t", " ")
    flat = flat if len(flat) <= longest else flat[: longest - 1] + "…"
    return f"'{flat}" if flat.startswith(("=", "+", "-", "@")) else flat


def make_tables(rows: Sequence[Row]) -> list[tuple[str, pd.DataFrame]]:
    """Return the long table as text by file and kind, each with its heading; then policies side by side."""
    frame = pd.DataFrame([row | {"value": _format_value(row)} for row in rows], columns=COLUMNS, dtype=object)
    frame["unit"] = frame.unit.replace("share", "%")
    is_pass = frame.part.str.startswith("step ")
    shown = frame[(frame.kind != "left out") & ~is_pass]
    by_kind = shown.groupby(["file", "kind"], sort=False)
    tables = [(f"{file}: {kind}", found) for (file, kind), found in by_kind]
    for heading, found in (("Policies side by side", shown), ("Validations by step", frame[is_pass])):
        found = found[found.measure.isin(MAIN) & (found.kind == "episodes")]
        if len(found[["file", "part"]].drop_duplicates()) > 1:
            tables.append((heading, found.sort_values("measure", kind="stable")))
    return [(heading, _format_cells(found)) for heading, found in tables]


def _format_cells(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that say something, as text: never measured is missing, what cannot be is empty."""
    cells = rows.map(lambda cell: "" if cell is None else cell_text(cell))
    cells.loc[(rows.n == 0) & (rows.kind == "steps"), list(NUMBERS[4:])] = MISSING
    silent = [name for name in cells if set(cells[name]) <= {"", "all"}]
    silent += ["file"] if rows.file.nunique() == 1 else []
    cells = cells.drop(columns={"kind", "low", "high", *silent})
    return cells.set_index("measure").reset_index().rename(columns={"value": "value [95 %]"})


def _format_value(row: Row) -> str:
    """Return a value with its interval, shares in per cent; nothing where there can be none."""
    if row["value"] is None:
        return "" if row["n"] else MISSING
    scale = 100.0 if row["unit"] == "share" else 1.0
    value, ends = cell_text(scale * row["value"]), [row["low"], row["high"]]
    if row["kind"] in ("alarms", "left out"):
        return value
    if None in ends:
        return f"{value} {NO_INTERVAL}"
    return f"{value} [{', '.join(cell_text(scale * end) for end in ends)}]"


def find_notes(rows: Sequence[Row]) -> list[str]:
    """Return what has to be known of the intervals that are shown."""
    notes = [note for kind, note in NOTES.items() if any(row["kind"] == kind for row in rows)]
    if any(NO_INTERVAL in _format_value(row) for row in rows):
        notes.append(missing_interval_said("clusters, or blocks of steps,"))
    return notes


def find_warnings(rows: Sequence[Row]) -> list[str]:
    """Return what was left out, a file a line."""
    left_out = [row for row in rows if row["kind"] == "left out" and row["note"]]
    return [f"{row['file']}: {row['note']}; of {counted(row['n'], 'lines')}" for row in left_out]


def format_markdown(rows: Sequence[Row]) -> str:
    """Return the tables as Markdown, in which text of the files has no other meaning than itself."""
    warned = [f"- {one_line(text)}" for text in find_warnings(rows)]
    blocks = ["# Logs in short", *warned, *map(one_line, find_notes(rows))]
    for heading, frame in make_tables(rows):
        blocks += [f"## {one_line(heading)}", markdown_table(frame)]
    return "\n\n".join(blocks) + "\n"
