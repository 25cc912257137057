"""Whatever happens to a checkpoint on disk is seen, and the one before it is gone on from to the same end."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from assay.core.errors import RecordError, TrainingError
from assay.training.checkpoints import store as module
from assay.training.checkpoints.store import MANIFEST, Checkpoints, read_checkpoint
from tests.training import crash_harness
from tests.training.crash_harness import Left, differences, ended, fork
from tests.training.kills import litter

STEPS, NEWEST, BEFORE = 6, "step-000006", "step-000004"
PARAMS = crash_harness.settings(STEPS)
FILES = (
    MANIFEST,
    "adapter.safetensors",
    "optimizer.pt",
    "scheduler.pt",
    "rng_state.pth",
    "trainer_state.json",
    "ledger.json",
    "best.safetensors",
)
OWN_VALIDATIONS = (
    "validations/step-000005.jsonl",
    "validations/step-000006.jsonl",
)  # which the one before does not name


@dataclass(frozen=True)
class Made:
    """A finished training: its project, its run folder and key, and what it left."""

    root: Path
    run: Path
    key: str
    left: Left


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    crash_harness.warm()
    root, child = tmp_path_factory.mktemp("made"), tmp_path_factory.mktemp("child")
    left = ended(fork(lambda: crash_harness.training(root, PARAMS), child), child)
    run = crash_harness.run_folder(root)
    assert sorted(path.name for path in run.glob("step-*")) == [BEFORE, NEWEST]
    assert {path.name for path in (run / NEWEST).iterdir()} == set(FILES)
    return Made(root, run, read_checkpoint(run / NEWEST)[0].run, left)


@pytest.fixture
def run(made: Made, tmp_path: Path) -> Path:
    """Return the run folder of a copy of the finished training in tmp_path/project."""
    shutil.copytree(made.root, tmp_path / "project")
    return crash_harness.run_folder(tmp_path / "project")


def go_on(root: Path, child: Path) -> tuple[Left, str]:
    """Return what a training leaves that is taken up, and what it says."""
    left = ended(fork(lambda: crash_harness.training(root, PARAMS), child), child)
    return left, (child / "said").read_text("utf-8")


# --- damage
# ----------------------------------------------------------------------------------------------------------

Harm = Callable[[Path], None]


def flipped(offset: int, bit: int) -> Harm:
    def harm(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[offset % len(content)] ^= 1 << bit
        path.write_bytes(content)

    return harm


def cut(share: float) -> Harm:
    def harm(path: Path) -> None:
        content = path.read_bytes()
        path.write_bytes(content[: min(int(len(content) * share), len(content) - 1)])

    return harm


def longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def of_the_one_before(path: Path) -> None:
    other = (
        path.parents[1] / BEFORE / path.name
        if path.parent.name == NEWEST
        else path.with_name("step-000000.jsonl")
    )
    path.write_bytes(other.read_bytes())


def linked_to_the_one_before(path: Path) -> None:
    other = (
        path.parents[1] / BEFORE / path.name
        if path.parent.name == NEWEST
        else path.with_name("step-000000.jsonl")
    )
    path.unlink()
    path.symlink_to(other)


def linked_to_nothing(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent / "nowhere")


def linked_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def nonsense(path: Path) -> None:
    path.write_bytes(random.Random(path.name).randbytes(path.stat().st_size))


def harms(name: str) -> Iterator[tuple[str, Harm]]:
    """Yield what can happen to one file."""
    chance = random.Random(f"harm {name}")
    for offset in (0, -1, *(chance.randrange(1 << 20) for _ in range(8))):
        bit = chance.randrange(8)
        yield f"bit {bit} of byte {offset} flipped", flipped(offset, bit)
    for share in (0.0, 0.001, 0.25, 0.5, 0.9, 1.0):  # emptied, nearly so, ..., one byte short
        yield f"cut to {share}", cut(share)
    yield from {
        "longer": longer,
        "deleted": Path.unlink,
        "of the one before": of_the_one_before,
        "a folder": a_folder,
        "a link to the one before": linked_to_the_one_before,
        "a link to nothing": linked_to_nothing,
        "a link to itself": linked_to_itself,
        "a pipe": a_pipe,
        "nonsense": nonsense,
    }.items()


def emptied(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("here")


# What can be put into a checkpoint that does not belong there, or happen to it as a whole.
WHOLE: dict[str, Callable[[Path], object]] = {
    "a foreign file": lambda folder: (folder / "notes.txt").write_text("mine"),
    "a hidden file": lambda folder: (folder / ".adapter.safetensors.x1").write_bytes(b""),
    "a foreign folder": lambda folder: (folder / "runs").mkdir(),
    "a foreign link": lambda folder: (folder / "latest").symlink_to("adapter.safetensors"),
    "under another name": lambda folder: folder.rename(folder.with_name("step-000008")),
    "emptied": emptied,
    "a file in its place": a_file,
}


def expect_the_one_before(run: Path, key: str, what: str) -> None:
    checkpoints = Checkpoints(run, key, 2)
    newest = checkpoints.newest()
    assert newest is not None and newest.folder.name == BEFORE, what
    assert len(checkpoints.damaged) == 1, what
    assert checkpoints.damaged[0].startswith("step-00000"), what


def test_damage_at_two_hundred_places_is_seen_and_the_checkpoint_before_is_taken(
    made: Made, tmp_path: Path
) -> None:
    places = 0
    run = tmp_path / "run"
    for name in (*(f"{NEWEST}/{name}" for name in FILES), *OWN_VALIDATIONS):
        for what, harm in harms(name):
            shutil.copytree(made.run, run)
            harm(run / name)
            expect_the_one_before(run, made.key, f"{name}: {what}")
            with pytest.raises(RecordError, match=f"{re.escape(Path(name).name)}|step 4 under this name"):
                read_checkpoint(run / NEWEST)
            shutil.rmtree(run)
            places += 1
    for what, harm_it in WHOLE.items():
        shutil.copytree(made.run, run)
        harm_it(run / NEWEST)
        expect_the_one_before(run, made.key, what)
        shutil.rmtree(run)
        places += 1
    assert places >= 200


@pytest.mark.parametrize(
    "harm", [flipped(1000, 3), Path.unlink, linked_to_nothing], ids=lambda harm: harm.__name__
)
@pytest.mark.parametrize("name", [f"{NEWEST}/optimizer.pt", f"{NEWEST}/{MANIFEST}", OWN_VALIDATIONS[0]])
def test_a_training_goes_on_from_the_checkpoint_before_to_the_same_end(
    made: Made, run: Path, tmp_path: Path, name: str, harm: Harm
) -> None:
    harm(run / name)
    left, said = go_on(tmp_path / "project", tmp_path)
    assert differences(made.left, left) == []
    assert said.count(f"passed over a damaged checkpoint: {NEWEST}") == 1
    assert f"going on after step 4, from {run.name}/{BEFORE}" in said
    again = Checkpoints(run, made.key, 2)
    newest = again.newest()
    assert newest is not None and newest.step == STEPS and again.damaged == [], (
        "it was made anew in the damaged one's place"
    )


def test_with_every_checkpoint_damaged_a_training_begins_anew_and_ends_the_same(
    made: Made, run: Path, tmp_path: Path
) -> None:
    flipped(0, 0)(run / "validations/step-000000.jsonl")  # all of them build on it
    checkpoints = Checkpoints(run, made.key, 2)
    assert checkpoints.newest() is None and len(checkpoints.damaged) == 2
    left, said = go_on(tmp_path / "project", tmp_path)
    assert differences(made.left, left) == []
    assert "going on" not in said


def test_a_finished_training_is_taken_up_to_publish_the_same_again(
    made: Made, run: Path, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "project/models")
    shutil.rmtree(tmp_path / "project/evidence")
    left, said = go_on(tmp_path / "project", tmp_path)
    assert differences(made.left, left) == []
    assert "going on after step 6" in said


def test_a_checkpoint_of_another_run_is_passed_over(made: Made, run: Path) -> None:
    checkpoints = Checkpoints(run, "another run", 2)
    assert checkpoints.newest() is None
    assert checkpoints.damaged == [
        f"{name}: a checkpoint of another run ({made.key[:12]})" for name in (NEWEST, BEFORE)
    ]


def test_a_checkpoint_in_another_format_is_passed_over(
    made: Made, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FORMAT", 2)
    Checkpoints(run, made.key, 9).save(8, {"adapter.safetensors": b"of a later version"}, healthy=True)
    monkeypatch.undo()
    checkpoints = Checkpoints(run, made.key, 9)
    newest = checkpoints.newest()
    assert newest is not None and newest.step == STEPS
    assert checkpoints.damaged == ["step-000008: format 2 and step 8 under this name"]


# --- what stays
# ------------------------------------------------------------------------------------------------------


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


# --- litter
# ----------------------------------------------------------------------------------------------------------


def test_what_a_killed_write_left_among_the_results_is_gone_with_the_next_start(tmp_path: Path) -> None:
    results, models = tmp_path / "evidence/logs/train", tmp_path / "models"
    for folder in (results, models):
        folder.mkdir(parents=True)
    nobody = 2**22 + 1  # more than a process can have
    (results / f".train_log.jsonl.{nobody}-ab_12xyz.part").write_bytes(b"half a li")
    (models / f".adapter.{nobody}-ab_12xyz.part/new").mkdir(parents=True)
    alive, mine = results / f".train_log.jsonl.{os.getpid()}-ab_12xyz.part", results / ".notes"
    for path in (alive, mine):
        path.write_bytes(b"kept")
    crash_harness.training(tmp_path, crash_harness.settings(1))
    assert litter(results) == sorted(path.name for path in (alive, mine)) and not litter(models)
