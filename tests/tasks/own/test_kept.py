"""Any environment is a value: a live one is kept by its state, and any state is reached again by replay."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from assay.rollout.tasks.own.api import Environment, Told
from assay.rollout.tasks.own.calls import Call, checked
from assay.rollout.tasks.own.kept import Kept, Unrepeatable

ROW = {"word": "ab", "deep": {"list": [1]}}
PARTS = frozenset({"reward"})


class Echo(Environment):
    """Tells everything that was said; counts what is made, alive and stepped."""

    made = alive = steps = 0

    def __init__(self) -> None:
        Echo.made, Echo.alive = Echo.made + 1, Echo.alive + 1

    def reset(self, row: Any, seed: int) -> str:
        self.said = [f"{row['word']}{seed}{row['deep']['list']}"]
        row["deep"]["list"].append(2)
        row["word"] = "changed"
        return self.said[0]

    def step(self, completion: str) -> Told:
        Echo.steps += 1
        self.said.append(completion)
        return Told(None if completion == "end" else " ".join(self.said), float(len(self.said)))

    def close(self) -> None:
        Echo.alive -= 1
        raise RuntimeError("whatever closing raises")


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    Echo.made = Echo.alive = Echo.steps = 0


def nothing() -> None:
    """Stand for a beat that nobody hears."""


def told(kept: Kept, *completions: str, seed: int = 0) -> str:
    messages = kept.told(Call(ROW, seed, completions), nothing).messages
    return messages[0]["content"] if messages else "the end"


def test_an_episode_goes_on_in_one_environment() -> None:
    kept = Kept(Echo, PARTS)
    assert told(kept) == "ab0[1]"
    assert told(kept, "x") == "ab0[1] x"
    assert told(kept, "x", "y") == "ab0[1] x y"
    assert (Echo.made, Echo.steps) == (1, 2)


def test_an_old_state_is_reached_again_by_replay() -> None:
    kept = Kept(Echo, PARTS)
    told(kept)
    told(kept, "x")
    told(kept, "x", "y")
    assert told(kept, "x", "z") == "ab0[1] x z"
    assert told(kept, "x", "y", "w") == "ab0[1] x y w"
    assert (Echo.made, Echo.steps) == (2, 5)  # one replay of x, and the first went on behind y


def test_copies_in_one_state_are_kept_side_by_side() -> None:
    kept = Kept(Echo, PARTS)
    for _ in range(3):
        told(kept, "x")
    for _ in range(3):
        told(kept, "x", "y")
    assert (Echo.made, Echo.steps) == (3, 6)


def test_what_ended_and_what_is_closed_is_given_back() -> None:
    kept = Kept(Echo, PARTS)
    assert told(kept, "x", "end") == "the end"
    assert (Echo.made, Echo.alive) == (1, 0)
    told(kept, "x")
    kept.close()
    assert Echo.alive == 0


def test_of_more_than_so_many_the_one_unused_longest_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Echo, "most_alive", 2)
    kept = Kept(Echo, PARTS)
    for seed in range(4):
        told(kept, seed=seed)
    assert Echo.alive == 2
    made = Echo.made
    assert told(kept, "x", seed=3) == "ab3[1] x"
    assert made == Echo.made
    assert told(kept, "x", seed=0) == "ab0[1] x"
    assert made == Echo.made - 1


def test_a_record_that_the_code_writes_into_stays_as_it_is() -> None:
    kept = Kept(Echo, PARTS)
    assert [told(kept), told(kept)] == ["ab0[1]"] * 2
    assert ROW == {"word": "ab", "deep": {"list": [1]}}


class Coin(Environment):
    """Tells something else each time."""

    n = 0

    def reset(self, row: Any, seed: int) -> str:
        return f"{self._next()}" if seed else "opening"

    def step(self, completion: str) -> Told:
        return Told("text", self._next()) if completion == "reward" else Told(f"{self._next()}")

    def _next(self) -> int:
        Coin.n += 1
        return -Coin.n


@pytest.mark.parametrize(
    ("seed", "completions", "where"),
    [
        (1, (), "by the reset"),
        (0, ("a",), "after 1 completions"),
        (0, ("b", "reward"), "after 1 completions"),
    ],
)
def test_what_does_not_repeat_itself_is_said(seed: int, completions: tuple[str, ...], where: str) -> None:
    kept = Kept(Coin, PARTS)
    kept.told(Call(ROW, seed, completions), nothing)
    with pytest.raises(Unrepeatable, match=where):
        kept.told(Call(ROW, seed, completions), nothing)


def test_rewards_of_minus_one_and_minus_two_differ() -> None:
    kept = Kept(Coin, PARTS)
    Coin.n = 0
    kept.told(Call(ROW, 0, ("reward",)), nothing)
    with pytest.raises(Unrepeatable, match="-2"):
        kept.told(Call(ROW, 0, ("reward",)), nothing)


def test_threads_share_it() -> None:
    kept, start = Kept(Echo, PARTS), threading.Barrier(8)

    def play(thread: int) -> list[str]:
        start.wait()
        return [told(kept, *["a"] * n, seed=seed) for seed in range(3) for n in range(12)]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(play, range(8)))
    assert all(each == found[0] for each in found)
    kept.close()
    assert Echo.alive == 0


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda: "text", "step returned str, not Told"),
        (lambda: Told(5), "told int"),  # type: ignore[arg-type]
        (lambda: Told("x" * 1_000_001), "told 1,000,001 characters, more than 1,000,000"),
        (lambda: Told("\ud800"), "surrogates not allowed"),
        (lambda: Told(None, {"other": 1.0}), r"'other' is not declared in task.parts \(reward\)"),
        (lambda: Told(None, float("nan")), "reward part reward is nan"),
        (lambda: Told(None, float("inf")), "reward part reward is inf"),
        (lambda: Told(None, "1"), "reward part reward is '1'"),  # type: ignore[arg-type]
        (lambda: Told(None, 1.0, success="no"), "success is 'no'"),  # type: ignore[arg-type]
        (lambda: Told(None, 1.0, failure=5), "failure is 5"),  # type: ignore[arg-type]
    ],
)
def test_what_is_told_is_checked(step: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        checked(step(), PARTS)


def test_numbers_of_numpy_and_truth_values_are_taken() -> None:
    np = pytest.importorskip("numpy")
    found = [
        checked(Told(None, part), PARTS).parts["reward"] for part in (np.float32(0.5), True, np.int64(3))
    ]
    assert found == [0.5, 1.0, 3.0]
    assert checked(Told(None, 1.0, success=np.bool_(True)), PARTS).success is True
