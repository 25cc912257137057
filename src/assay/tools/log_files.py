"""Logs of trainings and files of episodes, known by what is in them, and read strictly: a damaged line is never a number."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from assay.errors import EvidenceError, RecordError
from assay.evaluation.log_summary import finite, longest_rising
from assay.evaluation.report import check_complete
from assay.records import TRAINING_LOG_COLUMNS, Episode, ValidationEpisode
from assay.tools.log_lines import FIX, Damage, Reader, json_object

Kind = Literal["steps", "episodes", "validation"]
Pass = tuple[int | None, bool | None]  # of a validation: its step, and whether greedy; both None where there is one policy
MAX_NAMES = 2000
# What a row of train_log.jsonl holds beside numbers.
NO_NUMBERS = frozenset({"chain", "digests", "item_ids", "skipped", "step"})
TABLES: Mapping[str, tuple[str, ...]] = {
    "training_log.csv": TRAINING_LOG_COLUMNS,
    "training_clock.csv": ("step", "wall_time_s"),
    "reward_components.csv": ("step", "n", "mean_cumulative"),
}
KNOWN = f"train_log.jsonl, a file of episodes, or one of {', '.join(TABLES)}"
_HAS: Mapping[Kind, frozenset[str]] = {
    "validation": frozenset({"step", "episode"}), "episodes": frozenset({"turns"}), "steps": frozenset({"step", "digests"}),
}  # fmt: skip


@dataclass(slots=True)
class Log:
    """What a file holds.

    `columns` are the numbers by step, None where not measured. `missing` counts steps between the first and the last, or
    draws of items, that should be there and are not; it is 0 unless lines were skipped.
    """

    reader: Reader
    kind: Kind
    steps: list[int] = field(default_factory=list)
    columns: dict[str, list[float | None]] = field(default_factory=dict)
    episodes: dict[Pass, list[Episode]] = field(default_factory=dict)
    missing: int = 0


def read_log(path: Path, *, skip_damaged: bool) -> Log:
    """Return what a file holds.

    Raises:
        RecordError: It is none of the known kinds, or nothing whole is in it, or a line is damaged and none may be skipped.
        DataError: It is no regular file, or beyond all sense.
    """
    reader = Reader(str(path), skip_damaged)
    lines = list(reader.lines(path))
    log = _table(lines, reader) if path.suffix.lower() == ".csv" else _records(lines, reader)
    if not log.steps and not log.episodes:
        raise RecordError("at least one whole record", found="none", where=reader.label, fix="name another file")
    reader.left_out.sort()
    return log


def _records(lines: Iterable[tuple[int, str]], reader: Reader) -> Log:
    rows: list[tuple[int, str, dict[str, Any]]] = []
    for number, line in lines:
        try:
            rows.append((number, line, json_object(line)))
        except Damage as error:
            reader.damaged(number, error, "strict JSON")
    # What most lines are: one line of another file must not make all others damaged.
    seen = Counter(kind for *_, row in rows for kind in [_kind_of(row)] if kind is not None)
    if not seen:
        keys = ", ".join(sorted(rows[0][2]))[:80] if rows else "nothing whole"
        raise RecordError(KNOWN, found=f"records with {keys}" if rows else keys, where=reader.label, fix="name another file")
    kind = seen.most_common(1)[0][0]
    parse: Callable[[str, dict[str, Any]], Any] = {"steps": _step, "episodes": _episode, "validation": _validated}[kind]
    found = []
    for number, line, row in rows:
        expected = f"a record like the others ({kind})"
        try:
            if _kind_of(row) != kind:
                raise Damage(f"one with {', '.join(sorted(row))[:80] or 'nothing in it'}")
            found.append((number, parse(line, row)))
        except Damage as error:
            reader.damaged(number, error, expected)
        except ValidationError as error:
            reader.damaged(number, Damage.of(error), expected)
    return _step_log(found, reader) if kind == "steps" else _episode_log(kind, found, reader)


def _kind_of(row: Mapping[str, Any]) -> Kind | None:
    return next((kind for kind, needed in _HAS.items() if needed <= set(row)), None)


def _validated(line: str, row: Mapping[str, Any]) -> tuple[Pass, Episode]:
    found = ValidationEpisode.model_validate_json(line)
    return (found.step, found.greedy), _sound(found.episode)


def _episode(line: str, row: Mapping[str, Any]) -> tuple[Pass, Episode]:
    return (None, None), _sound(Episode.model_validate_json(line))


def _sound(episode: Episode) -> Episode:
    if not all(map(finite, [episode.reward, *episode.parts.values(), *(m or 0.0 for m in episode.metrics.values())])):
        raise Damage("a number beyond all sense")
    return episode


def _step(line: str, row: Mapping[str, Any]) -> dict[str, float | None]:
    found: dict[str, float | None] = {"step": _step_number(row["step"]), "skipped": float(row.get("skipped") is not None)}
    for name, value in row.items():
        if name in NO_NUMBERS:
            continue
        inside = {name: value}
        if isinstance(value, dict):  # a row of another table has the step again
            inside = {f"{name}.{key}": each for key, each in value.items() if key != "step"}
        for key, each in inside.items():
            if each is not None and (isinstance(each, bool) or not isinstance(each, int | float) or not finite(each)):
                raise Damage(f"{key[:60]} = {str(each)[:40]!r}, no number")
            found[key] = None if each is None else float(each)
    return found


def _step_number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise Damage(f"step = {str(value)[:40]!r}")
    return value


def _table(lines: Sequence[tuple[int, str]], reader: Reader) -> Log:
    where = f"{reader.label}:{lines[0][0]}" if lines else reader.label
    expected = f"the columns of {' or '.join(TABLES)}"
    try:
        names = _cells(lines[0][1]) if lines else []
    except Damage as error:
        raise RecordError(expected, found=str(error), where=where, fix="name another file") from None
    known = any(tuple(names[: len(needed)]) == needed for needed in TABLES.values())
    if not known or len(set(names)) != len(names) or "" in names:
        raise RecordError(expected, found=", ".join(names)[:80] or "nothing", where=where, fix="name another file")
    rows = []
    for number, line in lines[1:]:
        try:
            cells = _cells(line)
            if len(cells) != len(names):
                raise Damage(f"{len(cells)}")
            rows.append((number, {name: _cell(name, cell) for name, cell in zip(names, cells, strict=True)}))
        except Damage as error:
            reader.damaged(number, error, f"{len(names)} cells, numbers or empty")
    return _step_log(rows, reader)


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line.removesuffix("\r")], strict=True), [])
    except csv.Error as error:
        raise Damage(str(error)) from None


def _cell(name: str, cell: str) -> float | None:
    if name == "step":
        return _step_number(int(cell) if cell.isascii() and cell.isdigit() and len(cell) < 17 else cell)
    if cell == "":
        return None
    try:
        value = float(cell) if cell.isascii() and "_" not in cell else math.nan
    except ValueError:
        value = math.nan
    if not finite(value):
        raise Damage(f"{name[:60]} = {cell[:40]!r}")
    return value


def _step_log(rows: Sequence[tuple[int, Mapping[str, float | None]]], reader: Reader) -> Log:
    steps = [int(row["step"] or 0) for _, row in rows]
    if not reader.skip:
        for (_, before), (number, step) in pairwise(zip([number for number, _ in rows], steps, strict=True)):
            if step != before + 1:
                reader.damaged(number, f"step {step}", f"step {before + 1}")
    kept = _kept(rows, steps, reader, each_once=True)
    names = list(dict.fromkeys(name for _, row in rows for name in row if name != "step"))
    _few(names, reader)
    log = Log(reader, "steps", steps=[steps[k] for k in kept])
    log.columns = {name: [rows[k][1].get(name) for k in kept] for name in names}
    log.missing = log.steps[-1] - log.steps[0] + 1 - len(log.steps) if log.steps else 0
    return log


def _kept(rows: Sequence[tuple[int, Any]], steps: Sequence[int], reader: Reader, *, each_once: bool) -> list[int]:
    kept = longest_rising(steps, each_once=each_once)
    for place in sorted(set(range(len(rows))) - set(kept)):
        reader.damaged(rows[place][0], f"step {steps[place]}, out of order", "steps in order")
    return kept


def _episode_log(kind: Kind, rows: Sequence[tuple[int, tuple[Pass, Episode]]], reader: Reader) -> Log:
    log = Log(reader, kind)
    homes: dict[str, tuple[str, dict[str, str]]] = {}
    seen: set[tuple[Pass, str, int]] = set()
    for place in _kept(rows, [which[0] or 0 for _, (which, _) in rows], reader, each_once=False):
        number, (which, episode) = rows[place]
        home, key = (episode.cluster, episode.strata), (which, episode.item_id, episode.draw)
        if key in seen or homes.setdefault(episode.item_id, home) != home:
            again = "a second time" if key in seen else "in another cluster or stratum"
            reader.damaged(number, f"item {episode.item_id[:40]}, draw {episode.draw}, {again}", "each draw of an item once")
            continue
        seen.add(key)
        log.episodes.setdefault(which, []).append(episode)
    for which, episodes in log.episodes.items():
        _few({name for each in episodes for name in (*each.flags, *each.parts, *each.metrics, each.ending)}, reader)
        log.missing += _missing_draws(episodes, f"{reader.label}{pass_said(which)}", reader)
    return log


def pass_said(which: Pass) -> str:
    """Return which pass of a validation it is, nothing for a file of one policy.

    >>> pass_said((25, True))
    ', step 25, greedy'
    """
    step, greedy = which
    return "" if step is None else f", step {step}, {'greedy' if greedy else 'sampled'}"


def _missing_draws(episodes: Sequence[Episode], where: str, reader: Reader) -> int:
    """Return how many draws some items have less than others."""
    draws = min(max(each.draw for each in episodes) + 1, len(episodes))
    if reader.skip:
        return max(0, draws * len({each.item_id for each in episodes}) - len(episodes))
    try:
        check_complete(episodes, draws, where)
    except EvidenceError as error:
        raise RecordError(error.expected, found=error.found, where=error.where, fix=FIX) from None
    return 0


def _few(names: Iterable[str], reader: Reader) -> None:
    found = len(set(names))
    if found > MAX_NAMES:
        fix = f"name {KNOWN}"
        raise RecordError(f"at most {MAX_NAMES:,} different measures", found=f"{found:,}", where=reader.label, fix=fix)
