"""Figures of one comparison: both arms with their difference, and the reward distributions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from matplotlib.figure import Figure

from assay.core.counting import counted
from assay.core.records import Episode, Interval
from assay.rollout.evaluation.measures import is_rate
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.differences import measure_of_primary
from assay.verdict.evidence.claim.effect import margins_of
from assay.verdict.evidence.figures.drawing import (
    AFTER,
    BEFORE,
    CONTROL,
    GREY,
    INK,
    RIVAL,
    bare_figure,
    new_figure,
    say_missing,
    styled,
)
from assay.verdict.evidence.figures.forest_rows import ROW, ForestRow, draw_forest, head_rows
from assay.verdict.evidence.figures.paired_rows import PairedRow, draw_rows, point
from assay.verdict.evidence.formatting import NO_INTERVAL, difference_text, interval_text
from assay.verdict.evidence.labels import LOWER_IS_BETTER, labelled
from assay.verdict.statistics.report import Report


def _is_zero(found: Interval | None) -> bool:
    return found is not None and found.value == 0.0


def always_zero_rates(measure: str, before: Report, after: Report, gaps: Mapping[str, Interval]) -> list[str]:
    rates = [name for name in before.measures if is_rate(name) and name != measure]
    return [
        n for n in rates if all(_is_zero(rows.get(n)) for rows in (before.measures, after.measures, gaps))
    ]


@styled
def before_after_summary(
    claim: Claim,
    before: Report,
    after: Report,
    *,
    baselines: Mapping[str, Report] | None = None,
    played: Mapping[str, Report] | None = None,
) -> Figure:
    """Return the primary metric of base, trained policy, control and rivals, above the gain over the base.

    Rivals that the claim does not name are scripted players of `baselines`; `played` as of `level_rows`. A
    claim that is not evaluable
    gives a figure that says so and shows no number.
    """
    measure = measure_of_primary(claim.plan.primary)
    if claim.verdict == "NOT EVALUABLE" or claim.difference is None:
        figure, panels = new_figure(1, 1, height=2.2)
        say_missing(panels[0], "NOT EVALUABLE; before against after")
        return figure
    players = headline_rows(level_rows(claim, before, after, baselines or {}, played))
    figure = bare_figure(height=1.65 + LEVEL_ROW * len(players))
    grid = figure.add_gridspec(2, 1, height_ratios=[LEVEL_ROW * len(players) + 0.2, 0.5])
    upper, lower = (figure.add_subplot(grid[k, 0]) for k in (0, 1))
    for k, row in enumerate(players):
        point(upper, k, row.rate, 100, row.colour, row.marker, "")
    said = [interval_text(row.rate, rate=True).replace(NO_INTERVAL, "").strip() for row in players]
    head_rows(upper, [f"{labelled(row.name)} ({row.kind})" for row in players], said, bold=(0, 1))
    upper.set_xlim(-3, 103)
    items = counted(claim.n_items, "items")
    upper.set_xlabel(f"{labelled(measure)}, % of episodes, 95 % intervals; n = {items}, K = {claim.draws}")
    fall, rise = margins_of(claim.plan.smallest_effect_points, claim.before.value if claim.before else None)
    n = counted(claim.n_clusters, claim.plan.cluster_name)
    draw_forest(
        lower,
        [ForestRow("after \u2212 before, points", claim.difference, f"n = {n}", INK, whole=True)],
        sides=("before", "after"),
        label="grey: less than the smallest change that matters",
        margins=(100 * fall, 100 * rise),
    )
    return figure


LEVEL_ROW = 0.34  # inches of a player
_LEVELS = {
    "scripted": ("a script", "scripts", "^"),
    "trivial": ("no skill", "without skill", "v"),
    "instead of training": ("the base, untrained", "uses of the base", "P"),
    "trained otherwise": ("trained otherwise", "trained otherwise", "D"),
}


@dataclass(frozen=True, slots=True)
class Level:
    """What a player reached in the primary metric, as a row of the headline."""

    name: str
    kind: str
    kinds: str  # several of them
    rate: Interval | None
    n: str
    colour: str
    marker: str


def level_rows(
    claim: Claim,
    before: Report,
    after: Report,
    baselines: Mapping[str, Report],
    played: Mapping[str, Report] | None = None,
) -> list[Level]:
    """Return base and trained policy, then control, rivals and other scripted players, best first; `played`
    has the reports of rivals and control that are no scripts, for their intervals."""
    known = {**baselines, **(played or {})}
    measure, higher = measure_of_primary(claim.plan.primary), claim.plan.direction == "higher"

    def episodes(report: Report) -> str:
        return f"n = {counted(report.n_episodes, 'episodes')}"

    rows = [
        Level("before", "the base", "", before.measures.get(measure), episodes(before), BEFORE, "o"),
        Level("after", "trained", "", after.measures.get(measure), episodes(after), AFTER, "s"),
    ]
    beside = []
    if (control := claim.random_reward) is not None and control.comparable:
        rate = Interval(value=control.after, low=None, high=None, n=control.n_items)
        n = f"n = {counted(control.n_items, 'items')}"
        if "random rewards" in known:
            rate = known["random rewards"].measures.get(measure, rate)
        beside.append(Level("random rewards", "control", "", rate, n, CONTROL, "D"))
    for name, rival in claim.rivals.items():
        kind, kinds, marker = _LEVELS[rival.kind]
        rate = Interval(value=rival.rate, low=None, high=None, n=rival.difference.n)
        n = f"n = {counted(rival.difference.n, 'items')}"
        if name in known:
            rate, n = known[name].measures.get(measure, rate), episodes(known[name])
        beside.append(Level(name, kind, kinds, rate, n, RIVAL, marker))
    for name, report in baselines.items():
        if name not in claim.rivals and (found := report.measures.get(measure)) is not None:
            beside.append(Level(name, "knows more", "that know more", found, episodes(report), GREY, "^"))

    def reached(row: Level) -> float:
        return (row.rate.value if row.rate else None) or 0.0

    return rows + sorted(beside, key=reached, reverse=higher)


def headline_rows(rows: Sequence[Level]) -> list[Level]:
    """Return the rows that a headline has room for: of each kind the best; all are in the table behind it."""
    kinds = Counter(row.kind for row in rows)
    best = {row.kind: row for row in reversed(rows)}
    return [
        row if kinds[row.kind] == 1 else replace(row, kind=f"strongest of {kinds[row.kind]} {row.kinds}")
        for row in rows
        if best[row.kind] is row
    ]


def levels_frame(rows: Sequence[Level], claim: Claim) -> pd.DataFrame:
    """Return what each player reached: player, what it is, rate, n; the gain last."""
    cells = [
        (row.name, row.kind, interval_text(row.rate, rate=True), row.n.removeprefix("n = ")) for row in rows
    ]
    if claim.difference is not None:
        gain = difference_text(claim.difference, rate=True)
        cells.append(("after \u2212 before", "gain, points", gain, counted(claim.n_items, "items")))
    return pd.DataFrame(cells, columns=["player", "what it is", f"{claim.plan.primary}, %", "n"])


@styled
def rates_before_after(claim: Claim, before: Report, after: Report, gaps: Mapping[str, Interval]) -> Figure:
    """Return every other rate before and after, with the paired difference beside it.

    Rates that the plan names are marked as such, those of which less is better too; the caption names those
    that are 0 in both arms.
    """
    rows = other_rates(claim, before, after, gaps)
    figure, (axes,) = new_figure(1, 1, height=0.85 + ROW * max(1, len(rows)))
    draw_rows(axes, rows, rate=True)
    axes.set_xlim(-3, 103)
    axes.set_xlabel("% of episodes, 95 % intervals")
    if not rows:
        say_missing(axes, "other rates")
    return figure


def other_rates(claim: Claim, before: Report, after: Report, gaps: Mapping[str, Interval]) -> list[PairedRow]:
    """Return the rows of `rates_before_after`: the rates but the primary one that are not always 0.

    What the claim judged has the claim's own difference and role; the others are differences of `gaps`. None
    if the claim is not evaluable.
    """
    if claim.verdict == "NOT EVALUABLE":
        return []
    measure = measure_of_primary(claim.plan.primary)
    zero = always_zero_rates(measure, before, after, gaps)
    rates = [name for name in before.measures if is_rate(name) and name != measure and name not in zero]
    return [_row(name, claim, before, after, gaps) for name in rates]


def _row(name: str, claim: Claim, before: Report, after: Report, gaps: Mapping[str, Interval]) -> PairedRow:
    gap, role = gaps.get(name), ""
    if name in claim.secondary:
        gap, role = claim.secondary[name].difference, "confirmatory"
    else:
        for guardrail in claim.guardrails:
            if guardrail.measure == name:
                gap, role = guardrail.difference, "guardrail"
    if name in LOWER_IS_BETTER:
        role = ", ".join(filter(None, (role, "lower is better")))
    return PairedRow(name, before.measures.get(name), after.measures.get(name), gap, role=role)


def reward_histogram(before: Sequence[Episode], after: Sequence[Episode], bins: int = 30) -> pd.DataFrame:
    """Return the rewards of both arms on common bins: low, high, before, after, before_share, after_share.

    The last bin holds its upper end; shares are of the episodes of an arm, missing for an arm without any.
    """
    arms = [np.array([e.reward for e in arm], np.float64) for arm in (before, after)]
    edges = np.histogram_bin_edges(np.concatenate(arms), bins=bins)
    counts = [np.histogram(arm, edges)[0] for arm in arms]
    shares = [
        count / len(arm) if len(arm) else np.full(bins, np.nan)
        for count, arm in zip(counts, arms, strict=True)
    ]
    columns = {"low": edges[:-1], "high": edges[1:], "before": counts[0], "after": counts[1]}
    return pd.DataFrame(columns | {"before_share": shares[0], "after_share": shares[1]})


@styled
def reward_distribution(before: Sequence[Episode], after: Sequence[Episode]) -> Figure:
    """Return the rewards of all episodes, one arm over the other on common bins, with their means."""
    figure, (axes,) = new_figure(1, 1, height=2.9)
    axes.set_xlabel("reward per episode")
    axes.set_ylabel("% of episodes")
    if not before or not after:
        say_missing(axes, "rewards of an arm")
        return figure
    table = reward_histogram(before, after)
    edges = np.array([*table["low"], table["high"].iloc[-1]])
    for arm, name, colour, style in ((before, "before", BEFORE, "-"), (after, "after", AFTER, "--")):
        share, mean = 100 * table[f"{name}_share"].to_numpy(np.float64), np.mean([e.reward for e in arm])
        axes.stairs(share, edges, fill=True, color=colour, alpha=0.28)
        said = f"{name}: mean {mean:.2f}, n = {counted(len(arm), 'episodes')}".replace("-", "\u2212")
        axes.stairs(share, edges, color=colour, lw=1.4, ls=style, label=said)
        axes.plot(mean, 0, "D", color=colour, mec="black", ms=7, clip_on=False, zorder=4)
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.1)
    return figure
