"""Details as tables of the report, and what of them a reader of the claim must know."""

from __future__ import annotations

import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.core.counting import counted
from assay.evidence.details.details import Collapse, Conditional, Details, Gap
from assay.evidence.formatting import MISSING, difference_text, percent
from assay.statistics.power import PlannedPower

SHARE_MOVED = 0.1  # of answers: from here on a reader must know that others are asked
MOST_BROKEN = 40  # rows of the table; details.json has them all


def detail_notes(details: Details) -> list[str]:
    """Return the warnings: shares of answers that moved, what collapsed, items broken by the training."""
    together: dict[tuple[float, float, str | None], list[Conditional]] = {}
    for each in details.conditional:
        if abs(each.answered_after - each.answered_before) >= SHARE_MOVED:
            together.setdefault((each.answered_before, each.answered_after, each.among), []).append(each)
    found = [_conditional_said(each) for each in together.values()]
    if details.collapsed:
        told = ", ".join(map(_collapse_said, details.collapsed))
        found.append(f"Nearly constant after training and not before: {told}.")
    after = details.confidence.get("after")
    if after is not None and not (after.difference.high is not None and after.difference.high < 0):
        found.append(
            "The stated confidence is not shown to tell right verdicts from wrong ones: Brier score"
            f" {after.brier:.3f}, always stating {after.right:.2f} {after.constant:.3f}, difference"
            f" {difference_text(after.difference, rate=False)}."
        )
    if details.broken:
        found.append(
            f"{counted(len(details.broken), 'items')} that the base got right in every draw"
            f" {'is' if len(details.broken) == 1 else 'are'} right in none after training"
            f" ({details.fixed} the other way round)."
        )
    return found


def _conditional_said(found: list[Conditional]) -> str:
    first, changes = (
        found[0],
        [difference_text(each.silence_is_wrong.difference, rate=True) for each in found],
    )
    of = "" if first.among is None else f" of the episodes that {first.among} counts"
    verb = "counts" if len(found) == 1 else "count"
    return (
        f"{', '.join(each.flag for each in found)} {verb} only those who answer:"
        f" {percent(first.answered_before)} % before and {percent(first.answered_after)} % after{of}. With no"
        f" answer as a wrong one the change is {', '.join(changes)} points."
    )


def _collapse_said(found: Collapse) -> str:
    shares = f"{percent(found.share_before)} to {percent(found.share_after)} % of {found.n_after} answers"
    return f"{found.name} ({found.value}: {shares})"


def detail_tables(details: Details, planned: PlannedPower, cluster_name: str) -> dict[str, pd.DataFrame]:
    """Return the tables by caption; rates in %, differences in points, 95 % intervals in brackets."""
    reliable = [
        _row(f"{rule} of {at.k} draws right ({short}{at.k})", gap)
        for at in details.at_k
        for rule, short, gap in (("at least one", "pass@", at.any_right), ("all", "pass^", at.all_right))
        if at.k > 1 or short == "pass@"
    ]
    tables = {
        "Success in k draws and with greedy decoding": pd.DataFrame(
            [*reliable, _row("greedy decoding", details.greedy)]
        ),
        "Gain by difficulty: items by how often the base is right in other draws": pd.DataFrame(
            [_row(name, gap) for name, gap in details.by_base_success.items()]
        ),
        "Asked of some answers only": pd.DataFrame(
            [
                {
                    "flag": each.flag,
                    "asked, % before": percent(each.answered_before),
                    "asked, % after": percent(each.answered_after),
                    "among": each.among or "all episodes",
                    "difference of those asked in both": _difference(each.of_those_who_answered),
                    "difference with no answer as wrong": _difference(each.silence_is_wrong),
                }
                for each in details.conditional
            ]
        ),
        "Whether the stated confidence informs: Brier score, and that of the best constant": pd.DataFrame(
            [
                {
                    "arm": arm,
                    "verdicts": each.difference.n,
                    "right, %": percent(each.right),
                    "Brier score": f"{each.brier:.3f}",
                    "of the best constant": f"{each.constant:.3f}",
                    "difference": difference_text(each.difference, rate=False),
                }
                for arm, each in details.confidence.items()
            ]
        ),
        "Where differences come from, standard deviations in points": _components(details, cluster_name),
        "What more or fewer data would show": pd.DataFrame(
            [
                {
                    cluster_name: at.n_clusters,
                    "smallest detectable effect, points": _points(at.smallest_detectable_points),
                }
                for at in planned.curve
            ]
        ),
        f"Items broken by the training: right in every draw before, in none after ({len(details.broken)})": (
            pd.DataFrame(
                [
                    {
                        "item": each.item_id,
                        **each.strata,
                        "lines of pre_eval.jsonl": ", ".join(map(str, each.lines_before)),
                        "lines of post_eval.jsonl": ", ".join(map(str, each.lines_after)),
                    }
                    for each in details.broken[:MOST_BROKEN]
                ]
            )
        ),
    }
    return {caption: table for caption, table in tables.items() if len(table)}


def _row(name: str, gap: Gap) -> dict[str, object]:
    return {
        "success": name,
        "before, %": percent(gap.before),
        "after, %": percent(gap.after),
        "difference": _difference(gap),
        "n": gap.difference.n,
    }


def _difference(gap: Gap) -> str:
    return difference_text(gap.difference, rate=True)


def _components(details: Details, cluster_name: str) -> pd.DataFrame:
    found = details.components
    rows = (
        (f"true gains between {cluster_name}", found.clusters),
        ("true gains between items of one", found.items),
        ("luck of an item's draws", found.draws),
        ("standard error of the mean difference", found.standard_error),
        ("the same with draws without end", found.without_luck),
    )
    return pd.DataFrame(
        [{"component": name, "points": _points(value)} for name, value in rows if value is not None]
    )


def _points(value: float | None) -> str:
    return MISSING if value is None else f"{value:.1f}"
