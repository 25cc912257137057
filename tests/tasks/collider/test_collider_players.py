"""Scripted players: the ladder, the attacks, the batched core, and the dialogues that teach."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from assay.core.errors import TaskError
from assay.core.seeds import derive_seed
from assay.rollout.tasks.protocol import Baseline, Item, Step, Verdict
from assay_tasks.collider import (
    COMPACT_TOKEN_PATTERN,
    Collider,
    ColliderSettings,
    baselines,
    generate,
    play_adaptive,
    rewards,
)
from assay_tasks.collider.lessons import pick_style, scenario_for_lesson, weak_action
from assay_tasks.collider.world.batch import Outcomes
from assay_tasks.collider.world.physics import global_z
from assay_tasks.collider.world.simulator import apply, begin

Play = Callable[[Collider, Item, Baseline], tuple[float, Verdict, list[Step]]]

ATTACKS = [
    "claim_mid_window",
    "always_null",
    "claim_first_peak",
    "scan_spam",
    "broken_spam",
    "hedge",
    "spend_nothing",
]


def settings(surface: Any = "compact", **changes: Any) -> ColliderSettings:
    return ColliderSettings(**({"surface": surface, "max_turns": 10, "shaping": 0.0, "gamma": 1.0} | changes))


@pytest.fixture(scope="module")
def compact() -> Collider:
    """The task with as many turns as the shipped data."""
    return Collider(settings())


@pytest.fixture(scope="module")
def items(compact: Collider) -> list[Item]:
    return [compact.item(row) for row in generate("validation", 510, max_turns=10, labels=("tests",))]


@pytest.fixture(scope="module")
def ladder(compact: Collider, items: list[Item], play: Play) -> dict[str, list[tuple[float, bool]]]:
    players = {**compact.baselines(), **compact.attacks()}
    return {
        name: [
            (reward, verdict.success)
            for reward, verdict, _ in (play(compact, item, player) for item in items)
        ]
        for name, player in players.items()
    }


def test_the_baselines_are_ordered_by_reward(
    compact: Collider, ladder: dict[str, list[tuple[float, bool]]]
) -> None:
    means = [float(np.mean([reward for reward, _ in ladder[name]])) for name in compact.baselines()]
    assert list(compact.baselines()) == ["random", "always_null", "uniform", "adaptive", "oracle_channel"]
    assert means == sorted(means)


def test_the_baselines_are_ordered_on_every_tier(
    items: list[Item], ladder: dict[str, list[tuple[float, bool]]]
) -> None:
    for tier in ("easy", "medium", "hard"):
        rows = [index for index, item in enumerate(items) if item.strata["tier"] == tier]
        for weaker, stronger in (
            ("random", "uniform"),
            ("uniform", "adaptive"),
            ("adaptive", "oracle_channel"),
        ):
            gain = np.array([ladder[stronger][i][0] - ladder[weaker][i][0] for i in rows])
            assert gain.mean() > 0.0, (tier, weaker, stronger)


def test_all_named_attacks_exist(compact: Collider) -> None:
    assert sorted(compact.attacks()) == sorted(ATTACKS)


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_earns_less_than_the_adaptive_player(
    attack: str, ladder: dict[str, list[tuple[float, bool]]]
) -> None:
    gain = np.array([a[0] - b[0] for a, b in zip(ladder["adaptive"], ladder[attack], strict=True)])
    assert len(gain) >= 500
    assert gain.mean() - 2.6 * gain.std(ddof=1) / len(gain) ** 0.5 > 0.0


def test_claims_on_null_worlds_are_rare_for_a_careful_player(compact: Collider, play: Play) -> None:
    rows = [
        row for row in generate("validation", 700, max_turns=10, labels=("nulls",)) if row["kind"] == "null"
    ]
    verdicts = [play(compact, compact.item(row), compact.baselines()["adaptive"])[1] for row in rows]
    assert np.mean([verdict.flags["false_claim"] for verdict in verdicts]) < 0.05


def test_no_null_world_reaches_five_sigma_global_even_with_decoys(compact: Collider) -> None:
    rows = [
        row for row in generate("train", 10_000, max_turns=10, labels=("nulls",)) if row["kind"] == "null"
    ]
    assert len(rows) > 2800
    assert np.mean(global_z(_batch(compact, rows).local_z, 4) >= 5.0) < 1e-3


def _batch(task: Collider, rows: list[dict[str, Any]]) -> Outcomes:
    """Return what the adaptive player does with rows of one suite, as `play` plays them."""
    items = [task.item(row) for row in rows]
    seeds = [derive_seed("world", item.id) for item in items]
    return play_adaptive([item.hidden for item in items], seeds, 10)


@pytest.mark.parametrize("suite", ["validation", "traps", "heldout_ood"])
@pytest.mark.parametrize("turns", [8, 4, 1])
def test_the_batched_core_gives_the_numbers_of_one_by_one_play(suite: str, turns: int, play: Play) -> None:
    task = Collider(settings(max_turns=turns))
    items = [task.item(row) for row in generate(suite, 120, max_turns=10, labels=("batch",))]
    by_channels: dict[tuple[str, ...], list[Item]] = {}
    for item in items:
        by_channels.setdefault(item.public.channels, []).append(item)
    for group in by_channels.values():
        seeds = [derive_seed("world", item.id) for item in group]
        outcomes = play_adaptive([item.hidden for item in group], seeds, turns)
        for row, item in enumerate(group):
            reward, verdict, steps = play(task, item, task.baselines()["adaptive"])
            assert reward == outcomes.reward[row] and verdict.success == outcomes.success[row]
            assert steps[-1].state.turn == outcomes.turns[row]
            assert (steps[-1].ending == "claim") == (outcomes.place[row] >= 0)
            if steps[-1].ending == "claim":
                assert verdict.metrics["local_z"] == outcomes.local_z[row]
                spin = steps[-1].state.verdict.spin
                assert (-1 if spin is None else spin) == outcomes.spin[row]


def test_claiming_at_three_sigma_does_not_pay(compact: Collider, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = generate("train", 1500, max_turns=10, labels=("rule",))
    null = np.array([row["kind"] == "null" for row in rows])
    patient = _batch(compact, rows)
    monkeypatch.setattr(baselines, "ADAPTIVE_RULE_Z", 3.0)
    hasty = _batch(compact, rows)
    gain = patient.reward - hasty.reward
    assert gain.mean() > 2.6 * gain.std(ddof=1) / len(gain) ** 0.5
    assert sum(hasty.place[null] >= 0) > 3 * sum(patient.place[null] >= 0)


def test_claiming_a_first_glimpse_does_not_pay_even_where_it_is_right(
    compact: Collider, items: list[Item], play: Play
) -> None:
    def hasty(item: Item, state: Any, rng: np.random.Generator) -> str:
        place = baselines.best_place(state)
        if baselines.trusted_z(state, place) >= 3.0:
            return compact.write(baselines.claim(state, place, None, baselines.CLAIM_CONFIDENCE), state)
        return compact.baselines()["adaptive"](item, state, rng)

    hurried = [play(compact, item, hasty)[:2] for item in items]
    patient = [play(compact, item, compact.baselines()["adaptive"])[0] for item in items]
    gain = np.array(patient) - np.array([reward for reward, _ in hurried])
    assert gain.mean() > 2.6 * gain.std(ddof=1) / len(gain) ** 0.5
    unproven = [
        (value, other)
        for (value, verdict), other in zip(hurried, patient, strict=True)
        if verdict.flags["channel_correct"] and verdict.flags["mass_correct"] and not verdict.success
    ]
    assert len(unproven) >= 30 and np.mean([other - value for value, other in unproven]) > 0.0


def test_a_batch_does_not_depend_on_its_neighbours() -> None:
    task = Collider(settings())
    scenarios = [task.item(row).hidden for row in generate("train", 40, max_turns=10, labels=("neighbours",))]
    seeds = list(range(40))
    whole, part = play_adaptive(scenarios, seeds, 8), play_adaptive(scenarios[7:9], seeds[7:9], 8)
    assert (whole.reward[7:9] == part.reward).all() and (whole.local_z[7:9] == part.local_z).all()


def test_a_batch_of_unequal_rules_is_refused() -> None:
    task = Collider(settings())
    rows = [
        *generate("train", 1, max_turns=10, labels=("a",)),
        *generate("train", 1, max_turns=7, labels=("b",)),
    ]
    with pytest.raises(TaskError):
        play_adaptive([task.item(row).hidden for row in rows], [1, 2], 8)


def test_a_player_that_knows_a_peak_does_not_claim_it(play: Play) -> None:
    task = Collider(settings())
    for row in generate("traps", 200, max_turns=10, labels=("peaks",)):
        item = task.item(row)
        if item.hidden.truth.decoy.kind == "known_peak":
            _, _, steps = play(task, item, task.baselines()["adaptive"])
            claim = steps[-1].state.verdict
            if claim.kind == "claim" and claim.channel == item.hidden.truth.decoy.channel:
                assert abs(claim.mass_gev / item.hidden.truth.decoy.mass_gev - 1.0) > 0.02


def known(compact: Collider, text: str) -> bool:
    tokens = re.findall(COMPACT_TOKEN_PATTERN, text)
    return "".join(tokens) == text and set(tokens) <= set(compact.vocabulary())


def test_everything_the_compact_surface_shows_is_made_of_known_tokens(compact: Collider, play: Play) -> None:
    assert len(set(compact.vocabulary())) == len(compact.vocabulary())
    chance = np.random.default_rng(11)
    for suite in ("validation", "traps", "heldout_ood"):
        for row in generate(suite, 120, max_turns=10, labels=("tokens",)):
            task, item = Collider(settings(max_turns=10)), compact.item(row)
            messages, _ = task.start(item, 4)
            assert known(compact, messages[0]["content"])
            for name in ("random", "adaptive", "oracle_channel"):
                for step in play(task, item, task.baselines()[name])[2]:
                    assert known(compact, step.observation or "") and known(compact, step.action or "")
                    assert step.outcome == "ok"
            assert str(task.step(task.start(item, 4)[1], str(chance.integers(99))).observation).startswith(
                "? L10"
            )


def test_demonstrations_speak_well_and_play_poorly(compact: Collider) -> None:
    dialogues = compact.demonstrations(np.random.default_rng(1), 300)
    for dialogue in dialogues:
        assert [message["role"] for message in dialogue] == ["user", "assistant"] * (len(dialogue) // 2)
        assert all(known(compact, message["content"]) for message in dialogue)
        assert all(compact.parse(m["content"], _any_state(compact)).outcome == "ok" for m in dialogue[1::2])
    successes, earned, claims = [], [], 0
    chance = np.random.default_rng(2)
    for seed in range(2000):
        state = begin(scenario_for_lesson(chance, 8), seed, 8)
        style = pick_style(chance)
        while state.ending is None:
            state = apply(state, weak_action(state, style, chance), None)
        successes.append(rewards.judge(state).success)
        earned.append(rewards.terminal_reward(state))
        claims += state.ending == "claim"
    # Measured: success 0.26, reward -0.53, claims 0.85; the adaptive player succeeds 0.67 of the time, and
    # earns 0.28.
    assert 0.22 < np.mean(successes) < 0.31 and np.mean(earned) < -0.4 and 0.78 < claims / 2000 < 0.92


@cache
def _any_state(task: Collider) -> object:
    return task.start(task.item(generate("train", 1, max_turns=10, labels=("any",))[0]), 1)[1]


def test_claims_of_demonstrations_copy_the_last_bin_of_their_channel(compact: Collider) -> None:
    copied = []
    for dialogue in compact.demonstrations(np.random.default_rng(3), 400):
        last = dialogue[-1]["content"]
        if last.startswith("y"):
            shown = re.findall(rf" ({last[1]}b\d\d)\+?z\d\d", dialogue[-2]["content"])
            copied.append(shown == [last[1:5]])
    assert len(copied) > 200 and np.mean(copied) > 0.95


def test_demonstrations_hold_every_good_habit_somewhere(compact: Collider) -> None:
    dialogues = compact.demonstrations(np.random.default_rng(4), 1500)
    verbs = Counter(message["content"][0] for dialogue in dialogues for message in dialogue[1::2])
    assert min(verbs[verb] for verb in "rksfayn") >= 20
    explored = 0
    for dialogue in dialogues:
        shown = re.findall(r" ([geml]b\d\d)(\+?)z\d\d", dialogue[-2]["content"])
        explored += (
            len(shown) == 4 and shown[0][1] == "+" and dialogue[-1]["content"].startswith(f"y{shown[0][0]}")
        )
    assert explored >= 100


def test_demonstrations_exist_on_the_json_surface_too(json_task: Collider) -> None:
    claims = 0
    for dialogue in json_task.demonstrations(np.random.default_rng(5), 60):
        told = [json.loads(message["content"]) for message in dialogue[1:]]
        assert all(isinstance(each, dict) for each in told)
        if told[-1]["action_type"] == "claim" and len(told) > 1:
            shown = told[-2]["channels"].get(told[-1]["channel"], {})
            claims += shown.get("best_mass_gev") == told[-1]["mass_gev"]
    assert claims > 20


def test_a_drill_is_answered_by_copying(compact: Collider) -> None:
    asked: Counter[str] = Counter()
    spins: Counter[str] = Counter()
    for question, answer in compact.drills(np.random.default_rng(6), 500):
        text, claim = question["content"], answer["content"]
        assert known(compact, text) and known(compact, claim)
        channel = text[-1]
        assert text[-3:-1] == " y"
        [shown] = re.findall(rf" ({channel}b\d\d)\+?z\d\d\dk?", text)
        measured = re.findall(rf"^a{channel}([012])z\d\d ", text)
        assert claim == f"y{shown}{measured[0] if measured else '-'}c5"
        spins[claim[-3]] += 1
        assert compact.parse(claim, _any_state(compact)).outcome == "ok"
        asked[channel] += 1
    assert min(asked.values()) > 80
    assert sorted(spins) == ["-", "0", "1", "2"] and min(spins.values()) > 60


def test_a_json_drill_asks_for_every_channel_of_a_state(json_task: Collider) -> None:
    for dialogue in json_task.drills(np.random.default_rng(6), 100):
        state, _ = json.JSONDecoder().raw_decode(dialogue[0]["content"])
        answers = [json.loads(answer["content"]) for answer in dialogue[1::2]]
        assert sorted(answer["channel"] for answer in answers) == sorted(state["channels"])
        for question, answer in zip(dialogue[::2], answers, strict=True):
            kind, shown = answer["action_type"], state["channels"][answer["channel"]]
            assert question["content"].endswith(f'{{"{kind}":"{answer["channel"]}"}}')
            told = {"claim": ("mass_gev", "best_mass_gev"), "take_data": ("blocks", "blocks")}[kind]
            assert answer[told[0]] == shown[told[1]]
            assert json_task.parse(json.dumps(answer), _any_state(json_task)).outcome == "ok"


def test_lessons_depend_on_the_generator_alone(compact: Collider) -> None:
    for lesson in (compact.demonstrations, compact.drills):
        assert lesson(np.random.default_rng(9), 20) == lesson(np.random.default_rng(9), 20)
