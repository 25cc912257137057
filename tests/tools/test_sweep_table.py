"""What a sweep says of its numbers: differences, corrections and what is missing, in table and figure
alike."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from assay.core.records import Episode
from assay.core.seeds import rng
from assay.verdict.evidence.figures.drawing import render
from assay.verdict.evidence.figures.sweep_figure import sweep_figure
from assay.verdict.evidence.tables.sweep_table import (
    EXPLORATORY,
    OPTIMISTIC,
    Sweep,
    SweptCheckpoint,
    against_base,
    correct_for_many,
    sweep_markdown,
    sweep_rows,
)
from assay.verdict.statistics.checkpoint_rows import checkpoint_row
from assay.verdict.statistics.report import summarise
from tests.evaluation.test_statistics import play

MEASURES = ("mean_reward", "success_rate")


def episodes(n: int, solved: int) -> list[Episode]:
    return [play(f"item{k:02}", draw, k < solved, f"c{k:02}") for k in range(n) for draw in range(2)]


def sweep_of(n: int, solved: Sequence[int], split: str = "validation", **more: object) -> Sweep:
    """Return a sweep in which checkpoint k, at step 10 k, solves the first `solved[k]` of n items."""
    base, checkpoints = episodes(n, solved[0]), []
    for k, count in enumerate(solved):
        found = episodes(n, count)
        about = {"policy_digest": f"p{k}", "suite_digest": "s", "split": "validation", "decoding": "sampled"}
        report = summarise(found, **about, draws=2, rng=rng("t"))  # type: ignore[arg-type]
        row = checkpoint_row(report.measures, report.n_episodes, step=10 * k, fraction_done=k / 10)
        gaps = against_base(base, found, MEASURES, "s") if k else {}
        checkpoints.append(
            SweptCheckpoint(
                step=10 * k, name=f"step-{10 * k}", policy_digest=f"p{k}", row=row, against_base=gaps
            )
        )
    known = {
        "format": "assay-sweep/1",
        **{"run": "r", "task": "toy", "split": split, "suite_digest": "s", "cluster_name": "scenarios"},
        **{"n_items": n, "n_clusters": len({e.cluster for e in base}), "draws": 2, "temperature": 1.0},
        "checkpoints": correct_for_many(checkpoints),
        **{"chosen_step": 10, "chosen_by": "chosen by the training", "left_out": (), "notes": (OPTIMISTIC,)},
    }
    return Sweep.model_validate(known | more)


def test_each_p_is_corrected_for_all_checkpoints_and_step_0_has_none() -> None:
    found = sweep_of(24, [4, 12, 14, 4])
    base, *others = (each.against_base for each in found.checkpoints)
    assert base == {}
    plain = [each["success_rate"].p for each in others]
    holm = [each["success_rate"].p_holm for each in others]
    assert plain[2] == 1.0 and holm[2] == 1.0
    smallest = min(p for p in plain if p is not None)
    assert holm[plain.index(smallest)] == pytest.approx(3 * smallest)


def test_the_table_begins_with_the_columns_of_checkpoint_evals_and_leaves_step_0_without_a_difference() -> (
    None
):
    found = sweep_of(24, [4, 12])
    rows, columns = sweep_rows(found)
    own = list(found.checkpoints[0].row)
    assert columns[: len(own)] == own and columns[-4:] == ["chosen", "suite", "checkpoint", "policy_digest"]
    assert rows[0]["success_rate_difference"] is None and rows[0]["chosen"] == 0 and rows[1]["chosen"] == 1
    assert rows[1]["success_rate_difference"] == pytest.approx(8 / 24)


def test_too_few_clusters_give_no_interval_and_no_p_and_that_is_said() -> None:
    found = sweep_of(4, [1, 3])
    gap = found.checkpoints[1].against_base["success_rate"]
    assert gap.p is None and gap.difference.low is None
    text = sweep_markdown(found)
    assert "+50.0 [interval missing]" in text and "no p" in text and "of one size 6" in text
    assert b"interval missing" in render(sweep_figure(found))["svg"]


def test_held_out_work_is_marked_in_the_figure_and_the_caption_says_n() -> None:
    svg = render(sweep_figure(sweep_of(24, [4, 12], "heldout")))["svg"].decode()
    assert EXPLORATORY in svg and "n = 48 episodes a checkpoint" in svg
    assert EXPLORATORY not in render(sweep_figure(sweep_of(24, [4, 12])))["svg"].decode()


def test_damaged_checkpoints_are_counted_in_the_figure_and_named_in_the_table() -> None:
    found = sweep_of(24, [4, 12], left_out=("step-000030: adapter.safetensors is not what was written",))
    assert "step-000030" in sweep_markdown(found)
    assert b"Left out: 1 damaged checkpoint." in render(sweep_figure(found))["svg"]
