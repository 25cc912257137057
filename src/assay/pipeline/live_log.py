"""What a reader can see of a training while it runs: curves, events and alarms, refreshed every few seconds,
and drawn by a process beside it.

That process is another program, named by its module and not imported, so that a changed figure never
retrains. It holds one end of a pipe: the pipe closes when the trainer ends, however that happens, and so does
the program.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from assay.core.console import complain
from assay.core.counting import counted
from assay.core.errors import ConfigError, Interrupted, RecordError, TrainingStopped
from assay.core.evidence_files import OBSERVED, place_of
from assay.core.records import TRAINING_LOG_COLUMNS, HealthEvent
from assay.core.storage.files import read_bytes, remove, write_bytes
from assay.core.storage.json import write_jsonl
from assay.core.storage.tables import write_csv
from assay.pipeline.run_folder import RunFolder
from assay.rollout.dataset.suite import Suite
from assay.rollout.evaluation.alarms import COLUMNS, Shares, alarm_said, field_rows, field_shares, nested
from assay.rollout.evaluation.measures import Row, score_rows, validation_row
from assay.rollout.tasks.protocol import Task, answer_key
from assay.training.log.history import History, Validation, Watch

PROGRAM = "assay.cli.tools.watch.redraw"
END = b"end\n"
# Not a parameter: it changes no result, and a change of it must not train again.
VARIABLE, DEFAULT_S, LEAST_S = "ASSAY_REDRAW_SECONDS", 5.0, 1.0
PATIENCE_S = 30.0  # for the last drawing, which takes a second where the machine is not busy
# No GPU, one thread, and no place among processes that train together.
_SETTINGS = {"CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "agg", "PYTHONUNBUFFERED": "1"} | dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)
_LEFT_OUT = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def seconds_between() -> float | None:
    """Return how often curves are drawn, None for never: what ASSAY_REDRAW_SECONDS says.

    Raises:
        ConfigError: It is neither 0 nor a number of at least 1.
    """
    text = os.environ.get(VARIABLE, str(DEFAULT_S))
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if seconds == 0:
        return None
    if not LEAST_S <= seconds <= 86400:
        raise ConfigError(
            f"0, or seconds from {LEAST_S:g} on", found=repr(text), where=VARIABLE, fix=f"unset {VARIABLE}"
        )
    return seconds


class Drawer:
    """One drawing process. Nothing it does, its end included, reaches the training.

    Args:
        root: The project.
        log: Where what it complains of goes.
        seconds: The least between two drawings.
    """

    def __init__(self, root: Path, log: Path, seconds: float) -> None:
        self._log = log
        self._process = self._started(root, seconds)

    def _started(self, root: Path, seconds: float) -> subprocess.Popen[bytes] | None:
        environment = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT} | _SETTINGS
        try:
            with self._log.open("wb") as log:
                # A session of its own: Ctrl-C in the terminal is for the trainer, which then says when it is
                # over.
                return subprocess.Popen(
                    [sys.executable, "-m", PROGRAM, str(root.resolve()), str(seconds)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    env=environment,
                    start_new_session=True,
                )
        except OSError as error:
            complain(f"the curves will not be drawn while training ({error.strerror}); the training goes on")
            return None

    def look(self) -> None:
        """Say it, once, if the process has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            with suppress(OSError):
                assert self._process.stdin is not None
                self._process.stdin.close()
            self._say_gone(self._process.returncode)

    def close(self) -> None:
        """Tell the process of the end, give it seconds for the last drawing, then end it."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        with suppress(OSError):  # if it is gone already, its exit code says so
            process.stdin.write(END)
            process.stdin.close()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            complain("the last curves were not drawn in time")
            self._process = None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode and self._process is not None:
            self._say_gone(process.returncode)
        self._process = None

    def _say_gone(self, code: int) -> None:
        self._process = None
        try:
            lines = read_bytes(self._log, fix="").decode("utf-8", "replace").strip().split("\n")
        except RecordError:
            lines = [""]
        complain(
            f"the curves are no longer drawn while training (exit code {code}: {lines[-1][:200]}); the"
            " training goes on"
        )


# Curves are written anew as a whole; however long they get, that takes at most a two-hundredth of the time.
SECONDS_BETWEEN_WRITES, SHARE_OF_TIME = 3.0, 0.005


class Live:
    """Publishes a training as it goes. Only the main process writes and speaks."""

    def __init__(
        self,
        root: Path,
        steps: int,
        history: History,
        watch: Watch,
        suite: Suite,
        folder: RunFolder,
        *,
        main: bool,
    ) -> None:
        """Publish the history of so many steps into a project, and its events in the log of a run folder."""
        self._root, self._history, self._folder, self._main = root, history, folder, main
        self._tables, self._bell = Tables(root, steps, history, suite, watch.task), Bell(watch)
        self._next, self._said = 0.0, set[tuple[str, str]]()
        self._every = seconds_between()
        self._drawer: Drawer | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Take away what an earlier training left, and draw the curves of this one while it goes on; at its
        end, say why it ended, if early, and draw a last time."""
        self._begin()
        try:
            yield
            self.publish()
        except BaseException as error:
            # Why it ended is what has to be said, also on a disk that is full
            with suppress(OSError, RecordError):
                if isinstance(error, (Interrupted, TrainingStopped)):
                    self.tell("ended early", {"why": str(error).split("\n")[0]})
                self.publish()
            raise
        finally:
            if self._drawer is not None:
                self._drawer.close()

    def _begin(self) -> None:
        if not self._main:
            return
        self.publish()
        if self._every is not None:
            self._drawer = Drawer(self._root, self._folder.path / "drawer.log", self._every)

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
        self._folder.tell(event, facts)
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
            self._root / OBSERVED / "run_log.jsonl", read_bytes(self._folder.events, fix="call again")
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

    def __init__(
        self, root: Path, steps: int, history: History, suite: Suite, task: Task | None = None
    ) -> None:
        """Write the curves of so many steps into a project; without a task the fields of validations are not
        told."""
        self._root, self._steps, self._history, self._suite = root, steps, history, suite
        self._rows: dict[int, Row] = {}
        self._scores: dict[int, list[dict[str, object]]] = {}
        self._key, self._fields = None if task is None else answer_key(task), dict[int, dict[str, Shares]]()

    def write(self) -> None:
        """Write the curves as they stand; a reader never sees half a file."""
        root, history = self._root, self._history
        _write(root / place_of("training_log.csv"), history.training_log, TRAINING_LOG_COLUMNS)
        _write(root / place_of("reward_components.csv"), history.reward_components)
        for validation in history.validations:
            if validation.step not in self._rows:
                self._rows[validation.step] = self._row(validation)
                self._scores[validation.step] = score_rows(
                    validation.step, validation.sampled, validation.greedy
                )
        known = {validation.step for validation in history.validations}
        _write(
            root / place_of("checkpoint_evals.csv"),
            [row for step, row in self._rows.items() if step in known],
        )
        scores = [row for step, rows in self._scores.items() if step in known for row in rows]
        _write(root / place_of("validation_scores.csv"), scores)
        # A task without fields has a header
        write_csv(root / place_of("fields.csv"), list(self._field_rows()), COLUMNS)
        _write(root / OBSERVED / "training_clock.csv", history.observed)
        if history.train_log:
            write_jsonl(root / place_of("train_log.jsonl"), history.train_log)
        else:
            remove(root / place_of("train_log.jsonl"))
        # An empty file reads like a broken one, to DVC and to people.
        write_jsonl(root / place_of("health.jsonl"), history.health or [quiet(len(history.train_log))])

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
        done = validation.step / self._steps
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
