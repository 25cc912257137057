"""Details as tables of the report, and what of them a reader of the claim must know."""

from __future__ import annotations

import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.verdict.evidence.details.details import Conditional, Details, Gap
from assay.verdict.evidence.formatting import MISSING, difference_text, percent
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.statistics.power import PlannedPower

SHARE_MOVED = 0.1  # of answers: from here on a reader must know that others are asked
MOST_BROKEN = 40  # rows of the table; details.json has them all


def detail_notes(details: Details) -> list[Remark]:
    """Return the warnings: shares of answers that moved, what collapsed, items broken by the training."""
    together: dict[tuple[float, float, str | None], list[Conditional]] = {}
    for each in details.conditional:
        if abs(each.answered_after - each.answered_before) >= SHARE_MOVED:
            together.setdefault((each.answered_before, each.answered_after, each.among), []).append(each)
    found = [
        remark(
            "answered_only",
            flags=[each.flag for each in alike],
            before=before,
            after=after,
            among=among,
            changes=[each.silence_is_wrong.difference for each in alike],
        )
        for (before, after, among), alike in together.items()
    ]
    if details.collapsed:
        found.append(remark("collapsed", answers=details.collapsed))
    after = details.confidence.get("after")
    if after is not None and not (after.difference.high is not None and after.difference.high < 0):
        told = {"brier": after.brier, "right": after.right, "constant": after.constant}
        found.append(remark("confidence_empty", **told, difference=after.difference))
    if details.broken:
        found.append(remark("items_broken", n=len(details.broken), fixed=details.fixed))
    return found


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
                    "no answer as wrong, % before": percent(each.silence_is_wrong.before),
                    "% after": percent(each.silence_is_wrong.after),
                    "difference": _difference(each.silence_is_wrong),
                }
                for each in details.conditional
            ]
        ),
        "Whether the stated confidence informs: Brier score, and that of the best constant": pd.DataFrame(
            [
                {
                    "arm": arm,
                    "verdicts": each.difference.n,
                    "right, proven or not, %": percent(each.right),
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
