"""What the forest, the calibration, the false claims and the validity show is what the episodes say, task by
task."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from assay.core.records import Episode, Interval
from assay.core.seeds import rng
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.differences import compare_measure, deltas
from assay.verdict.evidence.details.confidence import verdict_right
from assay.verdict.evidence.figures.comparison_figures import reward_histogram
from assay.verdict.evidence.figures.drawing import render
from assay.verdict.evidence.figures.forest_figure import cluster_gains, forest, forest_frame, newcombe
from assay.verdict.evidence.figures.gallery import Drawn, of_comparison
from assay.verdict.evidence.figures.paired_rows import PairedRow, strata_rows
from assay.verdict.evidence.figures.verdict_figures import (
    calibration,
    calibration_frame,
    false_claims,
    validity_by_stratum,
)
from assay.verdict.evidence.formatting import difference_text
from assay.verdict.evidence.tables.claim_tables import plot_tables
from assay.verdict.statistics.intervals import wilson
from assay.verdict.statistics.report import Report
from conftest import make_claim, make_plan, make_report
from figure_boxes import faults
from synthetic_episodes import SUITE, arm
from synthetic_structured import structured_arm
from test_figures import words

COMMON = ["before_after_summary", "reward_distribution", "forest", "rates"]


def hunt(name: str, skill: float, *, items: int = 24) -> list[Episode]:
    """Return one arm that looks for particles: every third world holds nothing, confidence is skill or its
    contrary."""
    found = []
    for e in arm(name, skill, clusters=items, items_per_cluster=1):
        item = int(e.item_id[-3:])
        chance, null = rng(name, item, e.draw), item % 3 == 0
        right = bool(chance.random() < skill)
        claims = right != null
        flags: dict[str, bool | None] = {
            "discovered": None if null else right,
            "false_claim": claims if null else None,
            "channel_correct": right if claims and not null else None,
            "mass_correct": right if claims and not null else None,
        }
        sure = round(float(chance.integers(10)) / 10, 1)
        metrics = {
            "confidence": sure,
            "brier": (sure - right) ** 2,
            "global_z": 7.5 * chance.random() if claims else None,
        }
        strata = {"kind": "null" if null else "signal", "tier": "easy" if item % 2 else "hard"}
        found.append(
            e.model_copy(update={"flags": flags, "metrics": metrics, "success": right, "strata": strata})
        )
    return found


def drawn(before: Sequence[Episode], after: Sequence[Episode], **changes: Any) -> dict[str, Drawn]:
    first, second = make_report(list(before)), make_report(list(after))
    claim = make_claim(list(before), list(after), make_plan(secondary=(), guardrails={}), **changes)
    gaps = deltas(before, after, list(first.measures), 0)
    arms = (before, after)
    return {
        d.name: d
        for d in of_comparison(claim, first, second, arms, gaps, {"random": first}, cluster_name="scenarios")
    }


HUNT = (hunt("base", 0.3), hunt("trained", 0.8))
ANSWERS = (structured_arm("base", 0.3), structured_arm("trained", 0.85))


@pytest.fixture(scope="module")
def of_hunt() -> dict[str, Drawn]:
    return drawn(*HUNT)


@pytest.fixture(scope="module")
def of_answers() -> dict[str, Drawn]:
    return drawn(*ANSWERS)


def test_a_figure_of_one_task_does_not_appear_for_another(
    before: list[Episode], after: list[Episode], of_hunt: dict[str, Drawn], of_answers: dict[str, Drawn]
) -> None:
    assert list(of_hunt) == [*COMMON, "calibration", "false_claims"]
    assert list(of_answers) == [*COMMON, "validity"]
    assert list(drawn(before, after)) == COMMON


def test_a_claim_that_is_not_evaluable_pairs_nothing() -> None:
    found = drawn(*HUNT, suites=(SUITE, "x" * 64))
    assert list(found) == COMMON[:2]
    assert "after \u2212 before" not in words(found["reward_distribution"].figure)


def test_every_table_is_small_enough_to_stand_behind_its_figure(
    of_hunt: dict[str, Drawn], of_answers: dict[str, Drawn]
) -> None:
    for found in (of_hunt, of_answers):
        for each in found.values():
            assert 0 < len(each.table) <= 60, each.name


def test_the_tables_behind_the_figures_hold_the_rows_that_are_drawn(of_hunt: dict[str, Drawn]) -> None:
    found = of_hunt
    for name in ("rates",):
        heads = [text.get_text() for text in found[name].figure.axes[0].get_yticklabels()]
        labels = [head.partition(" (")[0] for head in heads]
        assert list(found[name].table["measure"]) == labels and len(labels) == len(set(labels)), name
    assert {"null, tier easy", "signal, tier easy"} <= set(found["false_claims"].table["measure"])
    claim = make_claim(*HUNT, make_plan(secondary=(), guardrails={}))
    row = found["before_after_summary"].table.iloc[-1]
    assert row["player"] == "after \u2212 before"
    assert row["success, %"] == difference_text(claim.difference, rate=True)


@pytest.mark.long
@pytest.mark.parametrize("each", ["of_hunt", "of_answers"])
def test_texts_are_inside_legible_and_clear_of_each_other_and_panels_take_most_of_a_figure(
    each: str, request: pytest.FixtureRequest
) -> None:
    found = {name: faults(shown.figure) for name, shown in request.getfixturevalue(each).items()}
    assert not {name: told for name, told in found.items() if told}


def test_a_text_that_is_small_outside_or_covered_and_a_narrow_panel_are_seen() -> None:
    figure = Figure(figsize=(4.75, 2.0))
    axes = figure.add_axes((0.4, 0.3, 0.3, 0.6))
    axes.text(0.5, 0.5, "tiny", fontsize=5)
    for said in ("one", "two"):
        axes.text(0.2, 0.2, said)
    axes.text(3.0, 0.5, "far away")
    text = "; ".join(faults(figure))
    for said in ("small: 'tiny'", "'one' over 'two'", "outside: 'far away'", "panels take 30%"):
        assert said in text


def test_every_figure_of_a_comparison_is_the_same_twice() -> None:
    first, second = ({name: render(d.figure) for name, d in drawn(*HUNT).items()} for _ in range(2))
    assert first == second


def test_a_verdict_is_right_by_the_very_rule_of_the_brier_score() -> None:
    for episode in (*HUNT[0], *HUNT[1]):
        sure, right = episode.metrics["confidence"], verdict_right(episode)
        assert sure is not None and episode.metrics["brier"] == pytest.approx(
            (sure - float(bool(right))) ** 2
        )
    silent = HUNT[0][0].model_copy(update={"metrics": {"confidence": None}})
    assert verdict_right(silent) is None


def test_the_calibration_counts_every_verdict_once() -> None:
    frame = calibration_frame(*HUNT)
    by = frame.groupby(["arm", "by"])["n"].sum()
    claims = [sum(e.metrics["global_z"] is not None for e in episodes) for episodes in HUNT]
    assert by["before", "confidence"] == len(HUNT[0]) and by["after", "confidence"] == len(HUNT[1])
    assert [by["before", "global_z"], by["after", "global_z"]] == claims
    half = frame[(frame["arm"] == "after") & (frame["by"] == "confidence") & (frame["bin"] == 0.5)].iloc[0]
    own = [verdict_right(e) for e in HUNT[1] if e.metrics["confidence"] == 0.5]
    assert half["n"] == len(own) and half["right"] == pytest.approx(np.mean([bool(r) for r in own]))
    assert 0 < half["low"] <= half["right"] <= half["high"] <= 1 and half["low"] < half["high"]


def test_an_arm_without_verdicts_or_claims_is_said_to_miss_them() -> None:
    silent = [e.model_copy(update={"metrics": {"confidence": None, "global_z": None}}) for e in HUNT[0]]
    text = words(calibration(calibration_frame(silent, silent)))
    assert "verdicts: missing" in text and "claims: missing" in text


def reports_of(arms: tuple[list[Episode], list[Episode]]) -> tuple[Report, Report]:
    return make_report(arms[0]), make_report(arms[1])


def whole(measure: str) -> Interval:
    return compare_measure(*HUNT, measure, rng("whole")).difference


def test_rows_by_stratum_hold_the_paired_difference_of_their_items_and_no_empty_or_full_stratum() -> None:
    gap = whole("false_claim_rate")
    rows = strata_rows(reports_of(HUNT), HUNT, "false_claim_rate", gap, name="all", seed=1)
    assert rows[0].difference == gap
    assert [row.name.strip() for row in rows] == [
        "all",
        "tier easy",
        "tier hard",
    ]  # kind=null is all, kind=signal none
    hard = [[e for e in episodes if e.strata["tier"] == "hard"] for episodes in HUNT]
    expected = compare_measure(hard[0], hard[1], "false_claim_rate", rng("any")).difference
    assert rows[2].difference is not None and rows[2].difference.value == expected.value


def test_discoveries_stand_over_false_claims_and_players_are_named_where_they_stand() -> None:
    reports = reports_of(HUNT)
    false, found = "false_claim_rate", "discovered_rate"
    null = strata_rows(reports, HUNT, false, whole(false), name="false claims", seed=1)
    signal = strata_rows(reports, HUNT, found, whole(found), name="discoveries", seed=1)
    text = words(false_claims(null[0], signal[0], {"random": reports[0], "silent": make_report(ANSWERS[0])}))
    for word in ("false claims", "discoveries", "random", "before", "after"):
        assert word in text
    assert "silent" not in text  # it has no claims


def test_a_row_without_values_is_missing() -> None:
    nothing = Interval(value=None, low=None, high=None, n=0)
    text = words(validity_by_stratum([PairedRow("odd", nothing, None, None)], []))
    assert text.count(">missing</text>") == 3  # both arms, the difference in words
    odd = PairedRow("odd", nothing, None, None)
    assert "null and signal worlds: missing" in words(false_claims(odd, odd, {}))


def test_newcombe_agrees_with_the_published_examples() -> None:
    # Newcombe (1998), Table II, method 10: 56/70 - 48/80, 9/10 - 3/10, 10/10 - 0/20 and 0/10 - 0/20.
    for after, before, low, high in (
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((10, 10), (0, 20), 0.6791, 1.0),
        ((0, 10), (0, 20), -0.1611, 0.2775),
    ):
        found = newcombe(before, after)
        assert found.low == pytest.approx(low, abs=6e-5) and found.high == pytest.approx(high, abs=6e-5)


def test_few_clusters_are_named_with_intervals_and_many_are_one_curve(
    claim: Claim, before: list[Episode], after: list[Episode]
) -> None:
    gains = cluster_gains(before, after, "success_rate")
    assert len(gains) == 20 and all(each.gain.low is not None for each in gains)
    few = words(forest(claim, gains))
    assert "scenario-007" in few and "own draws" in few and "tier: hard" in few
    arms = arm("base", 0.35, clusters=60), arm("trained", 0.65, clusters=60)
    many = cluster_gains(*arms, "success_rate")
    text = words(forest(make_claim(*arms), many))
    assert "gain of each of the scenarios" in text and "scenario-007" not in text
    assert sum(forest_frame(make_claim(*arms), many).iloc[3:]["clusters"]) == 60


def test_a_long_name_of_the_clusters_leaves_the_counts_of_the_forest_inside() -> None:
    arms = arm("base", 0.35, clusters=60), arm("trained", 0.65, clusters=60)
    claim = make_claim(*arms, make_plan(cluster_name="independent items"))
    figure = forest(claim, cluster_gains(*arms, "success_rate"))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    texts = [axes.get_title() or axes.get_title(loc="left") for axes in figure.axes]
    assert any(text.startswith("60 independent items:") for text in texts)
    for axes in figure.axes:
        place = axes._left_title.get_window_extent(canvas.get_renderer())  # type: ignore[attr-defined]
        assert place.x0 >= 0 and place.x1 <= canvas.get_width_height()[0]


def test_every_finding_has_its_numbers_and_says_change_only_where_it_is_shown(
    of_hunt: dict[str, Drawn], of_answers: dict[str, Drawn]
) -> None:
    for figures in (of_hunt, of_answers):
        for each in figures.values():
            assert each.finding and re.search(r"\d", each.finding), each.name
            assert "\n" not in each.finding
    claim = make_claim(*HUNT, make_plan(secondary=(), guardrails={}))
    said = of_hunt["before_after_summary"].finding
    assert (
        said.startswith("Success rose from ")
        and difference_text(claim.difference, rate=True).split(" ")[0] in said
    )
    assert said.endswith("n = 24 scenarios)")
    same = (arm("base", 0.5, clusters=12), arm("other", 0.5, clusters=12))
    found = drawn(*same)
    assert found["before_after_summary"].finding.startswith("No change shown: success ")
    assert (
        drawn(*HUNT, suites=(SUITE, "x" * 64))["before_after_summary"].finding
        == "Not evaluable: no number is shown"
    )


def test_the_forest_is_sorted_and_averages_to_the_claim(
    claim: Claim, before: list[Episode], after: list[Episode]
) -> None:
    gains = [each.gain.value for each in cluster_gains(before, after, "success_rate")]
    values = [gain for gain in gains if gain is not None]
    assert values == sorted(values) and claim.difference is not None
    assert np.mean(values) == pytest.approx(claim.difference.value)


def test_a_cluster_drawn_once_has_a_gain_and_no_interval(before: list[Episode], after: list[Episode]) -> None:
    once = [
        [e for e in episodes if e.draw == 0 and int(e.item_id[-3:]) % 2 == 0] for episodes in (before, after)
    ]
    assert all(each.gain.low is None for each in cluster_gains(*once, "success_rate"))


def test_the_histogram_holds_every_episode_on_common_bins() -> None:
    table = reward_histogram(*HUNT)
    assert [table["before"].sum(), table["after"].sum()] == [len(HUNT[0]), len(HUNT[1])]
    assert table["before_share"].sum() == pytest.approx(1.0) and list(table["low"][1:]) == list(
        table["high"][:-1]
    )


def test_the_tables_of_dvc_plots_hold_what_the_reports_do(
    claim: Claim, before: list[Episode], after: list[Episode]
) -> None:
    reports = reports_of((before, after))
    gaps = deltas(before, after, list(reports[0].measures), 0)
    tables = plot_tables(claim, *reports, (before, after), gaps)
    rates = tables["rates"].set_index(["measure", "arm"])
    found = reports[1].measures["mass_correct_rate"]
    assert found.value is not None and rates.loc[("mass_acc", "after"), "value"] == pytest.approx(
        100 * found.value
    )
    assert tables["differences"]["measure"][0] == "success_rate" and "tier hard" in set(
        tables["differences"]["measure"]
    )
    assert tables["rewards"].groupby("arm")["n"].sum().to_dict() == {"before": 160, "after": 160}
    barred = make_claim(before, after, suites=(SUITE, "x" * 64))
    assert plot_tables(barred, *reports, (before, after), gaps)["differences"].empty


def test_what_is_missing_is_an_empty_cell_of_the_tables() -> None:
    bare = [e.model_copy(update={"flags": e.flags | {"exact": None}}) for e in ANSWERS[0]]
    reports = (make_report(bare), make_report(ANSWERS[1]))
    table = plot_tables(make_claim(*ANSWERS, make_plan(secondary=(), guardrails={})), *reports, ANSWERS, {})[
        "rates"
    ]
    cell = table[(table["measure"] == "exact_rate") & (table["arm"] == "before")].iloc[0]
    assert pd.isna(cell["value"]) and cell["n"] == 0 and wilson(0, 0).value is None
