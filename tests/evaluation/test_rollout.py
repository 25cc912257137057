"""Episodes are functions of policy, item and seed; nothing else about the run matters."""

from __future__ import annotations

import pytest

from assay.config.settings import TinyArchitecture
from assay.errors import ConfigError
from assay.evaluation.rollout import Rollout, play, play_baseline
from assay.evaluation.suite import Suite, choose
from assay.policy import tiny
from assay.policy.decoding import Decoding
from assay.policy.dialogue import Dialogue
from assay.policy.model import Policy
from assay.tasks.collider import Collider, ColliderSettings, generate

TASK = Collider(ColliderSettings(surface="compact", max_turns=4, shaping=0.0, gamma=1.0))
ITEMS = [TASK.item(row) for row in generate("validation", 12, max_turns=8, labels=("rollout test",))]
SAMPLED = Decoding(1.0, 5)


@pytest.fixture(scope="module")
def policy() -> Policy:
    tokenizer = tiny.build_tokenizer(TASK.vocabulary())
    shape = TinyArchitecture(
        hidden_size=32, intermediate_size=64, layers=2, heads=4, max_positions=512, initializer_range=0.05
    )
    return Policy(tiny.build_model(shape, tokenizer, 3), tokenizer, Dialogue(tokenizer), "test")


def suite(draws: int = 2, seed: int = 0) -> Suite:
    return choose(ITEMS, 6, split="validation", draws=draws, seed=seed)


def by_key(rollouts: list[Rollout]) -> dict[tuple[str, int], str]:
    return {(r.episode.item_id, r.episode.draw): r.episode.model_dump_json() for r in rollouts}


def test_an_episode_does_not_depend_on_batch_size_or_order(policy: Policy) -> None:
    plays = suite().plays()
    whole = by_key(play(policy, TASK, plays, SAMPLED, batch_size=64))
    assert by_key(play(policy, TASK, plays, SAMPLED, batch_size=5)) == whole
    assert by_key(play(policy, TASK, plays[::-1], SAMPLED, batch_size=7)) == whole


def test_draws_of_an_item_differ_but_meet_one_world(policy: Policy) -> None:
    plays = suite(draws=4).plays()
    assert len({p.world_seed for p in plays}) == 6
    assert len({p.seed for p in plays}) == 24
    played = play(policy, TASK, plays, SAMPLED, batch_size=64)
    first = [r.episode for r in played[:4]]
    assert len({tuple(t.completion for t in e.turns) for e in first}) > 1


def test_another_suite_seed_gives_other_episodes(policy: Policy) -> None:
    one = by_key(play(policy, TASK, suite(seed=0).plays(), SAMPLED, batch_size=64))
    other = by_key(play(policy, TASK, suite(seed=1).plays(), SAMPLED, batch_size=64))
    assert one != other
    assert suite(seed=0).digest != suite(seed=1).digest


def test_the_tokens_of_a_rollout_are_those_of_its_turns(policy: Policy) -> None:
    for rollout in play(policy, TASK, suite().plays(), SAMPLED, batch_size=64):
        assert len(rollout.completion_ids) == len(rollout.mask) == len(rollout.logprobs)
        assert sum(rollout.mask) == rollout.episode.n_tokens
        assert rollout.mask[0] == rollout.mask[-1] == 1


def test_stored_completions_replayed_give_the_same_episode(policy: Policy) -> None:
    plays = suite().plays()
    for one, rollout in zip(plays, play(policy, TASK, plays, SAMPLED, batch_size=64), strict=True):
        _, state = TASK.start(one.item, one.world_seed)
        for turn in rollout.episode.turns:
            step = TASK.step(state, turn.completion)
            assert (step.observation, step.outcome, step.action) == (turn.observation, turn.outcome, turn.action)
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
