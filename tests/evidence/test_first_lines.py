"""What a gain may hide is said by a code of its own, and the first lines count what they say."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import pytest

from assay.core.records import Episode
from assay.core.seeds import rng
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.which_items import uneven
from assay.verdict.evidence.words.remarks import remark
from conftest import codes, make_claim, make_plan, never_right
from synthetic_episodes import arm

PLAIN = {"secondary": (), "guardrails": {}, "draws": 2}


def played(
    name: str, rate: Callable[[int], float], *, draws: int = 2, items: int = 120, reward: float = 0.0
) -> list[Episode]:
    """Return an arm in which item k is right at a rate of its own."""
    found = []
    for episode in arm(name, 0.5, clusters=items, items_per_cluster=1, draws=draws, parse_rate=1.0):
        k = int(episode.item_id[5:])
        won = bool(rng("first lines", name, k, episode.draw).random() < rate(k))
        found.append(episode.model_copy(update={"success": won, "reward": float(won) + reward}))
    return found


def said(after: Callable[[int], float]) -> list[str]:
    arms = played("before", lambda k: 0.4, draws=4), played("after", after, draws=4)
    return codes(make_claim(*arms, make_plan(**PLAIN | {"draws": 4})).warnings)


@pytest.mark.parametrize(
    ("code", "after", "rings"),
    [
        ("gain_in_some_items", lambda k: 1.0 if k % 5 < 2 else 0.4, True),
        ("gain_in_some_items", lambda k: 0.75, False),
        ("items_harmed", lambda k: 1.0 if k % 5 < 3 else 0.1, True),
        ("items_harmed", lambda k: 0.75, False),
        ("arm_at_bound", lambda k: 1.0, True),
        ("arm_at_bound", lambda k: 0.97, False),
    ],
)
def test_what_a_gain_may_hide_is_said_and_an_even_one_rings_nothing(
    code: str, after: Callable[[int], float], rings: bool
) -> None:
    assert (code in said(after)) == rings


def test_gains_of_one_size_for_all_are_seldom_called_harm() -> None:
    rung = 0
    for n in range(30):
        arms = played(f"b{n}", lambda k: 0.4, items=60), played(f"a{n}", lambda k: 0.5, items=60)
        rung += "items_harmed" in codes(uneven(*arms, "success_rate", higher=True))
    assert rung <= 1


def test_a_base_at_nothing_is_in_the_first_line() -> None:
    arms = played("before", lambda k: 0.0), played("after", lambda k: 0.7)
    assert "But: exactly 0 % before" in make_claim(*arms, make_plan(**PLAIN)).sentence


@pytest.mark.parametrize(("known", "rings"), [(None, True), ((-4.0, 2.0), False)])
def test_rewards_that_fall_while_nothing_tests_them_are_said(
    known: tuple[float, float] | None, rings: bool
) -> None:
    plan = make_plan(**PLAIN | {"secondary": ("mean_reward",), "reward_range": known})
    arms = played("before", lambda k: 0.4), played("after", lambda k: 0.8, reward=-3.0)
    found = make_claim(*arms, plan)
    assert ("reward_fell" in codes(found.warnings)) == rings
    assert rings or found.verdict == "IMPROVED WITH REGRESSIONS"


def test_one_answer_for_all_items_is_said_whatever_rivals_the_plan_has() -> None:
    before, after = played("before", lambda k: 0.2), played("after", lambda k: 0.7)

    def saying(one: list[Episode], text: Callable[[int], str]) -> list[Episode]:
        return [
            e.model_copy(
                update={"turns": tuple(t.model_copy(update={"completion": text(n)}) for t in e.turns)}
            )
            for n, e in enumerate(one)
        ]

    varied, constant = saying(before, lambda n: f"label {n % 4}"), saying(after, lambda n: " A ")
    spelled = saying(after, lambda n: ("A", "a.", "Please: A!", '"A"')[n % 4])
    for one in (constant, spelled):
        assert "one_answer" in codes(make_claim(varied, one, make_plan(**PLAIN)).warnings)
    assert "one_answer" not in codes(make_claim(constant, varied, make_plan(**PLAIN)).warnings)
    signs = saying(after, lambda n: "+-*/"[n % 4])
    assert "one_answer" not in codes(make_claim(varied, signs, make_plan(**PLAIN)).warnings)


@pytest.mark.parametrize(("times", "rings"), [(6, True), (1, False)])
def test_more_turns_an_episode_are_said(times: int, rings: bool) -> None:
    before, after = played("before", lambda k: 0.4), played("after", lambda k: 0.8)
    longer = [e.model_copy(update={"turns": e.turns * times}) for e in after]
    found = make_claim(before, longer, make_plan(**PLAIN))
    assert ("more_turns" in codes(found.warnings)) == rings
    assert not rings or "6.0 times the turns per episode" in found.sentence


def told(claim: Claim, code: str) -> dict[str, object]:
    return next(each.values for each in claim.first_lines if each.code == code)  # type: ignore[return-value]


def test_the_first_lines_count_items_draws_and_what_was_never_solved() -> None:
    before, after = played("before", lambda k: k % 3 / 3), played("after", lambda k: 0.6)
    again = [
        e.model_copy(update={"draw": e.draw + 2, "seed": e.seed + 1})
        for e in played("again", lambda k: k % 3 / 3)
    ]
    found = make_claim(before, after, make_plan(**PLAIN), base_again=again)
    wins = [{}, {}, {}]  # type: list[dict[str, list[bool]]]
    for k, one in enumerate((before, again, after)):
        for each in one:
            wins[k].setdefault(each.item_id, []).append(each.success)
    b, g, a = wins
    moved = told(found, "items_moved")
    assert moved["better"] == sum(sum(a[i]) > sum(b[i]) for i in b)
    assert moved["worse"] == sum(sum(a[i]) < sum(b[i]) for i in b)
    share = told(found, "any_and_all")
    assert share["any_after"] == pytest.approx(sum(any(a[i]) for i in a) / len(a))
    assert share["all_before"] == pytest.approx(sum(all(b[i]) for i in b) / len(b))
    never = [i for i in b if not any(b[i] + g[i])]
    values = told(found, "never_solved")
    assert (values["n"], values["draws"]) == (len(never), 4)
    assert values["solved"] == sum(any(a[i]) for i in never)
    # By luck: over all ways to take two of the four draws for new ones, where the other two fail.
    chosen = [
        any(four[j] for j in new)
        for i in b
        for four in [b[i] + g[i]]
        for new in combinations(range(4), 2)
        if not any(four[j] for j in range(4) if j not in new)
    ]
    assert values["by_luck"] == pytest.approx(sum(chosen) / len(chosen))


def test_as_many_more_draws_of_the_same_policy_solve_no_more_than_is_said() -> None:
    rates = [k / 119 * 0.5 for k in range(120)]
    four, two = played("four", lambda k: rates[k], draws=4), played("two", lambda k: rates[k])
    draws: dict[str, list[bool]] = {}
    for each in four:
        draws.setdefault(each.item_id, []).append(each.success)
    half = [e for e in four if e.draw < 2]
    again = [e for e in four if e.draw >= 2]
    found = make_claim(half, two, make_plan(**PLAIN), base_again=again)
    values = told(found, "never_solved")
    n, solved = int(str(values["n"])), int(str(values["solved"]))
    error = math.sqrt(0.25 / n)
    assert solved / n <= float(str(values["by_luck"])) + 2 * error


def test_graded_scores_count_items_by_what_they_gained() -> None:
    before, after = played("before", lambda k: 0.6), played("after", lambda k: 0.6)
    half = [e.model_copy(update={"flags": {"score": 0.7}}) for e in after]
    whole = [e.model_copy(update={"flags": {"score": float(e.success)}}) for e in before]
    plan = make_plan(**PLAIN | {"primary": "score"})
    found = make_claim(
        whole,
        half,
        plan,
        rivals={"null": [e.model_copy(update={"flags": {"score": 0.0}}) for e in never_right(before)]},
    )
    moved = told(found, "items_moved")
    gains = {e.item_id: 0.0 for e in before}
    for sign, one in ((-1, whole), (1, half)):
        for e in one:
            gains[e.item_id] += sign * float(e.flags["score"] or 0.0)
    assert (moved["better"], moved["worse"]) == (
        sum(g > 0 for g in gains.values()),
        sum(g < 0 for g in gains.values()),
    )
    assert "any_and_all" not in codes(found.first_lines) and "never_solved" not in codes(found.first_lines)


BEFORE, AFTER = arm("base", 0.35, clusters=60), arm("trained", 0.65, clusters=60)


@pytest.mark.parametrize(
    ("rate", "verdict", "head"),
    [
        (
            0.95,
            "IMPROVED, BUT PROMPTING IS BETTER",
            "But: the untrained base (few_shot) does better without training",
        ),
        (
            0.65,
            "IMPROVED",
            "But: not shown to differ from the untrained base (few_shot), which takes no training",
        ),
        (0.05, "IMPROVED", ""),
    ],
)
def test_what_one_would_do_instead_of_training_decides_the_word(rate: float, verdict: str, head: str) -> None:
    plan = make_plan(
        rivals={"null": "trivial", "few_shot": "instead of training"}, guardrails={}, secondary=()
    )
    rivals = {"null": never_right(BEFORE), "few_shot": arm("few", rate, clusters=60)}
    found = make_claim(BEFORE, AFTER, plan, rivals=rivals)
    assert found.verdict == verdict and (head in found.sentence if head else "But:" not in found.sentence)
    elsewhere = make_claim(BEFORE, AFTER, plan, rivals=rivals, split="tasks", training_seeds=())
    assert elsewhere.verdict == verdict.replace("IMPROVED", "BETTER")


def test_of_several_rivals_of_a_kind_the_sentence_names_the_strongest() -> None:
    names = {
        "null": "trivial",
        "random": "trivial",
        "greedy": "instead of training",
        "few_shot": "instead of training",
    }
    rivals = {"null": never_right(BEFORE), "random": arm("r", 0.2, clusters=60)}
    rivals |= {"greedy": arm("g", 0.3, clusters=60), "few_shot": never_right(BEFORE)}
    sentence = make_claim(BEFORE, AFTER, make_plan(rivals=names), rivals=rivals).sentence
    assert (
        "random (best of 2 trivial players, +" in sentence
        and "the untrained base (greedy, best of 2, +" in sentence
    )
    assert "null" not in sentence and "few_shot" not in sentence


def test_size_is_judged_by_the_interval_at_the_deciding_level_and_both_are_printed() -> None:
    plan = make_plan(smallest_effect_points=20.0, guardrails={}, secondary=())
    first, later = make_claim(BEFORE, AFTER, plan), make_claim(BEFORE, AFTER, plan, level=3e-4)
    assert first.difference == later.difference and first.difference_at_level is None
    assert first.difference is not None and later.difference_at_level is not None
    low, wide = first.difference.low, later.difference_at_level.low
    assert low is not None and wide is not None and wide < 0.2 < low
    assert first.effect is not None and first.effect.size == "matters"
    assert later.effect is not None and (later.effect.direction, later.effect.size) == ("better", "not shown")
    assert "95 % interval" in later.sentence and "where the interval is" in later.sentence


def test_the_worse_side_of_a_guardrail_is_not_quieter_after_many_looks() -> None:
    plan = make_plan(guardrails={"parsed_rate": 0.05}, secondary=())
    rash = arm("rash", 0.9, clusters=60, parse_rate=0.7)
    for level in (0.05, 1e-4):
        found = make_claim(BEFORE, rash, plan, level=level)
        assert remark("worse_beside", measures=["parsed_rate"]) in found.reasons
