"""Tables show every number with its interval, and missing as missing."""

from __future__ import annotations

import pandas as pd
import pytest

from assay.core.errors import EvidenceError
from assay.core.records import Episode, Interval
from assay.evidence.claim.claim import Claim
from assay.evidence.claim.differences import deltas
from assay.evidence.tables.claim_tables import (
    BeforeAfter,
    before_after_metrics,
    ladder_frame,
    main_measures,
    measures_frame,
    readme_block,
)
from conftest import make_claim, make_report
from synthetic_episodes import arm


def gaps_of(before: list[Episode], after: list[Episode]) -> dict[str, Interval]:
    report = make_report(before, draws=len({episode.draw for episode in before}))
    return deltas(before, after, list(report.measures), 0)


def test_before_after_metrics_start_with_the_contracted_keys(
    before: list[Episode], after: list[Episode]
) -> None:
    found = before_after_metrics(make_report(before), make_report(after, "a" * 64), gaps_of(before, after))
    keys = ["n", "mean_reward", "median_reward", "success_rate", "channel_acc", "mass_acc"]
    for row in (found.pre, found.post, found.delta):
        assert list(row)[:6] == keys
        assert {"mean_reward_low", "success_rate_high", "median_reward_low"} <= set(row)
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


def test_reports_on_different_suites_are_refused(before: list[Episode], after: list[Episode]) -> None:
    other = make_report(after, suite_digest="x" * 64)
    with pytest.raises(EvidenceError, match="one suite"):
        before_after_metrics(make_report(before), other, gaps_of(before, after))


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
    assert claim.sentence in text and text.startswith("**IMPROVED.**")
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
    assert text.count("\n[interval missing]: the scenarios") == 1


def test_a_claim_that_is_not_evaluable_shows_no_tables(before: list[Episode], after: list[Episode]) -> None:
    found = make_claim(before, after, after_suite="x" * 64)
    text = readme_block(found, make_report(before), make_report(after), {})
    assert "|" not in text and text.startswith("**NOT EVALUABLE.**")


def test_without_floor_or_ceiling_the_score_is_missing(before: list[Episode], after: list[Episode]) -> None:
    frame = ladder_frame(
        {}, make_report(before), make_report(after), floor="random", ceiling="oracle_channel"
    )
    assert list(frame["normalised score"]) == ["missing", "missing"]
    assert list(frame["player"]) == ["policy before", "policy after"]
