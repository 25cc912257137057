"""Before and after: the claim in numbers, item by item, by stratum; then controls, guardrails and scripted
players."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.core.counting import counted
from assay.core.records import Episode
from assay.evaluation.measures import is_rate
from assay.evidence.claim.aa_test import control_said
from assay.evidence.claim.claim import Claim
from assay.evidence.formatting import MISSING, difference_text, interval_text, p_number, p_text, percent
from assay.evidence.page.elements import html_table, paragraph, rows_table
from assay.evidence.page.top import points


def claim_rows(claim: Claim) -> list[tuple[str, str]]:
    """Return the claim in numbers as text: (quantity, value). Rates in %, differences in points, 95 %
    intervals."""
    clusters = counted(claim.n_clusters, claim.plan.cluster_name)
    seeds = ", ".join(map(str, claim.training_seeds))
    rows = [
        ("before, %", interval_text(claim.before, rate=True)),
        ("after, %", interval_text(claim.after, rate=True)),
        ("difference, points", difference_text(claim.difference, rate=True)),
        ("p, two-sided sign flips over clusters", p_number(claim.p)),
        ("cross-check, studentised cluster bootstrap, points", difference_text(claim.cross_check, rate=True)),
        ("counts", f"{clusters}, {counted(claim.n_items, 'items')}, K = {claim.draws}"),
        ("training seeds" if len(claim.training_seeds) > 1 else "training seed", seeds or "none"),
        ("smallest effect that matters, points", f"{claim.plan.smallest_effect_points:g}"),
        ("smallest detectable effect, points", points(claim.smallest_detectable_points)),
        ("the same as planned before training, points", points(claim.planned_detectable_points)),
    ]
    if claim.gain_split is not None:
        split = claim.gain_split
        parsed = (
            f"{percent(split.parsed_before)} to {percent(split.parsed_after)} % of episodes parse throughout"
        )
        right = [
            percent(share) for share in (split.correct_given_parsed_before, split.correct_given_parsed_after)
        ]
        rows.append(
            ("gain from parsing, points", f"{difference_text(split.parse_part, rate=True)} ({parsed})")
        )
        told = f"of those {right[0]} to {right[1]} % succeed"
        rows.append(
            ("gain from being right, points", f"{difference_text(split.correct_part, rate=True)} ({told})")
        )
    if claim.tokens_per_completion is not None:
        tokens = claim.tokens_per_completion
        change = (
            f"{points(tokens.before)} to {points(tokens.after)},"
            f" {difference_text(tokens.difference, rate=False)}"
        )
        rows.append(("tokens per completion", change))
    if claim.items_changed is not None:
        rows.append(("items", ", ".join(f"{n} {name}" for name, n in claim.items_changed.items())))
    return rows


def item_by_item(before: Sequence[Episode], after: Sequence[Episode], draws: int) -> pd.DataFrame:
    """Return how many items went from so many successes in `draws` draws (rows) to so many (columns)."""
    wins: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for k, arm in enumerate((before, after)):
        for episode in arm:
            wins[episode.item_id][k] += episode.success
    counts = Counter((b, a) for b, a in wins.values())
    steps = range(draws + 1)
    rows = [[f"{b} of {draws} before", *(counts[b, a] for a in steps)] for b in steps]
    return pd.DataFrame(rows, columns=["items with", *(f"{a} of {draws} after" for a in steps)])


def before_after(claim: Claim, arms: tuple[Sequence[Episode], Sequence[Episode]] | None) -> list[str]:
    """Return the first blocks of the comparison; nothing but a sentence where the claim holds no numbers."""
    if claim.difference is None:
        return [
            paragraph("The arms could not be compared, so there is nothing to show: see the reason above.")
        ]
    blocks = []
    if claim.verdict == "NOT EVALUABLE":
        blocks.append(paragraph("These numbers help to find the fault. They support no claim.", "bad"))
    caption = "The claim in numbers; in brackets 95 % intervals"
    blocks.append(rows_table(["quantity", "value"], claim_rows(claim), caption, long=True))
    if arms is not None:
        table = item_by_item(*arms, claim.draws)
        said = "Paired, item by item: fixed ones stand right of the diagonal, broken ones left of it"
        blocks.append(html_table(table, said))
    return blocks


def checks(claim: Claim) -> str:
    """Return the table of controls, guardrails and further confirmatory metrics; a control not asked for is
    not run."""
    rows = []
    if claim.control is None:
        rows.append(("base against base", "control", MISSING, "not run"))
    else:
        gap = (
            difference_text(claim.control.difference, rate=True)
            if claim.control.passed is not None
            else "not run"
        )
        rows.append(("base against base", claim.control.kind, gap, control_said(claim.control)))
    rows += _random_rewards(claim)
    for guard in claim.guardrails:
        gap = difference_text(guard.difference, rate=is_rate(guard.measure))
        rows.append((guard.measure, f"guardrail, loss under {guard.margin:g}", gap, guard.outcome))
    for name, found in claim.secondary.items():
        gap = difference_text(found.difference, rate=is_rate(name))
        rows.append((name, "confirmatory, Holm", gap, p_text(found.p_holm)))
    return rows_table(
        ["measure", "role", "difference", "outcome"], rows, "Beside the primary metric", long=True
    )


def _random_rewards(claim: Claim) -> list[tuple[str, str, str, str]]:
    """Return the rows of the control that was trained for random rewards."""
    found = claim.random_reward
    if found is None:
        asked = "asked for, not played" if "random_reward" in claim.plan.controls else "not asked for"
        return [("random rewards against base", "control", "not run", f"not run: {asked}")]
    detail = f" ({found.detail})" if found.detail else ""
    gap, ahead = (difference_text(each, rate=True) for each in (found.difference, found.ahead))
    counts = f"{counted(found.n_clusters, claim.plan.cluster_name)}, {counted(found.n_items, 'items')}"
    outcome = {True: "ahead", False: "not shown to be ahead", None: "not tested"}[found.trained_is_ahead]
    said = f"{found.verdict}{detail}: {found.reason}; {p_text(found.p)}; {counts}"
    return [
        ("random rewards against base", "control", gap, said),
        ("training against random rewards", "control", ahead, f"{outcome}, {p_text(found.ahead_p)}"),
    ]
