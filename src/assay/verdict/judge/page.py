"""report.html and summary.md of a judgement, with the figures and tables of a run of the pipeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from assay.core.counting import counted
from assay.core.storage.files import write_text
from assay.core.storage.json import digest, write_json
from assay.verdict.evidence.claim.differences import measure_of_primary
from assay.verdict.evidence.escape import markdown_table, one_line, visible
from assay.verdict.evidence.figures.comparison_figures import before_after_summary
from assay.verdict.evidence.figures.drawing import render
from assay.verdict.evidence.figures.findings import of_forest
from assay.verdict.evidence.figures.forest_figure import cluster_gains, forest, forest_frame
from assay.verdict.evidence.figures.gallery import of_rivals_of
from assay.verdict.evidence.labels import labelled
from assay.verdict.evidence.page.report import Basis, Comparison, item_by_item, report_html
from assay.verdict.evidence.page.shell import Shown, Tick
from assay.verdict.evidence.tables.claim_tables import measures_frame, readme_block, strata_frame
from assay.verdict.evidence.words.sentences import control_said, warned
from assay.verdict.judge.contents import differ
from assay.verdict.judge.gate import gate_block
from assay.verdict.judge.plan import planned_said
from assay.verdict.judge.rows import JudgedRow, as_episodes
from assay.verdict.judge.sources import CLAIM, REPORT, SUMMARY, ArmRecord, Judgement
from assay.verdict.judge.suite import tasks_frame
from assay.verdict.judge.verdict import Judged

ROWS = "before.csv and after.csv in the package"
MOST_LISTED = 200_000  # rows of an arm; of more the page lists no items


def write_pages(folder: Path, told: Judgement, judged: Judged) -> None:
    """Write claim.json, report.html and summary.md."""
    write_json(folder / CLAIM, judged.claim)
    write_text(folder / REPORT, report_of(told, judged))
    write_text(folder / SUMMARY, summary_of(told, judged))


def report_of(told: Judgement, judged: Judged) -> str:
    """Return report.html."""
    claim, reports = judged.claim, judged.reports
    tables = {}
    if reports is not None:
        tables["Every measure"] = measures_frame(*reports, judged.gaps)
        if not (tasks := tasks_frame(told, claim)).empty:
            tables["By task"] = tasks
        if claim.strata:
            tables["By stratum"] = strata_frame(claim, *reports)
    before, after = judged.arms
    listed = reports is not None and len(before) <= MOST_LISTED
    if reports is not None and not listed and claim.draws <= 16:
        tables["Items by successes"] = item_by_item(as_episodes(before), as_episodes(after), claim.draws)
    rivals = of_rivals_of(claim)
    return report_html(
        claim,
        told.title,
        basis=Basis(
            digests={f"rows of {name}": record.rows_sha256 for name, record in told.rivals.items()},
            run=_sources(told),
            run_said="What was judged",
            checked=_checked(told, judged),
            findings=judged.findings,
            limits=limits_of(told),
            verify=(
                (
                    "Everything on this page follows from the rows in the package.",
                    "assay verify assay-package.tar",
                ),
            ),
        ),
        comparison=Comparison(
            arms=(as_episodes(before), as_episodes(after)) if listed else None,
            lines_of="rows/before.csv and rows/after.csv of the package, without their heads",
            figures=_figures(judged),
            tables=tables,
            rivals=[
                Shown(
                    each.name,
                    render(each.figure, each.finding)["svg"],
                    each.caption,
                    each.table,
                    ROWS,
                    each.finding,
                )
                for each in rivals
            ],
        ),
    )


def summary_of(told: Judgement, judged: Judged) -> str:
    """Return summary.md: the verdict, its warnings, and the main table."""
    claim = judged.claim
    head = (
        f"### {one_line(told.title)}\n\n" if told.plan is None else gate_block(told.title, claim, told.plan)
    )
    if judged.reports is None:
        listed = "\n".join(f"- {one_line(each)}" for each in warned(claim))
        why = f"{visible(claim.sentence)} Reason: {one_line(claim.reason)}."
        return f"{head}**{claim.verdict}.** {why}\n\n{listed}\n"
    block = readme_block(claim, *judged.reports, judged.gaps)
    tasks = tasks_frame(told, claim)
    return head + block + ("" if tasks.empty else f"\n{markdown_table(tasks)}\n")


def limits_of(told: Judgement) -> tuple[str, ...]:
    """Return what nobody should read into a claim of results that were made elsewhere."""
    found = [
        "The results were graded elsewhere, by whatever wrote the files: whether a grade is right is not"
        " checked here.",
        "How the second policy came about is not known: whether it saw these items in training, how many"
        " others were tried, and how this one was chosen. The level is that of a first look.",
        "The claim is about these two sets of results on these items, not about a way of training, and says"
        " nothing of other items.",
        "Items are taken as independent of each other unless a cluster says otherwise or they ask the same;"
        " other near-duplicates were not sought.",
        "Strata and measures beside the primary one are exploratory, and their intervals are not"
        " corrected for that.",
    ]
    if not told.rivals:
        found.append(
            "No baselines were given: a player that always says the same might do as well as the second"
            " policy. --baseline NAME=FILE compares with results of such players on the same items."
        )
    else:
        found.append(
            f"Baselines ({', '.join(told.rivals)}) were brought by whoever judged. That they are the players"
            " without skill that this task has is theirs to say: a weak one is easily beaten."
        )
    return tuple(found)


def _figures(judged: Judged) -> list[Shown]:
    claim, reports = judged.claim, judged.reports
    if reports is None or claim.verdict == "NOT EVALUABLE":
        return []
    measure = measure_of_primary(claim.plan.primary)
    before, after = (as_episodes(rows) for rows in judged.arms)
    gains = cluster_gains(before, after, measure)
    finding = of_forest(claim, [each.gain.value or 0.0 for each in gains])
    both, table = before_after_summary(claim, *reports), measures_frame(*reports, judged.gaps)
    said = f"{labelled(measure).capitalize()} before and after on the same items, and the paired difference."
    spread = (
        f"The difference by stratum and overall, and how those of the {claim.plan.cluster_name} are spread."
    )
    drawn = forest(claim, gains)
    return [
        Shown("before_after_summary", render(both, claim.sentence)["svg"], said, table, ROWS, ""),
        Shown("forest", render(drawn, finding)["svg"], spread, forest_frame(claim, gains), ROWS, finding),
    ]


def _sources(told: Judgement) -> pd.DataFrame:
    arms = {"before": told.before, "after": told.after, **told.rivals}
    rows = [(name, *_file(record, k)) for name, record in arms.items() for k in range(len(record.files))]
    return pd.DataFrame(
        rows, columns=["arm", "file", "form", "model", "measured", "asked", "results", "sha256"]
    )


def _file(record: ArmRecord, k: int) -> tuple[str, ...]:
    file = record.files[k]
    rows = str(record.rows) if k == 0 else "as above"
    measured, asked = (
        "; ".join(f"{name} {value}" for name, value in sorted(told.items())) or "not said"
        for told in (file.measured, file.settings)
    )
    return file.name, file.form, file.model or "not said", measured, asked, rows, file.sha256


def _checked(told: Judgement, judged: Judged) -> list[Tick]:
    claim = judged.claim
    before, after = judged.arms
    codes = {each.code for each in judged.findings} | {each.code for each in claim.reasons}
    items = len({row.item_id for row in before})
    return [
        Tick(
            "Same items",
            claim.difference is not None and not codes & {"other_items", "items_in_one_arm"},
            f"Both arms have to hold the same items, each with as many draws; before holds {items}, K ="
            f" {claim.draws}.",
        ),
        Tick(
            "Same questions",
            _questions_held(before, after),
            "Question and target of an item, where both files hold them, have to be the same.",
        ),
        Tick(
            "Every result has a score",
            "no_score" not in codes,
            "Nothing is left out: an error in a log is a result that is missing."
            if told.missing == "refuse"
            else f"What is missing was dealt with as was asked: {told.missing}; the warnings count it.",
        ),
        Tick("A/A", None if claim.control is None else claim.control.passed, control_said(claim.control)),
        *_plan_ticks(told, judged),
        Tick("Graded again", None, "The results were graded elsewhere."),
    ]


def _plan_ticks(told: Judgement, judged: Judged) -> list[Tick]:
    made, name = told.plan, "Plan before results"
    if made is None:
        return [Tick(name, None, "The plan was not fixed before the results were there.")]
    dated = f"Dated {made.made} by whoever planned, which nobody can check; sha256 {digest(made)}."
    kept = all(each.code != "not_as_planned" for each in judged.findings)
    return [Tick(name, None, dated), Tick("Kept to the plan", kept, f"Planned: {planned_said(made)}.")]


def _questions_held(before: Sequence[JudgedRow], after: Sequence[JudgedRow]) -> bool | None:
    first, other = ({row.item_id: row.content for row in rows} for rows in (before, after))
    pairs = [(first[item], other[item]) for item in first.keys() & other.keys()]
    known = [(one, two) for one, two in pairs if one and two]
    return not any(differ(one, two) for one, two in known) if known else None


def counts_said(rows: Sequence[JudgedRow]) -> str:
    """Return how many results, items and draws an arm holds, and how many completions were cut off."""
    per_item = Counter(row.item_id for row in rows)
    draws = sorted(set(per_item.values())) or [0]
    shown = str(draws[0]) if len(draws) == 1 else f"{draws[0]} to {draws[-1]}"
    cut = [row.truncated for row in rows if row.truncated is not None]
    told = f", {sum(map(bool, cut))} truncated" if cut else ", truncation not known"
    return f"{counted(len(rows), 'results')}, {counted(len(per_item), 'items')}, K = {shown}{told}"
