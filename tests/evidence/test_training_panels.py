"""The figures of a training work while it runs: on few rows, on none, on very many, with alarms over the
curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from assay.core.records import HEALTH_RULES, HealthEvent
from assay.core.seeds import rng
from assay.verdict.evidence.figures.drawing import render, thinned
from assay.verdict.evidence.figures.gallery import of_training
from assay.verdict.evidence.figures.health_figure import health_strip, spans
from assay.verdict.evidence.figures.progress_figures import reward_components
from assay.verdict.evidence.figures.training_figures import training_curve
from test_figures import log, structured_components, words


def event(rule: str, level: str, step: int, *, stop: bool = False) -> HealthEvent:
    known: dict[str, Any] = {
        "value": 0.2,
        "threshold": 0.1,
        "baseline": None,
        "item_ids": (),
        "message": "Something is odd.",
    }
    return HealthEvent(rule=rule, level=level, stop=stop, step=step, first_step=step, **known)  # type: ignore[arg-type]


SOME = [
    event("kl", "AMBER", 30),
    event("grad_norm", "AMBER", 41),
    event("grad_norm", "GREEN", 42),
    event("kl", "RED", 60),
    event("kl", "AMBER", 70),
    event("zero_variance", "RED", 90, stop=True),
]


def strip_words(events: list[HealthEvent], steps: int = 100, unmeasured: tuple[Any, ...] = ()) -> str:
    return render(health_strip(events, steps, unmeasured))["svg"].decode()


def test_a_span_lasts_from_one_event_of_its_rule_to_the_next_or_to_the_end() -> None:
    assert spans(SOME, 101) == {
        "kl": [(30.0, 60.0, "AMBER"), (60.0, 70.0, "RED"), (70.0, 101.0, "AMBER")],
        "grad_norm": [(41.0, 42.0, "AMBER")],
        "zero_variance": [(90.0, 101.0, "RED")],
    }


def test_a_training_without_alarms_says_so() -> None:
    shown = strip_words([])
    assert (
        "no alarm" in shown
        and f"all green ({len(HEALTH_RULES)} rules)" in shown
        and "optimizer step (100 steps)" in shown
    )


def test_alarms_have_a_row_with_letters_and_the_others_are_counted() -> None:
    shown = strip_words(SOME)
    assert all(f">{name}</text>" in shown for name in ("kl", "grad_norm", "zero_variance", "A", "R"))
    assert f"all others green ({len(HEALTH_RULES) - 3} rules)" in shown
    assert "training stopped" in shown and "not measured" not in shown


def test_rules_without_a_measurement_are_named_and_not_called_green() -> None:
    shown = strip_words(SOME, unmeasured=("entropy", "part_share"))
    assert f"all others green ({len(HEALTH_RULES) - 5} rules); not measured:" in shown
    assert all(name in shown.split("not measured:")[1] for name in ("entropy", "part_share"))


def test_a_training_that_runs_claims_no_step_it_has_not_made_and_calls_no_rule_green() -> None:
    shown = render(health_strip([], 200, reached=14))["svg"].decode()
    assert "14 of 200 steps" in shown and "no alarm so far" in shown and "green" not in shown
    figure = health_strip(SOME, 200, reached=95)
    shown = render(figure)["svg"].decode()
    assert f"others: no alarm so far ({len(HEALTH_RULES) - 3} rules)" in shown and "green" not in shown
    bars = [patch for patch in figure.axes[0].patches if patch.get_label() != "not made yet"]
    assert max(bar.get_x() + bar.get_width() for bar in bars) == 95  # type: ignore[attr-defined]


@pytest.mark.parametrize("steps", [1, 7, 100_000])
def test_a_span_of_one_step_is_drawn_however_long_the_training(steps: int) -> None:
    short = [event("kl", "RED", 0), event("kl", "GREEN", 1)]
    bar, *_ = health_strip(short, steps).axes[0].patches
    assert bar.get_width() >= 0.004 * steps  # type: ignore[attr-defined]


def test_every_rule_can_have_a_row() -> None:
    assert "all others green (0 rules)" in strip_words(
        [event(rule, "AMBER", k) for k, rule in enumerate(HEALTH_RULES)]
    )


def test_equal_events_give_equal_bytes() -> None:
    assert render(health_strip(SOME, 100)) == render(health_strip(SOME, 100))


NAMES = ["training_curve", "reward_components", "checkpoint_progression"]


def drawn(
    rows: int, alarms: Sequence[HealthEvent] = (), *, steps: int = 200, chosen: int | None = None
) -> dict[str, tuple[Figure, pd.DataFrame]]:
    components = structured_components(rows) if rows else pd.DataFrame()
    frames = (log(rows) if rows else pd.DataFrame(), components, pd.DataFrame())
    found = of_training(*frames, alarms, steps=steps, unmeasured=("entropy",), chosen_step=chosen)
    return {each.name: (each.figure, each.table) for each in found}


@pytest.mark.parametrize("rows", [0, 1, 2, 30])
def test_every_figure_is_drawn_from_what_there_is_and_says_what_is_not(rows: int) -> None:
    found = drawn(rows)
    assert list(found) == NAMES
    # Warnings are errors, also those of pixels.
    text = {name: render(figure)["svg"].decode() for name, (figure, _) in found.items()}
    assert "validations: missing" in text["checkpoint_progression"]
    assert ("reward: missing" in text["training_curve"]) == (rows == 0)
    assert "chosen" not in text["training_curve"]


def test_alarms_have_a_figure_of_their_own_where_a_rule_rang_and_while_the_training_runs() -> None:
    assert "not measured: entropy" in words(drawn(2, SOME)["health"][0])
    frames = (log(2), structured_components(2), pd.DataFrame())
    found = of_training(*frames, [], steps=9, unmeasured=(), chosen_step=None, reached=2)
    assert [each.name for each in found][:2] == ["training_curve", "health"]


def test_a_long_line_is_faint_behind_its_running_mean_and_no_legend_hides_it() -> None:
    figure = training_curve(log(60), (), chosen_step=20)
    for axes in figure.axes:
        faint, mean = axes.get_lines()[:2]
        assert faint.get_alpha() < 1 and mean.get_label() == "mean of 5 steps"
    assert [axes.get_legend() is None for axes in figure.axes] == [False, True, True, True]


def test_the_strip_stands_over_the_curves_on_the_same_axis_and_needs_no_colour() -> None:
    figure = drawn(30, SOME)["training_curve"][0]
    text = words(figure)
    assert all(f">{word}</text>" in text for word in ("kl", "zero_variance", "A", "R"))
    reward, *_, strip = figure.axes
    assert strip.get_xlim() == reward.get_xlim() == (0, 201)
    assert strip.get_position().y0 > reward.get_position().y1
    assert {patch.get_hatch() for patch in strip.patches} == {"", "////"}


def test_the_reward_says_how_many_episodes_a_step_it_is_the_mean_of() -> None:
    assert "30 steps, n = 24 episodes each" in words(drawn(30)["training_curve"][0])
    assert "n =" not in words(training_curve(log(30)))


def test_the_chosen_checkpoint_is_marked_in_every_panel() -> None:
    figure = drawn(30, chosen=20)["training_curve"][0]
    for axes in figure.axes[:4]:
        assert [20, 20] in [list(line.get_xdata()) for line in axes.get_lines()]
    assert "chosen: step 20" in words(figure)


def test_a_panel_without_values_leaves_the_ticks_of_the_others() -> None:
    figure = training_curve(log(30).drop(columns="loss"), (), steps=200)
    text = words(figure)
    assert "loss: missing" in text and ">100</text>" in text and ">200</text>" in text


def test_steps_are_whole_numbers_even_if_there_is_one() -> None:
    figure = training_curve(log(1), (), steps=1)
    render(figure)
    ticks = figure.axes[3].get_xticks()
    assert len(ticks) and all(tick == round(tick) for tick in ticks)


def test_a_spike_and_a_gap_of_one_step_survive_two_thousand() -> None:
    frame = log(2000)
    frame.loc[777, "grad_norm"] = 99.0
    frame.loc[1234, "grad_norm"] = np.nan
    line = training_curve(frame, ()).axes[3].get_lines()[0]
    y: Any = line.get_ydata()
    assert len(y) <= 620 and np.nanmax(y) == 99.0 and np.isnan(y).sum() == 1
    assert "missing (1)" in words(training_curve(frame, ()))


def test_a_thinned_line_has_the_same_extremes_in_every_run_of_steps() -> None:
    y = rng("thinned").normal(size=5000)
    kept = thinned(y, 400)
    assert len(kept) <= 400 and list(kept) == sorted(set(kept))
    width = 50
    for start in range(0, 5000, width):
        inside = kept[(kept >= start) & (kept < start + width)]
        run = y[start : start + width]
        assert y[inside].min() == run.min() and y[inside].max() == run.max()


@pytest.mark.long
def test_long_trainings_do_not_make_large_files() -> None:
    components = pd.concat([structured_components(20)] * 100, ignore_index=True).assign(step=range(2000))
    for figure in (training_curve(log(2000), SOME, steps=2000), reward_components(components, 500)):
        assert len(render(figure)["svg"]) < 300_000


@pytest.mark.long
def test_the_same_rows_give_the_same_bytes() -> None:
    frames = (log(60), structured_components(60), pd.DataFrame())
    pages = [
        [render(each.figure) for each in of_training(*frames, SOME, steps=60, unmeasured=(), chosen_step=10)]
        for _ in range(2)
    ]
    assert pages[0] == pages[1]


def test_alarms_before_the_first_logged_step_are_drawn() -> None:
    text = words(drawn(0, [event("kl", "RED", 0, stop=True)])["training_curve"][0])
    assert "training stopped" in text and ">kl</text>" in text
