"""Every checkpoint of a run on one suite, beside step 0: rows, paired differences, and what may be said of
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from pydantic import Field

from assay.core.counting import counted
from assay.core.records import Episode, Interval, Record
from assay.core.seeds import rng
from assay.verdict.evidence.claim.differences import Comparison, compare_measure, with_holm
from assay.verdict.evidence.escape import markdown_table, one_line
from assay.verdict.evidence.formatting import (
    MISSING,
    difference_text,
    interval_text,
    missing_interval_said,
    p_number,
    split_word,
)

EXPLORATORY = "held-out, exploratory: no claim"
OPTIMISTIC = (
    "The best of many checkpoints on the suite they are compared on looks better than it is: choose on"
    " validation, report on held-out."
)
MEASURES = (("mean_reward", False), ("success_rate", True))  # and whether it is a rate
NAMES = (
    *("step", "mean reward", "success", "reward against step 0", "success against step 0"),
    *("p", "p (Holm)", "checkpoint"),
)


class SweptCheckpoint(Record):
    """One policy on the suite. `row` is the row of checkpoint_evals.csv; `against_base` is empty at step
    0."""

    step: int = Field(ge=0)
    name: str = Field(description="folder it was read from; base at step 0")
    policy_digest: str
    row: dict[str, float | int | None]
    against_base: dict[str, Comparison] = Field(description="by measure, checkpoint - base over paired items")


class Sweep(Record):
    """All checkpoints of a run on one suite, step 0 first, steps ascending."""

    format: Literal["assay-sweep/1"]
    run: str
    task: str
    split: Literal["validation", "heldout"]
    suite_digest: str
    n_items: int = Field(ge=1)
    n_clusters: int = Field(ge=1)
    cluster_name: str
    draws: int = Field(ge=1)
    temperature: float
    checkpoints: tuple[SweptCheckpoint, ...] = Field(min_length=1)
    chosen_step: int | None = Field(
        description="null: not known, or chosen on another suite than one may look at"
    )
    chosen_by: str | None = Field(description="who chose it")
    left_out: tuple[str, ...] = Field(description="checkpoints that could not be used, each with the reason")
    notes: tuple[str, ...]

    @property
    def label(self) -> str:
        """What every table and figure of it is headed with."""
        return EXPLORATORY if self.split == "heldout" else "validation"


def against_base(
    base: Sequence[Episode],
    episodes: Sequence[Episode],
    measures: Sequence[str],
    suite_digest: str,
    reward_range: tuple[float, float] | None = None,
) -> dict[str, Comparison]:
    """Return the paired difference to the base for each measure; its luck depends on suite and measure
    alone.

    Raises:
        EvidenceError: The two did not play the same items.
    """
    return {
        name: compare_measure(
            base, episodes, name, rng("sweep", suite_digest, name), reward_range=reward_range
        )
        for name in measures
    }


def correct_for_many(checkpoints: Sequence[SweptCheckpoint]) -> tuple[SweptCheckpoint, ...]:
    """Return the checkpoints with the p of each measure corrected for how many of them were looked at."""
    measures = list(dict.fromkeys(name for each in checkpoints for name in each.against_base))
    columns = {
        name: with_holm(
            {str(k): c.against_base[name] for k, c in enumerate(checkpoints) if name in c.against_base}
        )
        for name in measures
    }
    return tuple(
        each.model_copy(update={"against_base": {name: columns[name][str(k)] for name in each.against_base}})
        for k, each in enumerate(checkpoints)
    )


def sweep_rows(sweep: Sweep) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of sweep.csv and their columns: those of checkpoint_evals.csv, then differences, then
    what is what."""
    flat = [_flatten(each, sweep) for each in sweep.checkpoints]
    # A difference has no cell at step 0, and a flag that one checkpoint alone raised has none elsewhere:
    # missing, not 0.
    longest = max(flat, key=len)
    columns = list(
        dict.fromkeys([*sweep.checkpoints[0].row, *longest, *(name for row in flat for name in row)])
    )
    return [{name: row.get(name) for name in columns} for row in flat], columns


def _flatten(each: SweptCheckpoint, sweep: Sweep) -> dict[str, Any]:
    row: dict[str, Any] = dict(each.row)
    for name, found in each.against_base.items():
        gap, start = found.difference, f"{name}_difference"
        row |= {start: gap.value, f"{start}_low": gap.low, f"{start}_high": gap.high}
        row |= {f"{start}_p": found.p, f"{start}_p_holm": found.p_holm}
    chosen = None if sweep.chosen_step is None else int(each.step == sweep.chosen_step)
    named = {"checkpoint": each.name, "policy_digest": each.policy_digest}
    return row | {"chosen": chosen, "suite": sweep.label} | named


def sweep_frame(sweep: Sweep) -> pd.DataFrame:
    """Return the table for people: values with intervals, rates in per cent, differences in points."""
    rows = []
    for each in sweep.checkpoints:
        cells = [f"{each.step}{' (chosen)' if each.step == sweep.chosen_step else ''}"]
        cells += [interval_text(_interval(each.row, name), rate=rate) for name, rate in MEASURES]
        gaps = each.against_base
        cells += [
            difference_text(gaps[name].difference, rate=rate) for name, rate in MEASURES if name in gaps
        ]
        cells += (
            [p_number(gaps["success_rate"].p), p_number(gaps["success_rate"].p_holm)] if gaps else [""] * 4
        )
        rows.append([*cells, each.name])
    return pd.DataFrame(rows, columns=list(NAMES))


def _interval(row: Mapping[str, float | int | None], name: str) -> Interval:
    n = row["episodes"]
    return Interval(value=row[name], low=row[f"{name}_low"], high=row[f"{name}_high"], n=int(n or 0))


def caption(sweep: Sweep, *, table: bool = True) -> str:
    """Return what a reader has to know beside the numbers: n, what the intervals are and, of a table, what
    the p is of."""
    n = sweep.n_items * sweep.draws
    suite = f"{counted(sweep.n_items, 'items')} in {counted(sweep.n_clusters, sweep.cluster_name)}"
    played = f"{counted(sweep.draws, 'draws')} at temperature {sweep.temperature:g}"
    chosen, p = MISSING, ""
    if table:
        many = counted(sum(bool(each.against_base) for each in sweep.checkpoints), "checkpoints")
        p = f" p is of success; p (Holm) is corrected for {many}, those that stand here."
    if sweep.chosen_step is not None:
        chosen = f"step {sweep.chosen_step}, {sweep.chosen_by}"
        p += " That one of them was chosen for doing well is in neither." if table else ""
    return (
        f"Suite: {split_word(sweep.split)}, {suite}, {played}, n = {n} episodes a checkpoint."
        f" {'Brackets' if table else 'Bars'}: 95 % intervals, {sweep.cluster_name} as the unit. Differences"
        " to step 0 (the base) are paired by item, with the intervals of the claim's tests, not corrected for"
        f" their number.{p} Chosen: {chosen}."
    )


def sweep_markdown(sweep: Sweep) -> str:
    """Return the sweep as Markdown; what names it was read under means nothing in it."""
    frame = sweep_frame(sweep)
    head = f"# Checkpoints of {one_line(sweep.run)}: {sweep.label}"
    blocks = [head, markdown_table(frame), one_line(caption(sweep))]
    if any("interval missing" in str(cell) for cell in frame.to_numpy().flat):
        blocks.append(missing_interval_said(sweep.cluster_name))
    blocks += [one_line(note) for note in sweep.notes]
    if sweep.left_out:
        blocks += [f"Left out: {counted(len(sweep.left_out), 'checkpoints')}."]
        blocks += ["\n".join(f"- {one_line(said)}" for said in sweep.left_out)]
    return "\n\n".join(blocks) + "\n"
