"""Every figure of a run, with its caption and the table it was drawn from, in the order in which a reader
meets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from assay.core.records import Episode, HealthEvent, HealthRule, Interval
from assay.core.seeds import derive_seed
from assay.evidence.claim.claim import Claim
from assay.evidence.claim.differences import measure_of_primary
from assay.evidence.figures.comparison_figures import (
    before_after_summary,
    reward_distribution,
    reward_histogram,
    summary_rows,
)
from assay.evidence.figures.drawing import column
from assay.evidence.figures.forest_figure import cluster_gains, forest, forest_frame
from assay.evidence.figures.health_figure import health_strip
from assay.evidence.figures.paired_rows import PairedRow, rows_frame, strata_rows
from assay.evidence.figures.training_figures import checkpoint_progression, reward_components, training_curve
from assay.evidence.figures.verdict_figures import (
    FALSE_CLAIM,
    FIELD_F1,
    POWER,
    VALID,
    calibration,
    calibration_frame,
    false_claims,
    has_verdicts,
    validity_by_stratum,
    validity_frame,
)
from assay.statistics.report import Report


@dataclass(frozen=True, slots=True)
class Drawn:
    """One figure as a reader meets it. `table` holds the numbers that were drawn, `finding` says what they
    show."""

    name: str
    figure: Figure
    caption: str
    table: pd.DataFrame
    finding: str = ""


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
    return [
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
            "Alarms, then reward with a band of one standard deviation, loss, KL and gradient norm over the"
            " same steps.",
            log,
        ),
        Drawn(
            "health",
            health_strip(alarms, steps, unmeasured, reached=reached),
            "Alarms during training: AMBER and RED spans of each rule; "
            + (
                "what was never measured is said."
                if reached is None
                else f"the training runs and is at step {reached}."
            ),
            events,
        ),
        Drawn(
            "reward_components",
            reward_components(components, chosen_step),
            "Reward parts and rates of the training episodes; a rate counts only those for which it is"
            " defined.",
            components,
        ),
        Drawn(
            "checkpoint_progression",
            checkpoint_progression(checkpoints, chosen_step, steps=steps),
            "The validation suite over checkpoints; the chosen one is marked. Rates that are not defined for"
            " every episode, and what is played once an item, have fewer than the n of the title.",
            checkpoints,
        ),
    ]


def of_comparison(
    claim: Claim,
    before: Report,
    after: Report,
    arms: tuple[Sequence[Episode], Sequence[Episode]],
    gaps: Mapping[str, Interval],
    baselines: Mapping[str, Report],
    *,
    cluster_name: str,
) -> list[Drawn]:
    """Return the figures of the held-out comparison; those of one task only where its episodes hold what they
    show.

    A claim that is not evaluable leaves out whatever pairs the arms.
    """
    paired = claim.verdict != "NOT EVALUABLE"
    drawn = [
        Drawn(
            "before_after_summary",
            before_after_summary(claim, before, after, gaps, baselines=baselines),
            f"Held-out {cluster_name} before and after, and the paired difference with its 95 % interval.",
            rows_frame(summary_rows(claim, before, after, gaps), rate=True),
        ),
        Drawn(
            "reward_distribution",
            reward_distribution(*arms, gaps if paired else None),
            "Rewards of held-out episodes on common bins"
            + (
                ", the mean difference of paired items, and the difference of the medians of all episodes."
                if paired
                else "."
            ),
            reward_histogram(*arms),
        ),
    ]
    if not paired:
        return drawn
    gains = cluster_gains(*arms, measure_of_primary(claim.plan.primary))
    drawn.append(
        Drawn(
            "forest",
            forest(claim, gains),
            f"The gain of each of the {cluster_name}, sorted, beside the overall gain and its strata.",
            forest_frame(claim, gains),
        )
    )
    return [
        *drawn,
        *_of_one_task(before, after, arms, gaps, baselines, derive_seed("figures", claim.plan.suite_digest)),
    ]


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
        return strata_rows(reports, arms, measure, name=name, seed=seed, within=within)

    if has_verdicts(arms[0]):
        frame = calibration_frame(*arms)
        caption = (
            "How often verdicts were right, by stated confidence and by significance; n episodes under each."
        )
        drawn.append(Drawn("calibration", calibration(frame, gaps, reports), caption, frame))
    if FALSE_CLAIM in before.measures:
        false = rows(FALSE_CLAIM, "false claims, null worlds", "null worlds, ")
        power = rows(POWER, "discoveries, signal worlds", "signal worlds, ")
        caption = (
            "False claims on worlds that hold nothing and discoveries on those that do, with paired"
            " differences."
        )
        table = rows_frame([*false, *power], rate=True)
        drawn.append(Drawn("false_claims", false_claims(false, power, baselines), caption, table))
    if (table_of_validity := validity_frame(before, after)) is not None:
        valid, f1 = rows(VALID, "all"), rows(FIELD_F1, "all")
        caption = "Schema validity and field F1 by stratum, before and after, with paired differences."
        drawn.append(Drawn("validity", validity_by_stratum(valid, f1, baselines), caption, table_of_validity))
    return drawn
