"""Completions that were rewarded, of any log, by groups that answer one item at one time; and what they earn
under other rewards: parts weighed anew, the task's own weights, or another function.

Nothing is made up: where what was earned does not follow from what is stored, it is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from assay.core.config.config_errors import quoted
from assay.core.counting import counted
from assay.core.errors import ConfigError, DataError
from assay.core.records import Episode, Record
from assay.core.seeds import derive_seed
from assay.core.storage.untrusted import sha256_capped
from assay.core.storage.yaml import read_yaml
from assay.dataset.suite import Play
from assay.pipeline.inputs import blocklist_of, code_of, task_with
from assay.pipeline.project import Project
from assay.tasks.protocol import Task
from assay.tools.columns import Columns
from assay.tools.foreign_logs.reading import read_foreign
from assay.tools.grade.completions import of_episode, stored
from assay.tools.grade.replaying import play_texts
from assay.tools.judge.lines import ANY_SIZE, json_rows, refuse
from assay.tools.tasks_file import find_items

Kind = Literal["episodes", "validations", "log of another trainer"]
FIX = "name episodes of assay, its validation.jsonl, or a log with items, completions and reward parts"
How = Literal["parts weighed", "weights of the task", "another function"]
WEIGHTS, ENTRY = "--weights", "--entry"
CLOSE = 1e-6  # of sums of parts, which logs round


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
    read = ScoredLog(
        ScoredFile(name=path.name, sha256=sha256_capped(path, max_bytes=ANY_SIZE, fix=FIX), kind=kind), []
    )
    greedy = 0
    seen: set[tuple[str, int]] = set()
    for where, row in json_rows(path):
        episode, step, alone = stored(where, row, FIX)
        if (step is not None) != validated:
            raise refuse("an episode of assay", "one of another kind than the first", where, FIX)
        if alone:
            greedy += 1
            continue
        group = f"{path.name if step is None else f'step {step}'}, {episode.item_id}"
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
    log = read_foreign(path, Columns({} if success is None else {"success": success}))
    sha256 = sha256_capped(path, max_bytes=ANY_SIZE, fix=FIX) if path.is_file() else None
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


@dataclass(frozen=True, slots=True)
class Rewarded:
    """What a completion earns under the other reward."""

    reward: float
    parts: Mapping[str, float]


def read_weights(text: str) -> dict[str, float]:
    """Return weights by part, of `part=0.5,other=1` or of a YAML file.

    Raises:
        ConfigError: They are no finite numbers by name.
    """
    fix = f"{WEIGHTS} part=0.5,other=1, or a YAML file with a line `part: 0.5` for each"
    if text.endswith((".yaml", ".yml")):
        given: dict[str, Any] = read_yaml(Path(text), fix=fix)
    else:
        given = {}
        for each in text.split(","):
            name, sign, value = each.strip().partition("=")
            if not name or not sign or name in given:
                raise ConfigError("part=NUMBER, each part once", found=repr(each), where=WEIGHTS, fix=fix)
            given[name] = value
    found = dict[str, float]()
    for name, value in given.items():
        try:
            found[name] = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            found[name] = math.nan
        if not math.isfinite(found[name]):
            raise ConfigError("a finite number", found=quoted(value), where=f"{WEIGHTS} {name}", fix=fix)
    return found


def has_weights(project: Project | None) -> bool:
    """Return whether the task's rewards are weighed by settings, so that it can be asked under others."""
    return project is not None and "weights" in type(project.params.task).model_fields


def weighed(rows: Sequence[Scored], weights: Mapping[str, float], task: Task | None) -> list[Rewarded]:
    """Return rewards of parts each times its weight; a part without one counts as it did.

    Raises:
        ConfigError: There is no such part.
        DataError: Rewards are no sums of their parts, or a part that shapes was never paid here.
    """
    known = sorted({name for row in rows for name in row.parts})
    for name in weights:
        if name not in known:
            fix = f"name one of {', '.join(known)}"
            raise ConfigError("a reward part of the log", found=name, where=WEIGHTS, fix=fix)
        kind = task.parts.get(name) if task is not None else None
        if kind == "shaping" and not any(row.parts.get(name) for row in rows):
            raise DataError(
                "what the episode holds",
                found=f"{name}, shaping that needs the state, which no episode here was paid",
                where=f"{WEIGHTS} {name}",
                fix="name episodes in which it was paid, or leave its weight out",
            )
    scale = max((abs(row.reward) for row in rows), default=0.0) or 1.0
    odd = [row for row in rows if abs(math.fsum(row.parts.values()) - row.reward) > CLOSE * scale]
    if odd:
        raise DataError(
            "rewards that are the sum of their parts",
            found=f"{counted(len(odd), 'rewards')} of {len(rows)} that hold something else besides",
            where=odd[0].place,
            fix="log every part; what is in no part cannot be weighed anew",
        )
    found = []
    for row in rows:
        parts = {name: value * weights.get(name, 1.0) for name, value in row.parts.items()}
        found.append(Rewarded(math.fsum(parts.values()), parts))
    return found


def with_weights(project: Project, weights: Mapping[str, float]) -> Project:
    """Return the project with other weights of its task.

    Raises:
        ConfigError: There is no such weight, or together they are refused.
    """
    task = project.params.task
    now: dict[str, float] = task.model_dump()["weights"]
    for name in weights:
        if name not in now:
            fix = f"name one of {', '.join(now)}"
            raise ConfigError(f"a weight of task {task.name}", found=name, where=WEIGHTS, fix=fix)
    try:
        other = type(task).model_validate({**task.model_dump(by_alias=True), "weights": {**now, **weights}})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        said = str(first["msg"]).removeprefix("Value error, ")
        place = f"{WEIGHTS} {'.'.join(map(str, first['loc'][1:]))}".rstrip()
        fix = "see configs/task/ for what weights may be"
        raise ConfigError("weights that the task takes", found=said, where=place, fix=fix) from None
    return Project(project.root, project.params.model_copy(update={"task": other}))


def with_entry(project: Project, entry: str) -> Project:
    """Return the project with another reward function, FILE:FUNCTION, in the place of its task's.

    Raises:
        ConfigError: The task is none of one's own, has several turns, or declares no success but the reward.
    """
    task, fix = project.params.task, "--weights part=0.5 weighs the parts that are stored"
    if not task.brings_code:
        raise ConfigError("a task of your own", found=f"task {task.name}", where=ENTRY, fix=fix)
    own: Any = task
    if own.max_turns > 1:
        expected = "episodes of one turn, which a reward function grades"
        raise ConfigError(expected, found=f"task.max_turns: {own.max_turns}", where=ENTRY, fix=fix)
    if own.success.compare == "reward":
        found, expected = "task.success.compare: reward", "success that is declared apart from the reward"
        raise ConfigError(
            expected, found=found, where=ENTRY, fix="compare: exact, number or json, with a column"
        )
    file, _, name = entry.rpartition(":")
    path = Path(file)
    if not name.isidentifier() or path.suffix != ".py" or not path.is_file():
        fix = f"{ENTRY} my_reward.py:reward"
        raise ConfigError("FILE.py:FUNCTION, of a file that is there", found=entry, where=ENTRY, fix=fix)
    changes: dict[str, Any] = {
        "code": str(path.resolve().parent),
        "entry": f"{path.name}:{name}",
        "parts": {"reward": "outcome"},
        "options": {},
        "players": {},
        "isolation": "inline",
    }
    return Project(project.root, project.params.model_copy(update={"task": own.model_copy(update=changes)}))


class Replayed:
    """Stored episodes that a task is asked about again, after it has shown that they follow from their texts.

    Args:
        project: Whose task rewarded them.
        rows: Episodes of one file.
        validated: Whether they were played on the validation suite.
        tasks: Their records; None: the data file of the project that holds all of them.

    Raises:
        DataError: Records are missing, or under its own rewards the task does not repeat what is stored.
    """

    def __init__(
        self, project: Project, rows: Sequence[Scored], *, validated: bool, tasks: Path | None
    ) -> None:
        self._rows, self._retries = rows, project.params.health.retries
        task = task_with(project, blocklist_of(project))
        code_of(project)  # says what is missing where its own code is not there
        items, self._split = find_items(project, task, {row.item for row in rows}, validated, tasks)
        self._items = {item.id: item for item in items}
        params = project.params
        self._seed = params.validation.seed if validated else params.evaluation.seed
        self.task = task
        stored = [row.episode for row in rows]
        again = self._played(task)
        wrong = [
            row
            for row, old, new in zip(rows, stored, again, strict=True)
            if old is None or not _same(old, new)
        ]
        if wrong:
            raise DataError(
                "episodes that are a function of their texts, under the rewards that they were given",
                found=f"{counted(len(wrong), 'episodes')} of {len(rows)} that this task grades otherwise",
                where=f"{wrong[0].place}, item {wrong[0].item}",
                fix="--task and --tasks, as they were played; a reward that needs more cannot be told again",
            )

    def under(self, project: Project) -> list[Rewarded]:
        """Return what the episodes earn under another project's task."""
        return [
            Rewarded(each.reward, each.parts)
            for each in self._played(task_with(project, blocklist_of(project)))
        ]

    def _played(self, task: Task) -> list[Episode]:
        plays, answers = [], []
        for row in self._rows:
            assert row.episode is not None
            item = self._items[row.item]
            world = derive_seed("world", self._split, self._seed, row.item)
            plays.append(Play(item, row.episode.draw, row.episode.seed, world))
            answers.append(of_episode(row.place, row.episode.model_dump(mode="json")))
        advance: Callable[[int], None] = lambda n: None  # noqa: E731
        return play_texts(task, plays, answers, self._retries, advance)[0]


def _same(old: Episode, new: Episode) -> bool:
    close = math.isclose(old.reward, new.reward, rel_tol=1e-7, abs_tol=1e-9)
    return close and old.success == new.success and old.ending == new.ending
