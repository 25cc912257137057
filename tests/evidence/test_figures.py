"""Figures are equal bytes for equal data, touch no global state, and draw missing data as missing."""

from __future__ import annotations

import io
import sys
from typing import Any, cast

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from assay.core.records import Episode, Interval
from assay.core.seeds import rng
from assay.training.log.history import component_row
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.differences import deltas
from assay.verdict.evidence.figures import drawing
from assay.verdict.evidence.figures.comparison_figures import (
    before_after_summary,
    headline_rows,
    level_rows,
    other_rates,
    rates_before_after,
    reward_distribution,
)
from assay.verdict.evidence.figures.drawing import AFTER, BEFORE, STYLE, look, new_figure, render
from assay.verdict.evidence.figures.forest_figure import cluster_gains, forest
from assay.verdict.evidence.figures.forest_rows import ForestRow, draw_forest
from assay.verdict.evidence.figures.progress_figures import checkpoint_progression, reward_components
from assay.verdict.evidence.figures.training_figures import training_curve
from assay.verdict.evidence.labels import labelled
from assay.verdict.statistics.checkpoint_rows import best_of_items, checkpoint_row
from assay.verdict.statistics.report import Report
from conftest import make_claim, make_plan, make_report
from synthetic_episodes import SUITE
from synthetic_structured import FLAGS, METRICS, PARTS, structured_arm


class Structured:
    """What a training's rows need to know of the structured task."""

    parts, flags, metrics = PARTS, FLAGS, METRICS


def told(report: Report) -> tuple[dict[str, Interval], int]:
    return report.measures, report.n_episodes


def words(figure: Figure) -> str:
    """Return all text of a figure, which `render` would lay out a second time and draw as pixels too."""
    drawn = io.BytesIO()
    with mpl.rc_context(STYLE):
        FigureCanvasSVG(figure).print_svg(drawn)
    return drawn.getvalue().decode()


def log(n: int = 50) -> pd.DataFrame:
    """Return a training log of n steps with all columns."""
    noise, step = rng("log"), np.arange(1, n + 1)
    columns = ["epoch", "loss", "reward", "reward_std", "kl", "grad_norm", "learning_rate"]
    return pd.DataFrame({"step": step, **{name: noise.normal(0, 1, n) for name in columns}})


def checkpoints(before: list[Episode], after: list[Episode]) -> pd.DataFrame:
    """Return the rows of two checkpoints."""
    rows = [
        checkpoint_row(*told(make_report(e)), step=10 * k, fraction_done=k / 2)
        for k, e in enumerate((before, after))
    ]
    return pd.DataFrame(rows)


def test_equal_data_give_equal_bytes() -> None:
    first, second = render(training_curve(log())), render(training_curve(log()))
    assert first == second
    assert first["png"].startswith(b"\x89PNG") and b"Software" not in first["png"]
    assert b"<dc:date>" not in first["svg"] and b"Matplotlib v" not in first["svg"]


def test_rendering_twice_gives_equal_bytes(before: list[Episode], after: list[Episode]) -> None:
    figure = checkpoint_progression(checkpoints(before, after), 10)
    assert render(figure) == render(figure)


@pytest.mark.parametrize(
    "title", ["88.8 % " * 12, "WORST CASE " * 9, "an ordinary title of many small words " * 3]
)
def test_a_title_ends_inside_its_figure(title: str) -> None:
    band = drawing._title_band(drawing.bare_figure(height=1.0), title)
    assert band is not None
    (text,) = band.texts
    drawn = text.get_window_extent(FigureCanvasAgg(band).get_renderer())
    assert drawn.x1 <= band.get_size_inches()[0] * drawing.DPI and drawn.y0 >= 0


def test_no_global_state_is_touched() -> None:
    settings = mpl.rcParams.copy()
    render(training_curve(log()))
    assert mpl.rcParams.copy() == settings
    names = ("drawing", "training_figures", "comparison_figures")
    assert not any(hasattr(sys.modules[f"assay.verdict.evidence.figures.{name}"], "pyplot") for name in names)


@pytest.mark.parametrize("column", ["reward", "loss", "kl", "grad_norm"])
def test_a_missing_column_is_named_as_missing(column: str) -> None:
    assert f"{column}: missing" in words(training_curve(log().drop(columns=column)))
    blank = log()
    blank[column] = np.nan
    assert f"{column}: missing" in words(training_curve(blank))


def test_a_kl_measured_at_some_steps_is_one_line_that_says_so() -> None:
    seldom = log()
    seldom.loc[seldom["step"] % 5 != 0, "kl"] = np.nan
    text = words(training_curve(seldom))
    assert "KL to the base, at 10 of 50 steps" in text and "missing" not in text
    assert "KL to the base, at" not in words(training_curve(log()))


def test_gaps_are_counted_and_not_bridged() -> None:
    gappy = log()
    gappy.loc[20:24, "loss"] = np.nan
    figure = training_curve(gappy)
    assert "missing (5)" in words(figure)
    assert np.isnan(figure.axes[1].get_lines()[0].get_ydata()[20:25]).all()


def test_any_parts_and_flags_are_drawn() -> None:
    frame = pd.DataFrame({"step": [1, 2], "n": [8, 9], "mean_exact": [0.1, 0.2], "valid_rate": [0.5, None]})
    text = words(reward_components(frame))
    for word in ("exact", "valid", "n = 8 to 9", "missing (1)", "mean_n_steps: missing"):
        assert word in text


def structured_components(n: int) -> pd.DataFrame:
    """Return the rows of a training on structured output."""
    arms = [structured_arm(f"step {k}", 0.2 + 0.6 * k / n, items=12, draws=2) for k in range(n)]
    return pd.DataFrame([component_row(k, arm, cast(Any, Structured)) for k, arm in enumerate(arms)])


def test_a_task_of_one_turn_shows_its_metrics_instead_of_its_turns() -> None:
    figure = reward_components(structured_components(5))
    assert "turns" not in heads(figure) and "turns" not in said_below(figure)
    frame = structured_components(5)
    frame["mean_n_steps"] = 2.0
    assert "turns" in said_below(reward_components(frame))


def heads(figure: Figure) -> list[str]:
    """Return the names over the panels that are shown."""
    return [axes.get_title("left") for axes in figure.axes if axes.get_visible()]


def test_reward_success_and_what_moved_most_have_a_panel_and_all_else_is_named() -> None:
    figure = reward_components(structured_components(5))
    assert heads(figure)[:2] == ["whole reward", "success"] and len(heads(figure)) == 4
    told = {
        *heads(figure),
        *said_below(figure).partition("only in the table: ")[2].replace(";", ",").split(", "),
    }
    told |= set(said_below(figure).partition("always 0: ")[2].split(", "))
    assert {labelled(f"{name}_rate") for name in (*PARTS, *FLAGS, "parsed")} <= told
    assert all(axes.get_ylabel() for axes in figure.axes)


def test_no_two_of_many_lines_look_alike() -> None:
    looks = [tuple(map(str, look(k).values())) for k in range(49)]
    assert len(set(looks)) == 49


def test_rates_that_stay_at_zero_are_said_and_get_no_panel() -> None:
    figure = reward_components(structured_components(5))
    assert "blocked, full reward but wrong" in said_below(figure).partition("always 0: ")[2]
    assert "blocked" not in heads(figure)


def said_below(figure: Figure) -> str:
    """Return what stands under all panels, on one line."""
    return " ".join(str(figure.get_supxlabel()).split())


@pytest.mark.parametrize("steps", [1, 60])
def test_a_training_in_which_all_is_zero_keeps_its_panels_and_gives_no_warning(steps: int) -> None:
    frame = structured_components(steps)
    frame[[name for name in frame.columns if name not in ("step", "n", "mean_n_steps")]] = 0.0
    figure = reward_components(frame)
    words(figure)  # warnings are errors
    for name in (*PARTS, *FLAGS, "whole reward", "success", "parsed"):
        assert labelled(name) in said_below(figure) + " ".join(heads(figure))


def test_checkpoints_and_arms_in_which_all_is_zero_are_drawn(claim: Claim) -> None:
    arms = [
        [
            e.model_copy(update={"success": False, "reward": 0.0, "flags": dict.fromkeys(e.flags, False)})
            for e in structured_arm(name, 0.0)
        ]
        for name in ("base", "trained")
    ]
    first, second = make_report(arms[0]), make_report(arms[1])
    figure = checkpoint_progression(checkpoints(*arms), 0)
    assert "exact" in said_below(figure) and "exact" not in heads(figure)
    found = make_claim(arms[0], arms[1], make_plan(secondary=(), guardrails={}))
    assert "favours after" in words(before_after_summary(found, first, second))
    assert words(reward_distribution(*arms)).count("mean 0.00") == 2


@pytest.mark.long
def test_mean_best_of_k_and_greedy_are_lines_of_their_own(
    before: list[Episode], after: list[Episode]
) -> None:
    rows = []
    for k, arm in enumerate((before, after)):
        greedy = make_report([e for e in arm if e.draw == 0], draws=1, decoding="greedy")
        best = best_of_items(arm, 4, "suite")
        own = told(make_report(arm))
        rows.append(checkpoint_row(*own, step=10 * k, fraction_done=k / 2, best=best, greedy=greedy.measures))
    figure = checkpoint_progression(pd.DataFrame(rows), 10)
    ways = {"mean of the draws": "", "best of 4": "best_of_k_", "greedy": "greedy_"}
    for axes, name in zip(figure.axes[:2], ("success_rate", "mean_reward"), strict=True):
        drawn = {
            str(line.get_label()): list(line.get_ydata())
            for line in axes.get_lines()
            if line.get_label()[0] != "_"
        }
        for label, prefix in ways.items():
            assert drawn[label] == [row[prefix + name] for row in rows]
        assert drawn["best of 4"] != drawn["mean of the draws"] != drawn["greedy"]
    assert heads(figure)[:2] == ["success", "reward"]


def test_base_and_chosen_checkpoint_have_the_colours_of_before_and_after_in_every_panel(
    before: list[Episode], after: list[Episode]
) -> None:
    figure = checkpoint_progression(checkpoints(before, after), 10)
    for axes in figure.axes:
        if axes.get_visible():
            points = {
                line.get_xdata()[0]: line.get_color()
                for line in axes.get_lines()
                if len(line.get_xdata()) == 1
            }
            assert points == {0: BEFORE, 10: AFTER}


def test_a_label_with_many_values_is_left_to_the_tables() -> None:
    arms = [
        [e.model_copy(update={"strata": e.strata | {"source": e.item_id}}) for e in structured_arm(a, s)]
        for a, s in (("base", 0.3), ("trained", 0.8))
    ]
    found = make_claim(arms[0], arms[1], make_plan(secondary=(), guardrails={}))
    text = words(forest(found, cluster_gains(arms[0], arms[1], "success_rate")))
    assert "source: 48 values, see the table" in text and "source: item-001" not in text
    assert "difficulty: hard" in text


def test_the_chosen_checkpoint_is_marked(before: list[Episode], after: list[Episode]) -> None:
    text = words(checkpoint_progression(checkpoints(before, after), 10))
    assert "chosen: step 10" in text and "mass" in text and "n = 160" in text
    figure = checkpoint_progression(checkpoints(before, after).assign(mass_acc_n=[12, 9]), 10)
    (axes,) = (each for each in figure.axes if each.get_title("left") == "mass")
    assert axes.get_title("right") == "n = 9 to 12" and not axes.texts


def test_a_checkpoint_without_interval_says_so(before: list[Episode], after: list[Episode]) -> None:
    frame = checkpoints(before, after)
    frame.loc[0, ["mean_reward_low", "mean_reward_high"]] = np.nan
    assert "interval missing" in words(checkpoint_progression(frame, None))


def test_the_headline_shows_both_arms_the_control_the_best_rival_of_each_kind_and_the_gain(
    before: list[Episode], after: list[Episode], claim: Claim
) -> None:
    first, second = make_report(before), make_report(after)
    text = words(before_after_summary(claim, first, second, baselines={"random": first}))
    for word in ("before", "after", "random", "favours before", "n = 20 scenarios", "n = 40 items"):
        assert word in text
    rows = level_rows(claim, first, second, {"weak": first, "strong": second, "other": first})
    assert [row.name for row in rows[:2]] == ["before", "after"]
    rates = [row.rate.value for row in rows[2:] if row.rate is not None and row.rate.value is not None]
    assert rates == sorted(rates, reverse=True)
    shown = {row.name: row.kind for row in headline_rows(rows)}
    assert shown["strong"] == "strongest of 3 that know more" and "weak" not in shown


def test_rates_that_are_zero_in_both_arms_are_named_and_not_drawn() -> None:
    before, after = structured_arm("base", 0.3), structured_arm("trained", 0.8)
    first, second = make_report(before), make_report(after)
    found = make_claim(before, after, make_plan(secondary=(), guardrails={}))
    figure = rates_before_after(found, first, second, deltas(before, after, list(first.measures), 0))
    rows = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert "blocked" not in rows and "full reward but wrong" not in rows and "exact" in rows


def test_every_look_stands_for_one_legend_entry_and_roles_for_words(
    before: list[Episode], after: list[Episode], claim: Claim
) -> None:
    first, second = make_report(before), make_report(after)
    gaps = deltas(before, after, list(first.measures), 0)
    (axes,) = rates_before_after(claim, first, second, gaps).axes
    legend = cast(Any, axes.get_legend())
    assert [text.get_text() for text in legend.get_texts()] == ["before", "after"]
    rows = [text.get_text() for text in axes.get_yticklabels()]
    assert "mass correct (confirmatory)" in rows and "parsed (guardrail)" in rows


def test_what_the_claim_judged_is_drawn_with_its_own_difference_and_role(
    before: list[Episode], after: list[Episode], claim: Claim
) -> None:
    first, second = make_report(before), make_report(after)
    gaps = deltas(before, after, list(first.measures), 0)
    rows = {row.name: row for row in other_rates(claim, first, second, gaps)}
    assert rows["mass_correct_rate"].role == "confirmatory" and rows["parsed_rate"].role == "guardrail"
    assert rows["mass_correct_rate"].difference == claim.secondary["mass_correct_rate"].difference
    assert rows["parsed_rate"].difference in [each.difference for each in claim.guardrails]
    other = rows["discovered_rate"]
    assert (other.role, other.difference) == ("", gaps["discovered_rate"])
    assert "success_rate" not in rows  # it is the headline's


def test_heads_claim_no_more_observations_than_every_point_has(
    before: list[Episode], after: list[Episode]
) -> None:
    frame = checkpoints(before, after)
    for axes in checkpoint_progression(frame, 10).axes:
        name, said = axes.get_title("left"), axes.get_title("right")
        called = {labelled(each): each for each in frame if f"{each}_n" in frame}
        column = "mean_reward" if name == "reward" else called[name]
        if axes.get_visible():
            n = frame[f"{column}_n"]
            assert said == (f"n = {n[0]}" if n[0] == n[1] else f"n = {min(n)} to {max(n)}")
    parts = reward_components(
        pd.DataFrame({"step": [1, 2], "n": [8, 9], "mean_exact": [0.1, 0.2], "valid_rate": [0.5, 0.5]})
    )
    assert said_below(parts).startswith("optimizer step n = 8 to 9 a step, for rates at most")


@pytest.mark.parametrize(("steps", "end"), [(200, 200), (None, 1)])
def test_the_first_checkpoint_stands_at_the_left_of_the_whole_training(
    before: list[Episode], steps: int | None, end: int
) -> None:
    first = pd.DataFrame([checkpoint_row(*told(make_report(before)), step=0, fraction_done=0.0)])
    for axes in checkpoint_progression(first, None, steps=steps).axes:
        low, high = axes.get_xlim()
        assert -0.05 * end < low < 0 and end < high < 1.05 * end


def test_a_forest_says_who_is_favoured_where_and_shows_both_sides_of_none() -> None:
    rows = [
        ForestRow("a", Interval(value=0.5, low=0.4, high=0.6, n=9), "n = 9"),
        ForestRow("all", Interval(value=0.5, low=0.45, high=0.55, n=9), "n = 9", whole=True),
        ForestRow("none", None, ""),
    ]
    figure, (axes,) = new_figure(1, 1, height=3.0)
    draw_forest(axes, rows, sides=("before", "after"), label="points")
    low, high = axes.get_xlim()
    assert low < -5 and high > 60
    text = words(figure)
    for said in ("favours before", "favours after", "+50.0 [+40.0, +60.0]", "n = 9", "missing"):
        assert said in text
    (diamond,) = [patch for patch in axes.patches if patch.get_label() != "_"][-1:]
    assert sorted(diamond.get_path().vertices[:4, 0]) == pytest.approx([45, 50, 50, 55])  # type: ignore[attr-defined]


def test_a_figure_has_its_finding_above_the_picture_that_stands_alone_and_turns_with_the_screen() -> None:
    plain, titled = render(training_curve(log(5))), render(training_curve(log(5)), "Reward rose")
    assert titled["svg"] == plain["svg"] and len(titled["png"]) > len(plain["png"])
    assert b"prefers-color-scheme:dark" in plain["svg"] and plain["svg"].rstrip().endswith(b"</svg>")


def test_a_claim_that_is_not_evaluable_draws_no_number(before: list[Episode], after: list[Episode]) -> None:
    found = make_claim(before, after, suites=(SUITE, "x" * 64))
    figure = before_after_summary(found, make_report(before), make_report(after))
    assert "NOT EVALUABLE" in words(figure) and not figure.axes[0].get_lines()


def test_distributions_share_their_bins(before: list[Episode], after: list[Episode]) -> None:
    figure = reward_distribution(before, after)
    assert "n = 160" in words(figure)
    edges = [patch.get_data().edges for axes in figure.axes for patch in axes.patches]
    assert len(edges) == 4  # of each arm what is filled, and its outline
    assert all(np.array_equal(edge, edges[0]) for edge in edges)


def test_an_empty_arm_is_missing(before: list[Episode]) -> None:
    assert "missing" in words(reward_distribution(before, []))


def test_a_rate_that_is_full_at_every_checkpoint_is_named_and_not_drawn(
    before: list[Episode], after: list[Episode]
) -> None:
    frame = checkpoints(before, after)
    assert "parsed" not in heads(checkpoint_progression(frame.assign(parsed_rate=[1.0, 0.995]), 10))
    figure = checkpoint_progression(frame.assign(parsed_rate=[1.0, 0.98]), 10)
    assert "parsed" in heads(figure) and "never below" not in said_below(figure)
