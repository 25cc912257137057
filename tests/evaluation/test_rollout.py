"""Episodes are functions of policy, item and seed; nothing else about the run matters."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.core.decoding import Decoding
from assay.core.errors import ConfigError, EnvironmentLost
from assay.core.records import Episode
from assay.core.seeds import derive_seed
from assay.rollout.dataset.suite import Play, Suite, choose
from assay.rollout.evaluation.measure import measure
from assay.rollout.evaluation.phases import Phases
from assay.rollout.evaluation.rollout import Lost, Pace, Rollout, attempt, play, play_baseline
from assay.rollout.policy.model import Policy
from assay_tasks.collider import Collider, ColliderSettings, generate
from tests.evaluation.failing_environment import Failing
from tests.small_policy import small_policy

TASK = Collider(ColliderSettings(surface="compact", max_turns=4, shaping=0.0, gamma=1.0))
ITEMS = [TASK.item(row) for row in generate("validation", 12, max_turns=8, labels=("rollout test",))]
SAMPLED = Decoding(1.0, 5)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return small_policy(TASK.vocabulary(), layers=2, heads=4)


def suite(draws: int = 2, seed: int = 0) -> Suite:
    return choose(ITEMS, 6, split="validation", draws=draws, seed=seed)


def by_key(rollouts: list[Rollout]) -> dict[tuple[str, int], str]:
    return {(r.episode.item_id, r.episode.draw): r.episode.model_dump_json() for r in rollouts}


def test_an_episode_does_not_depend_on_batch_size_or_order(policy: Policy) -> None:
    plays = suite().plays()
    whole = by_key(play(policy, TASK, plays, SAMPLED, pace=Pace(64)))
    assert by_key(play(policy, TASK, plays, SAMPLED, pace=Pace(5))) == whole
    assert by_key(play(policy, TASK, plays[::-1], SAMPLED, pace=Pace(7))) == whole


def test_draws_of_an_item_differ_but_meet_one_world(policy: Policy) -> None:
    plays = suite(draws=4).plays()
    assert len({p.world_seed for p in plays}) == 6
    assert len({p.seed for p in plays}) == 24
    played = play(policy, TASK, plays, SAMPLED, pace=Pace(64))
    first = [r.episode for r in played[:4]]
    assert len({tuple(t.completion for t in e.turns) for e in first}) > 1


def test_another_suite_seed_gives_other_episodes(policy: Policy) -> None:
    one = by_key(play(policy, TASK, suite(seed=0).plays(), SAMPLED, pace=Pace(64)))
    other = by_key(play(policy, TASK, suite(seed=1).plays(), SAMPLED, pace=Pace(64)))
    assert one != other
    assert suite(seed=0).digest != suite(seed=1).digest


def test_the_tokens_of_a_rollout_are_those_of_its_turns(policy: Policy) -> None:
    for rollout in play(policy, TASK, suite().plays(), SAMPLED, pace=Pace(64)):
        assert len(rollout.completion_ids) == len(rollout.mask) == len(rollout.logprobs)
        assert sum(rollout.mask) == rollout.episode.n_tokens
        assert rollout.mask[0] == rollout.mask[-1] == 1


def test_a_turn_names_the_tokens_that_it_was_conditioned_on(policy: Policy) -> None:
    for rollout in play(policy, TASK, suite().plays(), SAMPLED, pace=Pace(5)):
        begins = [
            k
            for k, (before, now) in enumerate(zip([0, *rollout.mask], rollout.mask, strict=False))
            if before < now
        ]
        contexts = [
            np.array(rollout.prompt_ids + rollout.completion_ids[:k], np.int64).tobytes() for k in begins
        ]
        digests = [hashlib.sha256(context).hexdigest()[:16] for context in contexts]
        assert digests == [turn.prompt_digest for turn in rollout.episode.turns]


def test_stored_completions_replayed_give_the_same_episode(policy: Policy) -> None:
    plays = suite().plays()
    for one, rollout in zip(plays, play(policy, TASK, plays, SAMPLED, pace=Pace(64)), strict=True):
        _, state = TASK.start(one.item, one.world_seed)
        for turn in rollout.episode.turns:
            step = TASK.step(state, turn.completion)
            assert (step.observation, step.outcome, step.action) == (
                turn.observation,
                turn.outcome,
                turn.action,
            )
            state = step.state
        assert TASK.judge(state).success == rollout.episode.success


def test_a_suite_keeps_the_proportions_of_its_split() -> None:
    items = [TASK.item(row) for row in generate("heldout", 400, max_turns=8, labels=("proportions",))]
    nulls = [sum(i.strata["kind"] == "null" for i in part) / len(part) for part in (items, _half(items))]
    assert abs(nulls[0] - nulls[1]) < 0.02


def _half(items: list) -> tuple:  # type: ignore[type-arg]
    return choose(items, 200, split="heldout", draws=1, seed=0).items


def test_a_suite_larger_than_its_split_is_refused() -> None:
    with pytest.raises(ConfigError, match="at most 12 items"):
        choose(ITEMS, 13, split="validation", draws=1, seed=0)


def test_scripted_players_leave_episodes_of_the_same_form() -> None:
    player = TASK.baselines()["adaptive"]
    episodes = play_baseline(TASK, player, suite(draws=1).plays(), "adaptive")
    assert [e.item_id for e in episodes] == [i.id for i in suite().items]
    assert all(e.parsed_rate == 1.0 for e in episodes)


def plays_apart() -> list[Play]:
    """Two draws of six items, each in a world of its own, so that a call to the environment tells which it is
    of."""
    return [
        Play(item, draw, derive_seed("play", item.id, draw), derive_seed("world", item.id, draw))
        for item in ITEMS[:6]
        for draw in range(2)
    ]


@pytest.fixture(scope="module")
def clean(policy: Policy) -> list[Rollout]:
    return play(policy, TASK, plays_apart(), SAMPLED, pace=Pace(5))


def same(one: Rollout, other: Rollout) -> bool:
    tokens = [(r.episode.model_dump_json(), r.prompt_ids, r.completion_ids, r.mask) for r in (one, other)]
    return tokens[0] == tokens[1] and one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


@pytest.mark.parametrize("call", ["start", "step 0", "step 1", "judge"])
def test_an_episode_lost_to_the_environment_leaves_all_others_as_they_were(
    policy: Policy, clean: list[Rollout], call: str
) -> None:
    victim = plays_apart()[7]
    task = Failing(TASK, {(call, victim.item.id, victim.world_seed): 99})
    found = attempt(policy, task, plays_apart(), SAMPLED, pace=Pace(5, retries=2))
    lost = found[7]
    assert isinstance(lost, Lost)
    assert lost.play == victim
    assert (lost.reason, lost.attempts, lost.retries) == (f"Timeout: no answer to {call} after 30 s", 3, 2)
    for place, one in enumerate(found):
        if place != 7:
            assert isinstance(one, Rollout) and same(one, clean[place]) and one.retries == 0


@pytest.mark.parametrize("call", ["start", "step 0", "step 1", "judge"])
def test_a_call_that_succeeds_when_made_again_leaves_no_trace_but_its_count(
    policy: Policy, clean: list[Rollout], call: str
) -> None:
    victim = plays_apart()[3]
    task = Failing(TASK, {(call, victim.item.id, victim.world_seed): 2})
    found = play(policy, task, plays_apart(), SAMPLED, pace=Pace(5, retries=2))
    assert all(same(one, other) for one, other in zip(found, clean, strict=True))
    assert [one.retries for one in found] == [2 if place == 3 else 0 for place in range(12)]


def test_a_lost_play_keeps_the_tokens_there_were_and_always_has_one(
    policy: Policy, clean: list[Rollout]
) -> None:
    eos = policy.dialogue.eos_id
    for place, call in enumerate(("start", "step 0", "step 1", "judge")):
        victim, whole = plays_apart()[place], clean[place]
        task = Failing(TASK, {(call, victim.item.id, victim.world_seed): 1})
        lost = attempt(policy, task, plays_apart(), SAMPLED, pace=Pace(12))[place]
        assert isinstance(lost, Lost) and (lost.attempts, lost.retries) == (1, 0)
        assert len(lost.completion_ids) == len(lost.mask) == len(lost.logprobs) >= 1
        if call == "start":
            assert (lost.prompt_ids, lost.completion_ids, lost.mask, lost.logprobs) == (
                [eos],
                [eos],
                [0],
                [0.0],
            )
        else:
            assert lost.prompt_ids == whole.prompt_ids and lost.mask[-1] == 1
            assert lost.completion_ids == whole.completion_ids[: len(lost.completion_ids)]
        if call in ("step 0", "step 1"):
            assert sum(lost.mask) == sum(turn.n_tokens for turn in whole.episode.turns[: int(call[-1]) + 1])


def test_what_is_measured_is_never_scored_without_its_lost_episodes(policy: Policy) -> None:
    victim = plays_apart()[2]
    task = Failing(TASK, {("step 0", victim.item.id, victim.world_seed): 99})
    with pytest.raises(EnvironmentLost, match=rf"item {victim.item.id}, draw 0: .*after 30 s \(3 attempts\)"):
        play(policy, task, plays_apart(), SAMPLED, pace=Pace(5, retries=2))
    # At once: a dead environment is not asked for every other row too, each with its own time to wait.
    assert sum(n for (call, _, _), n in task.calls.items() if call == "step 0") == 2 + 3


def test_copies_of_an_opening_share_its_failure(policy: Policy) -> None:
    plays = suite(draws=3).plays()
    task = Failing(TASK, {("start", plays[0].item.id, plays[0].world_seed): 99})
    found = attempt(policy, task, plays, SAMPLED, pace=Pace(64, retries=1))
    assert [isinstance(one, Lost) for one in found] == [True] * 3 + [False] * 15
    assert [one.retries for one in found] == [1] + [0] * 17
    assert task.calls["start", plays[0].item.id, plays[0].world_seed] == 2


def test_a_batch_that_is_lost_as_a_whole_does_not_stop_the_next(policy: Policy, clean: list[Rollout]) -> None:
    plays = plays_apart()
    task = Failing(TASK, {("start", each.item.id, each.world_seed): 9 for each in plays[:4]})
    found = attempt(policy, task, plays, SAMPLED, pace=Pace(4))
    assert [isinstance(one, Lost) for one in found] == [True] * 4 + [False] * 8
    assert all(
        isinstance(one, Rollout) and same(one, other) for one, other in zip(found[4:], clean[4:], strict=True)
    )


def test_a_bug_of_an_environment_is_no_failure_of_it_and_is_not_tried_again(policy: Policy) -> None:
    class Broken(Failing):
        def step(self, state: Any, completion: str) -> Any:
            self.calls["step", "", 0] += 1
            raise KeyError("a bug")

    task = Broken(TASK, {})
    with pytest.raises(KeyError, match="a bug"):
        attempt(policy, task, plays_apart(), SAMPLED, pace=Pace(5, retries=3))
    assert task.calls["step", "", 0] == 1


CALLS = st.tuples(st.sampled_from(["start", "step 0", "step 1", "step 2", "judge"]), st.integers(0, 11))


@pytest.mark.long
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(failures=st.dictionaries(CALLS, st.integers(1, 4), max_size=8))
def test_whatever_fails_each_play_is_either_lost_or_what_it_would_have_been(
    policy: Policy, clean: list[Rollout], failures: dict[tuple[str, int], int]
) -> None:
    plays = plays_apart()
    named = {
        (call, plays[place].item.id, plays[place].world_seed): n for (call, place), n in failures.items()
    }
    found = attempt(policy, Failing(TASK, named), plays, SAMPLED, pace=Pace(5, retries=2))
    for place, (one, whole) in enumerate(zip(found, clean, strict=True)):
        made = {"start", "judge", *(f"step {turn}" for turn in range(len(whole.episode.turns)))}
        times = [n for (call, at), n in failures.items() if at == place and call in made]
        assert isinstance(one, Lost) == any(n > 2 for n in times)
        assert isinstance(one, Lost) or (same(one, whole) and one.retries == sum(times))


def test_a_scripted_player_meets_the_same_failures() -> None:
    player, plays = TASK.baselines()["adaptive"], plays_apart()
    call = ("step 1", plays[4].item.id, plays[4].world_seed)
    whole = play_baseline(TASK, player, plays, "adaptive")

    def unwrapped(item: Any, state: Any, rng: Any) -> str:
        return player(item, state[3], rng)

    assert play_baseline(Failing(TASK, {call: 2}), unwrapped, plays, "adaptive", retries=2) == whole
    with pytest.raises(EnvironmentLost, match=f"item {plays[4].item.id}"):
        play_baseline(Failing(TASK, {call: 3}), unwrapped, plays, "adaptive", retries=2)


def test_time_is_told_by_what_was_done_and_changes_nothing(policy: Policy, clean: list[Rollout]) -> None:
    class Slow(Failing):
        def _fail(self, call: Any) -> None:
            time.sleep(0.002)

    phases, started = Phases(), time.perf_counter()
    found = play(policy, Slow(TASK, {}), plays_apart(), SAMPLED, pace=Pace(5, phases=phases))
    wall, seconds = time.perf_counter() - started, phases.take()
    assert all(same(one, other) for one, other in zip(found, clean, strict=True))
    assert set(seconds) == {"encode", "generate", "environment", "reward"}
    assert 0 < sum(seconds.values()) <= wall
    turns = sum(len(one.episode.turns) for one in found)
    assert seconds["environment"] >= 0.002 * (12 + turns) and seconds["reward"] >= 0.002 * 12


class Memory:
    """Units kept in memory; remembers which were asked for and which were put."""

    def __init__(self, units: dict[int, list[Episode]]) -> None:
        self.units, self.put_again = units, list[int]()

    def get(self, index: int) -> list[Episode] | None:
        return self.units.get(index)

    def put(self, index: int, episodes: Sequence[Episode]) -> None:
        self.units[index] = list(episodes)
        self.put_again.append(index)


def test_kept_units_are_not_played_again_and_the_report_is_the_same(policy: Policy) -> None:
    memory, told = Memory({}), list[int]()
    whole = measure(policy, TASK, suite().plays(), SAMPLED, pace=Pace(5), kept=memory)
    assert whole == measure(policy, TASK, suite().plays(), SAMPLED, pace=Pace(5)) and memory.put_again == [
        0,
        1,
        2,
    ]
    half = Memory({0: memory.units[0], 2: memory.units[2]})
    phases = Phases()
    again = measure(
        policy, TASK, suite().plays(), SAMPLED, pace=Pace(5, progress=told.append, phases=phases), kept=half
    )
    assert again == whole and half.put_again == [1] and told[:2] == [4, 4] and sum(told) == 12
    assert phases.take()
    assert measure(policy, TASK, suite().plays(), SAMPLED, pace=Pace(5, phases=phases), kept=half) == whole
    assert phases.take() == {}


def test_a_kept_unit_of_other_plays_is_played_again(policy: Policy) -> None:
    memory = Memory({})
    measure(policy, TASK, suite(seed=1).plays(), SAMPLED, pace=Pace(5), kept=memory)
    whole = measure(policy, TASK, suite().plays(), SAMPLED, pace=Pace(5))
    memory.put_again.clear()
    assert measure(policy, TASK, suite().plays(), SAMPLED, pace=Pace(5), kept=memory) == whole
    assert memory.put_again == [0, 1, 2]


def test_units_before_a_loss_are_kept(policy: Policy) -> None:
    plays, memory = suite().plays(), Memory({})
    task = Failing(TASK, {("step 0", plays[7].item.id, plays[7].world_seed): 3})
    with pytest.raises(EnvironmentLost, match="goes on with the batches"):
        measure(policy, task, suite().plays(), SAMPLED, pace=Pace(5, retries=1), kept=memory)
    assert memory.put_again == [0]
    again = measure(policy, task, suite().plays(), SAMPLED, pace=Pace(5, retries=1), kept=memory)
    assert again == measure(policy, TASK, suite().plays(), SAMPLED, pace=Pace(5)) and memory.put_again == [
        0,
        1,
        2,
    ]
