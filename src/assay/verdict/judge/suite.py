"""A suite of several tasks in one set of results: each is read by its own score, and has a row of its own
beside the one verdict."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from assay.core.errors import DataError
from assay.rollout.tables.columns import list_names
from assay.rollout.tables.lines import refuse
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.formatting import difference_text, p_number, percent
from assay.verdict.judge.sources import ArmRecord, Judgement, SourceFile

LABEL = "task"  # of the strata that tasks are
_NAMED = re.compile(r"--metric (?:'[^']*'|\S+)$")


class Metrics:
    """Which score is read of which task.

    Args:
        asked: One score for all that have it; or TASK=SCORE;TASK=SCORE; None: of each its only one.
    """

    def __init__(self, asked: str | None) -> None:
        parts = [each.strip() for each in (asked or "").split(";") if each.strip()]
        pairs = [each.partition("=") for each in parts]
        named = bool(pairs) and all(sign for _, sign, _ in pairs)
        self.by_task = {task.strip(): name.strip() for task, _, name in pairs} if named else {}
        self.common = None if named else asked

    def of(self, task: str, scores: Sequence[str]) -> str | None:
        """Return the score of a task whose file has these, as it is asked for; None: its only one."""
        if task in self.by_task:
            return self.by_task[task]
        has = not scores or (self.common or "").partition(",")[0] in scores
        return self.common if has else None

    def check(self, known: Mapping[Path, tuple[str, Sequence[str]]], folder: Path) -> None:
        """Refuse a task or a score that no file has, and a file of several scores of which none is asked for.

        Args:
            known: Task and names of scores by file.
            folder: Where they lie.

        Raises:
            DataError: Says what there is, and what to type.
        """
        tasks = [task for task, _ in known.values()]
        if odd := [task for task in self.by_task if task not in tasks]:
            raise refuse(
                f"a task {odd[0]}", list_names(tasks), f"{folder} --metric", self.fix(tasks[0], "NAME")
            )
        wanted = (self.common or "").partition(",")[0]
        every = {name: None for _, scores in known.values() for name in scores}
        if wanted and every and wanted not in every:
            fix = f"--metric {next(iter(every))}"
            raise refuse(f"the metric {wanted}", list_names(every), str(folder), fix)
        open_ = [
            (task, scores)
            for task, scores in known.values()
            if len(scores) > 1 and self.of(task, scores) is None
        ]
        if open_:
            told = "; ".join(f"{task}: {list_names(scores)}" for task, scores in open_[:4])
            named = {**self.by_task, **{task: scores[0] for task, scores in open_}}
            raise refuse("one score of each task", told, str(folder), _typed(named))

    def fix(self, task: str, name: str) -> str:
        """Return what to type for another score of one task."""
        return _typed({**self.by_task, task: name})

    def led(self, error: DataError, task: str) -> DataError:
        """Return the error of one file with a fix that names its task."""
        if (found := _NAMED.search(error.fix)) is None:
            return error
        name = found[0].removeprefix("--metric ").strip("'")
        return DataError(error.expected, found=error.found, where=error.where, fix=self.fix(task, name))


def _typed(named: Mapping[str, str]) -> str:
    return "--metric '" + ";".join(f"{task}={name}" for task, name in named.items()) + "'"


def rows_by_task(told: Judgement, claim: Claim) -> Iterator[dict[str, str]]:
    """Yield a row a task of a suite: what was measured, before, after, difference, and what is shown after
    Holm's correction over tasks, better at the claim's level and worse at the plan's; nothing where there is
    one task."""
    if claim.plan.tasks is None:
        return
    sign = 1 if claim.plan.direction == "higher" else -1
    for name, found in claim.strata.items():
        label, _, task = name.partition("=")
        if label != claim.plan.tasks:
            continue
        ahead = sign * (found.difference.value or 0.0) > 0
        shown = found.p_holm is not None and found.p_holm <= (claim.level if ahead else claim.plan.alpha)
        yield {
            "task": task,
            "measured": _measured(told.before, task),
            "items": str(found.difference.n),
            "before, %": percent(found.before or 0.0),
            "after, %": percent(found.after or 0.0),
            "difference, points": difference_text(found.difference, rate=True),
            "p (Holm)": p_number(found.p_holm),
            "shown": "nothing" if not shown else "better" if ahead else "worse",
        }


def tasks_frame(told: Judgement, claim: Claim) -> pd.DataFrame:
    """Return these rows as a table; empty where there is one task."""
    return pd.DataFrame(list(rows_by_task(told, claim)))


def _measured(record: ArmRecord, task: str) -> str:
    file: SourceFile | None = next(
        (each for each in record.files if task in (each.task, Path(each.name).stem)), None
    )
    told = {} if file is None else file.measured
    said = [told[name] for name in ("metric", "scorer", "filter") if name in told and told[name] != "none"]
    return ", ".join(said) or (file.metric if file and file.metric else "not said")
