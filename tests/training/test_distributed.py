"""Two processes train as one: equal weights, disjoint work, one writer, and no way to end that costs a
finished step; also where each holds its part of the base.

What the processes do is in distributed_worker.py and sharded_worker.py; each launch of torchrun costs the
imports of three processes, so a few launches play all scenes, and the tests read what they left. In one of
them the processes are started by Python itself, each with a seed of hashes of its own.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed.elastic.metrics import api
from torch.distributed.elastic.multiprocessing import SignalException

from assay.core.config.reading import parse_params
from assay.core.errors import ConfigError
from assay.core.storage.yaml import read_yaml
from assay.pipeline import launching
from assay.pipeline.launching import PATIENCE_S, PATIENCE_VARIABLE, must_launch
from assay.rollout.policy.processes import Processes
from assay.training.recipe import item_order
from tests.house import ROOT
from tests.training import distributed_worker as worker
from tests.training import sharded_worker as sharded
from tests.training import test_training as toy
from tests.training.distributed_worker import CRASH_STEP, RETRIES, STEPS, WORLD, failing, settings, training
from tests.warm import warm_python

PLAIN, OURS = (
    "torch.distributed.run",
    "assay.pipeline.launching",
)  # torchrun, and torchrun as assay launches it
# As assay launches it; of its own accord it starts no program but assay.
AS_OURS = (
    f"from assay.pipeline import launching; launching._PROGRAM = ['-m', {worker.__name__!r}];"
    " launching.main()"
)
LAUNCHES = {
    "terminated": (  # at the end of its scenes
        OURS,
        [
            *("clean", "refusals", "plain", "environment", "poison_skip", "poison_rollback", "poison_stop"),
            "terminated",
        ],
    ),
    "killed": (OURS, ["killed"]),
    "whole": (PLAIN, ["resume_killed", "resume_terminated", "again", "environment_gone", *sharded.SCENES]),
}


@dataclass(frozen=True)
class Played:
    """Where all scenes were played, and how each launch ended."""

    folder: Path
    ended: dict[str, subprocess.CompletedProcess[str]]

    def __call__(self, scene: str) -> list[dict[str, Any]]:
        """Return what each process reported of a scene, by rank."""
        paths = [self.folder / f"{scene}.rank{rank}.json" for rank in range(WORLD)]
        assert all(path.is_file() for path in paths), "".join(
            done.stderr[-3000:] for done in self.ended.values()
        )
        return [json.loads(path.read_text("utf-8")) for path in paths]


def launched(folder: Path, module: str, scenes: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "DVC_STAGE")
    }
    environment |= {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    if module == PLAIN:
        begun = ["-m", PLAIN]
        environment |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
        environment |= {"TRL_EXPERIMENTAL_SILENCE": "1"}
    else:
        begun = ["-c", AS_OURS]
        environment |= {"PYTHON_EXEC": warm_python()}
    torchrun = [sys.executable, *begun, "--standalone", f"--nproc-per-node={WORLD}", "-m", worker.__name__]
    return subprocess.run(
        [*torchrun, str(folder), *scenes],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=480,
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """All launches, one after the other."""
    folder = tmp_path_factory.mktemp("distributed")
    return Played(
        folder, {name: launched(folder, module, scenes) for name, (module, scenes) in LAUNCHES.items()}
    )


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The same trainings in one process, without dropout: it draws from a generator of each process."""
    torch.set_num_threads(1)  # as in the workers: another number rounds differently
    folder, one = tmp_path_factory.mktemp("alone"), settings(1, dropout=0.0)
    lost = failing([(2, 2), (4, 3)], RETRIES + 1)
    return {
        "plain": training(folder / "plain", one),
        "environment": training(folder / "environment", one, lost),
    }


def test_both_processes_end_with_the_same_weights_and_say_the_same(played: Played) -> None:
    assert played.ended["whole"].returncode == 0, played.ended["whole"].stderr[-3000:]
    for scene in ("clean", "plain", "environment", "poison_skip", "poison_rollback", "poison_stop"):
        mine, other = played(scene)
        apart = {name for name in mine if mine[name] != other[name]}
        assert apart <= {"played", "wrote", "rank"}, scene
        assert mine["newest"] == (STEPS if scene != "poison_stop" else CRASH_STEP - 1)


def test_a_second_launch_gives_the_same_digests(played: Played) -> None:
    for mine, again in zip(played("clean"), played("again"), strict=True):
        for name in ("chain", "adapter", "digests", "validations", "chosen"):
            assert mine[name] == again[name], name
    assert played("clean")[0]["chain"] != played("plain")[0]["chain"]


def test_items_are_shared_out_whole_without_overlap_and_every_episode_has_a_seed_of_its_own(
    played: Played,
) -> None:
    made = settings()
    order = [item.id for item in item_order(toy.ITEMS, STEPS * made.train.items_per_step, made.seed)]
    mine, other = (report["played"] for report in played("clean"))
    seeds: list[int] = []
    for step in range(1, STEPS + 1):
        asked = order[(step - 1) * made.train.items_per_step : step * made.train.items_per_step]
        parts = [part[str(step)] for part in (mine, other)]
        items = [[each["item"] for each in part] for part in parts]
        assert not set(items[0]) & set(items[1])
        assert items[0] + items[1] == [item for item in asked for _ in range(made.train.group_size)]
        seeds += [each["seed"] for part in parts for each in part]
    assert len(set(seeds)) == len(seeds) == STEPS * made.train.items_per_step * made.train.group_size


def test_two_processes_are_asked_and_answer_and_earn_what_one_does(
    played: Played, alone: dict[str, dict[str, Any]]
) -> None:
    for scene, one in alone.items():
        two = played(scene)[0]
        # Before any weight has moved, all that is played is equal to the last bit of the log-probabilities.
        for link in ("prompts", "completions", "rewards"):
            assert one["digests"][0][link] == two["digests"][0][link], (scene, link)
        # Then gradients are summed in another order, and in float32 no reward shows it.
        for link in ("prompts", "rewards"):
            assert [step[link] for step in one["digests"]] == [step[link] for step in two["digests"]], (
                scene,
                link,
            )
        assert one["validations"] == two["validations"]
        seeds = [
            [each["seed"] for part in played(scene) for each in part["played"][str(step)]]
            for step in range(1, STEPS + 1)
        ]
        assert seeds == [[each["seed"] for each in one["played"][step]] for step in range(1, STEPS + 1)]


def test_only_the_main_process_writes(played: Played) -> None:
    for scene in (
        "clean",
        "again",
        "environment",
        "poison_skip",
        "poison_rollback",
        "poison_stop",
        "terminated",
    ):
        main, other = played(scene)
        assert main["wrote"] and other["wrote"] == [], scene
        below = f"{played.folder / scene}{os.sep}"
        assert all(each.split(" ", 1)[1] == below.rstrip(os.sep) or below in each for each in main["wrote"])
    names = sorted(path.name for path in (played.folder / "clean").iterdir() if "step-" in path.name)
    # Whole, with nothing beside them that was given up
    assert names == [f"step-{step:06d}" for step in (0, 2, 4, 5)]
    files = {path.name for path in (played.folder / f"clean/step-{STEPS:06d}").iterdir()}
    assert {f"rng_state_{rank}.pth" for rank in range(WORLD)} <= files and "rng_state.pth" not in files


def test_a_killed_process_ends_all_and_resuming_gives_the_same_chain(played: Played) -> None:
    done = played.ended["killed"]
    assert done.returncode == 128 + 9
    assert "process 1 of this machine was ended by SIGKILL" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(played.folder.glob("killed.rank*.json"))
    for clean, resumed in zip(played("clean"), played("resume_killed"), strict=True):
        assert resumed["start"] == CRASH_STEP - 1
        for name in ("chain", "adapter", "digests", "validations", "chosen", "alarms", "steps"):
            assert clean[name] == resumed[name], name


def test_asked_to_stop_both_finish_the_step_and_save_it_and_resuming_gives_the_same_chain(
    played: Played,
) -> None:
    done = played.ended["terminated"]
    assert done.returncode == 128 + 15
    assert done.stderr.count("SIGTERM: the step at work will be finished and saved first") == 1
    assert "Traceback" not in done.stderr and "death signal" not in done.stderr
    for clean, stopped, resumed in zip(
        played("clean"), played("terminated"), played("resume_terminated"), strict=True
    ):
        assert (stopped["error"], stopped["exit_code"]) == ("Interrupted", 143)
        assert CRASH_STEP <= stopped["newest"] == stopped["steps"][-1] == resumed["start"] < STEPS
        for name in ("chain", "adapter", "digests", "validations", "chosen", "alarms", "steps"):
            assert clean[name] == resumed[name], name


def test_a_signal_that_comes_as_torchrun_begins_a_call_ends_as_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted() -> float:
        raise SignalException("", sigval=signal.SIGTERM)

    monkeypatch.setattr(api, "time", SimpleNamespace(time=interrupted))
    monkeypatch.setattr("torch.distributed.run.main", lambda words: api.prof(lambda: None)())
    monkeypatch.setattr(launching, "refuse_unfit", lambda words: None)
    monkeypatch.setattr(launching.logging, "disable", lambda level: None)
    monkeypatch.setattr(launching.signal, "signal", lambda number, handler: None)
    with pytest.raises(SystemExit) as ended:
        launching.main()
    assert ended.value.code == 128 + 15 and isinstance(ended.value.__context__, UnboundLocalError)


def test_a_loss_that_is_nan_in_one_process_moves_no_weight_in_any(played: Played) -> None:
    for mode in ("skip", "rollback"):
        for report in played(f"poison_{mode}"):
            assert list(report["skipped"]) == [str(CRASH_STEP)]
            weights = [step["weights"] for step in report["digests"]]
            assert weights[CRASH_STEP - 1] == weights[CRASH_STEP - 2] and len(set(weights)) == STEPS - 1
            assert "error" not in report
    adapters = {report["adapter"] for mode in ("skip", "rollback") for report in played(f"poison_{mode}")}
    assert len(adapters) == 1 and adapters != {played("clean")[0]["adapter"]}
    for report in played("poison_stop"):
        assert (report["error"], report["exit_code"]) == ("TrainingStopped", 4)
        assert f"step {CRASH_STEP}" in report["message"]


def test_a_poisoned_loss_is_told_as_a_loss_of_the_items_that_had_it(played: Played) -> None:
    for report in played("poison_skip"):
        assert report["skipped"] == {str(CRASH_STEP): "loss"}
    mine = {each["item"] for each in played("poison_stop")[1]["played"][str(CRASH_STEP)]}
    for report in played("poison_stop"):
        assert "a finite loss" in report["message"]
        (alarm,) = (alarm for alarm in report["alarms"] if alarm[1] == "non_finite")
        assert set(alarm[3]) <= mine


def test_episodes_lost_in_one_process_are_masked_and_both_go_on(played: Played) -> None:
    one, two = played("environment")
    assert one["lost"] == two["lost"] == [0, 1, 0, 1, 0]
    where = [
        [step for step, each in report["played"].items() if any(e["lost"] for e in each)]
        for report in (one, two)
    ]
    assert where == [[], ["2", "4"]]
    assert not one["skipped"] and "error" not in one
    assert one["adapter"] != played("plain")[0]["adapter"]


def test_what_may_be_lost_is_a_share_of_the_step_not_of_a_process(played: Played) -> None:
    assert settings().health.max_lost_share == 0.5
    for report in played("environment_gone"):
        assert "error" not in report
        assert report["lost"] == [0, 8, 0, 0, 0]


def test_what_cannot_work_is_refused_by_every_process_with_what_is_different(played: Played) -> None:
    for report in played("refusals"):
        assert report["as many as there are"] == report["the same everywhere"] == "accepted"
        more, other = report["one more than there are"], report["other checkpoints"]
        assert more["error"] == other["error"] == "ConfigError"
        assert "expected 3 processes, found 2" in more["message"] and "WORLD_SIZE" in more["message"]
        assert "one run and checkpoint in all processes" in other["message"]
        # Run keys are long, and what differs stands behind them.
        assert re.search(
            rf"rank 0: \('[0-9a-f]{{12}}…', {STEPS}\); rank 1: \('[0-9a-f]{{12}}…', None\)", other["message"]
        )
        assert "DVC_ROOT" in other["message"]


def test_a_process_learns_with_its_part_of_the_base_and_plays_with_all_of_it(played: Played) -> None:
    parts = []
    for report in played("parts"):
        ((held, all_of_it),) = report["learning"]
        assert report["own"] == [0] and report["playing"] == [all_of_it]
        parts.append(held)
    assert sum(parts) == all_of_it and max(parts) < 0.51 * all_of_it


def test_the_first_step_is_that_of_ddp_and_what_comes_of_it_differs_by_rounding(played: Played) -> None:
    parts, whole = played("parts")[0], played("parts_ddp")[0]
    for link in ("prompts", "completions", "rewards"):
        assert parts["digests"][0][link] == whole["digests"][0][link], link
    for link in ("prompts", "rewards"):
        assert [step[link] for step in parts["digests"]] == [step[link] for step in whole["digests"]], link
    assert parts["validations"] == whole["validations"] and parts["steps"] == whole["steps"] == [
        *range(1, STEPS + 1)
    ]
    for step in (0, 2, STEPS):
        mine, theirs = (
            load_file(played.folder / scene / f"step-{step:06d}/adapter.safetensors")
            for scene in ("parts", "parts_ddp")
        )
        assert list(mine) == list(theirs)
        apart = max(float((mine[name] - theirs[name]).abs().max()) for name in mine)
        assert apart < 1e-4 and all(mine[name].shape == theirs[name].shape for name in mine)
    moved = load_file(played.folder / "parts/step-000000/adapter.safetensors")
    assert max(float((mine[name] - moved[name]).abs().max()) for name in mine) > 0.01


def test_processes_that_hold_parts_end_with_the_same_weights_and_say_the_same(played: Played) -> None:
    for scene in sharded.SCENES:
        mine, other = played(scene)
        apart = {name for name in mine if mine[name] != other[name]}
        assert apart <= {"played", "learning", "wrote", "rank"}, scene
        assert mine["newest"] == STEPS and "error" not in mine


def test_what_is_computed_twice_to_save_memory_is_the_same(played: Played) -> None:
    for one, other in zip(played("parts"), played("parts_recomputed"), strict=True):
        assert one["chain"] == other["chain"] and one["adapter"] == other["adapter"]


def test_a_training_that_broke_goes_on_from_its_checkpoint_to_the_same_chain(played: Played) -> None:
    for clean, resumed in zip(played("parts_clean"), played("parts_resumed"), strict=True):
        assert resumed["start"] == CRASH_STEP - 1 and clean["start"] is None
        for name in ("chain", "adapter", "digests", "validations", "chosen", "alarms", "steps"):
            assert clean[name] == resumed[name], name
    assert played("parts_clean")[0]["chain"] != played("parts")[0]["chain"]  # which has no dropout


def test_a_loss_that_is_nan_where_a_base_is_in_parts_moves_no_weight_and_the_training_goes_back(
    played: Played,
) -> None:
    for report in played("parts_poisoned"):
        assert report["skipped"] == {str(CRASH_STEP): "loss"}
        weights = [step["weights"] for step in report["digests"]]
        assert weights[CRASH_STEP - 1] == weights[CRASH_STEP - 2] and len(set(weights)) == STEPS - 1


def test_a_launch_of_another_size_is_refused_before_anybody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    for processes, world in ((1, 2), (2, 1), (2, 3)):
        monkeypatch.setenv("WORLD_SIZE", str(world))
        with pytest.raises(ConfigError, match=f"expected {processes} processes, found {world}"):
            Processes.joined(settings(processes).distributed)
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert Processes.joined(settings(1).distributed) == Processes(0, 1)
    assert not must_launch(settings(2).distributed)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name)
    assert must_launch(settings(2).distributed) and not must_launch(settings(1).distributed)
    monkeypatch.delenv("ASSAY_TORCHRUN", raising=False)
    assert not must_launch(settings(1).distributed, any_number=True)
    monkeypatch.setenv("ASSAY_TORCHRUN", "--standalone --nproc-per-node=2")
    assert must_launch(settings(1).distributed, any_number=True)
    assert not must_launch(settings(1).distributed)


@pytest.mark.parametrize(
    ("train", "distributed", "words"),
    [
        (
            {"items_per_step": 3},
            {"processes": 2, "backend": "gloo"},
            ["items_per_step = 3", "distributed.processes"],
        ),
        ({"items_per_step": 4}, {"processes": 2, "backend": "nccl"}, ["gloo", "distributed.backend", "nccl"]),
        ({"micro_batch_size": 16}, {"processes": 4, "backend": "gloo"}, ["micro_batch_size", "= 4"]),
        ({}, {"processes": 0, "backend": "gloo"}, ["distributed.processes"]),
        ({}, {"processes": 2, "backend": "mpi"}, ["distributed.backend"]),
    ],
)
def test_settings_that_processes_cannot_share_are_refused(
    train: Any, distributed: Any, words: list[str]
) -> None:
    raw = read_yaml(ROOT / "params.yaml", fix="")
    raw["train"] |= {"items_per_step": 4, "group_size": 4, "micro_batch_size": 4} | train
    raw["distributed"] |= {"processes": 1} | distributed
    with pytest.raises(ConfigError) as refused:
        parse_params(raw)
    for word in words:
        assert word in str(refused.value)


def test_a_stopped_process_has_more_time_to_save_than_torchrun_gives_by_itself() -> None:
    from torch.distributed.launcher.api import LaunchConfig

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PATIENCE_VARIABLE, str(PATIENCE_S))
        assert LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=1).shutdown_timeout == PATIENCE_S >= 600
