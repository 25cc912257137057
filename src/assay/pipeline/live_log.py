"""What a reader can see of a training while it runs: curves, events and alarms, refreshed every few
seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.core.console import complain
from assay.core.counting import counted
from assay.core.provenance import now
from assay.core.records import TRAINING_LOG_COLUMNS, HealthEvent
from assay.core.storage.files import read_bytes, remove, write_bytes
from assay.core.storage.json import write_jsonl
from assay.core.storage.tables import write_csv
from assay.dataset.suite import Suite
from assay.evaluation.alarms import alarm_said
from assay.evaluation.fields import COLUMNS, Shares, field_rows, field_shares, nested
from assay.evaluation.validation_tables import Row, score_rows, validation_row
from assay.pipeline.plot_process import Drawer, seconds_between
from assay.pipeline.project import Project
from assay.pipeline.run_folder import RunFolder
from assay.tasks.protocol import Task, answer_key
from assay.training.health.watch import Watch
from assay.training.log.history import History, Validation

# Curves are written anew as a whole; however long they get, that takes at most a two-hundredth of the time.
SECONDS_BETWEEN_WRITES, SHARE_OF_TIME = 3.0, 0.005


class Live:
    """Publishes a training as it goes. Only the main process writes and speaks."""

    def __init__(
        self, project: Project, history: History, watch: Watch, suite: Suite, folder: RunFolder, *, main: bool
    ) -> None:
        """Publish a history, and its events in the log of a run folder."""
        self._project, self._history, self._folder, self._main = project, history, folder, main
        self._tables, self._bell = Tables(project, history, suite, watch.task), Bell(watch)
        self._next, self._said = 0.0, set[tuple[str, str]]()
        self._every = seconds_between()
        self._drawer: Drawer | None = None

    def begin(self) -> None:
        """Take away what an earlier training left, and start the process that draws the curves of this
        one."""
        if not self._main:
            return
        self.publish()
        if self._every is not None:
            self._drawer = Drawer(self._project.root, self._folder.path / "drawer.log", self._every)

    def end(self) -> None:
        """Let the curves be drawn a last time; nothing is drawn after this."""
        if self._drawer is not None:
            self._drawer.close()

    def step(self, step: int, advance: Callable[..., None]) -> None:
        """Show a finished step."""
        if not self._main:
            return
        reward = self._history.training_log[-1]["reward"]
        advance(1, f"step {step}, reward {'skipped' if reward is None else f'{reward:+.3f}'}")
        self._bell.ring()
        if time.monotonic() > self._next:
            self.publish()

    def tell(self, event: str, facts: Mapping[str, Any]) -> None:
        """Write an event into the log of the run, with the time; say those that a person should know."""
        if not self._main:
            return
        self._folder.log({"time": now(), "event": event} | dict(facts))
        if (
            event == "alarm"
            and facts["level"] != "GREEN"
            and (facts["rule"], facts["level"]) not in self._said
        ):
            self._said.add((facts["rule"], facts["level"]))  # those that come and go are all in health.jsonl
            complain(f"{facts['level']} at step {facts['step']}: {facts['message']}")
        elif event == "rolled back":
            complain(
                f"step {facts['step']}: {facts['what']} is not finite; back to step {facts['to']}, where this"
                " one is skipped"
            )

    def publish(self) -> None:
        """Write everything as it stands; a reader never sees half a file."""
        if not self._main:
            return
        began = time.monotonic()
        if self._drawer is not None:
            self._drawer.look()
        self._tables.write()
        write_bytes(
            self._project.observed("run_log.jsonl"), read_bytes(self._folder.events, fix="call again")
        )
        ended = time.monotonic()
        self._next = ended + max(SECONDS_BETWEEN_WRITES, (ended - began) / SHARE_OF_TIME)


class Bell:
    """Says each alarm once, when it first rings: a flag is not repeated for every batch that raises it
    again."""

    def __init__(self, watch: Watch) -> None:
        """Listen to a watch."""
        self._watch = watch
        self._said: set[tuple[str, str]] = set()

    def ring(self) -> None:
        """Say what rang since the last call and was not said before."""
        for step, source, alarm in self._watch.raised:
            if (alarm.flag, source) not in self._said:
                self._said.add((alarm.flag, source))
                complain(alarm_said(alarm, f"episodes of the {source} at step {step}"))


class Tables:
    """The curves of a training on disk; what was computed for one validation is kept."""

    def __init__(self, project: Project, history: History, suite: Suite, task: Task | None = None) -> None:
        """Write a history's curves into a project; without a task the fields of validations are not told."""
        self._project, self._history, self._suite = project, history, suite
        self._rows: dict[int, Row] = {}
        self._scores: dict[int, list[dict[str, object]]] = {}
        self._key, self._fields = None if task is None else answer_key(task), dict[int, dict[str, Shares]]()

    def write(self) -> None:
        """Write the curves as they stand; a reader never sees half a file."""
        project, history = self._project, self._history
        _write(project.results("training_log.csv"), history.training_log, TRAINING_LOG_COLUMNS)
        _write(project.results("reward_components.csv"), history.reward_components)
        for validation in history.validations:
            if validation.step not in self._rows:
                self._rows[validation.step] = self._row(validation)
                self._scores[validation.step] = score_rows(
                    validation.step, validation.sampled, validation.greedy
                )
        known = {validation.step for validation in history.validations}
        _write(
            project.results("checkpoint_evals.csv"),
            [row for step, row in self._rows.items() if step in known],
        )
        scores = [row for step, rows in self._scores.items() if step in known for row in rows]
        _write(project.results("validation_scores.csv"), scores)
        write_csv(
            project.results("fields.csv"), list(self._field_rows()), COLUMNS
        )  # a task without fields has a header
        _write(project.observed("training_clock.csv"), history.observed)
        if history.train_log:
            write_jsonl(project.results("train_log.jsonl"), history.train_log)
        else:
            remove(project.results("train_log.jsonl"))
        # An empty file reads like a broken one, to DVC and to people.
        write_jsonl(project.results("health.jsonl"), history.health or [quiet(len(history.train_log))])

    def _field_rows(self) -> Iterator[dict[str, object]]:
        items = {item.id: item for item in self._suite.items}
        validations = {validation.step: validation for validation in self._history.validations}
        batches = {row["step"]: nested(row.get("fields", {})) for row in self._history.train_log}
        for step in sorted({*validations, *batches}):
            yield from field_rows(step, "batch", batches.get(step, {}))
            if step in validations:
                if step not in self._fields:
                    self._fields[step] = field_shares(self._key, items, validations[step].sampled)
                yield from field_rows(step, "validation", self._fields[step])

    def _row(self, validation: Validation) -> Row:
        done = validation.step / self._project.params.train.steps
        return validation_row(
            validation.sampled,
            validation.greedy,
            step=validation.step,
            fraction_done=done,
            k=self._suite.draws,
        )


def _write(path: Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> None:
    """Write a table; one that has no rows yet has no file either, also not that of an earlier training."""
    if rows:
        write_csv(path, rows, columns or list(rows[0]))
    else:
        remove(path)


def quiet(steps: int) -> HealthEvent:
    """Return the one line that health.jsonl has where no alarm rang."""
    message = f"No alarm in {counted(steps, 'steps')}."
    return HealthEvent(
        rule="non_finite",
        level="GREEN",
        stop=False,
        value=None,
        threshold=None,
        baseline=None,
        step=steps,
        first_step=0,
        item_ids=(),
        message=message,
    )
