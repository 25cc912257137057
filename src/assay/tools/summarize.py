"""`assay runs summarize`: logs of trainings and files of episodes as tables, on the terminal, as CSV or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pandas as pd

from assay.console import complain, progress, say, say_table
from assay.counting import counted
from assay.errors import ConfigError
from assay.evaluation.log_summary import EpisodesSummary, alarm_rates, episodes_summary, series_of, step_seconds
from assay.evidence import log_tables as tables
from assay.evidence.hostile_text import markdown_table, one_line
from assay.evidence.wording import NO_INTERVAL, missing_interval_said
from assay.storage.files import real, write_text
from assay.storage.tables import csv_text
from assay.tools.log_files import Log, pass_said, read_log
from assay.tools.log_lines import read_health

Format = Literal["table", "csv", "markdown"]
HEALTH = "health.jsonl"
WALL, STEP = "wall_time_s", "step_s"  # the clock that runs on, and what a step took by it


@dataclass(slots=True)
class Summary:
    """What is shown of all files: (heading, what is said below it, captioned tables) of each, and the long table."""

    parts: list[tuple[str, list[str], list[tuple[str, pd.DataFrame]]]] = field(default_factory=list)
    rows: list[tables.Row] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def run(files: Sequence[Path], *, form: Format | None, out: Path | None, skip_damaged: bool) -> None:
    """Show files as tables; with `out` write them there instead.

    Args:
        files: Any mix, of one run or several; health.jsonl beside a log of a training is read as well.
        form: How; if None by the name of `out` (.csv, .md), and as tables on the terminal without one.
        out: Where to.
        skip_damaged: Leave damaged lines out, count them, and say so everywhere.

    Raises:
        AssayError: A file is damaged or none that is known; nothing is written then.
    """
    chosen = _format(form, out)
    twice = [path for path in files if [real(p) for p in files].count(real(path)) > 1]
    if twice:
        raise ConfigError("each file once", found=f"{twice[0]} twice", where="assay runs summarize", fix="name it once")
    found = summarize(files, skip_damaged=skip_damaged)
    if chosen == "csv":
        text = csv_text(found.rows, tables.COLUMNS)
    elif chosen == "markdown":
        text = markdown(found)
    else:
        text = ""
    if out is not None:
        write_text(out, text)
        say(f"wrote {counted(len(files), 'files')} in short to {out}")
    elif text:
        say(text.rstrip("\n"))
    else:
        _tell(found)
    for said in found.left_out:  # beside the tables, so that a pipe does not swallow it
        complain(f"warning: {said}")


def format_of(name: str | None) -> Format | None:
    """Return a format by its name, None for none.

    Raises:
        ConfigError: There is no such format.
    """
    known: dict[str, Format] = {"table": "table", "csv": "csv", "markdown": "markdown"}
    if name is not None and name not in known:
        fix = "--format csv"
        raise ConfigError(f"one of {', '.join(known)}", found=repr(name), where="assay runs summarize --format", fix=fix)
    return None if name is None else known[name]


def _format(form: Format | None, out: Path | None) -> Format:
    if form is None:
        by_name: dict[str, Format] = {".csv": "csv", ".md": "markdown"}
        form = by_name.get("" if out is None else out.suffix.lower(), "table")
    if out is not None and form == "table":
        fix = "--format csv or --format markdown, or a name that ends so"
        raise ConfigError("a format for a file", found=f"table for {out}", where="assay runs summarize --out", fix=fix)
    return form


def summarize(files: Sequence[Path], *, skip_damaged: bool) -> Summary:
    """Return files in short, in the order given.

    Raises:
        AssayError: As `run`.
    """
    found = Summary()
    policies: dict[tuple[str, ...], EpisodesSummary] = {}
    seen: set[Path] = set()
    with progress("summarize", len(files)) as advance:
        for path in files:
            log = read_log(path, skip_damaged=skip_damaged)
            if log.kind == "steps":
                _steps(log, found)
                if real(path.parent) not in seen and (path.parent / HEALTH).is_file():
                    seen.add(real(path.parent))
                    _alarms(path.parent / HEALTH, log, found, skip_damaged=skip_damaged)
            elif log.kind == "episodes":
                policies[(log.reader.label,)] = _episodes(log, found)
            else:
                _validations(log, found)
            _left_out(log.reader.label, log.reader.n_lines, log.reader.left_out, log.missing, found, skip_damaged)
            advance(1)
    if len(policies) > 1:
        frame = tables.side_by_side_frame(policies, ["file"])
        found.parts.append(("Files of episodes side by side", [tables.EPISODES_NOTE], [("", frame)]))
    return found


def _steps(log: Log, found: Summary) -> None:
    columns = dict(log.columns)
    if WALL in columns and STEP not in columns:
        columns[STEP] = step_seconds(log.steps, columns[WALL])
    series = [series_of(name, values) for name, values in columns.items()]
    numbers, times = tables.numbers_frame(series), tables.times_frame(series)
    said = [f"{counted(len(log.steps), 'steps')}, {log.steps[0]} to {log.steps[-1]}.", tables.STEPS_NOTE]
    shown = [(caption, frame) for caption, frame in (("Numbers", numbers), ("Times and speeds", times)) if len(frame)]
    found.parts.append((log.reader.label, said + _no_interval(shown, "blocks of steps"), shown))
    found.rows += tables.series_rows(log.reader.label, series)


def _alarms(path: Path, log: Log, found: Summary, *, skip_damaged: bool) -> None:
    events, reader = read_health(path, skip_damaged=skip_damaged)
    rates = alarm_rates(events, log.steps)
    said = [f"Alarms over the {counted(len(log.steps), 'steps')} of {tables.file_text(log.reader.label)}."]
    said += [] if rates else ["No rule left GREEN."]
    found.parts.append((reader.label, said, [("", tables.alarms_frame(rates))] if rates else []))
    found.rows += tables.alarm_rows(reader.label, rates)
    _left_out(reader.label, reader.n_lines, reader.left_out, 0, found, skip_damaged)


def _episodes(log: Log, found: Summary) -> EpisodesSummary:
    ((_, episodes),) = log.episodes.items()
    summary = episodes_summary(episodes)
    shown = [("Measures", tables.episodes_frame(summary)), ("By ending", tables.endings_frame(summary))]
    said = [f"{tables.counts_said(summary)}.", tables.EPISODES_NOTE, *_no_interval(shown, "clusters")]
    found.parts.append((log.reader.label, said, shown))
    found.rows += tables.episode_rows(log.reader.label, "all", summary)
    return summary


def _validations(log: Log, found: Summary) -> None:
    passes = {which: episodes_summary(episodes) for which, episodes in sorted(log.episodes.items())}
    keyed: dict[tuple[str, ...], EpisodesSummary] = {
        (str(step), "greedy" if greedy else "sampled"): each for (step, greedy), each in passes.items()
    }
    said = [f"{counted(len({step for step, _ in passes}), 'validations')}.", tables.EPISODES_NOTE]
    frame = tables.side_by_side_frame(keyed, ["step", "decoding"])
    shown = [("By step", frame)]
    found.parts.append((log.reader.label, said + _no_interval(shown, "clusters"), shown))
    for which, each in passes.items():
        found.rows += tables.episode_rows(log.reader.label, pass_said(which).removeprefix(", "), each)


def _no_interval(shown: Sequence[tuple[str, pd.DataFrame]], clusters: str) -> list[str]:
    """Return why an interval may be missing, nothing where none is."""
    found = any(NO_INTERVAL in str(cell) for _, frame in shown for cell in frame.to_numpy().ravel())
    return [missing_interval_said(clusters)] if found else []


def _left_out(
    label: str, n_lines: int, left_out: Sequence[tuple[int, str]], missing: int, found: Summary, skipping: bool
) -> None:
    if not skipping:
        return
    found.rows.append(tables.left_out_row(label, n_lines, left_out, missing))
    said = tables.left_out_said(left_out, missing)
    if said:
        found.left_out.append(f"{tables.file_text(label)}: {said}; of {counted(n_lines, 'lines')}")


def markdown(found: Summary) -> str:
    """Return a summary as Markdown, in which text of the files has no other meaning than itself."""
    blocks = ["# Logs in short"]
    if found.left_out:
        blocks.append("Damaged lines were left out:\n\n" + "\n".join(f"- {one_line(said)}" for said in found.left_out))
    for heading, said, shown in found.parts:
        blocks += [f"## {one_line(tables.file_text(heading))}", *map(one_line, said)]
        for caption, frame in shown:
            blocks += [*([f"{caption}:"] if caption else []), markdown_table(frame)]
    return "\n\n".join(blocks) + "\n"


def _tell(found: Summary) -> None:
    told: set[str] = set()
    for heading, said, shown in found.parts:
        say(f"\n{tables.file_text(heading)}")
        for text in said:
            if text not in told:  # what the intervals are is said once
                say(text)
        told |= set(said)
        for caption, frame in shown:
            say(f"\n{caption}" if caption else "")
            say_table(list(frame.columns), [[str(cell) for cell in row] for row in frame.itertuples(index=False, name=None)])
