"""Which checkpoints stay: the newest ones, and the newest healthy one; a damaged one takes the place of
none."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import TrainingError
from assay.training.checkpoints import store as module
from assay.training.checkpoints.store import MANIFEST, Checkpoints
from tests.training.test_checkpoints import (
    BEFORE,
    NEWEST,
    STEPS,
    Harm,
    Made,
    a_folder,
    flipped,
    linked_to_itself,
    linked_to_nothing,
    made,
    nonsense,
    run,
)

__all__ = ["made", "run"]  # fixtures


def steps(folder: Path) -> list[int]:
    return sorted(int(path.name.split("-")[1]) for path in folder.glob("step-*"))


@pytest.mark.parametrize(
    ("keep", "stay"), [(1, [12]), (2, [10, 12]), (3, [8, 10, 12]), (99, [0, 2, 4, 6, 8, 10, 12])]
)
def test_the_newest_checkpoints_stay_and_the_others_go(tmp_path: Path, keep: int, stay: list[int]) -> None:
    checkpoints = Checkpoints(tmp_path, "run", keep)
    for step in range(0, 13, 2):
        checkpoints.save(step, {"a": bytes([step])}, healthy=True)
    assert steps(tmp_path) == stay
    assert all(checkpoints.verified(tmp_path / f"step-{step:06d}").step == step for step in stay)


def test_the_newest_healthy_checkpoint_stays_beside_the_newest_ones_until_there_is_a_newer_one(
    tmp_path: Path,
) -> None:
    checkpoints = Checkpoints(tmp_path, "run", 2)
    for step, healthy in [(0, True), (2, True), (4, True), (6, False), (8, False), (10, False)]:
        checkpoints.save(step, {"a": b"x"}, healthy=healthy)
    assert steps(tmp_path) == [4, 8, 10]
    checkpoints.save(12, {"a": b"x"}, healthy=True)
    assert steps(tmp_path) == [10, 12]


def test_the_checkpoint_just_saved_stays_also_where_later_ones_lie(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, "run", 1)
    for step in (2, 4, 3):
        checkpoints.save(step, {"a": b"x"}, healthy=True)
    assert 3 in steps(tmp_path)


def test_saving_a_step_again_replaces_it(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, "run", 2)
    checkpoints.save(2, {"a": b"old", "gone": b""}, healthy=False)
    checkpoints.save(2, {"a": b"new"}, healthy=True)
    newest = checkpoints.newest()
    assert newest is not None and newest.read("a") == b"new" and newest.healthy
    assert sorted(path.name for path in tmp_path.rglob("*")) == [MANIFEST, "a", "step-000002"]


def test_what_a_killed_save_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    Checkpoints(tmp_path, "run", 2).save(2, {"a": b"x"}, healthy=True)
    Checkpoints(tmp_path, "run", 2).keep_validation(2, b"1\n")
    (tmp_path / ".step-000004.abc/new").mkdir(parents=True)
    (tmp_path / ".step-000004.abc/new/a").write_bytes(b"half")
    (tmp_path / "run_log.jsonl").write_bytes(b"")
    newest = Checkpoints(tmp_path, "run", 2).newest()
    assert newest is not None and newest.step == 2
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert names == {
        "step-000002",
        "step-000002/a",
        f"step-000002/{MANIFEST}",
        "run_log.jsonl",
        "validations",
        "validations/step-000002.jsonl",
    }


def test_what_a_killed_write_of_a_validation_left_is_removed(tmp_path: Path) -> None:
    Checkpoints(tmp_path, "run", 2).keep_validation(2, b"1\n")
    (tmp_path / "validations/.step-000004.jsonl.x1y2").write_bytes(b"half")
    Checkpoints(tmp_path, "run", 2)
    assert [path.name for path in (tmp_path / "validations").iterdir()] == ["step-000002.jsonl"]


def test_a_kill_while_an_old_checkpoint_is_let_go_leaves_nothing_half_trusted(made: Made, run: Path) -> None:
    (run / BEFORE / MANIFEST).unlink()
    (run / BEFORE / "adapter.safetensors").unlink()
    checkpoints = Checkpoints(run, made.key, 2)
    newest = checkpoints.newest()
    assert newest is not None and newest.step == STEPS and checkpoints.damaged == []
    flipped(9, 1)(run / NEWEST / "ledger.json")
    assert checkpoints.newest() is None, "what is left of the other one is never gone on from"
    assert checkpoints.damaged[-1] == f"{BEFORE}: {MANIFEST} is No such file or directory"
    checkpoints.save(8, {"a": b"x"}, healthy=True)
    checkpoints.save(10, {"a": b"x"}, healthy=True)
    assert steps(run) == [8, 10], "the next save lets go of the rest"


@pytest.mark.parametrize(
    "harm", [a_folder, linked_to_nothing, linked_to_itself, nonsense, Path.unlink], ids=lambda h: h.__name__
)
def test_a_damaged_checkpoint_does_not_keep_the_next_save_from_letting_it_go(
    tmp_path: Path, harm: Harm
) -> None:
    checkpoints = Checkpoints(tmp_path, "run", 2)
    checkpoints.save(2, {"a": b"x"}, healthy=True)
    harm(tmp_path / "step-000002" / MANIFEST)
    for step in (4, 6):
        checkpoints.save(step, {"a": b"x"}, healthy=True)
    assert steps(tmp_path) == [4, 6]


def test_what_was_damaged_on_disk_never_counts_as_the_healthy_checkpoint_to_keep(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, "run", 1)
    checkpoints.save(2, {"a": b"x"}, healthy=True)
    checkpoints.save(4, {"a": b"x"}, healthy=True)
    checkpoints.save(6, {"a": b"x"}, healthy=False)
    assert steps(tmp_path) == [4, 6]


def test_a_damaged_checkpoint_takes_nobodys_place(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, "run", 2)
    for step in (2, 4):
        checkpoints.save(step, {"a": b"weights"}, healthy=True)
    flipped(3, 2)(tmp_path / "step-000004/a")
    checkpoints.save(6, {"a": b"weights"}, healthy=True)
    assert steps(tmp_path) == [2, 6], "two that can be gone on from"


def test_a_damaged_checkpoint_goes_only_when_enough_sound_ones_are_there(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, "run", 3)
    for step in (2, 4, 6):
        checkpoints.save(step, {"a": b"weights"}, healthy=True)
    for step in (2, 4):
        flipped(3, 2)(tmp_path / f"step-{step:06d}/a")
    checkpoints.save(8, {"a": b"weights"}, healthy=True)
    assert steps(tmp_path) == [2, 4, 6, 8], "nothing is thrown away as long as too little is sound"
    checkpoints.save(10, {"a": b"weights"}, healthy=True)
    assert steps(tmp_path) == [6, 8, 10]


def test_a_damaged_healthy_checkpoint_is_not_the_healthy_one_to_keep(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, "run", 1)
    checkpoints.save(2, {"a": b"weights"}, healthy=True)
    checkpoints.save(3, {"a": b"weights"}, healthy=False)
    assert steps(tmp_path) == [2, 3]
    flipped(3, 2)(tmp_path / "step-000002/a")
    checkpoints.save(4, {"a": b"weights"}, healthy=False)
    assert steps(tmp_path) == [4]


@pytest.mark.parametrize(
    ("damaged", "told"),
    [
        ([], "goes on from step-000004, which was read through and is intact"),
        ([4], "goes on from step-000002, which was read through and is intact"),
        ([2, 4], "begins anew: none is intact"),
    ],
)
def test_a_full_disk_names_a_checkpoint_that_was_read_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: list[int], told: str
) -> None:
    checkpoints = Checkpoints(tmp_path, "run", 2)
    for step in (2, 4):
        checkpoints.save(step, {"a": b"weights"}, healthy=True)
    for step in damaged:
        flipped(1, 1)(tmp_path / f"step-{step:06d}/a")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_folder", full)
    with pytest.raises(TrainingError, match="No space left") as stopped:
        checkpoints.save(6, {"a": b"weights"}, healthy=True)
    assert told in stopped.value.fix and steps(tmp_path) == [2, 4]
