"""The seeds of a recipe as text: the block of docs/results.md, and the table in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.core.counting import counted
from assay.evidence.claim.random_reward import RandomRewardControl
from assay.evidence.escape import markdown_table, one_line
from assay.evidence.formatting import MISSING, difference_text, interval_text, p_number, percent
from assay.evidence.recipe.seed_records import BaseBuilt, SeedRun, SeedsTogether

NOT_EVALUABLE = "NOT EVALUABLE"


def runs_frame(runs: Sequence[SeedRun]) -> pd.DataFrame:
    """Return one row of text a seed, with the reason where a run failed or is not evaluable."""
    rows = [
        (
            run.seed,
            MISSING if run.chosen_step is None else run.chosen_step,
            interval_text(run.before, rate=True),
            interval_text(run.after, rate=True),
            difference_text(run.gain, rate=True),
            p_number(run.p),
            f"{percent(run.greedy_before)} \u2192 {percent(run.greedy_after)}",
            MISSING if run.normalised_score is None else f"{run.normalised_score:.3f}",
            run.health or MISSING,
            _verdict(run),
            _control(run.random_reward),
        )
        for run in runs
    ]
    head = [
        "training seed",
        "step",
        "before, %",
        "after, %",
        "gain, points",
        "p",
        "greedy, %",
        "score",
        "alarms",
        "verdict",
    ]
    return pd.DataFrame(rows, columns=[*head, "random rewards, points"])


def bases_frame(bases: Sequence[BaseBuilt]) -> pd.DataFrame:
    """Return one row of text a base seed; a refused base is a row like any other."""
    rows = [
        (
            base.base_seed,
            "yes" if base.passed else f"no: {base.reason}",
            percent(base.copy_accuracy),
            percent(base.parsed_rate),
            percent(base.success_rate),
        )
        for base in bases
    ]
    return pd.DataFrame(rows, columns=["base seed", "passed", "reads off, %", "parses, %", "success, %"])


def seeds_block(found: SeedsTogether | None, task: str, code_now: str | None) -> str:
    """Return the block of docs/results.md on one task: the verdict over seeds, every seed, the bases.

    Args:
        found: What recipe.json holds of the task; None if nothing.
        task: Its name.
        code_now: Digest of the code that dvc.lock tells of; another than the runs' is said.
    """
    if found is None:
        return f"Not measured: `./run assay seeds 0..5 --task {task}` does it.\n"
    seeds = counted(len(found.runs), "training seeds")
    blocks = [f"**{found.verdict}**, {seeds}, preset `{found.preset}`. {one_line(found.sentence)}"]
    if code_now is None:
        blocks.append(
            f"Made by code {found.code_digest[:12]}; what code the last run was made by is not known."
        )
    elif found.code_digest != code_now:
        blocks.append(
            f"Made by code {found.code_digest[:12]}, not by the code of the last run ({code_now[:12]}): this"
            " table is older or newer than the evidence beside it."
        )
    blocks.append(markdown_table(runs_frame(found.runs)))
    said = [*(found.recipe.warnings if found.recipe is not None else ()), *found.notes]
    if said:
        blocks.append("\n".join(f"- {one_line(text)}" for text in said))
    if found.bases:
        blocks.append(markdown_table(bases_frame(found.bases)))
    return "\n\n".join(blocks) + "\n"


def _verdict(run: SeedRun) -> str:
    if run.verdict is None:
        return f"FAILED: {run.reason}"
    return f"{run.verdict}: {run.reason}" if run.verdict == NOT_EVALUABLE else run.verdict


def _control(control: RandomRewardControl | None) -> str:
    if control is None:
        return "not run"
    if control.verdict == NOT_EVALUABLE:
        return f"{control.verdict}: {control.reason}"
    ahead = "" if control.trained_is_ahead else "; the training is not shown to be ahead"
    return f"{difference_text(control.difference, rate=True)}: {control.verdict}{ahead}"
