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

from assay.core.errors import RecordError
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


@pytest.mark.long
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
