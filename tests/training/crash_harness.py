"""Trainings in forked children, and all that a finished training leaves behind, to compare.

A child is forked from a process that has everything imported, so a training costs what it computes. Functions
are wrapped in the child, never in src.
"""

from __future__ import annotations

import functools
import gc
import io
import json
import math
import os
import pickle
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, cast
from unittest.mock import patch

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch

from assay import cli
from assay.core import console
from assay.core.config.reading import parse_params
from assay.core.config.settings import Params, TinyArchitecture
from assay.core.evidence_files import place_of
from assay.core.storage.json import as_written
from assay.core.storage.yaml import read_yaml
from assay.pipeline import live_log as live
from assay.pipeline.inputs import Inputs
from assay.pipeline.project import Project
from assay.rollout.dataset.suite import Suite, choose
from assay.rollout.policy.base import tiny
from assay.rollout.policy.model import Policy
from assay.rollout.policy.renderer import Dialogue
from assay.stages import train as train_stage
from assay.training.checkpoints.store import Checkpoints
from tests.house import ROOT
from tests.training.toy_task import Letters, items

ITEMS = items(6)  # two a step: a new epoch every third step
LAST_FILES = (
    "adapter.safetensors",
    "optimizer.pt",
    "scheduler.pt",
    "rng_state.pth",
    "trainer_state.json",
    "best.safetensors",
)
TABLES = (
    "training_log.csv",
    "reward_components.csv",
    "checkpoint_evals.csv",
    "train_log.jsonl",
    "health.jsonl",
    "train.json",
)
# Of 12 steps: its save follows a validation and lets go of step 6; 10 and 8 stay, and 4, the newest healthy
# one.
RETAINING_STEP = 10
FAILED = 70


def settings(steps: int, **changes: dict[str, Any]) -> Params:
    """Return settings under which every state counts: dropout, epochs, accumulation, a KL term, a schedule,
    retention."""
    raw = read_yaml(ROOT / "params.yaml", fix="")
    raw["distributed"]["processes"] = 1
    raw["train"] |= {
        "steps": steps,
        "items_per_step": 2,
        "group_size": 4,
        "micro_batch_size": 4,
        "kl_probe_episodes": 2,
        "kl_probe_every": 3,
        "learning_rate": 0.01,
        "lr_scheduler": "cosine",
        "warmup_steps": 2,
        "beta": 0.05,
        "scale_rewards": "group",
        "lora": raw["train"]["lora"] | {"dropout": 0.2},
    }
    raw["generation"]["evaluation_temperature"] = None
    raw["validation"] |= {"items": 2, "draws": 2, "interval": 5}
    raw["checkpoint"] |= {"every": 2, "keep": 2}
    # Nothing ends early for want of something to learn: what is tested is whether it goes on.
    raw["health"]["zero_variance"] |= {"stop_for": 10**6}
    raw["health"]["truncated"] |= {"stop_for": 10**6}
    # Alarms come and go, and the last checkpoints are not healthy: both are state.
    raw["health"] |= {"preflight": False, "baseline_steps": 2}
    raw["health"]["grad_norm"] |= {"amber": 1.05}
    raw["health"]["kl"] |= {"amber": 0.02, "red": 0.047}
    for section, values in changes.items():
        raw[section] |= values
    return parse_params(raw)


def policy() -> Policy:
    """Return the untrained toy policy, the same each time."""
    tokenizer = tiny.build_tokenizer(Letters().vocabulary())
    shape = TinyArchitecture(
        hidden_size=32, intermediate_size=64, layers=1, heads=2, max_positions=256, initializer_range=0.05
    )
    return Policy(tiny.build_model(shape, tokenizer, 5), tokenizer, Dialogue(tokenizer), "test")


class Toy(Letters):
    """The toy task with a flag that rings and prompts that have to be cut: what is watched is state as
    well."""

    def __init__(self) -> None:
        super().__init__(alarms={"early": 0.1}, max_prompt_tokens=6)


def suite(params: Params) -> Suite:
    """Return the validation suite."""
    chosen = params.validation
    return choose(ITEMS, chosen.items, split="validation", draws=chosen.draws, seed=chosen.seed)


class _NoFingerprint:
    """Of no dataset: all that could be asked of it is null."""

    def __getattr__(self, name: str) -> None:
        return None


@contextmanager
def _without_data(params: Params, task: Letters) -> Iterator[None]:
    """Let the stage find the toy policy and its items where it would read them from a project."""
    inputs = Inputs(params, task, cast(Any, _NoFingerprint()), {"train": ITEMS}, "")
    vars(inputs)["validation"] = suite(params)
    given: dict[str, Any] = {"open_policy": lambda params, base: policy(), "manifest_of": lambda *_: {}}
    read: dict[str, Any] = {
        "inputs": lambda project, *parts: inputs,
        "task": lambda project, shaping=False: task,
    }
    # Every step is published, so that a kill can meet it.
    with (
        patch.multiple(train_stage, **given),
        patch.multiple(Project, **read),
        patch.multiple(live, SECONDS_BETWEEN_WRITES=0.0, SHARE_OF_TIME=math.inf),
    ):
        yield


Left = dict[str, bytes]


def training(root: Path, params: Params, task: Letters | None = None) -> Left:
    """Begin a training in a folder, or go on with it, by the stage itself; return what it leaves behind."""
    plan = root / "evidence/results/data/claim_plan.json"
    plan.parent.mkdir(parents=True, exist_ok=True)
    plan.write_bytes(b"{}\n")
    with _without_data(params, task or Toy()):
        train_stage.run(Project(root, params))
    return left_behind(root, params)


def run_folder(root: Path) -> Path:
    """Return the folder in which the one training of a project keeps what it needs to go on."""
    (found,) = (path.parent for path in (root / ".scratch/train").glob("*/key.json"))
    return found


def checkpoints(root: Path) -> Checkpoints:
    """Return the checkpoints of the one training of a project, as a process that takes it up sees them."""
    folder = run_folder(root)
    return Checkpoints(folder, json.loads((folder / "key.json").read_bytes())["digest"], 2)


def left_behind(root: Path, params: Params) -> Left:
    """Return everything of a finished training by name, but for clocks: outputs, last checkpoint,
    validations."""
    left = {
        f"models/adapter/{path.name}": path.read_bytes()
        for path in sorted((root / "models/adapter").iterdir())
    }
    left |= {name: (root / place_of(name)).read_bytes() for name in TABLES}
    run = run_folder(root)
    last = run / f"step-{params.train.steps:06d}"
    left |= {f"last {name}": (last / name).read_bytes() for name in LAST_FILES}
    left |= {
        f"last {path.name} of validation": path.read_bytes()
        for path in sorted((run / "validations").glob("step-*"))
    }
    ledger = json.loads((last / "ledger.json").read_bytes())
    del ledger["seconds"]
    ledger["rows"]["observed"] = [row["step"] for row in ledger["rows"]["observed"]]
    left |= {
        f"ledger {name}": as_written(value).encode()
        for name, value in {**ledger.pop("rows"), **ledger}.items()
    }
    return left


def differences(one: Left, other: Left) -> list[str]:
    """Return the names of what differs."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


# --- children
# --------------------------------------------------------------------------------------------------------


@functools.cache
def warm() -> None:
    """Import all that a training needs, in this process, by making one."""
    torch.set_num_threads(1)
    quiet = (patch.object(each, "quiet", True) for each in (console._OUT, console._ERR))
    with (
        tempfile.TemporaryDirectory(prefix="assay-warm-") as folder,
        warnings.catch_warnings(),
        next(quiet),
        next(quiet),
    ):
        warnings.simplefilter("ignore")
        training(Path(folder), settings(1))


def fork(work: Callable[[], Any], out: Path) -> int:
    """Start a child and return its id; what `work` returns goes to a file `result` in `out`, what it says to
    `said`."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "result").unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _be_child(work, out)
    return child


def _be_child(work: Callable[[], Any], out: Path) -> NoReturn:
    code = FAILED
    try:
        stream = os.open(out / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(stream, 1)
        os.dup2(stream, 2)
        sys.stdout = sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), line_buffering=True)
        console._OUT.file = console._ERR.file = sys.stdout
        tempfile.tempdir = str(out)  # what a kill leaves goes where everything of the child goes
        torch.set_num_threads(1)
        gc.freeze()  # what was imported is no garbage: looking for it would take half of a child's time
        (out / "result").write_bytes(pickle.dumps(work()))
        code = 0
    finally:
        if code:
            traceback.print_exc()
        os._exit(code)  # nothing of the parent's is flushed or cleaned up twice


def ended(child: int, out: Path) -> Any:
    """Wait for a child and return its result, None if a SIGKILL ended it.

    Raises:
        AssertionError: It ended otherwise; says how.
    """
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return None
    assert os.waitstatus_to_exitcode(status) == 0, (out / "said").read_text("utf-8", "replace")[-6000:]
    return pickle.loads((out / "result").read_bytes())


def command(work: Callable[[], Any]) -> int:
    """Do some work as a command of assay does, in a child, and return its exit code; what it says is said as
    ever."""

    def app() -> None:
        try:
            work()
        finally:
            # Where a test has limited the size of files: what is said goes into one as well.
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    cli.app = app  # type: ignore[assignment]
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def before(owner: Any, name: str, act: Callable[..., None]) -> None:
    """Do something before each call of a function, in a child."""
    function = getattr(owner, name)

    @functools.wraps(function)
    def acted(*arguments: Any, **named: Any) -> Any:
        act(*arguments)
        return function(*arguments, **named)

    setattr(owner, name, acted)
