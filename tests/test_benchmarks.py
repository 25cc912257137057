"""Measurements are run by hand, and must still find what they measure, compare equal work and count it rightly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from benchmarks import filler, speed_cpu, stock

from assay.config.settings import TinyArchitecture
from assay.evaluation.rollout import play
from assay.evaluation.suite import choose
from assay.policy import tiny
from assay.policy.decoding import Decoding
from assay.policy.dialogue import Dialogue
from assay.policy.model import Policy
from assay.tasks.collider import Collider, ColliderSettings, generate
from tests.house import ROOT

TASK = Collider(ColliderSettings(surface="compact", max_turns=4, shaping=0.0, gamma=1.0))
PLAYS = choose(
    [TASK.item(row) for row in generate("validation", 6, max_turns=8, labels=("benchmark test",))], 6,
    split="validation", draws=2, seed=0,
).plays()  # fmt: skip
SHAPE = filler.Shape(32, 64, 2, 2, 1, 16, 1005)
WORK = filler.Work(prompts=2, group=3, prompt=12, turns=3, new=4, reply=9)


@pytest.fixture(scope="module")
def policy() -> Policy:
    tokenizer = tiny.build_tokenizer(TASK.vocabulary())
    shape = TinyArchitecture(hidden_size=32, intermediate_size=64, layers=2, heads=4, max_positions=512, initializer_range=0.3)
    return Policy(tiny.build_model(shape, tokenizer, 3), tokenizer, Dialogue(tokenizer), "test")


@pytest.mark.parametrize("script", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_a_benchmark_imports_what_is_there(script: Path) -> None:
    code = f"import runpy; runpy.run_path({str(script)!r}, run_name='imported')"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr


def test_both_sides_of_a_speed_measurement_write_the_same_greedy_tokens() -> None:
    bench = filler.Bench(filler.policy_of(SHAPE, "cpu", torch.float32), WORK, "cpu")
    bench._decoding = Decoding(0.0, WORK.new)
    ours, theirs = bench.ours()[0], bench.stock()
    assert ours == theirs
    assert bench.written(ours) <= WORK.rows * WORK.turns * WORK.new
    assert max(map(len, ours)) == WORK.longest - WORK.prompt


def test_log_probabilities_of_both_sides_are_those_of_a_plain_forward_pass() -> None:
    bench = filler.Bench(filler.policy_of(SHAPE, "cpu", torch.float32), WORK, "cpu")
    found = bench.difference()
    assert 0.0 < found["ours"] < 1e-4
    assert 0.0 < found["stock"] < 1e-4


def test_playing_the_natural_way_is_the_same_greedy_play(policy: Policy) -> None:
    greedy = Decoding(0.0, 6)
    ours = [one.episode for one in play(policy, TASK, PLAYS, greedy, batch_size=5)]
    theirs = stock.play_naturally(policy, TASK, PLAYS, greedy, 5)
    assert [one["turns"] for one in theirs] == [len(one.turns) for one in ours]
    assert [one["reward"] for one in theirs] == pytest.approx([one.reward for one in ours])
    assert [one["tokens"] for one in theirs] == [sum(turn.n_tokens for turn in one.turns) for one in ours]


def test_a_stock_episode_with_another_prompt_or_observation_ends_the_measurement(policy: Policy) -> None:
    dialogue = policy.dialogue
    messages, state = TASK.start(PLAYS[0].item, PLAYS[0].world_seed)
    prompt, ids, mask = dialogue.opening(messages), list[int](), list[int]()
    for text in ("s", "s", "nc3"):
        step = TASK.step(state, text)
        state, written = step.state, [*dialogue._ids(text), dialogue.eos_id]
        told = [] if step.observation is None else dialogue.reply(step.observation, ended=True)
        ids, mask = ids + written + told, mask + [1] * len(written) + [0] * len(told)
    assert stock.turns_of(mask) == 3
    assert stock.same_conversation(TASK, dialogue, PLAYS[0], prompt, ids, mask) == 0
    with pytest.raises(SystemExit, match="prompt"):
        stock.same_conversation(TASK, dialogue, PLAYS[0], [*prompt, 5], ids, mask)
    ids[mask.index(0)] += 1
    with pytest.raises(SystemExit, match="observation"):
        stock.same_conversation(TASK, dialogue, PLAYS[0], prompt, ids, mask)


def test_only_a_verdict_is_an_answer_to_trl_and_all_else_is_a_call(policy: Policy) -> None:
    parse = stock.speaking(policy, TASK).parse_response
    for text, verdict in (("nc3", True), ("s", False), ("ggg", False)):
        message = parse([*policy.dialogue._ids(text), policy.dialogue.eos_id])
        assert ("tool_calls" not in message, stock.answer(message)) == (verdict, text)


def test_a_ratio_is_of_pairs_and_says_whether_the_goal_is_reached() -> None:
    def pair(stock_seconds: float, ours_seconds: float) -> tuple[dict[str, float], dict[str, float]]:
        return tuple({"wall": s, "cpu": s, "tokens": n} for s, n in ((stock_seconds, 100.0), (ours_seconds, 50.0)))  # type: ignore[return-value]

    found = speed_cpu.compared([pair(8.0, 2.0), pair(9.0, 1.0), pair(6.0, 2.0)], goal=4.0)
    assert (found["median"], found["low"], found["high"], found["n"]) == (4.0, 3.0, 9.0, 3)
    assert found["reached"]
    assert not speed_cpu.compared([pair(3.9, 1.0)], goal=4.0)["reached"]
    assert found["median_by_token"] == pytest.approx(2.0)  # ours wrote half the tokens
    assert found["range_holds_the_median_with_probability"] == 0.75


def test_the_floor_counts_each_token_once() -> None:
    shape, slow = filler.Shape(8, 16, 1, 2, 1, 4, 100), filler.Machine(bandwidth=1.0, flops=float("inf"))
    body = 8 * 4 * (2 * 2 + 2) + 3 * 8 * 16
    assert (shape.body, shape.head, shape.kv) == (body, 800, 8)
    one = filler.floor(shape, filler.Work(1, 1, 10, 1, 1, 0), slow, 4)
    assert one["bytes"] == one["seconds"] == 4 * (body + 800) + 4 * 8 * 10
    assert one["flops"] == 2 * body * 10 + 2 * 800 + 4 * 2 * 4 * 10 * (10 - 5)
    group = filler.floor(shape, filler.Work(1, 8, 10, 1, 2, 0), slow, 4)  # the prompt is read once for all eight
    assert group["bytes"] - one["bytes"] == 4 * (body + 800) + 8 * 4 * 8 * 11
