"""A report says what a whole suite showed, and refuses half of one."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.errors import EvidenceError
from assay.core.records import Episode, Interval, Turn
from assay.core.seeds import rng
from assay.rollout.evaluation.measures import column_name, is_rate, measure_names, value_of
from assay.verdict.statistics.checkpoint_rows import best_of_items, checkpoint_row
from assay.verdict.statistics.report import Report, summarise


def told(report: Report) -> tuple[dict[str, Interval], int]:
    return report.measures, report.n_episodes


def play(item: int, draw: int, **changes: Any) -> Episode:
    """Return a one-turn episode; success alternates over items."""
    won = item % 2 == 0
    turn = Turn(
        prompt_digest="0" * 64,
        completion="x",
        n_tokens=3 + draw,
        truncated=False,
        outcome="ok",
        failure=None,
        action="x",
        observation=None,
        parts={},
    )
    facts: dict[str, Any] = {
        "item_id": f"item-{item}",
        "cluster": f"cluster-{item // 2}",
        "strata": {"tier": "easy" if item < 8 else "hard"},
        "draw": draw,
        "seed": draw,
        "turns": (turn, turn),
        "prompt_chars_cut": 0,
        "ending": "claimed",
        "reward": float(won) + 0.01 * item,
        "parts": {"outcome": float(won), "shaping": 0.01 * item},
        "success": won,
        "flags": {"discovered": won, "channel_correct": won if item > 3 else None, "mass_correct": won},
        "metrics": {"error": None if won else 1.5, "never": None},
    }
    return Episode(**(facts | changes))


def suite(**changes: Any) -> list[Episode]:
    """Return 16 items in 8 clusters with 2 draws each."""
    return [play(item, draw, **changes) for item in range(16) for draw in range(2)]


def report_of(episodes: list[Episode], draws: int = 2) -> Report:
    """Return the report of a validation suite."""
    return summarise(
        episodes,
        policy_digest="p",
        suite_digest="s",
        split="validation",
        decoding="sampled",
        draws=draws,
        rng=rng("report"),
    )


def test_a_report_counts_episodes_items_and_clusters() -> None:
    report = report_of(suite())
    assert (report.n_episodes, report.n_items, report.n_clusters) == (32, 16, 8)
    assert report.measures["success_rate"].value == 0.5
    assert report.measures["mean_n_steps"].value == 2
    assert report.measures["mean_tokens"].value == 7
    assert report.measures["mean_tokens_per_completion"].value == 3.5


def test_a_flag_that_does_not_arise_leaves_n() -> None:
    measures = report_of(suite()).measures
    assert measures["channel_correct_rate"].n == 24
    assert measures["discovered_rate"].n == 32


def test_a_metric_that_is_never_defined_is_missing_and_not_zero() -> None:
    found = report_of(suite()).measures["metric.never"]
    assert (found.value, found.low, found.n) == (None, None, 0)


def test_strata_split_the_episodes() -> None:
    strata = report_of(suite()).strata["tier"]
    assert {name: s.n_items for name, s in strata.items()} == {"easy": 8, "hard": 8}
    assert strata["hard"].measures["part.shaping"].value == pytest.approx(0.115)


def test_the_order_of_episodes_does_not_matter() -> None:
    assert report_of(suite()) == report_of(suite()[::-1])


def test_a_report_survives_json() -> None:
    report = report_of(suite())
    assert Report.model_validate_json(report.model_dump_json()) == report


def test_missing_draws_are_refused() -> None:
    with pytest.raises(EvidenceError, match="missing"):
        report_of(suite()[:-1])


def test_repeated_draws_are_refused() -> None:
    with pytest.raises(EvidenceError, match="repeated"):
        report_of([*suite(), play(0, 0)])


def test_more_draws_than_planned_are_refused() -> None:
    with pytest.raises(EvidenceError, match="beyond the plan"):
        report_of(suite(), draws=1)


def test_an_item_in_two_clusters_is_refused() -> None:
    with pytest.raises(EvidenceError, match="one cluster"):
        report_of([*suite()[:-1], play(15, 1, cluster="elsewhere")])


def test_non_finite_numbers_are_refused() -> None:
    broken = suite()[-1].model_copy(update={"reward": float("nan")})
    with pytest.raises(EvidenceError, match="finite"):
        report_of([*suite()[:-1], broken])


def test_no_episodes_are_refused() -> None:
    with pytest.raises(EvidenceError, match="at least one"):
        report_of([])


def test_a_checkpoint_row_starts_with_the_contracted_columns() -> None:
    row = checkpoint_row(*told(report_of(suite())), step=30, fraction_done=0.5)
    first = ["step", "fraction_done", "episodes", "mean_reward", "success_rate", "channel_acc", "mass_acc"]
    assert list(row)[:7] == first, "flags that grade come first, by name"
    assert row["episodes"] == 32
    for name in ("mean_reward", "success_rate", "mass_acc", "discovered_rate", "parsed_rate"):
        low, value, high = row[f"{name}_low"], row[name], row[f"{name}_high"]
        assert low is not None and value is not None and high is not None and low <= value <= high


def test_another_task_gets_its_own_columns_in_the_same_form() -> None:
    row = checkpoint_row(*told(report_of(suite(flags={"valid": True}))), step=1, fraction_done=1.0)
    assert "valid_rate" in row and "mass_acc" not in row


def test_an_episode_without_turns_has_no_parsed_rate() -> None:
    episode = play(0, 0, turns=())
    assert value_of(episode, "parsed_rate") is None
    assert value_of(episode, "mean_n_steps") == 0


def test_names_tell_rates_from_means() -> None:
    assert next(name for name in measure_names(suite()) if is_rate(name)) == "success_rate"
    assert column_name("spin_correct_rate") == "spin_acc"


def test_best_of_k_and_greedy_stand_behind_the_sampled_columns() -> None:
    sampled, greedy = report_of(suite()), report_of([e for e in suite() if e.draw == 0], draws=1)
    best = best_of_items(suite(), 2, "s")
    plain = checkpoint_row(*told(sampled), step=30, fraction_done=0.5)
    row = checkpoint_row(*told(sampled), step=30, fraction_done=0.5, best=best, greedy=greedy.measures)
    assert list(row)[: len(plain)] == list(plain)
    assert list(row)[len(plain) :] == [
        "best_of",
        "best_of_k_mean_reward",
        "best_of_k_success_rate",
        "best_of_k_mean_reward_low",
        "best_of_k_mean_reward_high",
        "best_of_k_mean_reward_n",
        "best_of_k_success_rate_low",
        "best_of_k_success_rate_high",
        "best_of_k_success_rate_n",
        "greedy_mean_reward",
        "greedy_success_rate",
        "greedy_mean_reward_low",
        "greedy_mean_reward_high",
        "greedy_mean_reward_n",
        "greedy_success_rate_low",
        "greedy_success_rate_high",
        "greedy_success_rate_n",
    ]
    assert row["best_of"] == 2 and row["greedy_success_rate"] == 0.5
