"""Every figure of a run, with its caption and the table it was drawn from, in the order in which a reader
meets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from assay.core.counting import counted
from assay.core.records import Episode, HealthEvent, HealthRule, Interval
from assay.core.seeds import derive_seed
from assay.rollout.evaluation.measures import is_rate
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.differences import measure_of_primary
from assay.verdict.evidence.details.confidence import has_verdicts
from assay.verdict.evidence.figures.comparison_figures import (
    always_zero_rates,
    before_after_summary,
    level_rows,
    levels_frame,
    other_rates,
    rates_before_after,
    reward_distribution,
    reward_histogram,
)
from assay.verdict.evidence.figures.drawing import column
from assay.verdict.evidence.figures.findings import (
    moved,
    of_forest,
    of_health,
    of_line,
    of_rates,
    of_rivals,
    of_seeds,
)
from assay.verdict.evidence.figures.forest_figure import (
    cluster_gains,
    forest,
    forest_frame,
    rival_rows,
    rivals_forest,
    rivals_frame,
)
from assay.verdict.evidence.figures.health_figure import health_strip, spans
from assay.verdict.evidence.figures.illustrated_figures import (
    Illustrations,
    mark_rows,
    panels_frame,
    plane,
    side_by_side,
    spending,
    spending_rows,
)
from assay.verdict.evidence.figures.paired_rows import PairedRow, rows_frame, strata_rows
from assay.verdict.evidence.figures.progress_figures import checkpoint_progression, reward_components
from assay.verdict.evidence.figures.recipe_figures import every_seed, seeds_frame
from assay.verdict.evidence.figures.training_figures import training_curve
from assay.verdict.evidence.figures.verdict_figures import (
    FALSE_CLAIM,
    FIELD_F1,
    POWER,
    VALID,
    calibration,
    calibration_frame,
    false_claims,
    validity_by_stratum,
    validity_frame,
)
from assay.verdict.evidence.formatting import percent, split_word
from assay.verdict.evidence.labels import labelled
from assay.verdict.evidence.recipe.records import SeedsTogether
from assay.verdict.evidence.tables.trajectories import Stepped
from assay.verdict.statistics.report import Report

BRIER = "metric.brier"


@dataclass(frozen=True, slots=True)
class Drawn:
    """One figure as a reader meets it. `table` holds the numbers that were drawn, `finding` says what they
    show; `folded` ones are opened by who asks for them."""

    name: str
    figure: Figure
    caption: str
    table: pd.DataFrame
    finding: str
    folded: bool = False


def of_training(
    log: pd.DataFrame,
    components: pd.DataFrame,
    checkpoints: pd.DataFrame,
    alarms: Sequence[HealthEvent],
    *,
    steps: int,
    unmeasured: Sequence[HealthRule],
    chosen_step: int | None,
    reached: int | None = None,
) -> list[Drawn]:
    """Return the figures of a training; while it runs `chosen_step` is None and `reached` its newest of
    `steps` steps."""
    columns = ["step", "rule", "level", "value", "threshold"]
    events = pd.DataFrame([(e.step, e.rule, e.level, e.value, e.threshold) for e in alarms], columns=columns)
    window = max(1, len(log) // 10)
    rewards, running = column(log, "reward"), reached is not None
    drawn = [
        Drawn(
            "training_curve",
            training_curve(
                log,
                alarms,
                steps=steps,
                unmeasured=unmeasured,
                chosen_step=chosen_step,
                episodes=column(components, "n"),
                reached=reached,
            ),
            "Reward with a band of one standard deviation, loss, KL and gradient norm over the same steps;"
            " alarms above them where a rule rang.",
            log,
            "" if rewards is None else of_line("training reward per episode", rewards.tolist(), window),
        ),
        Drawn(
            "reward_components",
            reward_components(components, chosen_step),
            "Reward parts and rates of the training episodes; a rate counts only those for which it is"
            " defined. In each head: mean of the first and of the last tenth of the steps.",
            components,
            _of_success(components, window),
            folded=True,
        ),
        Drawn(
            "checkpoint_progression",
            checkpoint_progression(checkpoints, chosen_step, steps=steps),
            "The validation suite over checkpoints, 95 % intervals; the base is blue, the chosen one orange."
            " n: of each checkpoint.",
            _few_columns(checkpoints),
            _of_checkpoints(checkpoints, chosen_step),
        ),
    ]
    if running or spans(alarms, steps + 1):  # of a training that ended without one a sentence says it
        caption = "Alarms during training: when each rule was at AMBER or RED; "
        caption += f"it is at step {reached}." if running else "what was never measured is said."
        strip = health_strip(alarms, steps, unmeasured, reached=reached)
        finding = of_health(alarms, steps, unmeasured, running=running)
        drawn.insert(1, Drawn("health", strip, caption, events, finding, folded=True))
    return drawn


def _few_columns(checkpoints: pd.DataFrame) -> pd.DataFrame:
    """Return step, episodes, and each measure that is not always 0 with its interval in one cell."""
    kept = {name: checkpoints[name] for name in ("step", "episodes") if name in checkpoints}
    for name in checkpoints:
        y, *ends = (column(checkpoints, each) for each in (name, f"{name}_low", f"{name}_high"))
        if (
            y is None
            or any(end is None for end in ends)
            or name.startswith(("best_of_k_", "greedy_"))
            or not y.any()
        ):
            continue
        kept[name] = [
            f"{value:.3f} [{low:.3f}, {high:.3f}]".replace("-", "\u2212") if value == value else None
            for value, low, high in zip(y, *(end for end in ends if end is not None), strict=True)
        ]
    return pd.DataFrame(kept)


def _of_success(components: pd.DataFrame, window: int) -> str:
    values = column(components, "success_rate")
    return "" if values is None else of_line("success while training", values.tolist(), window, rate=True)


def _of_checkpoints(frame: pd.DataFrame, chosen_step: int | None) -> str:
    success, steps = column(frame, "success_rate"), column(frame, "step")
    if success is None or steps is None:
        return ""
    shown = int(steps[-1]) if chosen_step is None else chosen_step
    rates = dict(zip(steps.astype(int).tolist(), success.tolist(), strict=True))
    if shown not in rates:
        return ""
    n, which = column(frame, "episodes"), "the last step" if chosen_step is None else "the chosen step"
    counts = "" if n is None else f" (n = {n.max():.0f} episodes each)"
    first = int(steps[0])
    return (
        f"Validation success: {percent(rates[first])} % at step {first}, {percent(rates[shown])} % at {which}"
        f" {shown}{counts}"
    )


def of_comparison(
    claim: Claim,
    before: Report,
    after: Report,
    arms: tuple[Sequence[Episode], Sequence[Episode]],
    gaps: Mapping[str, Interval],
    baselines: Mapping[str, Report],
    *,
    cluster_name: str,
    played: Mapping[str, Report] | None = None,
) -> list[Drawn]:
    """Return the figures of the held-out comparison; those of one task only where its episodes hold what they
    show.

    `played` as of `level_rows`. A claim that is not evaluable leaves out whatever pairs the arms.
    """
    paired = claim.verdict != "NOT EVALUABLE" and claim.difference is not None
    n = counted(claim.n_clusters, cluster_name)
    primary, items = measure_of_primary(claim.plan.primary), f"{claim.n_items} items"
    drawn = [
        Drawn(
            "before_after_summary",
            before_after_summary(claim, before, after, baselines=baselines, played=played),
            f"{split_word(claim.split).capitalize()} {labelled(primary)} of the base, the trained policy and"
            " what it is compared with, and the paired gain.",
            levels_frame(level_rows(claim, before, after, baselines, played) if paired else [], claim),
            moved(labelled(primary), claim.before, claim.after, claim.difference, n, rate=True)
            if paired
            else "Not evaluable: no number is shown",
        ),
        Drawn(
            "reward_distribution",
            reward_distribution(*arms),
            f"Rewards of {split_word(claim.split)} episodes, one arm over the other on common bins; diamonds:"
            " means.",
            reward_histogram(*arms),
            moved(
                "mean reward",
                before.measures.get("mean_reward"),
                after.measures.get("mean_reward"),
                gaps.get("mean_reward"),
                items,
                rate=False,
            )
            if paired
            else "",
            folded=True,
        ),
    ]
    if not paired:
        return drawn
    gains = cluster_gains(*arms, primary)
    drawn.append(
        Drawn(
            "forest",
            forest(claim, gains),
            f"The gain by subgroup and overall, and how the gains of the {cluster_name} are spread.",
            forest_frame(claim, gains),
            of_forest(claim, [each.gain.value or 0.0 for each in gains]),
        )
    )
    if rates := other_rates(claim, before, after, gaps):
        zero = ", ".join(map(labelled, always_zero_rates(primary, before, after, gaps)))
        drawn.append(
            Drawn(
                "rates",
                rates_before_after(claim, before, after, gaps),
                "Every other rate before and after; a difference pairs the items in which both arms have one."
                + (f" Always 0: {zero}." if zero else ""),
                rows_frame(rates, rate=True),
                of_rates({row.name: row.difference for row in rates}),
            )
        )
    seed = derive_seed("figures", claim.plan.suite_digest)
    return [*drawn, *_of_one_task(before, after, arms, gaps, baselines, seed)]


def of_what_was_done(
    shows: Illustrations,
    shown: Sequence[Stepped],
    arms: tuple[Sequence[Episode], Sequence[Episode]],
    truths: Mapping[str, str],
    seed: int,
) -> list[Drawn]:
    """Return the figures of a task that shows what was done: answers, budgets, and one world."""
    marks, budgets = mark_rows(arms, shows, seed), spending_rows(arms, shows, seed)
    wrong, uses = marks[0], [(budget, row) for budget, rows in budgets.items() for row in rows]
    of_items = f"{0 if wrong.difference is None else wrong.difference.n} items"
    drawn = list[Drawn]()
    if any(mark is not None for own in shows.marks for mark in own):
        drawn.append(
            Drawn(
                "answers",
                plane(shows, arms),
                "Where answers lie, the first draw of every item. Wrong findings are red; what was there and"
                " not found is none of them. The table: how often in all draws.",
                rows_frame(marks, rate=True),
                moved(wrong.name, wrong.before, wrong.after, wrong.difference, of_items, rate=True),
            )
        )
    if uses:
        budget, use = max(
            uses, key=lambda each: abs((each[1].difference and each[1].difference.value) or 0.0)
        )
        n = f"{0 if use.difference is None else use.difference.n} items"
        table = pd.concat([rows_frame(rows, rate=True).assign(budget=name) for name, rows in budgets.items()])
        drawn.append(
            Drawn(
                "budgets",
                spending(budgets),
                "Where each policy spends its budget and its turns, with paired differences.",
                table[["budget", *table.columns[:-1]]],
                moved(
                    f"share of \u201c{use.name}\u201d in {budget}",
                    use.before,
                    use.after,
                    use.difference,
                    n,
                    rate=True,
                ),
                folded=True,
            )
        )
    for each in shown[:1]:  # all of them are on the page, turn by turn
        if each.pictures is None:
            continue
        item = each.pair.before.item_id
        before, after = (own[-1].said for own in each.pictures)
        ends = ["success" if e.success else "no success" for e in (each.pair.before, each.pair.after)]
        drawn.append(
            Drawn(
                "one_world",
                side_by_side(each.pictures),
                "What base (left) and trained policy (right) had in hand at the end, on common scales. The"
                f" truth: {truths[item]}. The base {before}; the trained policy {after}. Item {item[:16]},"
                f" draw {each.pair.before.draw}; {each.pair.reason}.",
                panels_frame(each.pictures),
                f"One world (n = 1): {ends[0]} before training, {ends[1]} after",
                folded=True,
            )
        )
    return drawn


def of_rivals_of(claim: Claim) -> list[Drawn]:
    """Return the figure of the trained policy against its baselines; none where nothing may be claimed, or it
    has none."""
    rows = rival_rows(claim) if claim.verdict != "NOT EVALUABLE" else []
    if len(rows) < 2:
        return []
    return [
        Drawn(
            "rivals",
            rivals_forest(rows, labelled(measure_of_primary(claim.plan.primary))),
            "Baselines on the same items: the trained policy minus each, paired. The diamond is the gain over"
            " the base.",
            rivals_frame(rows),
            of_rivals(rows[:-1], higher=claim.plan.direction == "higher"),
        )
    ]


def of_seeds_of(found: SeedsTogether, primary: str) -> Drawn:
    """Return the figure of every training seed of a recipe; `primary` is the plan's measure, by its name."""
    gains = [run.gain for run in found.runs if run.gain is not None]
    whole = None if found.recipe is None else found.recipe.difference
    return Drawn(
        "seeds",
        every_seed(found.runs, whole, labelled(measure_of_primary(primary))),
        "The gain of every training seed over the base, its interval over items alone; the diamond takes"
        " seeds and items as samples.",
        seeds_frame(found.runs),
        of_seeds(len(found.runs), gains, whole),
    )


def _of_one_task(
    before: Report,
    after: Report,
    arms: tuple[Sequence[Episode], Sequence[Episode]],
    gaps: Mapping[str, Interval],
    baselines: Mapping[str, Report],
    seed: int,
) -> list[Drawn]:
    drawn, reports = [], (before, after)

    def rows(measure: str, name: str, within: str = "") -> list[PairedRow]:
        return strata_rows(reports, arms, measure, gaps.get(measure), name=name, seed=seed, within=within)

    def said(name: str, measure: str) -> str:
        both, gap = [report.measures.get(measure) for report in reports], gaps.get(measure)
        n = "0 items" if gap is None else f"{gap.n} items"
        return moved(name, both[0], both[1], gap, n, rate=is_rate(measure))

    if has_verdicts(arms[0]):
        frame = calibration_frame(*arms)
        caption = (
            "How often verdicts were right, by stated confidence and by significance, 95 % intervals; n"
            " episodes as bars. Of the Brier score lower is better."
        )
        finding = said("Brier score", BRIER)
        drawn.append(Drawn("calibration", calibration(frame), caption, frame, finding, folded=True))
    if FALSE_CLAIM in before.measures:
        false = rows(FALSE_CLAIM, "false claims, null worlds", "null, ")
        power = rows(POWER, "discoveries, signal worlds", "signal, ")
        caption = (
            "False claims where there is nothing to find and discoveries where there is, with 95 % intervals;"
            " scripted players in grey. The table: by subgroup, with paired differences."
        )
        table = rows_frame([*false, *power], rate=True)
        finding = said("false claims on null worlds", FALSE_CLAIM)
        drawn.append(
            Drawn("false_claims", false_claims(false[0], power[0], baselines), caption, table, finding)
        )
    if (table_of_validity := validity_frame(before, after)) is not None:
        valid, f1 = rows(VALID, "all"), rows(FIELD_F1, "all")
        caption = "Schema validity and field F1 by stratum, before and after, with paired differences."
        figure = validity_by_stratum(valid, f1)
        finding = said("answers that satisfy their schema", VALID)
        drawn.append(Drawn("validity", figure, caption, table_of_validity, finding))
    return drawn
