"""A training that is reported to W&B, TensorBoard, trackio or DVCLive is the same, whatever they do."""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import TrainerCallback

from assay.core.config.settings import Params, PretrainedBase
from assay.core.storage.yaml import read_yaml
from assay.training.checkpoints.store import Checkpoint, Checkpoints
from assay.training.grpo import train
from assay.training.log import reporters
from assay.training.log.history import History, Watch
from assay.training.log.reporters import INSTALL, NAME, VARIABLES, asked_for, numbers_of, reporting, run_name
from assay.training.setup import Setup
from tests.training.test_training import ITEMS, TASK, fresh_policy, params, validation, with_last_checkpoint

SETTINGS = with_last_checkpoint(params())


@pytest.fixture(autouse=True)
def nobody_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES.values():
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what was complained of."""
    lines: list[str] = []
    monkeypatch.setattr(reporters, "complain", lines.append)
    return lines


def trained(
    folder: Path, start: Checkpoint | None = None, settings: Params = SETTINGS
) -> tuple[dict[str, Any], History]:
    """Train two steps in a folder, and return the adapter and the logs."""
    folder.mkdir(parents=True, exist_ok=True)
    history = History()
    found = train(
        fresh_policy(),
        Setup(TASK, TASK, ITEMS, validation(), settings),
        checkpoints=Checkpoints(folder, "run", 9),
        start=start,
        history=history,
        watch=Watch(TASK),
        on_step=lambda _: None,
    )
    return found.adapter, history


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], History]:
    """Return the training that nobody reports."""
    with pytest.MonkeyPatch.context() as patch:
        for name in VARIABLES.values():
            patch.delenv(name, raising=False)
        return trained(tmp_path_factory.mktemp("alone"))


def same(one: tuple[dict[str, Any], History], other: tuple[dict[str, Any], History]) -> bool:
    equal = (
        all(torch.equal(one[0][name], other[0][name]) for name in one[0]) and one[0].keys() == other[0].keys()
    )
    return equal and one[1].train_log == other[1].train_log and one[1].health == other[1].health


class Unruly(TrainerCallback):
    """Draws, warns, sets flags and empties what it is given wherever it is called, and fails at one place."""

    def __init__(self, fails: str) -> None:
        self.fails, self.seen, self.given = fails, list[tuple[int, dict[str, float]]](), list[Any]()

    def act(self, place: str, control: Any) -> None:
        random.random(), np.random.rand(3), torch.rand(3)
        warnings.warn("loud", UserWarning, stacklevel=1)
        control.should_training_stop = True
        if place == self.fails:
            raise RuntimeError(f"{place} failed")

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.given.append((args, more))
        self.act("begin", control)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
        self.seen.append((state.global_step, dict(logs)))
        self.given.append((args, more))
        logs.clear()
        self.act("log", control)

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.act("end", control)


@dataclass(frozen=True)
class Disturbed:
    """A training with three unruly reporters, each of which fails somewhere else."""

    result: tuple[dict[str, Any], History]
    by_place: dict[str, Unruly]
    said: list[str]
    folder: Path


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory: pytest.TempPathFactory) -> Disturbed:
    folder, said = tmp_path_factory.mktemp("disturbed"), list[str]()
    made = {"begin": Unruly("begin"), "log": Unruly("log"), "end": Unruly("end")}
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.filterwarnings("error", message="loud")
        patch.setattr(reporters, "find_spec", lambda _: True)
        patch.setattr(reporters, "complain", said.append)
        for kind, callback in zip(("wandb", "tensorboard", "trackio"), made.values(), strict=True):
            patch.setenv(VARIABLES[kind], "anywhere")
            patch.setattr(reporters, f"_{kind}", lambda *_, made=callback: made)
        return Disturbed(trained(folder), made, said, folder)


def test_reporters_that_draw_warn_stop_and_fail_change_nothing(disturbed: Disturbed, alone: Any) -> None:
    assert same(disturbed.result, alone)
    assert {place: len(each.seen) for place, each in disturbed.by_place.items()} == {
        "begin": 0,
        "log": 1,
        "end": 3,
    }
    assert len(disturbed.said) == 3, "each of them is said once"
    assert all(any(f"{place} failed" in line for line in disturbed.said) for place in disturbed.by_place)


def test_what_is_shown_is_what_the_files_of_the_run_say(disturbed: Disturbed) -> None:
    history = disturbed.result[1]
    (zero, first), *steps = disturbed.by_place["end"].seen
    assert zero == 0 and set(first) == {"eval_mean_reward", "eval_success_rate", "eval_episodes"}
    assert [step for step, _ in steps] == [row["step"] for row in history.train_log]
    for (_, shown), row in zip(steps, history.train_log, strict=True):
        assert shown["reward"] == row["reward"] and shown["kl"] == row["kl_probe"]
        assert shown["components/mean_cumulative"] == row["components"]["mean_cumulative"]
    newest = history.validations[-1]
    assert steps[-1][1]["eval_mean_reward"] == pytest.approx(np.mean([e.reward for e in newest.sampled]))


def test_no_reporter_is_told_where_checkpoints_lie_or_given_the_model(disturbed: Disturbed) -> None:
    for args, more in (given for each in disturbed.by_place.values() for given in each.given):
        assert str(disturbed.folder) not in repr(args.to_dict()) and more.get("model") is None


def test_a_value_that_was_not_measured_is_not_shown_as_a_number(alone: Any) -> None:
    history = History()
    history.go_back(alone[1].rows(), [])
    history.train_log[-1] = history.train_log[-1] | {"loss": None, "entropy": float("nan"), "skipped": "loss"}
    assert not {"loss", "entropy", "skipped"} & set(numbers_of(history)) and "kl" in numbers_of(history)


@pytest.mark.parametrize("kind", sorted(VARIABLES))
def test_who_is_asked_for_and_not_installed_is_complained_of_before_the_first_step(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: list[str]
) -> None:
    monkeypatch.setenv(VARIABLES[kind], "somewhere")
    monkeypatch.setattr(reporters, "find_spec", lambda name: None if name == kind else find_spec(name))
    with reporting(SETTINGS, History(), tmp_path, 0, main=True):
        assert len(said) == 1 and INSTALL[kind] in said[0] and VARIABLES[kind] in said[0]
    assert len(said) == 1


def test_nobody_reports_who_was_not_asked_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WANDB_PROJECT", " ")
    monkeypatch.setenv("TRACKIO_PROJECT", "mine")
    assert asked_for() == {"trackio": "mine"}
    with reporting(SETTINGS, History(), tmp_path, 0, main=False):
        assert not (tmp_path / NAME).exists()  # another process speaks


def test_a_training_that_is_gone_on_with_keeps_its_name_and_a_new_one_gets_another(tmp_path: Path) -> None:
    folder = tmp_path / "train" / "0123456789abcdef"
    folder.mkdir(parents=True)
    first = run_name(folder, 0)
    assert first.startswith("train-01234567-") and run_name(folder, 25) == first
    (folder / NAME).write_text("train-01234567-earlier\n", encoding="utf-8")
    assert run_name(folder, 0) != "train-01234567-earlier"
    (folder / NAME).unlink()
    assert run_name(folder, 25).startswith("train-01234567-")


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Return what TensorBoard would draw of a run, by name."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return {
        name: [(each.step, each.value) for each in found.Scalars(name)] for name in found.Tags()["scalars"]
    }


def test_tensorboard_draws_the_rewards_of_a_training_once_over_an_interruption(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, alone: Any, said: list[str]
) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "curves"))
    folder = tmp_path / "train" / "key"
    assert same(trained(folder), alone)
    start = Checkpoints(folder, "run", 9).newest()
    assert start is not None and said == []
    (folder / f"step-{start.step:06}").rename(tmp_path / "lost")
    earlier = Checkpoints(folder, "run", 9).newest()
    assert earlier is not None and earlier.step < start.step
    assert same(trained(folder, earlier), alone)
    places = list((tmp_path / "curves").iterdir())
    assert len(places) == (1 if earlier.step else 2)
    shown = curves(max(places))["train/reward"]
    assert shown == [(row["step"], pytest.approx(row["reward"], rel=1e-6)) for row in alone[1].train_log]
    assert all(str(folder).encode() not in path.read_bytes() for path in places[0].iterdir())


def test_dvclive_keeps_curves_that_dvc_finds_and_neither_settings_nor_numbers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, alone: Any, said: list[str]
) -> None:
    pytest.importorskip("dvclive")
    monkeypatch.setenv("DVCLIVE_DIR", str(tmp_path / "curves"))
    monkeypatch.setenv("HF_DVCLIVE_LOG_MODEL", "all")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "train" / "key"
    assert same(trained(folder), alone) and said == []
    rows = [
        line.split("\t")
        for line in (tmp_path / "curves/plots/metrics/reward.tsv").read_text("utf-8").splitlines()
    ]
    assert rows[0] == ["step", "reward"]
    shown = [(int(step), float(reward)) for step, reward in rows[1:]]
    assert shown == [(row["step"], pytest.approx(row["reward"])) for row in alone[1].train_log]
    named = {path.name for path in (tmp_path / "curves").iterdir()}
    assert named == {"dvc.yaml", "metrics.json", "plots"} and not (tmp_path / "dvc.yaml").exists()
    assert read_yaml(tmp_path / "curves/dvc.yaml", fix="") == {"plots": [{"plots/metrics": {"x": "step"}}]}
    kept = [path.read_bytes() for path in (tmp_path / "curves").rglob("*") if path.is_file()]
    assert all(str(folder).encode() not in content for content in kept)


def test_wandb_offline_keeps_a_run_of_the_same_training(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, alone: Any, said: list[str]
) -> None:
    pytest.importorskip("wandb")
    for name, value in {"PROJECT": "mine", "MODE": "offline", "DIR": str(tmp_path / "kept")}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    for name in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"WANDB_{name}_DIR", str(tmp_path / name))
    for name in ("WANDB_WATCH", "WANDB_LOG_MODEL", "WANDB_ERROR_REPORTING"):
        monkeypatch.setenv(name, "all" if name == "WANDB_WATCH" else "false")
    assert same(trained(tmp_path / "train" / "key"), alone)
    assert said == []
    (log,) = (tmp_path / "kept").rglob("run-*.wandb")
    content = log.read_bytes()
    assert (
        b"train/reward" in content
        and b"eval/mean_reward" in content
        and str(tmp_path / "train").encode() not in content
    )


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        ("{}/kept/my-base", "my-base"),
        ("../kept/my-base/", "my-base"),
        ("~/my-base", "my-base"),
        ("models/mine", "mine"),
        ("Qwen/Qwen3-4B", "Qwen/Qwen3-4B"),
    ],
)
def test_wandb_is_told_the_settings_and_no_path_of_this_machine(
    model: str, shown: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[dict[str, Any]] = []
    wandb = SimpleNamespace(
        setup=lambda: SimpleNamespace(settings=SimpleNamespace(mode="offline")),
        Settings=dict,
        init=lambda **given: told.append(given["config"]),
    )
    standing = SimpleNamespace(WandbCallback=object)
    monkeypatch.setattr(reporters, "import_module", lambda name: wandb if name == "wandb" else standing)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    for name in ("WANDB_WATCH", "WANDB_LOG_MODEL", "WANDB_ERROR_REPORTING"):
        monkeypatch.setenv(name, "false")
    (tmp_path / "models/mine").mkdir(parents=True)
    base = PretrainedBase(
        kind="pretrained",
        model=model.format(tmp_path),
        revision=None,
        dtype="float32",
        quantization=None,
        template={},
    )
    dataset = SETTINGS.dataset.model_copy(update={"cache": f"{tmp_path}/kept/verified"})
    reporters._wandb("mine", "name", SETTINGS.model_copy(update={"base": base, "dataset": dataset}), 0)
    (settings,) = (each["assay"] for each in told)
    assert settings["base"]["model"] == shown and settings["dataset"]["cache"] == "verified"
    assert (
        settings["dataset"]["root"] == SETTINGS.dataset.root
        and settings["train"]["steps"] == SETTINGS.train.steps
    )
    assert str(tmp_path) not in repr(settings)


def test_wandb_is_told_all_settings_of_a_base_from_scratch_as_they_stand() -> None:
    assert reporters._told(SETTINGS) == SETTINGS.model_dump(mode="json")
