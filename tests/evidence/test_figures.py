"""Figures are equal bytes for equal data, touch no global state, and draw missing data as missing."""

from __future__ import annotations

import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from assay.evaluation.report import checkpoint_row
from assay.evidence.claim import Claim
from assay.evidence.comparison_figures import before_after_summary, reward_distribution
from assay.evidence.differences import deltas
from assay.evidence.figures import render
from assay.evidence.training_figures import checkpoint_progression, reward_components, training_curve
from assay.records import Episode
from assay.seeds import rng
from conftest import make_claim, make_report


def words(figure: Figure) -> str:
    """Return all text of a rendered figure."""
    return render(figure)["svg"].decode()


def log(n: int = 50) -> pd.DataFrame:
    """Return a training log of n steps with all columns."""
    noise, step = rng("log"), np.arange(1, n + 1)
    columns = ["epoch", "loss", "reward", "reward_std", "kl", "grad_norm", "learning_rate"]
    return pd.DataFrame({"step": step, **{name: noise.normal(0, 1, n) for name in columns}})


def checkpoints(before: list[Episode], after: list[Episode]) -> pd.DataFrame:
    """Return the rows of two checkpoints."""
    rows = [checkpoint_row(make_report(e), step=10 * k, fraction_done=k / 2) for k, e in enumerate((before, after))]
    return pd.DataFrame(rows)


def test_equal_data_give_equal_bytes() -> None:
    first, second = render(training_curve(log())), render(training_curve(log()))
    assert first == second
    assert first["png"].startswith(b"\x89PNG") and b"Software" not in first["png"]
    assert b"<dc:date>" not in first["svg"] and b"Matplotlib v" not in first["svg"]


def test_rendering_twice_gives_equal_bytes(before: list[Episode], after: list[Episode]) -> None:
    figure = checkpoint_progression(checkpoints(before, after), 10)
    assert render(figure) == render(figure)


def test_no_global_state_is_touched() -> None:
    settings = mpl.rcParams.copy()
    render(training_curve(log()))
    assert mpl.rcParams.copy() == settings
    names = ("figures", "training_figures", "comparison_figures")
    assert not any(hasattr(sys.modules[f"assay.evidence.{name}"], "pyplot") for name in names)


@pytest.mark.parametrize("column", ["reward", "loss", "kl", "grad_norm"])
def test_a_missing_column_is_named_as_missing(column: str) -> None:
    assert f"{column}: missing" in words(training_curve(log().drop(columns=column)))
    blank = log()
    blank[column] = np.nan
    assert f"{column}: missing" in words(training_curve(blank))


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


def test_the_chosen_checkpoint_is_marked(before: list[Episode], after: list[Episode]) -> None:
    text = words(checkpoint_progression(checkpoints(before, after), 10))
    assert "chosen: step 10" in text and "mass_acc" in text and "n = 160" in text


def test_a_checkpoint_without_interval_says_so(before: list[Episode], after: list[Episode]) -> None:
    frame = checkpoints(before, after)
    frame.loc[0, ["mean_reward_low", "mean_reward_high"]] = np.nan
    assert "interval missing" in words(checkpoint_progression(frame, None))


def test_the_summary_shows_difference_strata_and_baselines(
    before: list[Episode], after: list[Episode], claim: Claim
) -> None:
    first, second = make_report(before), make_report(after)
    gaps = deltas(before, after, list(first.measures), 0)
    text = words(before_after_summary(claim, first, second, gaps, baselines={"random": first}))
    for word in ("tier hard", "random (success_rate)", "points", "IMPROVED", "40 items"):
        assert word in text


def test_a_claim_that_is_not_evaluable_draws_no_number(before: list[Episode], after: list[Episode]) -> None:
    found = make_claim(before, after, after_suite="x" * 64)
    figure = before_after_summary(found, make_report(before), make_report(after), {})
    assert "NOT EVALUABLE" in words(figure) and not figure.axes[0].get_lines()


def test_distributions_share_their_bins(before: list[Episode], after: list[Episode]) -> None:
    figure = reward_distribution(before, after)
    assert "n = 160" in words(figure)
    edges = [patch.get_data().edges for patch in figure.axes[0].patches]
    assert all(np.array_equal(edge, edges[0]) for edge in edges)


def test_an_empty_arm_is_missing(before: list[Episode]) -> None:
    assert "missing" in words(reward_distribution(before, []))
