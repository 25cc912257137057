"""What shows a training elsewhere while it runs: W&B, TensorBoard, trackio and DVCLive, by the callbacks
transformers has for them.

Chosen by the environment and not by a parameter: a reporter changes no result. Whatever one of them does, its
end included, the training goes on as if it had never been there.
"""

from __future__ import annotations

import copy
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from assay.core.config.settings import Params
from assay.core.console import complain, say
from assay.core.errors import RecordError
from assay.core.provenance import WANDB_QUIET
from assay.core.storage.files import read_text, write_text
from assay.rollout.policy.base.pretrained import LOCAL, name_of
from assay.training.log.history import History
from assay.training.rollouts import untouched

# Who reports is named by a variable that says where to; those of trackio and DVCLive are ours, since their
# callbacks are told by an argument.
VARIABLES = {"wandb": "WANDB_PROJECT", "tensorboard": "TENSORBOARD_LOGGING_DIR", "trackio": "TRACKIO_PROJECT"}
VARIABLES |= {"dvclive": "DVCLIVE_DIR"}
HASHED = "./run python -m pip install --require-hashes --no-deps --no-build-isolation -r requirements"
INSTALL = {name: f"{HASHED}/{name}.txt" for name in VARIABLES}
NAME = "reported_as.txt"  # in the folder of the run: the name it goes by elsewhere
FINISH_S = 60.0  # for W&B to send what it still has; without a network it would wait for ever
# Rows of train_log.jsonl hold more than numbers of the step: these are said elsewhere, or say nothing on a
# curve.
_LEFT_OUT = ("step", "epoch", "skipped", "lost", "retries")


def asked_for() -> dict[str, str]:
    """Return who is to report and where to: W&B's project, TensorBoard's folder, trackio's project, DVCLive's
    folder, as the environment says."""
    found = {kind: os.environ.get(variable, "").strip() for kind, variable in VARIABLES.items()}
    return {kind: where for kind, where in found.items() if where}


@contextmanager
def reporting(
    params: Params, history: History, folder: Path, start: int, *, main: bool
) -> Iterator[ReportsCallback]:
    """Give the callback that reports a training; it is to stand behind the recorder, and is closed however
    the training ends.

    A training that is gone on with keeps its name, so that its run elsewhere is continued: steps that are
    made again stand twice in W&B, trackio and DVCLive, and once in TensorBoard.

    Args:
        params: Shown beside the curves where the reporter has a place for settings.
        history: What is reported: rows, validations and alarms, the very ones in the files of the run.
        folder: Of the run's checkpoints; its name and its parent's name the run.
        start: The step that was made last; 0: none.
        main: Whether this is the process that speaks for all.
    """
    wanted = asked_for() if main else {}
    name = run_name(folder, start) if wanted else ""
    reporters = [Reporter(kind, where, name, params, history, start) for kind, where in wanted.items()]
    through = False
    try:
        yield ReportsCallback(reporters)
        through = True
    finally:
        for each in reporters:
            each.close(through)


def run_name(folder: Path, start: int) -> str:
    """Return what a training is called elsewhere: its stage, its key and, new where it begins anew, the time
    in UTC."""
    with suppress(RecordError):  # no such file: it was begun without reporters
        if start:
            return read_text(folder / NAME, fix="").strip()
    name = f"{folder.parent.name}-{folder.name[:8]}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    with suppress(OSError, RecordError):  # it would go by another name after an interruption, and no worse
        write_text(folder / NAME, f"{name}\n")
    return name


def numbers_of(history: History) -> dict[str, float]:
    """Return what is shown of the newest step, by name: its row of train_log.jsonl, reward parts, clock and
    alarms.

    A value that was not measured is left out.
    """
    row = history.train_log[-1]
    shown = {name: value for name, value in row.items() if name not in _LEFT_OUT}
    shown["kl"] = shown.pop("kl_probe", None)
    shown |= {f"components/{name}": value for name, value in row["components"].items() if name != "step"}
    clock = history.observed[-1].items()  # a step is shown before it is saved, so that time is not known yet
    shown |= {f"clock/{name}": value for name, value in clock if name not in ("step", "checkpoint_s")}
    standing = list({event.rule: event.level for event in history.health}.values())
    shown |= {f"alarms/{level.lower()}": standing.count(level) for level in ("AMBER", "RED")}
    return {
        name: float(value)
        for name, value in shown.items()
        if isinstance(value, (int, float)) and math.isfinite(value)
    }


def validation_numbers(history: History, step: int) -> dict[str, float]:
    """Return the means of a step's validation over its sampled draws, nothing if it had none; eval_ is
    transformers' word."""
    newest = history.validations[-1] if history.validations else None
    if newest is None or newest.step != step:
        return {}
    n = len(newest.sampled)
    return {
        "eval_mean_reward": sum(each.reward for each in newest.sampled) / n,
        "eval_success_rate": sum(each.success for each in newest.sampled) / n,
        "eval_episodes": n,
    }


class ReportsCallback(TrainerCallback):
    """All reporters of a training, as the one callback that transformers takes of a kind."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self._reporters = reporters

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Let all begin."""
        for each in self._reporters:
            each.begin(args, state, control)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Let all show a step that ended; the sums at the end of a training are none."""
        for each in self._reporters if logs and "loss" in logs else ():
            each.step(state, control)


class Reporter:
    """One callback of transformers, fed with our rows and kept from doing harm.

    It sees neither the model nor the folder of checkpoints, since hooks on weights, uploads of them and paths
    of this machine are no reporter's business. What it raises is said once and ends its reports.

    Args:
        kind: wandb, tensorboard, trackio or dvclive.
        where: What its variable says.
        name: Of the run.
        params: All settings.
        history: What is reported.
        start: The step that was made last.
    """

    def __init__(
        self, kind: str, where: str, name: str, params: Params, history: History, start: int
    ) -> None:
        self._kind, self._where, self._name, self._history = kind, where, name, history
        self._args: Any = None
        self._inner: Any = None
        self._gone = False
        if find_spec(kind) is None:
            what = f"{VARIABLES[kind]} is set and {kind} is not installed"
            complain(
                f"train: {what}, so nothing is reported there; the training goes on. Fix: {INSTALL[kind]}"
            )
            self._gone = True
            return
        self._guarded(lambda: self._set_up(params, start))

    def begin(self, args: Any, state: Any, control: Any) -> None:
        """Open the run, and show the validation of the untrained policy."""
        self._args = copy.copy(args)
        self._args.output_dir = ""  # a path of this machine
        self._args.run_name = self._name
        if self._kind == "trackio":
            self._args.project = self._where
        self._args.trackio_static_space_id = False  # nothing is published that nobody asked for
        self._guarded(lambda: self._inner.on_train_begin(self._args, state, copy.copy(control)))
        if not state.global_step:
            self._show(state, control, validation_numbers(self._history, 0))

    def step(self, state: Any, control: Any) -> None:
        """Show a step, once the recorder has written its row."""
        self._show(
            state,
            control,
            numbers_of(self._history) | validation_numbers(self._history, int(state.global_step)),
        )

    def close(self, through: bool) -> None:
        """Let it finish, and say whether the training got to its end; nothing is shown after this."""
        if self._args is not None:
            self._guarded(lambda: self._inner.on_train_end(self._args, TrainerState(), TrainerControl()))
        if self._kind == "wandb":
            self._guarded(lambda: import_module("wandb").finish(exit_code=0 if through else 1))
        self._gone = True

    def _show(self, state: Any, control: Any, numbers: Mapping[str, float]) -> None:
        if numbers and self._kind == "dvclive" and not self._gone:
            self._inner.live.step = int(state.global_step)  # left to itself it counts what it is shown
        if numbers:
            self._guarded(
                lambda: self._inner.on_log(self._args, state, copy.copy(control), logs=dict(numbers))
            )

    def _set_up(self, params: Params, start: int) -> None:
        made = {"wandb": _wandb, "tensorboard": _tensorboard, "trackio": _trackio}
        made |= {"dvclive": _dvclive}
        self._inner = made[self._kind](self._where, self._name, params, start)
        say(f"train: reported to {self._kind} ({VARIABLES[self._kind]}={self._where}) as {self._name}")

    def _guarded(self, call: Callable[[], None]) -> None:
        """Call, unless something went wrong before; neither draw from our generators, nor warn, nor raise."""
        if self._gone:
            return
        try:
            with untouched(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call()
        except Exception as error:  # noqa: BLE001 - whatever another's library does, the training goes on
            self._gone = True
            what = "does not report" if self._args is None else "reports no longer"
            complain(f"train: {self._kind} {what} ({type(error).__name__}: {error}); the training goes on")


def _told(params: Params) -> dict[str, Any]:
    """Return all settings, a local model and folders outside of the project by their names: no path of this
    machine."""
    told = params.model_dump(mode="json")
    for section, name in (("base", "model"), ("dataset", "root"), ("dataset", "cache")):
        path = os.path.expanduser(told[section].get(name) or ".")
        is_model = name == "model" and name in told[section]
        if os.path.isabs(path) or ".." in Path(path).parts or (is_model and os.path.exists(path)):
            told[section][name] = name_of(told[section][name], LOCAL)
    return told


def _place(folder: str) -> Path:
    # Under DVC a relative one is meant from the repository it was called in: copies made for experiments are
    # thrown away.
    return Path(os.environ.get("DVC_ROOT") or ".") / Path(folder).expanduser()


def _wandb(project: str, name: str, params: Params, start: int) -> Any:
    # An adapter goes there by assay publish wandb
    os.environ["WANDB_WATCH"] = os.environ["WANDB_LOG_MODEL"] = "false"
    # Its crashes, with their stacks, would go to its makers
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    wandb = import_module("wandb")
    # Left to itself it would ask in the middle of a training whether to make an account.
    if wandb.setup().settings.mode == "online" and not wandb.login(prompt=False):
        raise LookupError("no key of W&B; ./run wandb login, or set WANDB_API_KEY")
    folder = _place(os.environ.get("WANDB_DIR") or ".scratch")
    folder.mkdir(parents=True, exist_ok=True)
    settings = wandb.Settings(
        root_dir=str(folder), finish_timeout=FINISH_S, **WANDB_QUIET | {"x_disable_stats": False}
    )
    wandb.init(
        project=project,
        id=name,
        name=name,
        resume="allow",
        settings=settings,
        config={"assay": _told(params)},
    )
    return import_module("transformers.integrations").WandbCallback()


def _tensorboard(folder: str, name: str, params: Params, start: int) -> Any:
    writer = import_module("torch.utils.tensorboard").SummaryWriter
    # What an ended go at it wrote after the last checkpoint is hidden: those steps are made again.
    opened = writer(str(_place(folder) / name), purge_step=start + 1 if start else None)
    return import_module("transformers.integrations").TensorBoardCallback(opened)


def _trackio(project: str, name: str, params: Params, start: int) -> Any:
    return import_module("transformers.integrations").TrackioCallback()


def _dvclive(folder: str, name: str, params: Params, start: int) -> Any:
    place, about = _place(folder), "plots:\n- plots/metrics:\n    x: step\n"
    # Left to itself it rewrites the project's dvc.yaml, and its numbers and settings would be a hundred
    # columns of `dvc exp show`: curves are all that DVC finds here.
    live = import_module("dvclive").Live(
        str(place), resume=bool(start), report=None, save_dvc_exp=False, dvcyaml=None
    )
    write_text(place / "dvc.yaml", about)
    callback = import_module("transformers.integrations").DVCLiveCallback(live, log_model=False)
    callback.setup = lambda *_: setattr(callback, "_initialized", True)  # what it tells are TRL's arguments
    return callback
