"""NaN and Inf are found in the step in which they arise, at every link, and never reach a weight, checkpoint
or adapter."""

from __future__ import annotations

import csv
import functools
import itertools
import json
import math
import os
import signal
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import load_file

from assay.core.config.settings import Params
from assay.core.errors import TrainingStopped
from assay.core.evidence_files import place_of
from assay.core.seeds import derive_seed
from assay.pipeline.live_log import Live
from assay.rollout.evaluation.rollout import Lost, Rollout
from assay.rollout.tasks.protocol import Item, Message, Step
from assay.training import rollouts
from assay.training.log.callback import Recorder
from assay.training.recipe import grpo_config, item_order
from assay.training.trainer import Trainer
from tests.training import crash_harness
from tests.training.crash_harness import Left, Toy, before, differences, ended, fork
from tests.training.toy_task import Letters

STEPS, STEP = 8, 4  # of 4 a checkpoint is due; the one before is of step 2
NOTHING = (None, "")


def settings(on_non_finite: str, **health: Any) -> Params:
    return crash_harness.settings(STEPS, health={"on_non_finite": on_non_finite} | health)


def items_of(step: int) -> list[str]:
    order = item_order(crash_harness.ITEMS, STEPS * 2, seed=0)
    return sorted(item.id for item in order[2 * (step - 1) : 2 * step])


CONCERNED = items_of(STEP)[-1]  # one item of the two, where the poison is an item's

# --- poisons: each acts in a child, at given steps, however often they are made
# --------------------------------------


def at_loss(steps: Collection[int]) -> None:
    loss = Trainer.compute_loss

    def poisoned(trainer: Trainer, *arguments: Any, **named: Any) -> Any:
        return loss(trainer, *arguments, **named) * (math.nan if trainer.step_at_work in steps else 1.0)

    Trainer.compute_loss = poisoned  # type: ignore[method-assign]


def at_gradient(steps: Collection[int]) -> None:
    training_step = Trainer.training_step

    def poisoned(trainer: Trainer, *arguments: Any, **named: Any) -> Any:
        parameter = next(p for p in trainer.model.parameters() if p.requires_grad)
        hook = parameter.register_hook(
            lambda gradient: gradient * (math.inf if trainer.step_at_work in steps else 1.0)
        )
        try:
            return training_step(trainer, *arguments, **named)
        finally:
            hook.remove()

    Trainer.training_step = poisoned  # type: ignore[method-assign]


def at_log_probability(steps: Collection[int]) -> None:
    play = rollouts.attempt
    seeds = {derive_seed("sampling", "train", 0, step, CONCERNED, 1) for step in steps}

    def poisoned(policy: Any, task: Any, plays: Any, *rest: Any, **named: Any) -> list[Rollout | Lost]:
        found = play(policy, task, plays, *rest, **named)
        for each, one in zip(plays, found, strict=True):
            if each.seed in seeds:
                one.logprobs[-1] = math.nan
        return found

    rollouts.attempt = poisoned


def at_parameter(steps: Collection[int], *, always: bool = False) -> None:
    """Poison a weight after the optimizer has moved it; `always`: also where a step that is skipped moves
    none."""

    def poison(recorder: Recorder, *_: Any) -> None:
        trainer = recorder._trainer
        if trainer.step_at_work in steps and (always or trainer.step_at_work not in trainer.guard.skipped):
            with torch.no_grad():
                next(p for p in trainer.model.parameters() if p.requires_grad).view(-1)[7] = math.nan

    before(Recorder, "on_optimizer_step", poison)


class Broken(Toy):
    """Grades one item with something that is no number, in worlds of some steps."""

    def __init__(self, value: float, steps: Collection[int]) -> None:
        super().__init__()
        self._value = value
        self._worlds = {derive_seed("world", "train", 0, step, CONCERNED) for step in steps}

    def start(self, item: Item, world_seed: int) -> tuple[list[Message], Any]:
        messages, _ = super().start(item, world_seed)
        return messages, world_seed in self._worlds

    def step(self, state: Any, completion: str) -> Step:
        step = super().step("", completion)
        return replace(step, parts={"terminal": self._value}) if state else step


@dataclass(frozen=True)
class Poison:
    """How something that is not finite comes into a step."""

    what: str  # as it is told
    found: str
    items: tuple[str, ...]
    put: Callable[[Collection[int]], None] = lambda steps: None
    reward: float | None = None

    def task(self, steps: Collection[int]) -> Letters:
        return Toy() if self.reward is None else Broken(self.reward, steps)


BOTH = tuple(items_of(STEP))
POISONS = {
    "loss": Poison("loss", "nan", BOTH, at_loss),
    "gradient": Poison("gradient", "nan", BOTH, at_gradient),
    "log-probability": Poison("log-probability", "nan", (CONCERNED,), at_log_probability),
    "reward NaN": Poison("reward", "nan", (CONCERNED,), reward=math.nan),
    "reward Inf": Poison("reward", "inf", (CONCERNED,), reward=math.inf),
    "reward -Inf": Poison("reward", "-inf", (CONCERNED,), reward=-math.inf),
    "parameter": Poison("parameter", "nan", BOTH, at_parameter),
}
every_poison = pytest.mark.parametrize("name", POISONS)


@dataclass(frozen=True)
class Stopped:
    """What a training said that stopped itself."""

    said: str
    exit_code: int


def trained(
    root: Path,
    params: Params,
    poison: Poison | None = None,
    steps: Collection[int] = (STEP,),
    *,
    kill_at: int | None = None,
) -> Left | Stopped | None:
    """Train in a child, poisoned at some steps; None where it was killed, at the end of a step.

    An exception other than TrainingStopped fails the test.
    """

    def work() -> Left | Stopped:
        if poison is not None:
            poison.put(steps)
        if kill_at is not None:
            before(
                Live,
                "step",
                lambda live, step, _: os.kill(os.getpid(), signal.SIGKILL) if step == kill_at else None,
            )
        try:
            return crash_harness.training(root, params, None if poison is None else poison.task(steps))
        except TrainingStopped as error:
            return Stopped(str(error), error.exit_code)

    crash_harness.warm()
    out = root.with_name(f"{root.name}-child")
    found: Left | Stopped | None = ended(fork(work, out), out)
    return found


@functools.cache
def once(folder: Path, name: str, on_non_finite: str) -> tuple[Path, Left | Stopped]:
    """Return where a training was poisoned at STEP, and how it ended; made once for all tests."""
    root = folder / f"{name} {on_non_finite}"
    found = trained(root, settings(on_non_finite), POISONS[name])
    assert found is not None
    return root, found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("poison")


def table(root: Path, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((root / place_of(name)).read_text("utf-8").splitlines()))


def log(root: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / place_of(name)).read_text("utf-8").splitlines()]


def nothing_poisoned(root: Path) -> None:
    """Expect that every tensor on disk is finite, optimizer state included, and that every table is
    strict."""
    saved = [*root.rglob("*.safetensors"), *root.rglob("optimizer.pt")]
    assert saved
    for path in saved:
        tensors: dict[Any, Any] = (
            load_file(path) if path.suffix == ".safetensors" else torch.load(path)["state"]
        )
        flat = [t for each in tensors.values() for t in (each.values() if isinstance(each, dict) else [each])]
        assert all(torch.isfinite(torch.as_tensor(t)).all() for t in flat), path
    for path in (
        each for folder in ("results", "logs") for each in (root / "evidence" / folder).rglob("*.*")
    ):
        cells = path.read_text("utf-8").replace("\n", ",").replace(":", ",").lower().split(",")
        assert not {"nan", "inf", "-inf", "infinity", "-infinity"} & set(cells), path


# --- found, in that step
# ---------------------------------------------------------------------------------------------


@every_poison
def test_stop_ends_in_that_very_step_and_says_which_and_for_which_items(folder: Path, name: str) -> None:
    root, found = once(folder, name, "stop")
    poison = POISONS[name]
    assert isinstance(found, Stopped) and found.exit_code == 4
    assert found.said.startswith(
        f"step {STEP}, items {', '.join(poison.items)}: expected a finite {poison.what}, "
    )
    assert f"found {poison.found}.\nFix: " in found.said
    assert "newest checkpoint: step 2" in found.said
    newest = crash_harness.checkpoints(root).newest()
    assert newest is not None and newest.step == 2
    assert [row["step"] for row in table(root, "training_log.csv")] == ["1", "2", "3"]
    assert not (root / "models/adapter").exists()
    nothing_poisoned(root)
    (event,) = (event for event in log(root, "health.jsonl") if event["rule"] == "non_finite")
    assert (event["level"], event["stop"], event["step"]) == ("RED", True, STEP)
    assert event["item_ids"] == list(poison.items)
    assert event["message"].startswith(
        f"{poison.what[0].upper()}{poison.what[1:]} is not finite at step {STEP}"
    )


@every_poison
def test_skip_and_rollback_go_on_with_a_row_that_shows_nothing_where_nothing_was_learned(
    folder: Path, name: str
) -> None:
    for on_non_finite in ("skip", "rollback"):
        root, found = once(folder, name, on_non_finite)
        assert isinstance(found, dict), found
        nothing_poisoned(root)
        rows = table(root, "training_log.csv")
        assert [int(row["step"]) for row in rows] == list(range(1, STEPS + 1))
        told = {name: rows[STEP - 1][name] for name in ("loss", "reward", "reward_std", "grad_norm")}
        assert set(told.values()) == {""}, told
        assert all(row[name] for row in rows if int(row["step"]) != STEP for name in told)
        lines = log(root, "train_log.jsonl")
        assert [line["skipped"] for line in lines] == [
            POISONS[name].what if step == STEP else None for step in range(1, STEPS + 1)
        ]
        events = [event for event in log(root, "health.jsonl") if event["rule"] == "non_finite"]
        assert [(event["step"], event["level"], event["stop"]) for event in events] == [
            (STEP, "RED", False),
            (STEP + 1, "GREEN", False),
        ]
        assert events[0]["item_ids"] == list(POISONS[name].items), (
            "the alarm names those it concerns, and no other"
        )


@every_poison
def test_the_long_log_shows_no_zero_either_where_nothing_was_learned(folder: Path, name: str) -> None:
    root, found = once(folder, name, "skip")
    assert isinstance(found, dict), found
    line = log(root, "train_log.jsonl")[STEP - 1]
    assert {name: line[name] for name in ("loss", "grad_norm", "reward", "reward_std")} == dict.fromkeys(
        ("loss", "grad_norm", "reward", "reward_std")
    )


@every_poison
def test_a_step_that_is_skipped_leaves_every_weight_as_it_was_and_the_next_one_moves_them(
    folder: Path, name: str
) -> None:
    for on_non_finite in ("skip", "rollback"):
        root, found = once(folder, name, on_non_finite)
        assert isinstance(found, dict), found
        weights = [line["digests"]["weights"] for line in log(root, "train_log.jsonl")]
        moved = [one != other for one, other in itertools.pairwise(weights)]
        assert moved == [step != STEP for step in range(2, STEPS + 1)]


@every_poison
def test_rollback_ends_with_the_weights_that_skip_ends_with(folder: Path, name: str) -> None:
    _, skipped = once(folder, name, "skip")
    _, rolled_back = once(folder, name, "rollback")
    assert isinstance(skipped, dict) and isinstance(rolled_back, dict), (skipped, rolled_back)
    assert differences(skipped, rolled_back) == []


def test_all_ways_of_skipping_a_step_end_with_the_same_weights(folder: Path) -> None:
    """A poisoned reward cannot be played on from, and a parameter is told late; what is left of the step is
    the same."""
    ends = [once(folder, name, "skip")[1] for name in ("loss", "gradient", "log-probability", "parameter")]
    assert all(isinstance(end, dict) for end in ends)
    assert len({end["last adapter.safetensors"] for end in ends if isinstance(end, dict)}) == 1


def test_a_training_without_poison_does_not_end_like_one_with_a_skipped_step(
    folder: Path, tmp_path: Path
) -> None:
    sound, (_, skipped) = trained(tmp_path / "sound", settings("skip")), once(folder, "loss", "skip")
    assert isinstance(sound, dict) and isinstance(skipped, dict)
    one, other = (load_tensors(left["last adapter.safetensors"]) for left in (sound, skipped))
    assert any(not torch.equal(one[name], other[name]) for name in one)


# --- how often, and where
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_non_finite", ["skip", "rollback"])
@pytest.mark.parametrize("name", ["loss", "parameter"])
def test_one_poisoned_step_more_than_may_be_skipped_stops(
    tmp_path: Path, name: str, on_non_finite: str
) -> None:
    root = tmp_path / "project"
    found = trained(root, settings(on_non_finite, max_skipped=1), POISONS[name], (STEP, 6))
    assert isinstance(found, Stopped) and found.exit_code == 4
    assert found.said.startswith(
        f"step 6, items {', '.join(items_of(6))}: expected a finite {name}, found nan."
    )
    newest = crash_harness.checkpoints(root).newest()
    assert newest is not None and newest.step == STEP
    assert json.loads(newest.read("ledger.json"))["skipped"] == {str(STEP): name}
    nothing_poisoned(root)


@pytest.mark.parametrize("on_non_finite", ["skip", "rollback"])
def test_two_poisoned_steps_are_both_skipped_where_two_may_be(tmp_path: Path, on_non_finite: str) -> None:
    found = trained(tmp_path / "project", settings(on_non_finite, max_skipped=2), POISONS["loss"], (STEP, 5))
    assert isinstance(found, dict), found
    assert [row["loss"] == "" for row in table(tmp_path / "project", "training_log.csv")] == [
        step in (STEP, 5) for step in range(1, STEPS + 1)
    ]


@pytest.mark.parametrize("on_non_finite", ["skip", "rollback"])
def test_none_may_be_skipped_means_stop(tmp_path: Path, on_non_finite: str) -> None:
    found = trained(tmp_path / "project", settings(on_non_finite, max_skipped=0), POISONS["loss"])
    assert isinstance(found, Stopped) and found.exit_code == 4


@pytest.mark.parametrize("on_non_finite", ["skip", "rollback"])
def test_a_weight_that_is_poisoned_again_and_again_stops_instead_of_looping(
    tmp_path: Path, on_non_finite: str
) -> None:
    poison = replace(POISONS["parameter"], put=functools.partial(at_parameter, always=True))
    found = trained(tmp_path / "project", settings(on_non_finite), poison)
    assert isinstance(found, Stopped) and found.exit_code == 4
    assert found.said.startswith(f"step {STEP}, items ")
    said = (tmp_path / "project-child/said").read_text("utf-8")
    assert said.count(f"step {STEP}: parameter is not finite; back to step 2, where this one is skipped") == 1
    nothing_poisoned(tmp_path / "project")


@pytest.mark.parametrize("name", ["loss", "parameter"])
@pytest.mark.parametrize("step", [1, STEPS])
def test_the_first_and_the_last_step_are_watched_like_any_other(tmp_path: Path, name: str, step: int) -> None:
    stopped = trained(tmp_path / "stop", settings("stop"), POISONS[name], (step,))
    assert isinstance(stopped, Stopped) and stopped.said.startswith(
        f"step {step}, items {', '.join(items_of(step))}: "
    )
    nothing_poisoned(tmp_path / "stop")
    assert not (tmp_path / "stop/models/adapter").exists()
    skipped = trained(tmp_path / "skip", settings("skip"), POISONS[name], (step,))
    assert isinstance(skipped, dict), skipped
    nothing_poisoned(tmp_path / "skip")


@pytest.mark.parametrize("on_non_finite", ["skip", "rollback"])
@pytest.mark.parametrize("kill_at", [STEP, STEP + 1, STEP + 2])
def test_a_crash_after_a_skipped_step_leaves_no_trace(
    folder: Path, tmp_path: Path, on_non_finite: str, kill_at: int
) -> None:
    _, whole = once(folder, "loss", on_non_finite)
    root = tmp_path / "project"
    assert trained(root, settings(on_non_finite), POISONS["loss"], kill_at=kill_at) is None
    left = trained(root, settings(on_non_finite), POISONS["loss"])
    assert isinstance(whole, dict) and isinstance(left, dict), left
    assert differences(whole, left) == []


def test_a_training_that_stopped_stops_again_at_the_same_place(folder: Path) -> None:
    root, first = once(folder, "loss", "stop")
    assert trained(root, settings("stop"), POISONS["loss"]) == first


@pytest.mark.parametrize("on_non_finite", ["skip", "rollback"])
def test_a_training_that_stopped_goes_on_where_the_step_may_be_skipped(
    folder: Path, tmp_path: Path, on_non_finite: str
) -> None:
    root = tmp_path / "project"
    assert isinstance(trained(root, settings("stop"), POISONS["loss"]), Stopped)
    left = trained(root, settings(on_non_finite), POISONS["loss"])
    (_, whole) = once(folder, "loss", on_non_finite)
    assert isinstance(whole, dict) and isinstance(left, dict), left
    assert differences(whole, left) == []
    assert "going on after step 2" in (tmp_path / "project-child/said").read_text("utf-8")


def test_a_training_that_stopped_goes_on_once_the_cause_is_gone(tmp_path: Path) -> None:
    root = tmp_path / "project"
    assert isinstance(trained(root, settings("stop"), POISONS["reward NaN"]), Stopped)
    sound, left = trained(tmp_path / "sound", settings("stop")), trained(root, settings("stop"))
    assert isinstance(sound, dict) and isinstance(left, dict)
    assert differences(sound, left) == []


def test_the_filter_that_would_log_nan_as_zero_is_off(tmp_path: Path) -> None:
    assert grpo_config(settings("stop"), str(tmp_path)).logging_nan_inf_filter is False
