"""report.html: one offline page, verdict first. Every text is escaped; our own script only filters and
sorts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.core.records import Episode, TrainFacts
from assay.evidence.claim.claim import Claim
from assay.evidence.formatting import NO_INTERVAL, missing_interval_said
from assay.evidence.page.compared import before_after, checks
from assay.evidence.page.elements import Shown, bullets, commands, figure, html_table, paragraph, section
from assay.evidence.page.episodes import episodes, pairs_that_fit
from assay.evidence.page.script import SCRIPT
from assay.evidence.page.shell import escaped, shell
from assay.evidence.page.top import integrity, verdict
from assay.evidence.page.trained import training
from assay.evidence.tables.trajectories import Pair

_NAMES = {
    "verdict": "Verdict and scope",
    "integrity": "Integrity",
    "compared": "Before and after",
    "controls": "Controls and baselines",
    "training": "Training",
    "episodes": "Episodes",
    "data": "Data",
    "limits": "Limits",
    "verify": "Verify",
}


def report_html(
    claim: Claim,
    *,
    title: str,
    digests: Mapping[str, str],
    run: pd.DataFrame | None = None,
    checked: Sequence[str] = (),
    findings: Sequence[str] | None = None,
    arms: tuple[Sequence[Episode], Sequence[Episode]] | None = None,
    compared: Sequence[Shown] = (),
    tables: Mapping[str, pd.DataFrame] | None = None,
    baselines: pd.DataFrame | None = None,
    trained: TrainFacts | None = None,
    training_figures: Sequence[Shown] = (),
    pairs: Sequence[Pair] = (),
    prompts: Mapping[str, str] | None = None,
    truths: Mapping[str, str] | None = None,
    data: Mapping[str, pd.DataFrame] | None = None,
    limits: Sequence[str] = (),
    verify: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the whole page; it opens from disk without a network and asks for nothing.

    Args:
        claim: the comparison.
        title: head of the page.
        digests: further rows of the table of what was measured, by their labels.
        run: what was run.
        checked: what was checked when the page was drawn, one sentence each.
        findings: reasons found then why nothing may be claimed; None where nobody looked.
        arms: all episodes before and after, for what is paired.
        compared: figures of the comparison, in the order of reading.
        tables: tables of the comparison, by caption.
        baselines: scripted players beside both policies.
        trained: facts of the training.
        training_figures: figures of the training.
        pairs: episodes to show; as many as fit.
        prompts: what was asked, by item id.
        truths: what is right, by item id.
        data: tables about the data, by caption.
        limits: what is not claimed, one sentence each.
        verify: (what it does, command) of each way to check the page.
    """
    total = 0 if arms is None else len(arms[0])
    fitting = pairs_that_fit(pairs)
    blocks = {
        "verdict": verdict(claim, run),
        "integrity": integrity(claim, digests, checked, findings),
        "compared": [
            *before_after(claim, arms),
            *(figure(shown) for shown in compared),
            *(html_table(frame, caption) for caption, frame in (tables or {}).items()),
        ],
        "controls": [
            *([] if claim.difference is None else [checks(claim)]),
            *(
                []
                if baselines is None
                else [html_table(baselines, "Beside scripted players on the same suite")]
            ),
        ],
        "training": [
            *([] if trained is None else training(trained, claim.plan.checkpoint_rule)),
            *(figure(shown) for shown in training_figures),
        ],
        "episodes": (
            episodes(fitting, max(total, len(pairs)), prompts=prompts, truths=truths) if fitting else []
        ),
        "data": [html_table(frame, caption, long=True) for caption, frame in (data or {}).items()],
    }
    blocks["limits"] = [bullets(limits) or paragraph("None were stated.")]
    if any(NO_INTERVAL in text for block in blocks.values() for text in block):
        blocks["limits"].append(paragraph(missing_interval_said(claim.plan.cluster_name)))
    blocks["verify"] = [commands(verify) or paragraph("No command was given.")]
    shown = {name: block for name, block in blocks.items() if block}
    links = "".join(f'<li><a href="#{name}">{_NAMES[name]}</a></li>' for name in shown)
    sections = "\n".join(section(name, _NAMES[name], *block) for name, block in shown.items())
    body = (
        f'<header><h1>{escaped(title)}</h1></header><nav aria-label="Sections"><ul>{links}</ul></nav>'
        f'<main id="main" tabindex="-1">\n{sections}\n</main>'
    )
    return shell(title=title, body=body, script=SCRIPT)
