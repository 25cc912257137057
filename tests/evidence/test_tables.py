"""Tables show every number with its interval, and missing as missing; what no comparison shows is said in
words."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from tests.tasks.structured.material import CALL_GOLD, GOLD, call_row, row, settings

from assay.core.records import Episode, HealthSummary, Interval, TrainFacts
from assay.verdict.evidence.claim.base_facts import BaseFacts, base_said
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.differences import deltas
from assay.verdict.evidence.claim.warnings import cut_off, empty, no_gold, of_training
from assay.verdict.evidence.claim.what_was_run import run_frame
from assay.verdict.evidence.figures.verdict_figures import validity_frame
from assay.verdict.evidence.formatting import interval_text
from assay.verdict.evidence.tables.claim_tables import (
    BeforeAfter,
    before_after_metrics,
    ladder_frame,
    main_measures,
    measures_frame,
    readme_block,
)
from assay.verdict.evidence.words.remarks import remark
from assay_tasks.collider import Collider, ColliderSettings, generate
from assay_tasks.structured import Structured
from conftest import make_claim, make_report
from made_pages import FACTS
from synthetic_episodes import SUITE, arm
from synthetic_structured import FLAGS, STRATA, structured_arm


def gaps_of(before: list[Episode], after: list[Episode]) -> dict[str, Interval]:
    report = make_report(before, draws=len({episode.draw for episode in before}))
    return deltas(before, after, list(report.measures), 0)


def test_before_after_metrics_start_with_the_contracted_keys(
    before: list[Episode], after: list[Episode]
) -> None:
    found = before_after_metrics(make_report(before), make_report(after, "a" * 64), gaps_of(before, after))
    keys = ["n", "mean_reward", "median_reward", "success_rate", "channel_acc", "mass_acc"]
    for side in (found.pre, found.post, found.delta):
        assert list(side)[:6] == keys
        assert {"mean_reward_low", "success_rate_high", "median_reward_low"} <= set(side)
    assert found.greedy is None
    assert BeforeAfter.model_validate_json(found.model_dump_json()) == found


def test_the_delta_is_after_minus_before(before: list[Episode], after: list[Episode]) -> None:
    found = before_after_metrics(make_report(before), make_report(after), gaps_of(before, after))
    for name in ("mean_reward", "success_rate", "median_reward"):
        pre, post = found.pre[name], found.post[name]
        assert pre is not None and post is not None
        assert found.delta[name] == pytest.approx(post - pre)


def test_greedy_stands_beside_sampled(before: list[Episode], after: list[Episode]) -> None:
    one = [[e for e in episodes if e.draw == 0] for episodes in (before, after)]
    reports = [make_report(episodes, decoding="greedy", draws=1) for episodes in one]
    greedy = (reports[0], reports[1], gaps_of(*one))
    found = before_after_metrics(make_report(before), make_report(after), gaps_of(before, after), greedy)
    assert found.greedy is not None and found.greedy.pre["n"] == 40


def test_the_readme_block_holds_claim_strata_and_ladder(
    before: list[Episode], after: list[Episode], claim: Claim
) -> None:
    first, second = make_report(before), make_report(after, "a" * 64)
    players = {
        "random": make_report(arm("random", 0.0, parse_rate=1.0)),
        "oracle_channel": make_report(arm("oracle_channel", 1.3, parse_rate=1.0)),
    }
    gaps = deltas(before, after, list(first.measures), 0)
    text = readme_block(claim, first, second, gaps, baselines=players, ends=("random", "oracle_channel"))
    assert claim.sentence in text and text.startswith("**IMPROVED (a gain that matters).**")
    for word in ("tier=hard", "| oracle_channel |", "| random |"):
        assert word in text
    assert text == readme_block(
        claim, first, second, gaps, baselines=players, ends=("random", "oracle_channel")
    )


def test_the_ends_of_the_ladder_and_further_tables_are_the_tasks_own(
    before: list[Episode], after: list[Episode], claim: Claim
) -> None:
    first, second = make_report(before), make_report(after)
    players = {"silent": make_report(arm("silent", 0.0)), "gold": make_report(arm("gold", 1.3))}
    further = {"Prices by shop": pd.DataFrame({"shop": ["corner"], "price": [3]})}
    text = readme_block(claim, first, second, {}, baselines=players, ends=("silent", "gold"), further=further)
    assert "score: 0 = silent, 1 = gold" in text and "| corner | 3 |" in text and "Prices by shop:" in text
    frame = ladder_frame(players, first, second, floor="silent", ceiling="gold")
    scores = dict(zip(frame["player"], frame["normalised score"], strict=True))
    assert (scores["silent"], scores["gold"]) == ("0.000", "1.000")


def test_the_readme_shows_the_main_measures_and_the_report_all(
    before: list[Episode], after: list[Episode]
) -> None:
    cold = [
        [e.model_copy(update={"flags": e.flags | {"mass_correct": False, "blocked": False}}) for e in arm]
        for arm in (before, after)
    ]
    first, second = make_report(cold[0]), make_report(cold[1])
    names = [
        "mean_reward",
        "success_rate",
        "channel_correct_rate",
        "mass_correct_rate",
        "discovered_rate",
        "parsed_rate",
    ]
    assert main_measures(first, second) == [*names, "mean_tokens_per_completion"]
    text = readme_block(make_claim(*cold), first, second, deltas(cold[0], cold[1], list(first.measures), 0))
    assert "all measures: report.html" in text and "| mass_acc | 0.0" in text
    for name in ("blocked_rate", "median_reward", "mean_n_steps", "part."):
        assert f"| {name}" not in text
    assert "blocked_rate" in set(measures_frame(first, second, {})["measure"])


def test_a_missing_interval_is_explained_once(
    before: list[Episode], after: list[Episode], claim: Claim
) -> None:
    first, second = make_report(before), make_report(after)
    text = readme_block(claim, first, second, deltas(before, after, list(first.measures), 0))
    assert text.count("[interval missing]") > 1  # every completion of an arm has as many tokens
    assert text.count("\n[interval missing]: too few scenarios") == 1


def test_a_claim_that_is_not_evaluable_shows_no_tables(before: list[Episode], after: list[Episode]) -> None:
    found = make_claim(before, after, suites=(SUITE, "x" * 64))
    text = readme_block(found, make_report(before), make_report(after), {})
    assert "|" not in text and text.startswith("**NOT EVALUABLE.**")


def test_without_floor_or_ceiling_the_score_is_missing(before: list[Episode], after: list[Episode]) -> None:
    frame = ladder_frame(
        {}, make_report(before), make_report(after), floor="random", ceiling="oracle_channel"
    )
    assert list(frame["normalised score"]) == ["missing", "missing"]
    assert list(frame["player"]) == ["policy before", "policy after"]


def test_the_untrained_adapter_and_another_machine_are_named() -> None:
    assert of_training(FACTS, None) == []
    odd = FACTS.model_copy(update={"chosen_step": 0, "other_machines": 1})
    assert of_training(odd, None) == [remark("untrained"), remark("other_machines", times=1)]


@pytest.mark.parametrize(
    ("spread", "said"),
    [
        ([0.0] * 4, "In every step all rewards were equal"),
        ([0.0, 0.0, 0.0, 0.1], "In 75 % of 4 steps"),
        ([0.0] * 999 + [0.1], "In 99 % of 1000 steps"),
        ([0.0, 0.0, np.nan, 0.1], "In 67 % of 3 steps"),
        ([0.0, 0.1], None),
        ([np.nan], None),
        ([], None),
        (None, None),
    ],
)
def test_a_training_without_spread_is_named_with_its_share(
    spread: list[float] | None, said: str | None
) -> None:
    found = [str(each) for each in of_training(FACTS, spread)]
    assert found == [] if said is None else found[0].startswith(said)


def cut(episodes: list[Episode], n: int) -> list[Episode]:
    """Return the episodes with the last turn of the first n cut off and no other."""
    return [
        e.model_copy(update={"turns": tuple(t.model_copy(update={"truncated": k < n}) for t in e.turns)})
        for k, e in enumerate(episodes)
    ]


def test_completions_that_were_cut_off_are_said_for_both_arms() -> None:
    arm = structured_arm("base", 0.3)
    few, many = make_report(cut(arm, 19)), make_report(cut(arm, 48))
    said = "9.9 % of completions before and 25.0 % of completions after were cut off at task.max_new_tokens."
    assert [str(each) for each in cut_off(few, many)] == [said]
    assert cut_off(many, few) and not cut_off(few, few)


@pytest.mark.parametrize(("share", "said"), [(0.0, False), (0.05, False), (0.25, True), (1.0, True)])
def test_completions_that_are_empty_are_said(share: float, said: bool) -> None:
    arm = structured_arm("base", 0.3)
    n = round(share * len(arm))
    silent = [
        e.model_copy(update={"turns": tuple(t.model_copy(update={"completion": " "}) for t in e.turns)})
        for e in arm[:n]
    ]
    found = empty([*silent, *arm[n:]], arm)
    wanted = remark("empty", arms=[{"arm": "before", "n": n, "of": len(arm)}])
    assert found == ([wanted] if said else [])


def test_items_without_gold_are_counted_where_the_task_knows_exact_answers(before: list[Episode]) -> None:
    arm = structured_arm("base", 0.3)
    assert no_gold([*arm, *structured_arm("trained", 0.8)], FLAGS) == [remark("no_gold", n=4, of=48)]
    assert no_gold(arm[:44], FLAGS) == []
    (one,) = no_gold(arm[44:48], FLAGS)
    assert str(one) == "1 of 1 item has no gold: any valid answer counts as a success there."
    assert no_gold(before, ("discovered",)) == []


BEFORE, AFTER = structured_arm("base", 0.3), structured_arm("trained", 0.85)


def test_all_items_come_first_then_every_stratum_of_every_label() -> None:
    before, after = make_report(BEFORE), make_report(AFTER)
    frame = validity_frame(before, after)
    assert frame is not None
    named = [f"{label}={value}" for label, values in sorted(STRATA.items()) for value in sorted(values)]
    assert list(frame["stratum"]) == ["all", *named]
    assert list(frame["items"])[:4] == [48, 16, 16, 16]


def test_each_cell_is_the_measure_of_its_arm_with_its_interval() -> None:
    before, after = make_report(BEFORE), make_report(AFTER)
    frame = validity_frame(before, after)
    assert frame is not None
    hard = frame.set_index("stratum").loc["difficulty=hard"]
    for column, report, measure, rate in (
        ("valid before, %", before, "schema_valid_rate", True),
        ("valid after, %", after, "schema_valid_rate", True),
        ("field F1 before", before, "metric.field_f1", False),
        ("field F1 after", after, "metric.field_f1", False),
    ):
        found = report.strata["difficulty"]["hard"].measures[measure]
        assert hard[column] == interval_text(found, rate=rate)
        assert "[" in hard[column]


def test_without_any_gold_the_f1_is_missing_and_not_zero() -> None:
    bare = [e.model_copy(update={"metrics": e.metrics | {"field_f1": None}}) for e in AFTER]
    frame = validity_frame(make_report(BEFORE), make_report(bare))
    assert frame is not None
    assert set(frame["field F1 after"]) == {"missing"} and "missing" not in set(frame["valid after, %"])


def test_a_task_without_schemas_has_no_such_table(before: list[Episode], after: list[Episode]) -> None:
    assert validity_frame(make_report(before), make_report(after)) is None


def test_a_run_is_told_by_task_data_base_training_and_suite(before: list[Episode]) -> None:
    trained = TrainFacts(
        seed=7,
        steps=200,
        chosen_step=150,
        claim_plan_sha256="c" * 64,
        base_digest="b" * 64,
        policy_digest="a" * 64,
        validation_suite="v",
        chain="",
        alarms=(),
        health=HealthSummary.of([]),
    )
    base = BaseFacts.model_validate_json(
        json.dumps({"kind": "scratch", "seed": 3, "digest": "b" * 64, "parsed_rate": 0.9})
    )
    frame = run_frame(
        task="collider",
        data="data/collider",
        dataset_sha256="0123456789abcdef" + "9" * 48,
        base=base,
        trained=trained,
        checkpoint_rule="last",
        before=make_report(before),
        decoding="temperature 1",
    )
    assert dict(zip(frame["what"], frame["value"], strict=True)) == {
        "task": "collider",
        "data": "data/collider, dataset digest 0123456789abcdef",
        "base": "from scratch, seed 3; digest bbbbbbbbbbbb",
        "training": "GRPO, 200 steps, training seed 7",
        "chosen checkpoint": "step 150 of 200, by the rule last",
        "held-out suite": "40 items, 4 draws each",
        "completions": "temperature 1",
    }


def test_a_pretrained_base_is_told_by_model_and_revision() -> None:
    facts = {"kind": "pretrained", "model": "Some/Model", "revision": "abc", "digest": "d" * 64}
    assert (
        base_said(BaseFacts.model_validate(facts))
        == "pretrained, Some/Model; revision abc; digest dddddddddddd"
    )


def test_a_collider_says_its_particle_or_that_there_is_none() -> None:
    task = Collider(ColliderSettings(surface="compact", max_turns=8, shaping=0.0, gamma=1.0))
    rows = generate("validation", 60, max_turns=8, labels=("tests",))
    items = [task.item(row) for row in rows]
    said = {item.strata["kind"]: task.truth(item) for item in items}
    assert said["null"] == "no particle"
    assert re.fullmatch(r"[a-z_]+, \d+\.\d GeV, spin [012]", said["signal"])
    row = next(row for row in rows if row["kind"] == "signal")
    assert task.truth(task.item(row)).startswith(
        f"{row['truth']['channel']}, {row['truth']['mass_gev']:.1f} GeV"
    )


def test_structured_output_says_its_gold_as_compact_json_or_that_it_has_none() -> None:
    task = Structured(settings())
    said = [task.truth(task.item(row(**changes))) for changes in ({}, {"gold": None})]
    assert said == [json.dumps(GOLD, separators=(",", ":")), "no gold: any valid object counts"]
    assert json.loads(task.truth(task.item(call_row()))) == CALL_GOLD


def test_no_truth_is_told_to_a_policy() -> None:
    task = Structured(settings())
    item = task.item(row(context=None, gold=GOLD | {"vendor": "Unheard"}))
    assert "Unheard" in task.truth(item) and "Unheard" not in json.dumps(task.start(item, 0)[0])
