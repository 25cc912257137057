"""The top of a report: verdict, scope and warnings, then what the numbers were measured on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.core.counting import counted
from assay.evidence.claim.claim import Claim
from assay.evidence.formatting import MISSING, difference_text, interval_text, p_number, split_word
from assay.evidence.page.elements import bullets, facts, html_table, paragraph, rows_table
from assay.evidence.page.shell import escaped

# A sign stands before the word, so that the colour is never all that tells the verdicts apart.
_TONES = {
    "IMPROVED": ("\u25b2", "good"),
    "IMPROVED WITH REGRESSIONS": ("\u25b2\u25bc", "wait"),
    "NO EVIDENCE": ("=", "wait"),
    "REGRESSED": ("\u25bc", "bad"),
    "NOT EVALUABLE": ("\u2715", "bad"),
}


def points(value: float | None) -> str:
    """Return percentage points with one decimal, or that they are missing."""
    return MISSING if value is None else f"{value:.1f}"


def _numbers(claim: Claim) -> str:
    measure = claim.plan.primary.removesuffix("_rate").replace("_", " ")
    counts = (
        f"{counted(claim.n_clusters, claim.plan.cluster_name)}, {counted(claim.n_items, 'items')}, K ="
        f" {claim.draws}"
    )
    return facts(
        [
            (f"{measure} before, %", interval_text(claim.before, rate=True)),
            (f"{measure} after, %", interval_text(claim.after, rate=True)),
            ("difference, points", difference_text(claim.difference, rate=True)),
            ("p, two-sided", p_number(claim.p)),
            ("measured on", counts),
            ("smallest detectable, points", points(claim.smallest_detectable_points)),
        ]
    )


def verdict(claim: Claim, run: pd.DataFrame | None) -> list[str]:
    """Return the blocks of the first section; a claim that is not evaluable shows no number here."""
    sign, tone = _TONES[claim.verdict]
    evaluable = claim.verdict != "NOT EVALUABLE" and claim.difference is not None
    detail = f" ({claim.detail})" if claim.detail else ""
    split = split_word(claim.split).capitalize()
    scope = (
        f"{split}, {claim.decoding}, checkpoint rule: {claim.plan.checkpoint_rule}. Reason: {claim.reason}."
    )
    return [
        (
            f'<p class="verdict {tone}"><span aria-hidden="true">{sign}</span>'
            f" {escaped(claim.verdict + detail)}</p>"
        ),
        paragraph(claim.sentence, "lead"),
        *([_numbers(claim) + paragraph("In brackets: 95 % intervals.", "faint")] if evaluable else []),
        paragraph(scope),
        *(
            [f"<h3>{counted(len(claim.warnings), 'warnings')}</h3>" + bullets(claim.warnings)]
            if claim.warnings
            else []
        ),
        *(
            [
                "<h3>What was run</h3>"
                + html_table(run, "From settings and the records of the stages", long=True)
            ]
            if run is not None
            else []
        ),
    ]


def integrity(
    claim: Claim, digests: Mapping[str, str], checks: Sequence[str], findings: Sequence[str] | None
) -> list[str]:
    """Return what was checked when the page was drawn, what was found, and the digests of what was measured.

    `findings` are reasons why nothing may be claimed; None where nobody looked for any.
    """
    listed = {
        "plan (digest of its content; sha256sum of the file gives another)": claim.plan_digest,
        **digests,
    }
    listed["suite"] = claim.plan.suite_digest
    listed |= {"policy before": claim.before_policy, "policy after": claim.after_policy}
    blocks = []
    if findings is not None:
        blocks.append(paragraph("Checked when this page was drawn:") + bullets(checks))
        found = (
            "Nothing that bars a claim was found."
            if not findings
            else "Found, and reason enough to claim nothing:"
        )
        blocks.append(paragraph(found, "good" if not findings else "bad") + bullets(findings))
    return [
        *blocks,
        rows_table(
            ["what", "sha256 or digest"], listed.items(), "What these numbers were measured on", long=True
        ),
    ]
