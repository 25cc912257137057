"""What `dvc plots` reads: one comparison as long tables, one row a bar; rates in per cent, their differences
in points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.core.records import Episode, Interval
from assay.evaluation.measures import column_name, is_rate
from assay.evidence.claim.claim import Claim
from assay.evidence.claim.differences import measure_of_primary
from assay.evidence.figures.comparison_figures import reward_histogram
from assay.statistics.report import Report

Row = tuple[str | float | int | None, ...]


def _percent(found: Interval) -> Row:
    return tuple(None if end is None else round(100 * end, 6) for end in (found.value, found.low, found.high))


def rates_table(before: Report, after: Report) -> pd.DataFrame:
    """Return every rate of both arms: measure, arm, value, low, high (per cent, 95 %), n; what is missing is
    empty."""
    rows: list[Row] = [
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
