"""Completions that were rewarded, of any log: by groups that answer one item at one time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from assay.core.counting import counted
from assay.core.errors import DataError
from assay.core.records import Episode, Record, ValidationEpisode
from assay.core.storage.json import dumps
from assay.tools.judge.lines import json_rows, refuse
from assay.tools.judge.reading import sha256_of

Kind = Literal["episodes", "validations", "log of another trainer"]
FIX = "name episodes of assay, its validation.jsonl, or a log with items, completions and reward parts"


class ScoredFile(Record):
    """A file that was read."""

    name: str
    sha256: str | None = Field(description="null for a folder")
    kind: Kind


@dataclass(frozen=True, slots=True)
class Scored:
    """One completion or episode with what it earned.

    `group` is what it competed in: one item at one step, or in one file. `success` is in [0, 1], None where
    the log does not say. `episode` is there where it is one of assay's.
    """

    place: str
    group: str
    item: str
    cluster: str
    reward: float
    parts: Mapping[str, float]
    success: float | None
    episode: Episode | None = None


@dataclass(slots=True)
class ScoredLog:
    """All that was read of one file or folder."""

    file: ScoredFile
    rows: list[Scored]
    notes: list[str] = field(default_factory=list)


def read_scored(path: Path, success: str | None) -> ScoredLog:
    """Return the completions of a file, or of a folder of another trainer.

    Args:
        path: A file or folder.
        success: Of another trainer's log: the column or part that tells right from wrong.

    Raises:
        DataError: It is of no known form, damaged, or without what groups need.
    """
    if path.is_file() and path.suffix.lower() in (".jsonl", ".ndjson"):
        _, first = next(json_rows(path), ("", {}))
        if "turns" in first or "episode" in first:
            return _episodes(path, "episode" in first)
    if not path.exists():
        raise refuse("a file or folder", "nothing", str(path), FIX)
    return _foreign(path, success)


def _episodes(path: Path, validated: bool) -> ScoredLog:
    kind: Kind = "validations" if validated else "episodes"
    read = ScoredLog(ScoredFile(name=path.name, sha256=sha256_of(path), kind=kind), [])
    greedy = 0
    seen: set[tuple[str, int]] = set()
    for where, row in json_rows(path):
        try:
            if validated:
                told = ValidationEpisode.model_validate_json(dumps(row))
                episode, group = told.episode, f"step {told.step}, {told.episode.item_id}"
                greedy += told.greedy
                if told.greedy:
                    continue
            else:
                episode = Episode.model_validate_json(dumps(row))
                group = f"{path.name}, {episode.item_id}"
        except (ValidationError, ValueError) as error:
            found = " ".join(str(error).split())[:120]
            raise refuse("an episode of assay", found, where, FIX) from None
        if (group, episode.draw) in seen:
            fix = "name the episodes of one policy; of several, one file each"
            raise refuse(
                "each draw of an item once", f"draw {episode.draw} of {episode.item_id} again", where, fix
            )
        seen.add((group, episode.draw))
        scored = Scored(
            where,
            group,
            episode.item_id,
            episode.cluster,
            episode.reward,
            episode.parts,
            float(episode.success),
            episode,
        )
        read.rows.append(scored)
    if greedy:
        read.notes.append(f"{counted(greedy, 'greedy episodes')} of {path.name} left out: each is alone")
    return read


def _foreign(path: Path, success: str | None) -> ScoredLog:
    from assay.tools.foreign_logs.reading import read_foreign  # pandas, which takes a second to load

    log = read_foreign(path, success)
    sha256 = sha256_of(path) if path.is_file() else None
    read = ScoredLog(
        ScoredFile(name=path.name, sha256=sha256, kind="log of another trainer"), [], [*log.notes]
    )
    if not log.completions:
        raise refuse("completions", "means by step alone", str(path), FIX)
    kept = [each for each in log.completions if each.reward is not None and not each.lost]
    if left := len(log.completions) - len(kept):
        read.notes.append(f"{counted(left, 'completions')} of {path.name} without a reward left out")
    if not any(each.item for each in kept):
        raise refuse("an item or prompt of each completion, by which they are groups", "none", str(path), FIX)
    parts = sorted({name for each in kept for name in each.parts})
    if not parts:
        raise DataError(
            "reward parts that add up to the reward",
            found="none",
            where=str(path),
            fix="log each part beside the reward; of one number alone nothing can be weighed anew",
        )
    for n, each in enumerate(kept, start=1):
        weighed: dict[str, Any] = {name: each.parts.get(name, 0.0) for name in parts}
        group = f"step {each.step}, {each.item}"
        reward = 0.0 if each.reward is None else each.reward
        where = f"{path}, completion {n}"
        read.rows.append(Scored(where, group, each.item, each.item, reward, weighed, each.success))
    return read
