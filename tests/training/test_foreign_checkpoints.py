"""A checkpoint whose manifest was made anew over other contents: nothing in it runs, and the one before it is
gone on from."""

from __future__ import annotations

import io
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from assay.core.errors import RecordError
from assay.training.checkpoints.store import Checkpoints, read_checkpoint, refuse_going_on, unreadable
from tests.fuzz.targets import sign_again
from tests.training.crash_harness import differences
from tests.training.test_checkpoints import BEFORE, NEWEST, Made, go_on, made, run

__all__ = ["made", "run"]  # fixtures


class Canary:
    """Writes a file when a pickle of it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def pickled(value: Any, *, plainly: bool) -> bytes:
    if plainly:
        return pickle.dumps(value)
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth"])
@pytest.mark.parametrize("plainly", [True, False], ids=["a bare pickle", "in torch's archive"])
def test_a_pickle_in_a_checkpoint_signed_anew_runs_nothing_and_is_passed_over(
    name: str, plainly: bool, made: Made, run: Path, tmp_path: Path
) -> None:
    content = pickled({"state": Canary(tmp_path / "canary")}, plainly=plainly)
    pickle.loads(content) if plainly else torch.load(io.BytesIO(content), weights_only=False)
    assert (tmp_path / "canary").exists(), "the canary sings where a pickle is trusted"
    (tmp_path / "canary").unlink()
    (run / NEWEST / name).write_bytes(content)
    sign_again(run / NEWEST)
    checkpoint, _ = read_checkpoint(run / NEWEST)
    checkpoints = Checkpoints(run, checkpoint.run, 2)
    newest = checkpoints.newest()
    assert newest is not None and newest.folder.name == BEFORE
    assert (
        len(checkpoints.damaged) == 1
        and f"{NEWEST}: {name} is none that torch reads" in checkpoints.damaged[0]
    )
    with pytest.raises(RecordError, match=name):
        checkpoints.verified(run / NEWEST)
    assert not (tmp_path / "canary").exists()


def test_a_training_goes_on_from_the_one_before_to_the_same_end(
    made: Made, run: Path, tmp_path: Path
) -> None:
    (run / NEWEST / "optimizer.pt").write_bytes(
        pickled({"state": Canary(tmp_path / "canary")}, plainly=False)
    )
    sign_again(run / NEWEST)
    (tmp_path / "child").mkdir()
    left, _ = go_on(tmp_path / "project", tmp_path / "child")
    assert not (tmp_path / "canary").exists()
    assert differences(left, made.left) == []


def as_json(change: Callable[[dict[str, Any]], Any]) -> Callable[[bytes], bytes]:
    def changed(content: bytes) -> bytes:
        told = json.loads(content)
        change(told)
        return json.dumps(told).encode()

    return changed


OTHER: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "an optimizer that is a list": ("optimizer.pt", lambda _: pickled([1], plainly=False)),
    "an optimizer that is no archive": ("optimizer.pt", lambda _: b"x"),
    "generators cut short": ("rng_state.pth", lambda content: content[: len(content) // 2]),
    "weights that are a text": ("adapter.safetensors", lambda _: b"text"),
    "a ledger that is a list": ("ledger.json", lambda _: b"[]"),
    "a ledger nested deeply": ("ledger.json", lambda _: b"[" * 100_000),
    "a ledger without a chain": ("ledger.json", as_json(lambda told: told.pop("chain"))),
    "a ledger whose chain is a number": ("ledger.json", as_json(lambda told: told.update(chain=5))),
    "a ledger with half a row": (
        "ledger.json",
        as_json(lambda told: told["rows"]["training_log"][-1].pop("loss")),
    ),
    "a probe of texts": ("ledger.json", as_json(lambda told: told.update(probe=[["a", "b", "c"]]))),
    "a probe whose mask is short": ("ledger.json", as_json(lambda told: told["probe"][0][2].pop())),
    "a state without a step": ("trainer_state.json", as_json(lambda told: told.pop("global_step"))),
    "a state that is no JSON": ("trainer_state.json", lambda _: b"{"),
}


@pytest.mark.parametrize("what", OTHER)
def test_contents_that_nothing_can_go_on_with_are_passed_over(what: str, made: Made, run: Path) -> None:
    name, change = OTHER[what]
    path = run / NEWEST / name
    path.write_bytes(change(path.read_bytes()))
    sign_again(run / NEWEST)
    checkpoints = Checkpoints(run, read_checkpoint(run / NEWEST)[0].run, 2)
    newest = checkpoints.newest()
    assert newest is not None and newest.folder.name == BEFORE
    assert name in checkpoints.damaged[0]


def test_what_was_written_is_readable(made: Made) -> None:
    for path in sorted((made.run / NEWEST).iterdir()):
        assert unreadable(path.name, path.read_bytes()) is None, path.name


def test_another_models_optimizer_is_refused_by_the_checkpoints_name(made: Made, run: Path) -> None:
    checkpoint, _ = read_checkpoint(run / NEWEST)
    expected = f"{NEWEST}.*expected a checkpoint to go on from"
    with pytest.raises(RecordError, match=expected) as caught, refuse_going_on(checkpoint):
        raise ValueError("loaded state dict contains a parameter group that doesn't match")
    assert f"rm -r {run / NEWEST}" in caught.value.fix
    with pytest.raises(ValueError), refuse_going_on(checkpoint, lambda: True):
        raise ValueError("a fault of a step")
    with pytest.raises(ValueError), refuse_going_on(None):
        raise ValueError("a fault of a beginning")


def test_an_optimizer_of_other_parameters_is_refused_by_name(made: Made, run: Path, tmp_path: Path) -> None:
    path = run / NEWEST / "optimizer.pt"
    told = torch.load(path, weights_only=True)
    told["param_groups"][0]["params"] = told["param_groups"][0]["params"][:-1]
    path.write_bytes(pickled(told, plainly=False))
    sign_again(run / NEWEST)
    shutil.rmtree(run / BEFORE)
    (tmp_path / "child").mkdir()
    with pytest.raises(AssertionError, match="a checkpoint to go on from"):
        go_on(tmp_path / "project", tmp_path / "child")
