"""The controls of a claim: base against base flags broken pipelines and no others; random rewards are told
from learning."""

from __future__ import annotations

import math
import re

import pytest
from tests.house import ROOT

from assay.core.config.composition import Selection, compose
from assay.core.config.settings import Params, PretrainedBase
from assay.core.records import Episode, HealthSummary, RuleSummary
from assay.core.seeds import rng
from assay.verdict.evidence.claim.aa_test import AA_LEVEL, Control, aa_control
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.random_reward import control_left_out, random_reward_control
from assay.verdict.evidence.words.remarks import remark
from assay.verdict.evidence.words.sentences import random_reward_said
from conftest import codes, make_claim, make_plan
from synthetic_episodes import arm

PIPELINES = 240


def control_of(base: list[Episode], again: list[Episode] | None, draws: int = 4) -> Control:
    return aa_control(base, again, measure="success_rate", draws=draws, rng=rng("aa"))


def test_at_most_one_sound_pipeline_in_twenty_is_flagged() -> None:
    flagged = tested = 0
    for k in range(PIPELINES):
        n, rate = (8, 12, 20, 30)[k % 4], (0.1, 0.35, 0.6)[k % 3]
        found = control_of(arm(f"pipeline {k}", rate, clusters=n, items_per_cluster=1), None)
        tested += found.passed is not None
        flagged += found.passed is False
    assert tested == PIPELINES and flagged / PIPELINES <= 0.05


def mixed_up(seed: int) -> list[Episode]:
    """Return a base whose second half of draws was played by another policy: an adapter that was left on."""
    first, second = arm(f"b{seed}", 0.3, clusters=30), arm(f"t{seed}", 0.8, clusters=30)
    return [b if b.draw < 2 else t for b, t in zip(first, second, strict=True)]


def test_a_pipeline_that_mixes_up_policies_is_flagged() -> None:
    assert all(control_of(mixed_up(k), None).passed is False for k in range(20))
    found = make_claim(mixed_up(0), arm("after", 0.9, clusters=30))
    assert found.verdict == "NOT EVALUABLE" and "base and base" in found.sentence
    assert not re.search(r"\d", found.sentence)


def test_draws_that_share_their_seed_are_no_draws(before: list[Episode], after: list[Episode]) -> None:
    leaked = [e.model_copy(update={"seed": 7}) for e in before]
    found = make_claim(leaked, after)
    assert found.verdict == "NOT EVALUABLE" and codes(found.reasons) == ["seeds_repeat"]
    assert "share sampling seeds" in found.sentence


def test_p_and_level_of_the_control_are_shown(claim: Claim) -> None:
    assert claim.control is not None and claim.control.p is not None
    assert claim.control.level == AA_LEVEL < claim.plan.alpha


@pytest.mark.parametrize("n", [6, 7])
def test_a_control_that_could_not_flag_anything_counts_as_not_run(n: int) -> None:
    found = control_of(arm("base", 0.3, clusters=n), arm("not the base", 1.0, clusters=n, first_draw=4))
    assert (found.verdict, found.passed) == ("NOT RUN", None) and found.reason.code == "aa_never_flags"
    assert control_of(arm("base", 0.3, clusters=8), None).passed is not None


ASKED = make_plan(controls=("aa", "random_reward"))


def random_arm(rate: float) -> list[Episode]:
    return arm(f"paid by the toss of a coin {rate}", rate)


def test_random_rewards_that_change_nothing_leave_the_claim_as_it_is(
    before: list[Episode], after: list[Episode]
) -> None:
    found = make_claim(before, after, ASKED, random_arm=random_arm(0.35))
    assert found.verdict == "IMPROVED" and found.random_reward is not None
    control = found.random_reward
    assert (control.direction, control.trained_is_ahead) == ("not shown", True)
    assert control.ahead is not None and control.ahead.low is not None and control.ahead.low > 0
    assert not any("random" in code for code in codes(found.warnings))
    assert "ahead by +" in random_reward_said(control)
    assert Claim.model_validate_json(found.model_dump_json()) == found


def test_random_rewards_that_improve_too_are_said_plainly(
    before: list[Episode], after: list[Episode]
) -> None:
    found = make_claim(before, after, ASKED, random_arm=random_arm(0.66))
    assert found.random_reward is not None and found.random_reward.direction == "better"
    assert found.verdict == "NO SKILL SHOWN" and "the training for random rewards" in found.reason
    assert {"random_rewards_improved", "random_rewards_not_beaten"} <= set(codes(found.warnings))


def test_the_same_numbers_come_from_the_function_alone(before: list[Episode], after: list[Episode]) -> None:
    one = random_reward_control(before, random_arm(0.5), after, ASKED, rng(1), alpha=0.05)
    other = random_reward_control(before[::-1], random_arm(0.5)[::-1], after[::-1], ASKED, rng(1), alpha=0.05)
    assert one == other and one.n_items == 40


def test_an_arm_that_was_not_asked_for_is_said_not_to_have_run(claim: Claim) -> None:
    assert (
        claim.random_reward is None
        and random_reward_said(claim.random_reward) == "Random-reward arm: not run."
    )


def test_a_control_that_the_plan_asks_for_must_be_there_and_be_whole(
    before: list[Episode], after: list[Episode]
) -> None:
    absent = make_claim(before, after, ASKED)
    assert absent.verdict == "NOT EVALUABLE" and codes(absent.reasons) == ["random_reward_not_played"]
    torn = make_claim(before, after, ASKED, random_arm=random_arm(0.35)[:-1])
    assert torn.verdict == "NOT EVALUABLE" and "missing" in torn.reason
    volunteered = make_claim(before, after, random_arm=random_arm(0.35)[:-1])
    assert volunteered.verdict == "IMPROVED"
    assert "random_reward_not_evaluable" in codes(volunteered.warnings)


def test_alarms_of_the_control_stand_beside_it_by_their_rules(
    before: list[Episode], after: list[Episode]
) -> None:
    red = RuleSummary(rule="entropy", level="RED", first_step=3, worst_step=5, times=1)
    amber = RuleSummary(rule="kl", level="AMBER", first_step=3, worst_step=5, times=1)
    health = HealthSummary(worst="RED", rules=(red, amber), unmeasured=("clip",))
    found = random_reward_control(before, random_arm(0.5), after, ASKED, rng(1), alpha=0.05, health=health)
    assert (found.red, found.unmeasured) == (("entropy from step 5",), ("clip",))
    said = random_reward_said(found)
    assert "RED in that training: entropy from step 5." in said and "Not measured in it: clip." in said


def test_earlier_openings_make_the_control_no_quieter(before: list[Episode], after: list[Episode]) -> None:
    found = random_reward_control(before, random_arm(0.7), after, ASKED, rng(1), alpha=0.05)
    late = random_reward_control(before, random_arm(0.7), after, ASKED, rng(1), alpha=1e-6)
    assert found.direction == late.direction == "better" and not late.trained_is_ahead


def in_words(episodes: list[Episode], say: str | None = None, parsed: bool = True) -> list[Episode]:
    """Return episodes in which each says something of its own, or all the same; read or not."""
    found = []
    for k, each in enumerate(episodes):
        update = {"completion": say or f"answer {k}", "outcome": "ok" if parsed else "failed"}
        turns = tuple(turn.model_copy(update=update) for turn in each.turns)
        found.append(each.model_copy(update={"turns": turns}))
    return found


@pytest.mark.parametrize(
    ("random", "code"),
    [
        (in_words(random_arm(0.03)), "control_lost"),
        (in_words(random_arm(0.35), parsed=False), "control_lost"),
        (in_words(random_arm(0.35), say="no"), "control_says_one_thing"),
        (in_words(random_arm(0.28)), None),
    ],
)
def test_to_be_ahead_of_a_control_that_collapsed_shows_nothing_and_counts_for_nothing(
    random: list[Episode], code: str | None, before: list[Episode], after: list[Episode]
) -> None:
    found = make_claim(in_words(before), in_words(after), ASKED, random_arm=random)
    control = found.random_reward
    assert control is not None and control.comparable
    if code is None:
        assert control.collapsed == () and control.trained_is_ahead
        assert "random_rewards_collapsed" not in codes(found.warnings)
        return
    assert code in codes(control.collapsed) and control.trained_is_ahead is None
    assert "random_rewards_collapsed" in codes(found.warnings)
    assert "it collapsed" in random_reward_said(control)
    # Neither does it stand in the way: what else needs no skill was beaten.
    assert found.verdict == "IMPROVED"


def test_the_share_of_steps_of_a_cheaper_control_is_hashed_and_said(
    before: list[Episode], after: list[Episode]
) -> None:
    cheap = make_plan(controls=("aa", "random_reward"), control_share=0.34)
    assert cheap != ASKED and "control_share" not in ASKED.model_dump(exclude_defaults=True)
    found = make_claim(before, after, cheap, random_arm=random_arm(0.35))
    assert "Random-reward arm (34 % of the steps): " in random_reward_said(found.random_reward)


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "configs/grpo").glob("[!_]*.yaml")))
def test_every_preset_asks_for_random_rewards_and_without_them_the_claim_says_so(name: str) -> None:
    values = compose(ROOT, Selection(grpo=name, task="collider", seed=0)).values
    params = Params.model_validate(values)
    assert control_left_out(params) == []
    if isinstance(params.base, PretrainedBase):
        assert params.control_steps == math.ceil(0.34 * params.train.steps)
    values["claim"]["controls"] = ["aa"]
    assert codes(control_left_out(Params.model_validate(values))) == ["random_reward_left_out"]


def test_that_no_such_control_was_asked_for_is_the_first_warning(
    before: list[Episode], after: list[Episode]
) -> None:
    notes = [remark("no_gold", n=1, of=2), remark("random_reward_left_out")]
    said = codes(make_claim(before, after, notes=notes).warnings)
    assert said[0] == "random_reward_left_out" and "no_gold" in said[1:]
