"""One measure of two arms, overall and in each stratum, with paired differences: rows for a figure and its
table."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.core.records import Episode
from assay.core.seeds import rng
from assay.evidence.claim.differences import compare_measure
from assay.evidence.figures.paired_rows import PairedRow
from assay.evidence.formatting import difference_text, interval_text
from assay.statistics.report import Report

MOST_VALUES = 12  # of one label; a figure with a row for each of two hundred would show none of them


def strata_rows(
    reports: tuple[Report, Report],
    arms: tuple[Sequence[Episode], Sequence[Episode]],
    measure: str,
    *,
    name: str,
    seed: int,
    within: str = "",
) -> list[PairedRow]:
    """Return the overall row, called `name`, then one a stratum; what holds no value, or all values, is left
    out.

    `within` is said before each stratum: where rows of two measures stand together, it says of which these
    are.
    """
    before, after = reports
    whole = compare_measure(*arms, measure, rng(seed, measure)).difference
    rows = [PairedRow(name, before.measures.get(measure), after.measures.get(measure), whole, primary=True)]
    everything = [0 if arm is None else arm.n for arm in (rows[0].before, rows[0].after)]
    for label, values in before.strata.items():
        for value, stratum in values.items() if len(values) <= MOST_VALUES else ():
            other = after.strata.get(label, {}).get(value)
            found = (stratum.measures.get(measure), None if other is None else other.measures.get(measure))
            n = [0 if each is None else each.n for each in found]
            if n in ([0, 0], everything):
                continue
            inside = [[e for e in arm if e.strata.get(label) == value] for arm in arms]
            gap = compare_measure(inside[0], inside[1], measure, rng(seed, measure, label, value)).difference
            rows.append(PairedRow(f"  {within}{label} {value}", *found, gap))
    return rows


def rows_frame(rows: Sequence[PairedRow], *, rate: bool) -> pd.DataFrame:
    """Return the rows as text: measure, before, after, difference, n (pairs)."""
    return pd.DataFrame(
        [
            {
                "measure": row.name.strip(),
                "before": interval_text(row.before, rate=rate),
                "after": interval_text(row.after, rate=rate),
                "difference": difference_text(row.difference, rate=rate),
                "n": 0 if row.difference is None else row.difference.n,
            }
            for row in rows
        ],
        columns=["measure", "before", "after", "difference", "n"],
    )
