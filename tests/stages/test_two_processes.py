"""Stages of two processes as a user has them: one command that starts them, one voice, one end, and nothing
left over."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import torch.distributed as dist

from assay.checks.doctor import preflight
from assay.checks.findings import MOST_SECONDS, Finding
from assay.cli.stages import _become_several
from assay.core.config.composition import IN_EXPERIMENT, Selection, compose
from assay.core.config.reading import parse_params
from assay.core.config.settings import DistributedSettings
from assay.core.errors import ConfigError, TrainingError
from assay.core.parent import STARTED_BY
from assay.core.storage.append_log import read_complete
from assay.core.storage.json import write_jsonl
from assay.pipeline.inputs import Inputs
from assay.pipeline.project import Project
from assay.pipeline.resume import RunKey, machine_of
from assay.pipeline.run_folder import RunFolder
from assay.rollout.policy.processes import Processes
from assay.stages import base, fingerprint, pre_eval, train
from assay.training.log.step_chain import check_chain
from tests import fake_slurm
from tests.calling import until
from tests.house import ROOT
from tests.verification.made_run import played
from tests.warm import warm_python

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only there a parent's end is noticed"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"),
]
STEPS = 30
PR_SET_CHILD_SUBREAPER = 36  # Source: prctl(2)
MARK = "ASSAY_TEST_TWO_PROCESSES"
PARENT = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:]).pid, flush=True); sys.stdin.read()"
ASSAY = [sys.executable, "-m", "assay.cli"]


def environment_without(*names: str, **more: str) -> dict[str, str]:
    """Return the environment of a person who has called nothing yet, in which this house's sources are
    run."""
    left_out = ("DVC_ROOT", *STARTED_BY, "RANK", "WORLD_SIZE", *names)
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return kept | {"PYTHONPATH": str(ROOT / "src"), IN_EXPERIMENT: "0" * 40} | more


def small(root: Path) -> Project:
    """Write a project whose base has learned next to nothing, and whose training takes a second a process."""
    values = json.loads(json.dumps(compose(ROOT, Selection("tiny_smoke", "collider", 0)).values))
    values["distributed"] |= {"processes": 2, "backend": "gloo"}
    values["evaluation"]["open"] = True
    for phase in ("drills", "demonstrations"):
        values["base"]["warm_start"][phase] |= {"steps": 1, "batch_size": 4}
    values["base"]["warm_start"] |= {
        "drill_pool": 4,
        "demonstration_pool": 4,
        "probe_items": 1,
        "probe_every": 1,
    }
    values["base"]["gates"] = {"copy_accuracy": 0.0, "parsed_rate": 0.0, "episodes": 1}
    values["task"] |= {"max_turns": 2}
    values["validation"] |= {"items": 2, "draws": 1, "interval": 10}
    values["train"] |= {
        "steps": STEPS,
        "items_per_step": 2,
        "group_size": 2,
        "micro_batch_size": 2,
        "kl_probe_episodes": 2,
        "warmup_steps": 0,
    }
    # Such a base cannot learn anything, and every alarm would rightly say so.
    values["health"] |= {"preflight": False}
    for rule in ("zero_variance", "truncated"):
        values["health"][rule] |= {"stop_for": 10**6}
    shutil.copytree(ROOT / "data/collider", root / "data/collider")
    shutil.copy(ROOT / "constraints.txt", root)
    (root / "params.yaml").write_text(json.dumps(values), encoding="utf-8")
    return Project(root, parse_params(values))


@contextmanager
def inheriting_orphans() -> Iterator[None]:
    """Become the parent of processes whose own parent dies, so that how they end can be asked."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def alive(root: Path) -> dict[int, str | None]:
    """Return the processes that were started with a mark in their environment or work in a folder, and have
    not ended, each with its rank, where its environment has one."""
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            told = (folder / "environ").read_text("utf-8", "replace").split("\0")
            # What a waiting Python was forked for has its environment, and the folder of who called.
            if f"{MARK}={root.name}" in told or (folder / "cwd").resolve(strict=True) == root:
                ranks = [each.removeprefix("RANK=") for each in told if each.startswith("RANK=")]
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                found |= {int(folder.name): next(iter(ranks), None)} if state != "Z" else {}
        except OSError:
            continue  # it has just ended, or is somebody else's
    return found


@dataclass(frozen=True)
class Calls:
    """What calls of the same command left: one whose parent was killed, one that went on."""

    project: Project
    interrupted: tuple[int, str, str]  # exit code, output, errors
    workers: int
    left_over: list[int]
    saved: int
    finished: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Calls:
    root = tmp_path_factory.mktemp("two")
    project = small(root)
    fingerprint.run(project)
    base.run(project)
    episodes = played(project.task(), project.inputs("heldout").heldout.plays(), 0.2, "base")
    # From which a training says what its plan can show
    write_jsonl(project.results("pre_eval.jsonl"), episodes)
    environment = environment_without(**{MARK: root.name, "PYTHON_EXEC": warm_python()})
    mine = environment | {"DVC_STAGE": "train"}
    with inheriting_orphans(), (root / "out").open("w") as out, (root / "err").open("w") as err:
        command = [sys.executable, "-c", PARENT, *ASSAY, "train"]
        parent = subprocess.Popen(command, cwd=root, env=mine, stdin=subprocess.PIPE, stdout=out, stderr=err)
        try:
            until(
                lambda: list((root / ".scratch/train").glob("*/step-000002/MANIFEST.json")),
                "no checkpoint was saved",
            )
            launcher = int((root / "out").read_text().split()[0])
            workers = len([rank for rank in alive(root).values() if rank])
        finally:
            parent.kill()
            parent.wait()
        _, status = os.waitpid(launcher, 0)
    left_over = [*alive(root)]
    said = ((root / "out").read_text().partition("\n")[2], (root / "err").read_text())
    saved = max(int(path.name.split("-")[1]) for path in (root / ".scratch/train").glob("*/step-*"))
    finished = subprocess.run(
        [*ASSAY, "train"], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    ended = os.waitstatus_to_exitcode(status)
    return Calls(project, (ended, *said), workers, left_over, saved, finished)


def test_one_command_starts_two_processes_and_a_killed_parent_ends_them_all_with_the_step_saved(
    calls: Calls,
) -> None:
    code, out, err = calls.interrupted
    assert calls.workers == 2
    assert code == 128 + signal.SIGTERM, err
    assert calls.left_over == []
    assert 2 <= calls.saved < STEPS
    assert "Traceback" not in err and "torch" not in err, err
    assert (
        err.count("train: steps ...")
        == err.count("SIGTERM: the step at work will be finished and saved first")
        == 1
    )
    assert re.search(rf"after step {calls.saved}( of {STEPS})?, which is saved", err), err
    expected = "train: stage 4 of 8\nengine: lean plays\n"
    assert out == expected, "health.preflight is false: nothing is looked at"
    # Said by one of them
    assert len([line for line in err.splitlines() if line.startswith("plan: ")]) == 1, err


def test_what_all_processes_know_is_said_once(calls: Calls) -> None:
    lines = calls.interrupted[2].splitlines()
    assert len(lines) == len(set(lines))


def test_the_second_call_goes_on_and_says_everything_once(calls: Calls) -> None:
    assert calls.finished.returncode == 0, calls.finished.stderr
    lines = [*calls.finished.stdout.splitlines(), *calls.finished.stderr.splitlines()]
    assert len(lines) == len(set(lines))
    assert f"going on after step {calls.saved}" in calls.finished.stdout
    assert f"trained {STEPS} steps" in calls.finished.stdout
    assert "Traceback" not in calls.finished.stderr


def test_evidence_is_written_once_and_whole(calls: Calls) -> None:
    project = calls.project
    rows = list(read_complete(project.results("train_log.jsonl")))
    check_chain(rows, "the log")
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    for name, steps in (
        ("training_log.csv", range(1, STEPS + 1)),
        ("checkpoint_evals.csv", range(0, STEPS + 1, 10)),
    ):
        lines = project.results(name).read_text().splitlines()[1:]
        assert [int(line.split(",")[0]) for line in lines] == list(steps), name
    events = [row["event"] for row in read_complete(project.observed("run_log.jsonl"))]
    assert [event for event in events if event in ("started", "resumed", "finished")] == [
        "started",
        "resumed",
        "finished",
    ]
    assert events.count("checkpoint") == len({2 * k for k in range(STEPS // 2 + 1)} | {calls.saved})
    facts = json.loads(project.results("train.json").read_text())
    assert (facts["steps"], facts["chain"]) == (STEPS, rows[-1]["chain"])
    manifest = json.loads(project.observed("manifest.json").read_text())
    assert (manifest["rank"], manifest["world_size"]) == (0, 2)
    assert manifest["hardware"].items() >= machine_of(project.params.device).items()
    assert (project.root / "models/adapter/adapter_model.safetensors").is_file()
    (folder,) = (path for path in (project.root / ".scratch/train").iterdir() if path.is_dir())
    assert not list(folder.glob(".step-*")) and (folder / "done.json").is_file()
    assert not list((project.root / ".scratch/train").glob("*.lock"))


EVALUATED = ("pre_eval.jsonl", "pre_eval_greedy.jsonl", "rival_best_of_n.jsonl", "rivals.json")
ITEMS, DRAWS = 32, 4  # eight batches of sixteen, of which few are kept when it is killed
# In the place of ./run: the stage without DVC, and no verdict, since there is no claim yet.
RUN = f"""#!/bin/sh
[ "$1" = assay ] || exec "{sys.executable}" -m assay.cli pre-eval
"""


@dataclass(frozen=True)
class Measured:
    """What one process measured that went on where one of two had been killed, and what nobody interrupted: a
    Slurm job of two nodes, for which the environment asks where the settings say one process."""

    killed: subprocess.CompletedProcess[str]
    kept: int
    left_over: list[int]
    gone_on: dict[str, bytes]
    clock_gone_on: dict[str, Any]
    job: subprocess.CompletedProcess[str]
    by_job: dict[str, bytes]
    clock_by_job: dict[str, Any]
    scratch: list[str]


@pytest.fixture(scope="module")
def measured(calls: Calls, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    root = tmp_path_factory.mktemp("measured") / "project"
    shutil.copytree(calls.project.root, root, ignore=shutil.ignore_patterns(".scratch", "observed"))
    # By which the number of processes is no part of what a measurement is
    shutil.copy(ROOT / "dvc.yaml", root)
    (root / "run").write_text(RUN, encoding="utf-8")
    (root / "run").chmod(0o755)
    values = json.loads((root / "params.yaml").read_text())
    values["generation"]["batch_size"], values["evaluation"] = (
        4,
        values["evaluation"]
        | {"items": ITEMS, "draws": DRAWS, "rivals": {"few_shot": 0, "best_of_n": 2, "constrained": False}},
    )
    (root / "params.yaml").write_text(json.dumps(values), encoding="utf-8")
    values["distributed"]["processes"] = 1
    one = Project(root, parse_params(values))

    def taken() -> tuple[dict[str, bytes], dict[str, Any]]:
        found = {name: one.results(name).read_bytes() for name in EVALUATED}
        clock = json.loads(one.observed("pre_eval_clock.json").read_text())
        for name in EVALUATED:
            one.results(name).unlink()
        return found, clock

    environment = environment_without(**{MARK: root.name, "PYTHON_EXEC": warm_python()})
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DVC_ROOT", raising=False)
        command = [*ASSAY, "pre-eval"]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, cwd=root, env=environment, stdout=pipe, stderr=pipe, text=True
        ) as running:
            until(lambda: list(root.glob(".scratch/pre_eval/*/pre_eval/batch-*.jsonl")), "nothing was kept")
            os.kill(next(pid for pid, rank in alive(root).items() if rank == "1"), signal.SIGKILL)
            out, err = running.communicate(timeout=120)
        killed = subprocess.CompletedProcess(command, running.returncode, out, err)
        left_over = [*alive(root)]
        kept = len(list(root.glob(".scratch/pre_eval/*/pre_eval/batch-*.jsonl")))
        pre_eval.run(one)
        gone_on, clock_gone_on = taken()
    (root / "params.yaml").write_text(json.dumps(values), encoding="utf-8")
    slurm = fake_slurm.write(root.parent / "slurm")
    own = environment | fake_slurm.job(root, 2, 7)
    own |= {"PATH": f"{slurm}{os.pathsep}{os.environ['PATH']}"}
    script = ["bash", str(ROOT / "configs/launch/slurm.sh"), "pre_eval"]
    job = subprocess.run(script, env=own, capture_output=True, text=True, check=False)
    by_job, clock_by_job = taken()
    scratch = [path.name for path in (root / ".scratch/pre_eval").iterdir()]
    return Measured(killed, kept, left_over, gone_on, clock_gone_on, job, by_job, clock_by_job, scratch)


def test_a_killed_process_ends_the_measurement_and_what_was_kept_any_number_goes_on_with(
    measured: Measured,
) -> None:
    assert measured.killed.returncode == 128 + signal.SIGKILL and measured.left_over == []
    err = measured.killed.stderr
    assert (
        "was ended by SIGKILL" in err
        and "call again: it goes on from what is kept" in err
        and "Traceback" not in err
    ), err
    # What two processes kept and what one made of the rest is what two that nobody stopped say
    assert 0 < measured.clock_gone_on["episodes_kept"] == 16 * measured.kept < ITEMS * DRAWS
    assert measured.clock_gone_on["processes"] == 1
    assert measured.gone_on == measured.by_job


def test_a_job_of_two_nodes_measures_what_one_process_measures_and_says_it_once(measured: Measured) -> None:
    assert measured.job.returncode == 0, measured.job.stdout + measured.job.stderr
    assert (measured.clock_by_job["processes"], measured.clock_by_job["episodes"]) == (2, ITEMS * DRAWS)
    lines = measured.job.stdout.splitlines()
    assert len(lines) == len(set(lines)) and lines.count("pre_eval: episodes done") == 1, lines
    assert (
        sum(line.startswith("pre_eval: success") for line in lines) == 1
        and "Traceback" not in measured.job.stdout
    )
    assert measured.scratch == []


BEFORE_EXEC = """
import os, sys
from assay import cli
def become(path, arguments):
    print(arguments[1:3], sorted({"torch", "transformers", "trl", "peft"} & set(sys.modules)))
    raise SystemExit(0)
os.execv = become
sys.argv = ["assay", "train"]
cli.main()
"""


def test_several_processes_are_started_before_anything_heavy_is_imported(tmp_path: Path) -> None:
    small(tmp_path)
    (tmp_path / "models/base").mkdir(parents=True)
    (tmp_path / "models/base/model.safetensors").touch()
    command = [sys.executable, "-c", BEFORE_EXEC]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment_without(), capture_output=True, text=True, check=False
    )
    assert done.stdout == "['-m', 'assay.pipeline.launching'] []\n", done.stderr


FAULT = Finding(check="probe", level="fault", expected="a", found="b", where="c", fix="d")
WARNING = FAULT.model_copy(update={"level": "warning"})


class Gathering(Processes):
    """One of two processes, told what the main one says."""

    def __init__(self, rank: int, other: int) -> None:
        super().__init__(rank, 2)
        object.__setattr__(self, "other", other)

    def gather(self, value: Any) -> Any:
        return [value, self.other] if self.main else [self.other, value]  # type: ignore[attr-defined]


def test_a_fault_found_by_the_main_process_ends_all_of_them_and_is_told_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    monkeypatch.setattr(preflight, "say", said.append)
    monkeypatch.setattr(preflight, "complain", said.append)
    looked: list[int] = []
    project, nothing = Project(tmp_path, Project.open(ROOT).params), cast(Any, None)
    inputs = Inputs(project.params, nothing, nothing, {"train": []}, "")
    vars(inputs)["validation"] = nothing
    folder = RunFolder(tmp_path, RunKey("a", {}), {}, project.params.checkpoint, main=True)

    def look(found: list[Finding], processes: Processes) -> None:
        """Look as `assay train` does, where the doctor finds this."""
        monkeypatch.setattr(preflight, "examine", lambda *_, **__: looked.append(1) or found)  # type: ignore[func-returns-value]
        preflight.examine_training(
            train.Training(project, inputs, nothing, nothing, "", processes, folder, None)
        )

    look([WARNING], Gathering(0, False))
    assert "looking at what is to be trained" in said[0] and "WARNING probe" in said[1]
    with pytest.raises(TrainingError, match="1 fault"):
        look([FAULT], Gathering(0, False))
    assert len(looked) == 2
    look([FAULT], Gathering(1, False))
    with pytest.raises(SystemExit) as ended:
        look([], Gathering(1, True))
    assert ended.value.code == TrainingError.exit_code and len(looked) == 2, "the others do not look"
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("rank", "other", "ends"), [(0, 0, ConfigError), (1, 1, SystemExit)])
def test_what_is_no_checkpoint_to_go_on_from_is_said_by_the_main_process_and_ends_all(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, rank: int, other: int, ends: type[BaseException]
) -> None:
    monkeypatch.setattr(Processes, "joined", lambda told: Gathering(rank, other))
    with pytest.raises(ends) as ended:
        train.run(calls.project, calls.project.data(""))
    code = ended.value.code if isinstance(ended.value, SystemExit) else ended.value.exit_code
    assert code == 1 and ("--resume-from" in str(ended.value)) is (rank == 0)


def test_a_box_without_a_gpu_is_said_once_before_there_are_several_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = json.loads(json.dumps(compose(ROOT, Selection("8gb_qwen3", "structured", 0)).values))
    values["distributed"] |= {"processes": 2}
    started: list[Any] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(os, "execvp", lambda *command: started.append(command))
    monkeypatch.setattr(dist, "init_process_group", lambda backend, **rest: started.append(backend))
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    params = parse_params(values)
    with pytest.raises(ConfigError, match="expected a CUDA device"):
        _become_several("pre_eval", params)
    for name, value in (("RANK", "1"), ("LOCAL_RANK", "1"), ("WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match="expected a CUDA device"):  # started by accelerate or by hand
        Processes.joined(params.distributed, device="cuda")
    assert started == []


# Two of three have no GPU; the first waits for them, as nccl does.
SURPLUS = """
import time, torch, torch.distributed as dist
from assay import cli
from assay.core.config.settings import DistributedSettings
from assay.rollout.policy.processes import Processes

torch.cuda.device_count, torch.cuda.set_device = (lambda: 1), (lambda index: None)
dist.init_process_group = lambda *_, **__: time.sleep(60)
told = DistributedSettings(processes=3, backend="nccl", engine="ddp")
cli.app = lambda: Processes.joined(told, device="cuda")
cli.main()
"""


def test_more_processes_than_gpus_are_refused_by_one_of_them(tmp_path: Path) -> None:
    (tmp_path / "surplus.py").write_text(SURPLUS)
    torchrun = [warm_python(), "-m", "torch.distributed.run"]
    torchrun += ["--standalone", "--nproc-per-node=3", "surplus.py"]
    told = {"OMP_NUM_THREADS": "1", "PYTHON_EXEC": warm_python()}
    done = subprocess.run(
        torchrun,
        cwd=tmp_path,
        env=environment_without("LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", **told),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert done.stderr.count("expected a GPU for each process of a machine, found 1.") == 1, done.stderr
    assert done.stderr.count("Fix: set it to 1;") == 1


def test_no_process_waits_for_another_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(dist, "init_process_group", lambda backend, **rest: given.update(rest))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(torch.serialization, "_package_registry", [*torch.serialization._package_registry])
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    Processes.joined(DistributedSettings.model_construct(processes=2, backend="gloo"))
    assert 10 * MOST_SECONDS < given["timeout"].total_seconds() <= 3600


@pytest.mark.parametrize(
    ("rank", "there", "backend", "own"), [(1, 2, "nccl", 1), (3, 2, "gloo", 1), (2, 2, "nccl", None)]
)
def test_each_process_takes_its_own_gpu_before_anything_is_loaded(
    monkeypatch: pytest.MonkeyPatch, rank: int, there: int, backend: Any, own: int | None
) -> None:
    taken: list[int] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: there)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    monkeypatch.setattr(dist, "init_process_group", lambda backend, **rest: taken.append(-1))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(torch.serialization, "_package_registry", [*torch.serialization._package_registry])
    for name, value in (("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", 4)):
        monkeypatch.setenv(name, str(value))
    told = DistributedSettings.model_construct(processes=9, backend=backend)
    if own is None:
        with pytest.raises(ConfigError, match="--nproc-per-node=2"):
            Processes.joined(told, device="cuda", any_number=True)
        assert taken == []
    else:
        assert Processes.joined(told, device="cuda", any_number=True) == Processes(rank, 4)
        assert taken == [own, -1]
