"""What stage 7 does: everything a reader sees, from the files the earlier stages wrote."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial

from assay.core.console import complain, say
from assay.core.errors import DataError, EvidenceError, RecordError, TaskError
from assay.core.evidence_files import RESULTS, place_of
from assay.core.garbage import uncollected
from assay.core.records import HealthEvent, Interval, TrainFacts
from assay.core.seeds import derive_seed
from assay.core.storage.files import write_bytes, write_text
from assay.core.storage.json import read_records, write_json
from assay.pipeline.project import Project
from assay.pipeline.rival_files import file_of
from assay.rollout.dataset.suite import Suite
from assay.rollout.tasks.rivals import GREEDY
from assay.stages.render_evidence.ahead import begin
from assay.stages.render_evidence.arms import CONTROL, Arm, log_table
from assay.stages.render_evidence.claim_at import ClaimMade, claim_at
from assay.stages.render_evidence.claim_inputs import opened_since
from assay.stages.render_evidence.illustrations import stepped
from assay.stages.render_evidence.no_claim import refuse
from assay.stages.render_evidence.reader_pages import EPISODES, SOURCES, write_pages
from assay.stages.render_evidence.scripted import write_scripted
from assay.verdict.evidence.claim.claim import Claim, differences_of
from assay.verdict.evidence.claim.differences import deltas
from assay.verdict.evidence.claim.plan import ClaimPlan
from assay.verdict.evidence.figures.drawing import render
from assay.verdict.evidence.figures.gallery import (
    Drawn,
    of_comparison,
    of_rivals_of,
    of_training,
    of_what_was_done,
)
from assay.verdict.evidence.figures.verdict_figures import validity_frame
from assay.verdict.evidence.page.shell import Shown
from assay.verdict.evidence.tables.claim_tables import before_after_metrics, plot_tables, readme_block
from assay.verdict.evidence.tables.trajectories import Stepped
from assay.verdict.evidence.words.remarks import Remark
from assay.verdict.statistics.report import Report
from assay.verdict.statistics.timing import timing_summary


def render_evidence(
    project: Project, graded: Callable[[], Set[str]] | None = None, processes: int = 2
) -> None:
    """Write everything a reader sees, from the files the earlier stages wrote.

    Args:
        project: The run.
        graded: As of `ArmReader`.
        processes: As of `begin`.

    Raises:
        AssayError: A file is missing, damaged or not what it should be; a claim that says NOT EVALUABLE is
            written first.
    """
    try:
        with uncollected():
            _render(project, graded, processes)
    except (DataError, EvidenceError, RecordError, TaskError) as error:
        refuse(project, error)
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # A file that is well-formed and yet makes no sense: what is known of it is only where it broke.
        found = f"{type(error).__name__}: {error}"[:200]
        fix = "restore evidence/results (git checkout, or ./run dvc repro -f), or report a fault of assay"
        unusable = EvidenceError("files that can be evaluated", found=found, where=RESULTS, fix=fix)
        refuse(project, unusable)
        raise unusable from error


def _render(project: Project, graded: Callable[[], Set[str]] | None, processes: int) -> None:
    made = claim_at(project, graded=graded, processes=processes, illustrated=True)
    claim, task = made.claim, made.task
    before, after = made.arms["pre_eval"], made.arms["post_eval"]
    greedy = made.arms["pre_eval_greedy"], made.arms["post_eval_greedy"]
    gaps = _gaps(before, after, claim.plan, differences_of(claim))
    greedy_reports = greedy[0][0], greedy[1][0]
    metrics = before_after_metrics(
        before[0], after[0], gaps, (*greedy_reports, _gaps(*greedy, claim.plan, {}))
    )
    baselines, ends = made.baselines, (task.floor, task.ceiling)
    validity = validity_frame(before[0], after[0])
    own = {} if validity is None else {"Validity and field F1 by stratum": validity}
    suite = made.suite
    # What was found ill may not be played to its end.
    shown = [] if claim.verdict == "NOT EVALUABLE" else stepped(task, suite, (before[1], after[1]))
    figures = _drawn(project, _galleries(project, made, gaps, suite, shown), processes)
    write_pages(project, made, gaps, own, suite=suite, figures=figures, shown=shown)
    summary = readme_block(
        claim, before[0], after[0], gaps, baselines=baselines, ends=ends, further=own, greedy=greedy_reports
    )
    write_json(project.results("reports.json"), made.reports)
    write_scripted(project, made.scripted)
    write_json(project.results("plan_power.json"), made.planned)
    write_json(project.results("details.json"), made.details)
    write_json(project.results("before_after_metrics.json"), metrics)
    write_json(project.results("claim.json"), claim)
    write_json(project.results("metrics.json"), made.metrics(), in_order=True)
    write_text(project.results("summary.md"), summary)
    drawn = plot_tables(claim, before[0], after[0], (before[1], after[1]), gaps)
    if made.checkpoints is not None:
        drawn["checkpoints"] = made.checkpoints
    for name, table in drawn.items():
        write_text(project.results(f"plots/{name}.csv"), table.to_csv(index=False, lineterminator="\n"))
    _sum_up_clocks(project)
    tell(claim, project.params.dataset.name, opened_since(project, claim, suite))


def _galleries(
    project: Project, made: ClaimMade, gaps: Mapping[str, Interval], suite: Suite, shown: Sequence[Stepped]
) -> tuple[list[Drawn], list[Drawn], list[Drawn]]:
    """Return the figures of the comparison, the training and the rivals; `shown` as of `write_pages`."""
    claim, task, trained = made.claim, made.task, made.trained
    before, after = made.arms["pre_eval"], made.arms["post_eval"]
    arms = before[1], after[1]
    training = list[Drawn]()
    if isinstance(trained, TrainFacts) and made.log is not None and made.checkpoints is not None:
        training = of_training(
            made.log,
            log_table(project, "reward_components.csv", "step", "n", "mean_cumulative"),
            made.checkpoints,
            read_records(project.results("health.jsonl"), HealthEvent, fix="./run dvc repro train"),
            steps=trained.steps,
            unmeasured=trained.health.unmeasured,
            chosen_step=trained.chosen_step,
        )
    comparison = of_comparison(
        claim,
        before[0],
        after[0],
        arms,
        gaps,
        made.baselines,
        cluster_name=task.cluster_name,
        played=_played(made),
    )
    shows = made.shows
    if claim.verdict != "NOT EVALUABLE" and shows is not None:
        truths = {item.id: task.truth(item) for item in suite.items}
        seed = derive_seed("what was done", claim.plan.suite_digest)
        comparison += of_what_was_done(shows, shown, arms, truths, seed)
    return comparison, training, of_rivals_of(claim)


def _played(made: ClaimMade) -> dict[str, Report]:
    """Return the reports of control and rivals that are no scripts, by what the claim calls them."""
    files = {name: file_of(name) for name in made.claim.rivals}
    files |= {GREEDY: "pre_eval_greedy", "random rewards": CONTROL}
    return {name: made.arms[file][0] for name, file in files.items() if file in made.arms}


def _sum_up_clocks(project: Project) -> None:
    """Write training_clock.json, if the clocks of the training are here and can be read: they decide
    nothing."""
    path = project.observed("training_clock.csv")
    if not path.is_file():
        return
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            write_json(project.observed("training_clock.json"), timing_summary(list(csv.DictReader(stream))))
    except (EvidenceError, ValueError, csv.Error) as error:
        complain(f"{path.name} cannot be summed up: {error}")


def tell(claim: Claim, data: str, further: Sequence[tuple[str, Remark]]) -> None:
    """Say the verdict and what it is about, every warning, what else there is to say by kind, and where the
    report is."""
    say(f"{data}: {claim.verdict}: {claim.sentence}")
    if claim.first_said:
        say(claim.first_said)
    for kind, said in (*(("warning", each) for each in claim.warnings), *further):
        say(f"{kind}: {said}")
    say(f"report: {place_of('report.html')}")


def _gaps(before: Arm, after: Arm, plan: ClaimPlan, known: Mapping[str, Interval]) -> dict[str, Interval]:
    """Return the paired difference of every measure; those that are known already are what they are."""
    names = [name for name in before[0].measures if name in after[0].measures and name not in known]
    seed = derive_seed("gaps", plan.suite_digest)
    gaps = deltas(before[1], after[1], names, seed, unseen=plan.unseen, reward_range=plan.reward_range)
    return gaps | dict(known)


def _drawn(project: Project, galleries: Sequence[Sequence[Drawn]], processes: int) -> list[list[Shown]]:
    """Write every figure as PNG and SVG; return those of each gallery as a page shows them."""
    gallery = [each for own in galleries for each in own]
    # Every second one beside, since those of one kind cost alike
    others = begin(partial(_rendered, gallery[1::2]), processes=processes)
    rendered = _rendered(gallery[::2]) | others()
    for name, contents in rendered.items():
        for kind, content in contents.items():
            write_bytes(project.results(f"figures/{name}.{kind}"), content)
    return [
        [
            Shown(
                each.name,
                rendered[each.name]["svg"],
                each.caption,
                each.table,
                SOURCES.get(each.name, EPISODES),
                each.finding,
                each.folded,
            )
            for each in own
        ]
        for own in galleries
    ]


def _rendered(gallery: Sequence[Drawn]) -> dict[str, dict[str, bytes]]:
    return {each.name: render(each.figure, each.finding) for each in gallery}
