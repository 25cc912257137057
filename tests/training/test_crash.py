"""A training that is killed, wherever it is, and taken up again ends bit by bit as if nothing had been."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.torch import load as load_tensors

from assay.training.checkpoints.store import MANIFEST, Checkpoints, read_checkpoint
from tests.training import crash_harness
from tests.training.crash_harness import differences, ended, fork
from tests.training.kills import Killer, Operations, kill_at_operations, operated

KILLS, STEPS, STEP = 30, 7, crash_harness.RETAINING_STEP


@pytest.fixture(scope="module")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Killer:
    return Killer(crash_harness.settings(STEPS), tmp_path_factory.mktemp("kills"), seed=0)


def test_what_is_compared_has_every_kind_of_state_in_it(killer: Killer) -> None:
    whole = killer.whole
    assert {
        "ledger training_log",
        "ledger train_log",
        "ledger health",
        "ledger watch",
        "ledger monitor",
    } <= set(whole)
    assert {
        "ledger chain",
        "ledger skipped",
        "last optimizer.pt",
        "last scheduler.pt",
        "last rng_state.pth",
    } <= set(whole)
    assert {f"last step-00000{step}.jsonl of validation" for step in (0, 5, 7)} <= set(whole)
    assert {
        "training_log.csv",
        "health.jsonl",
        "train.json",
        "models/adapter/adapter_model.safetensors",
    } <= set(whole)
    assert not any("time" in name or name == "observed" for name in whole)
    assert len({event["rule"] for event in json.loads(whole["ledger health"])}) > 1, (
        "alarms come, so that their state counts"
    )
    assert json.loads(whole["train.json"])["chosen_step"] == 5, (
        "neither the first nor the last: it has to be kept"
    )
    adapter = load_tensors(whole["models/adapter/adapter_model.safetensors"])
    assert any(tensor.abs().sum() > 0 for name, tensor in adapter.items() if "lora_B" in name), "it has moved"


def test_another_seed_would_be_seen_to_differ(killer: Killer, tmp_path: Path) -> None:
    other = crash_harness.settings(STEPS).model_copy(update={"seed": 1})
    child = fork(lambda: crash_harness.training(tmp_path / "other", other), tmp_path)
    odd = differences(killer.whole, ended(child, tmp_path))
    assert {
        "ledger chain",
        "training_log.csv",
        "train.json",
        "last adapter.safetensors",
        "last optimizer.pt",
    } <= set(odd)


def test_thirty_kills_in_all_stages_leave_no_trace_in_any_result(killer: Killer) -> None:
    tally = killer.kill(KILLS)
    assert tally.kills == KILLS
    assert tally.chained > 0, "some were killed again after they had been taken up"
    assert len(tally.stages) >= 8
    assert tally.differing == []
    assert tally.identical == KILLS


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path, list[str]]]:
    """A run folder just before a save that lets go of an older checkpoint, the same after it, and the save's
    operations."""
    crash_harness.warm()
    folder, params = tmp_path_factory.mktemp("operations"), crash_harness.settings(12)
    before, after = folder / "before", folder / "after"
    assert ended(fork(lambda: operated(Operations(STEP, 0), before, params), folder), folder) is None
    shutil.copytree(before, after)
    _, names = ended(fork(lambda: operated(Operations(STEP), after, params), folder), folder)
    yield crash_harness.run_folder(before), crash_harness.run_folder(after), names


def save_again(run: Path, after: Path, operations: Operations) -> None:
    operations.watch()
    made, _ = read_checkpoint(after / f"step-{STEP:06d}")
    files = {path.name: path.read_bytes() for path in made.folder.iterdir() if path.name != MANIFEST}
    checkpoints = Checkpoints(run, made.run, 2)
    assert checkpoints.newest() is not None
    checkpoints.keep_validation(STEP, (after / f"validations/step-{STEP:06d}.jsonl").read_bytes())
    checkpoints.save(STEP, files, healthy=made.healthy)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_a_kill_at_any_file_operation_of_a_save_leaves_the_old_checkpoint_or_the_new_one(
    saved: tuple[Path, Path, list[str]], tmp_path: Path
) -> None:
    before, after, names = saved
    assert {"open", "write", "fsync", "replace", "rename", "unlink", "mkdir", "rmdir"} <= set(names)
    key, seen = read_checkpoint(after / f"step-{STEP:06d}")[0].run, []
    for place in [
        *range(len(names)),
        -1,
    ]:  # just before each, which is just after the one before; then after the last
        run = tmp_path / "run"
        shutil.copytree(before, run)
        operations = Operations(STEP, place % len(names), after=place < 0)
        child = fork(functools.partial(save_again, run, after, operations), tmp_path)
        assert ended(child, tmp_path) is None, f"operation {place} was not reached"
        checkpoints = Checkpoints(run, key, 2)
        newest = checkpoints.newest()
        assert newest is not None and checkpoints.damaged == []
        assert contents(newest.folder) == contents(
            (after if newest.step == STEP else before) / newest.folder.name
        )
        seen.append(newest.step)
        shutil.rmtree(run)
    assert seen == sorted(seen) and set(seen) == {8, STEP}, (
        "the old one up to the rename, the new one from then on"
    )


def test_a_training_goes_on_from_these_places_to_the_same_end(tmp_path: Path) -> None:
    killer = Killer(crash_harness.settings(12), tmp_path, seed=0)
    names, odd = kill_at_operations(killer.params, tmp_path, STEP, killer.whole, every=17)
    assert len(names) >= 10
    assert odd == []
