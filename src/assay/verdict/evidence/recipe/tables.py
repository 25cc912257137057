"""Recipes as records, rows and Markdown: their comparison, and the block of docs/results.md on seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from pydantic import Field, JsonValue

from assay.core.counting import counted
from assay.core.errors import EvidenceError
from assay.core.records import Interval, Record
from assay.rollout.evaluation.measures import column_name
from assay.verdict.evidence.claim.effect import effect_words
from assay.verdict.evidence.claim.random_reward import RandomRewardControl
from assay.verdict.evidence.escape import markdown_table, one_line, visible
from assay.verdict.evidence.formatting import MISSING, difference_text, interval_text, p_number, percent
from assay.verdict.evidence.recipe.contest import Contest, contests
from assay.verdict.evidence.recipe.records import BaseBuilt, RecipeClaim, SeedRun, SeedsTogether
from assay.verdict.evidence.recipe.runs import RUNS, Run, check_together, find_settings_apart, group_by_recipe
from assay.verdict.evidence.recipe.verdict import recipe_claim
from assay.verdict.evidence.words.over_seeds import MEANING, NOT_EVALUABLE
from assay.verdict.evidence.words.remarks import Remark, say_all

OF_A_RUN = ("seed", "chosen_step", "verdict", "health", "before", "after")
CSV_COLUMNS = ("recipe", "run", *OF_A_RUN, "gain", "gain_low", "gain_high")


class RecipeComparison(Record):
    """What `assay runs compare` found: every recipe, and every pair of them."""

    suite_digest: str
    plan_digest: str
    base_policy: str
    n_runs: int = Field(ge=1)
    recipes: tuple[RecipeClaim, ...]
    contests: tuple[Contest, ...]
    notes: tuple[Remark, ...]


def compare_runs(runs: Sequence[Run], *, one_sided: bool, notes: Sequence[Remark] = ()) -> RecipeComparison:
    """Return the comparison of finished runs; their order does not matter.

    Raises:
        EvidenceError: there are none, or they cannot be put together (`check_together`, `group_by_recipe`).
    """
    if not runs:
        fix = "name run folders or experiments"
        raise EvidenceError("at least one finished run", found="none", where=RUNS, fix=fix)
    check_together(runs)
    recipes, apart = group_by_recipe(runs), find_settings_apart(runs)
    claim = runs[0].claim
    claims = [recipe_claim(name, own, apart=apart, one_sided=one_sided) for name, own in recipes.items()]
    return RecipeComparison(
        suite_digest=claim.plan.suite_digest,
        plan_digest=claim.plan_digest,
        base_policy=claim.before_policy,
        n_runs=len(runs),
        recipes=tuple(claims),
        contests=contests(recipes),
        notes=tuple(notes),
    )


def csv_rows(found: RecipeComparison) -> list[dict[str, Any]]:
    """Return one row a run under CSV_COLUMNS; rates and gains are shares."""
    rows = []
    for recipe in found.recipes:
        for run in recipe.runs:
            gain = {"gain": run.gain.value, "gain_low": run.gain.low, "gain_high": run.gain.high}
            own = {name: getattr(run, name) for name in OF_A_RUN}
            rows.append({"recipe": recipe.recipe, "run": run.name} | own | gain)
    return rows


def comparison_frame(found: RecipeComparison) -> pd.DataFrame:
    """Return one row of text a run; its interval is that of its own claim, over items alone."""
    rows = []
    for recipe in found.recipes:
        for run in recipe.runs:
            row: list[Any] = [recipe.recipe, run.seed, run.name, run.chosen_step, percent(run.before)]
            gain = difference_text(run.gain, rate=True)
            rows.append([*row, percent(run.after), gain, run.verdict, run.health])
    head = ["seed", "run", "step", "before, %", "after, %", "gain, points", "verdict", "alarms"]
    frame = pd.DataFrame(rows, columns=["recipe", *head])
    return frame if len(found.recipes) > 1 else frame[head]


def recipes_frame(found: RecipeComparison) -> pd.DataFrame:
    """Return one row of text a recipe; intervals are for other seeds and other items."""
    rows = []
    for each in found.recipes:
        errors = MISSING
        if each.error_of_seeds_points is not None and each.error_of_items_points is not None:
            errors = f"{each.error_of_seeds_points:.1f} / {each.error_of_items_points:.1f}"
        gain = difference_text(each.difference, rate=True)
        chance = interval_text(each.probability_of_improvement, rate=True)
        numbers = [len(each.seeds), gain, chance, errors, p_number(each.p)]
        rows.append([each.recipe, *numbers, each.marked])
    names = ["mean gain, points", "P(beats base), %", "error from seeds / items"]
    return pd.DataFrame(rows, columns=["recipe", "seeds", *names, "p", "verdict"])


def contests_frame(found: RecipeComparison) -> pd.DataFrame:
    """Return one row of text for each pair of recipes."""
    rows = []
    for each in found.contests:
        gap = difference_text(each.difference, rate=True)
        chance = interval_text(each.probability_a_beats_b, rate=True)
        rows.append([each.a, each.b, len(each.seeds), gap, chance, p_number(each.p_holm), each.marked])
    numbers = ["A \u2212 B, points", "P(A beats B), %", "p (Holm)"]
    return pd.DataFrame(rows, columns=["A", "B", "seeds in common", *numbers, "verdict"])


def comparison_markdown(found: RecipeComparison) -> str:
    """Return compare.md: verdicts first, then recipes, pairs, runs, and what the numbers mean."""
    blocks = ["# Recipes over training seeds"]
    for recipe in found.recipes:
        title = "" if len(found.recipes) == 1 else f" {recipe.recipe}:"
        blocks.append(f"**{recipe.marked}.**{visible(title)} {visible(recipe.sentence)}")
    for pair in found.contests:
        blocks.append(f"**{pair.marked}.** {visible(pair.sentence)}")
    warned = [each for recipe in found.recipes for each in recipe.warnings] + list(found.notes)
    if warned:
        blocks.append("\n".join(f"- {text}" for text in dict.fromkeys(map(visible, map(str, warned)))))
    blocks += ["## Recipes", markdown_table(recipes_frame(found))]
    if found.contests:
        blocks += ["## Against each other", markdown_table(contests_frame(found))]
    one = found.recipes[0]
    rows = f"Each row is one training: its checkpoint against the base, {counted(one.n_items, 'items')},"
    rows += f" K = {one.draws}; the interval in a row is over items alone."
    blocks += ["## Runs", rows, markdown_table(comparison_frame(found))]
    digests = (
        f"Suite {found.suite_digest[:16]}, plan {found.plan_digest[:16]}, base {found.base_policy[:16]}."
    )
    return "\n\n".join([*blocks, "## What the intervals are for", MEANING, digests]) + "\n"


def runs_frame(runs: Sequence[SeedRun]) -> pd.DataFrame:
    """Return one row of text a seed, with the reason where a run failed or is not evaluable."""
    rows = []
    for run in runs:
        verdict = run.verdict or f"FAILED: {run.reason}"
        if run.verdict == NOT_EVALUABLE:
            verdict += f": {run.reason}"
        cells = {
            "training seed": run.seed,
            "step": MISSING if run.chosen_step is None else run.chosen_step,
            "before, %": interval_text(run.before, rate=True),
            "after, %": interval_text(run.after, rate=True),
            "gain, points": difference_text(run.gain, rate=True),
            "p": p_number(run.p),
            "greedy, %": f"{percent(run.greedy_before)} \u2192 {percent(run.greedy_after)}",
            "score": MISSING if run.normalised_score is None else f"{run.normalised_score:.3f}",
            "alarms": run.health or MISSING,
            "verdict": verdict,
            "random rewards, points": _describe_control(run.random_reward),
        }
        rows.append(cells)
    return pd.DataFrame(rows)


def skill_frame(runs: Sequence[SeedRun]) -> pd.DataFrame:
    """Return one row of text a seed that finished: against the scripted rivals, flags of those who answered
    and, where a claim warns of them, of all, and its stated confidence."""
    rows: list[dict[str, object]] = []
    for run in runs:
        row: dict[str, object] = {"training seed": run.seed}
        for name, rival in run.rivals.items():
            if rival.kind == "scripted":
                row[f"ahead of {name}, points"] = difference_text(rival.difference, rate=True)
                row[f"ahead of {name}, reward"] = difference_text(rival.reward, rate=False)
        for name, held in run.measures.items():
            if name.endswith("_correct_rate"):
                row[f"{column_name(name)}, % (n)"] = f"{interval_text(held, rate=True)} ({held.n})"
        for told in (each.values for each in run.warnings if each.code == "answered_only"):
            for flag, change in zip(_listed(told["flags"]), _listed(told["changes"]), strict=True):
                gain = difference_text(Interval.model_validate(change), rate=True)
                row[f"{column_name(f'{flag}_rate')}, no answer as wrong: gain, points"] = gain
        if run.confidence is not None:
            row["Brier \u2212 best constant"] = difference_text(run.confidence.difference, rate=False)
        if len(row) > 1:
            rows.append(row)
    return pd.DataFrame(rows).fillna(MISSING)


def _listed(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _describe_control(control: RandomRewardControl | None) -> str:
    if control is None:
        return "not run"
    if not control.comparable:
        return f"{NOT_EVALUABLE}: {say_all(control.reason or ())}"
    ahead = "" if control.trained_is_ahead else "; the training is not shown to be ahead"
    words = effect_words(control.direction, control.size)
    return f"{difference_text(control.difference, rate=True)}: {words}{ahead}"


def bases_frame(bases: Sequence[BaseBuilt]) -> pd.DataFrame:
    """Return one row of text a base seed; a refused base is a row like any other."""
    rows = []
    for base in bases:
        rates = [percent(rate) for rate in (base.copy_accuracy, base.parsed_rate, base.success_rate)]
        rows.append([base.base_seed, "yes" if base.passed else f"no: {say_all(base.reasons)}", *rates])
    return pd.DataFrame(rows, columns=["base seed", "passed", "reads off, %", "parses, %", "success, %"])


def seeds_block(
    found: SeedsTogether | None, task: str, code_now: str | None, policy_now: str | None = None
) -> str:
    """Return the block of docs/results.md on one task: the verdict over seeds, every seed, the bases.

    Args:
        found: What recipe.json holds of the task; None if nothing.
        task: Its name.
        code_now: Digest of the code that dvc.lock tells of; another than the runs' is said.
        policy_now: Digest of the policy that the last run trained; where a seed came to the same, it is said.
    """
    if found is None:
        return f"Not measured: `./run assay seeds --task {task}` does it.\n"
    seeds, made = counted(len(found.runs), "training seeds"), f"Made by code {found.code_digest[:12]}"
    blocks = [f"**{found.marked}**, {seeds}, preset `{found.preset}`. {one_line(found.sentence)}"]
    if code_now is None:
        blocks.append(f"{made}; what code the last run was made by is not known.")
    elif found.code_digest != code_now:
        other = f"{made}, not by the code of the last run ({code_now[:12]})"
        again = next((run for run in found.runs if policy_now and run.policy_digest == policy_now), None)
        last = "this table is older or newer than the evidence beside it."
        if again is not None:
            last = f"the last run came to the policy of training seed {again.seed} again, byte for byte."
        blocks.append(f"{other}: {last}")
    blocks.append(markdown_table(runs_frame(found.runs)))
    if len(skill := skill_frame(found.runs)):
        blocks.append(markdown_table(skill))
    if found.remarks:
        blocks.append("\n".join(f"- {one_line(str(each))}" for each in found.remarks))
    if found.bases:
        blocks.append(markdown_table(bases_frame(found.bases)))
    return "\n\n".join(blocks) + "\n"
