"""The figures of a training work while it runs: on few rows, on none, on very many, with alarms over the
curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from assay.core.records import HealthEvent
from assay.core.seeds import rng
from assay.evidence.figures.drawing import render, thinned
from assay.evidence.figures.gallery import of_training
from assay.evidence.figures.training_figures import reward_components, training_curve
from test_figures import log, structured_components, words
from test_health_figure import SOME, event

NAMES = ["training_curve", "health", "reward_components", "checkpoint_progression"]


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
    text = {name: words(figure) for name, (figure, _) in found.items()}  # warnings are errors
    assert "validations: missing" in text["checkpoint_progression"]
    assert ("reward: missing" in text["training_curve"]) == (rows == 0)
    assert "not measured: entropy" in text["training_curve"] and "chosen" not in text["training_curve"]


def test_the_strip_stands_over_the_curves_on_the_same_axis_and_needs_no_colour() -> None:
    figure = drawn(30, SOME)["training_curve"][0]
    text = words(figure)
    assert all(f">{word}</text>" in text for word in ("kl", "zero_variance", "A", "R"))
    reward, *_, strip = figure.axes
    assert strip.get_xlim() == reward.get_xlim() == (0, 201)
    assert strip.get_position().y0 > reward.get_position().y1
    assert {patch.get_hatch() for patch in strip.patches} == {"", "////"}


def test_the_reward_says_how_many_episodes_a_step_it_is_the_mean_of() -> None:
    assert "30 logged steps, n = 24 episodes a step" in words(drawn(30)["training_curve"][0])
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


def test_long_trainings_do_not_make_large_files() -> None:
    components = pd.concat([structured_components(20)] * 100, ignore_index=True).assign(step=range(2000))
    for figure in (training_curve(log(2000), SOME, steps=2000), reward_components(components, 500)):
        assert len(render(figure)["svg"]) < 300_000


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
