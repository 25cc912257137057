"""Tables of one comparison: the before/after record, the generated block of docs/results.md, and what
`dvc plots` reads (long tables, one row a bar; rates in per cent, their differences in points)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.core.records import Episode, Interval, Record
from assay.rollout.evaluation.measures import column_name, is_rate
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.differences import measure_of_primary
from assay.verdict.evidence.escape import markdown_table, one_line, visible
from assay.verdict.evidence.figures.comparison_figures import reward_histogram
from assay.verdict.evidence.formatting import (
    MISSING,
    NO_INTERVAL,
    difference_text,
    interval_text,
    missing_interval_said,
    p_number,
    split_word,
)
from assay.verdict.evidence.words.sentences import controls_said, heading, warned
from assay.verdict.statistics.report import Report

Row = dict[str, float | int | None]


class PairedMeasures(Record):
    """Both arms and their paired difference; keys are columns, `<column>_low` and `_high` the 95 %
    interval."""

    pre: Row
    post: Row
    delta: Row


class BeforeAfter(Record):
    """What before_after_metrics.json holds: sampled at the top, greedy beside it (null if it was not
    played)."""

    pre: Row
    post: Row
    delta: Row
    greedy: PairedMeasures | None


def _row(n: int, measures: Mapping[str, Interval]) -> Row:
    row: Row = {"n": n}
    row |= {column_name(name): found.value for name, found in measures.items()}
    for name, found in measures.items():
        row |= {f"{column_name(name)}_low": found.low, f"{column_name(name)}_high": found.high}
    return row


def _ordered(measures: Mapping[str, Interval]) -> dict[str, Interval]:
    first = ["mean_reward", "median_reward", "success_rate"]
    known = [name for name in first if name in measures]
    return {name: measures[name] for name in [*known, *(name for name in measures if name not in first)]}


def measure_both(before: Report, after: Report, gaps: Mapping[str, Interval]) -> PairedMeasures:
    """Return both reports, which are on one suite with one decoding, and their paired differences `gaps` as
    flat rows; n is episodes, in `delta` paired items."""
    names = [name for name in _ordered(before.measures) if name in after.measures]
    return PairedMeasures(
        pre=_row(before.n_episodes, _ordered(before.measures)),
        post=_row(after.n_episodes, _ordered(after.measures)),
        delta=_row(before.n_items, {name: gaps[name] for name in names}),
    )


def before_after_metrics(
    before: Report,
    after: Report,
    gaps: Mapping[str, Interval],
    greedy: tuple[Report, Report, Mapping[str, Interval]] | None = None,
) -> BeforeAfter:
    """Return before_after_metrics.json; `gaps` are paired differences by measure, `greedy` is the same three
    or None."""
    sampled = measure_both(before, after, gaps)
    return BeforeAfter(
        pre=sampled.pre,
        post=sampled.post,
        delta=sampled.delta,
        greedy=None if greedy is None else measure_both(*greedy),
    )


def main_measures(before: Report, after: Report) -> list[str]:
    """Return the main measures: reward, success, the task's flags that are not always 0, parsing and tokens.

    What the columns `<x>_acc` hold is shown in any case.
    """

    def shown(name: str) -> bool:
        arms = [report.measures.get(name) for report in (before, after)]
        return name.endswith("_correct_rate") or any(arm is None or arm.value != 0.0 for arm in arms)

    fixed = ("mean_reward", "success_rate", "parsed_rate", "mean_tokens_per_completion")
    flags = [
        name for name in _ordered(before.measures) if is_rate(name) and name not in (*fixed, "truncated_rate")
    ]
    names = [*fixed[:2], *filter(shown, flags), *fixed[2:]]
    return [name for name in names if name in before.measures]


def measures_frame(
    before: Report, after: Report, gaps: Mapping[str, Interval], only: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return one row of text per measure: measure, before, after, difference, n (pairs in which both arms are
    defined).

    Where a measure is asked of some episodes only, an arm says of how many: the two are then not of the same
    items, and their difference, which is, need not be the difference of the row. `only` names the measures to
    show, in their order; without it all are shown.
    """
    rows = [
        {
            "measure": column_name(name),
            "before": _own(before, name),
            "after": _own(after, name),
            "difference": difference_text(gaps.get(name), rate=is_rate(name)),
            "n": gaps[name].n if name in gaps else 0,
        }
        for name in (_ordered(before.measures) if only is None else only)
    ]
    return pd.DataFrame(rows)


def _own(report: Report, name: str) -> str:
    found = report.measures.get(name)
    text = interval_text(found, rate=is_rate(name))
    if found is None or found.value is None:
        return text
    return text if found.n == max(each.n for each in report.measures.values()) else f"{text} of {found.n}"


def strata_frame(claim: Claim, before: Report, after: Report) -> pd.DataFrame:
    """Return the primary metric by stratum as text: stratum, items, clusters, before, after, difference, p
    (Holm)."""
    measure = claim.plan.primary if claim.plan.primary.endswith("_rate") else f"{claim.plan.primary}_rate"
    rows = []
    for name, found in claim.strata.items():
        label, _, value = name.partition("=")
        arms = [report.strata.get(label, {}).get(value) for report in (before, after)]
        rows.append(
            {
                "stratum": name,
                "items": arms[0].n_items if arms[0] else found.difference.n,
                "clusters": found.n_clusters,
                "before": interval_text(arms[0].measures.get(measure) if arms[0] else None, rate=True),
                "after": interval_text(arms[1].measures.get(measure) if arms[1] else None, rate=True),
                "difference": difference_text(found.difference, rate=True),
                "p (Holm)": p_number(found.p_holm),
            }
        )
    return pd.DataFrame(
        rows, columns=["stratum", "items", "clusters", "before", "after", "difference", "p (Holm)"]
    )


def normalised_score(policy: float | None, floor: float | None, ceiling: float | None) -> float | None:
    """Return (policy - floor) / (ceiling - floor): 0 plays like the floor, 1 like the ceiling; None if
    undefined.

    >>> normalised_score(0.5, 0.0, 2.0), normalised_score(0.5, 1.0, 1.0)
    (0.25, None)
    """
    if policy is None or floor is None or ceiling is None or ceiling == floor:
        return None
    return (policy - floor) / (ceiling - floor)


def ladder_frame(
    baselines: Mapping[str, Report], before: Report, after: Report, *, floor: str, ceiling: str
) -> pd.DataFrame:
    """Return all players by mean reward, lowest first: player, mean reward, success, normalised score (of
    reward).

    The score is missing where floor or ceiling was not played. All reports are on the suite of `before`.
    """
    players = {**baselines, "policy before": before, "policy after": after}
    reward = {name: report.measures["mean_reward"].value for name, report in players.items()}
    rows = []
    for name in sorted(
        players, key=lambda player: (reward[player] is not None, reward[player] or 0.0, player)
    ):
        score = normalised_score(reward[name], reward.get(floor), reward.get(ceiling))
        rows.append(
            {
                "player": name,
                "mean reward": interval_text(players[name].measures["mean_reward"], rate=False),
                "success, %": interval_text(players[name].measures["success_rate"], rate=True),
                "normalised score": MISSING if score is None else f"{score:.3f}",
            }
        )
    return pd.DataFrame(rows)


def readme_block(
    claim: Claim,
    before: Report,
    after: Report,
    gaps: Mapping[str, Interval],
    *,
    baselines: Mapping[str, Report] | None = None,
    ends: tuple[str, str] | None = None,
    further: Mapping[str, pd.DataFrame] | None = None,
    greedy: tuple[Report, Report] | None = None,
) -> str:
    """Return the text of summary.md, as docs/results.md shows it: verdict, sentence, warnings, tables, and a
    newline.

    `gaps` are the paired differences by measure (`claim.differences.deltas`). `ends` are the baselines
    that score 0 and 1; without them no baseline is shown. `further` maps captions to tables of the task's
    own. The first table holds only the main measures; the report holds all. Where the claim is not evaluable
    only verdict, sentence and warnings are written.
    """
    blocks = [f"**{heading(claim)}.** {visible(claim.sentence)}"]
    if claim.first_said:
        blocks.append(visible(claim.first_said))
    if claim.warnings:
        blocks.append("\n".join(f"- {one_line(each)}" for each in warned(claim)))
    if claim.verdict == "NOT EVALUABLE":
        return "\n\n".join(blocks) + "\n"
    if said := controls_said(claim):
        blocks.append(said)
    note = (
        "rates in %, differences in points, 95 % intervals in brackets; a difference pairs the n items"
        " defined in both arms, and an arm asked of fewer episodes says of how many; parsed_rate is of"
        " completions"
    )
    how = f"{split_word(claim.split)}, {claim.decoding}, K = {claim.draws}"
    blocks += [f"Before and after ({how}; {note}; all measures: report.html):"]
    blocks.append(markdown_table(measures_frame(before, after, gaps, main_measures(before, after))))
    if greedy is not None:
        shown = [report.measures["success_rate"] for report in greedy]
        arms = " \u2192 ".join(interval_text(found, rate=True) for found in shown)
        blocks.append(f"Greedy decoding, success in %: {arms} (secondary).")
    if claim.strata:
        blocks += [
            f"{claim.plan.primary} by stratum (exploratory):",
            markdown_table(strata_frame(claim, before, after)),
        ]
    for caption, frame in (further or {}).items():
        blocks += [f"{caption}:", markdown_table(frame)]
    if baselines and ends is not None:
        floor, ceiling = ends
        text = f"Players on the same suite (score: 0 = {floor}, 1 = {ceiling}, by mean reward):"
        blocks += [text, markdown_table(ladder_frame(baselines, before, after, floor=floor, ceiling=ceiling))]
    if any(NO_INTERVAL in block for block in blocks):
        blocks.append(missing_interval_said(claim.plan.cluster_name))
    return "\n\n".join(blocks) + "\n"


PlotRow = tuple[str | float | int | None, ...]


def _percent(found: Interval) -> PlotRow:
    return tuple(None if end is None else round(100 * end, 6) for end in (found.value, found.low, found.high))


def rates_table(before: Report, after: Report) -> pd.DataFrame:
    """Return every rate of both arms: measure, arm, value, low, high (per cent, 95 %), n; what is missing is
    empty."""
    rows: list[PlotRow] = [
        (column_name(name), arm, *_percent(report.measures[name]), report.measures[name].n)
        for name in before.measures
        if is_rate(name)
        for arm, report in (("before", before), ("after", after))
        if name in report.measures
    ]
    return pd.DataFrame(rows, columns=["measure", "arm", "value", "low", "high", "n"])


def differences_table(claim: Claim, gaps: Mapping[str, Interval]) -> pd.DataFrame:
    """Return after - before: measure, value, low, high (points, 95 %), n pairs; the primary metric first,
    then its strata.

    Without any row if the claim is not evaluable.
    """
    columns = ["measure", "value", "low", "high", "n"]
    if claim.verdict == "NOT EVALUABLE" or claim.difference is None:
        return pd.DataFrame([], columns=columns)
    primary = measure_of_primary(claim.plan.primary)
    shown = {column_name(primary): claim.difference}
    shown |= {name.replace("=", " "): found.difference for name, found in claim.strata.items()}
    shown |= {column_name(name): gap for name, gap in gaps.items() if is_rate(name) and name != primary}
    return pd.DataFrame([(name, *_percent(gap), gap.n) for name, gap in shown.items()], columns=columns)


def rewards_table(before: Sequence[Episode], after: Sequence[Episode]) -> pd.DataFrame:
    """Return the rewards of both arms on common bins: low, high, arm, n episodes, share in per cent of the
    arm."""
    wide = reward_histogram(before, after)
    arms = []
    for arm in ("before", "after"):
        columns = {
            "low": wide["low"],
            "high": wide["high"],
            "arm": arm,
            "n": wide[arm],
            "share": 100 * wide[f"{arm}_share"],
        }
        arms.append(pd.DataFrame(columns))
    return pd.concat(arms, ignore_index=True).round(6)


def plot_tables(
    claim: Claim,
    before: Report,
    after: Report,
    arms: tuple[Sequence[Episode], Sequence[Episode]],
    gaps: Mapping[str, Interval],
) -> dict[str, pd.DataFrame]:
    """Return the tables by the name of their file, each of which .dvc/plots has a template for."""
    return {
        "rates": rates_table(before, after),
        "differences": differences_table(claim, gaps),
        "rewards": rewards_table(*arms),
    }
