"""What stage 7 does: everything a reader sees, from the files the earlier stages wrote."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from assay.core.console import complain, say
from assay.core.errors import DataError, EvidenceError, RecordError, TaskError
from assay.core.evidence_files import RESULTS, place_of
from assay.core.records import TRAINING_LOG_COLUMNS, Episode, HealthEvent, Interval, TrainFacts
from assay.core.seeds import derive_seed, rng
from assay.core.storage.files import write_bytes, write_text
from assay.core.storage.json import read_record, read_records, write_json
from assay.dataset.audit_records import Contamination
from assay.evaluation.alarms import alarm_said, alarms, cuts_said, training_alarm_said
from assay.evaluation.replay import graded_again
from assay.evidence.claim.claim import Claim, compare, differences_of
from assay.evidence.claim.differences import deltas
from assay.evidence.claim.openings import level_of
from assay.evidence.claim.plan import ClaimPlan
from assay.evidence.claim.warnings import (
    cut_off_said,
    no_gold_said,
    no_spread_said,
    other_machines_said,
    untrained_said,
)
from assay.evidence.details.details import details_of
from assay.evidence.details.tables import detail_notes, detail_tables
from assay.evidence.figures.drawing import column, render
from assay.evidence.figures.gallery import Drawn, of_comparison, of_rivals_of, of_training
from assay.evidence.figures.verdict_figures import validity_frame
from assay.evidence.page.shell import Shown
from assay.evidence.tables.claim_tables import (
    before_after_metrics,
    ladder_frame,
    measures_frame,
    normalised_score,
    plot_tables,
    readme_block,
    strata_frame,
)
from assay.pipeline.inputs import heldout_suite, task_of
from assay.pipeline.project import Project
from assay.pipeline.rival_files import file_of
from assay.stages.render_evidence.arms import AGAIN, CONTROL, checkpoint_frame, log_table, read_arm, suite_of
from assay.stages.render_evidence.claim_inputs import claim_inputs, opened_said
from assay.stages.render_evidence.integrity import integrity
from assay.stages.render_evidence.limits import limits
from assay.stages.render_evidence.no_claim import refuse
from assay.stages.render_evidence.reader_pages import EPISODES, SOURCES, write_pages
from assay.stages.render_evidence.rivals import base_rivals, other_rivals, rival_notes, scripted_arms
from assay.statistics.report import Report, Reports
from assay.statistics.timing import timing_summary
from assay.tasks.protocol import Task
from assay.tasks.rivals import GREEDY


def render_evidence(project: Project) -> None:
    """Write everything a reader sees, from the files the earlier stages wrote.

    Raises:
        AssayError: A file is missing, damaged or not what it should be; a claim that says NOT EVALUABLE is
            written first.
    """
    try:
        _render(project)
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


def _render(project: Project) -> None:
    before, after = read_arm(project, "pre_eval"), read_arm(project, "post_eval")
    base_greedy, post_greedy = read_arm(project, "pre_eval_greedy"), read_arm(project, "post_eval_greedy")
    plan = read_record(project.results("claim_plan.json"), ClaimPlan, fix="./run dvc repro fingerprint")
    trained = read_record(project.results("train.json"), TrainFacts, fix="./run dvc repro train")
    beside = claim_inputs(project, plan, trained, (before, after, base_greedy, post_greedy))
    blockers: list[str | tuple[str, str]] = [*beside.blockers]
    log = log_table(project, "training_log.csv", *TRAINING_LOG_COLUMNS)
    if list(log["step"]) != list(range(1, trained.steps + 1)):
        text = "training_log.csv does not hold every step of the training"
        blockers.append((text, text))
    checkpoints = checkpoint_frame(project, trained)
    if trained.chosen_step not in set(checkpoints["step"]):
        text = "the chosen step was never validated"
        blockers.append((text, text))
    task, suite = task_of(project), heldout_suite(project)
    arms = {
        "pre_eval": before,
        "post_eval": after,
        "pre_eval_greedy": base_greedy,
        "post_eval_greedy": post_greedy,
        AGAIN: beside.base_again,
    }
    arms |= {} if beside.random_arm is None else {CONTROL: beside.random_arm}
    scripted, (of_base, facts) = scripted_arms(project, task, suite), base_rivals(project)
    arms |= {file_of(name): arm for name, arm in of_base.items()}
    rivals = scripted | of_base | {GREEDY: base_greedy}
    blockers += other_rivals(of_base, facts, plan, trained.base_digest)
    misgraded = [
        said
        for name, (_, episodes) in arms.items()
        for said in graded_again(task, suite_of(suite, name), episodes, name)
    ]
    blockers += misgraded
    details = details_of(
        before[1],
        after[1],
        (base_greedy[1], post_greedy[1]),
        seed=derive_seed("details", plan.suite_digest),
        largest=plan.largest_cluster or 0,
    )
    claim = compare(
        before[1],
        after[1],
        plan,
        before_suite=before[0].suite_digest,
        after_suite=after[0].suite_digest,
        before_policy=before[0].policy_digest,
        after_policy=after[0].policy_digest,
        split="heldout",
        decoding="sampled",
        training_seeds=[trained.seed],
        rng=rng("claim", plan.suite_digest),
        blockers=blockers,
        base_again=beside.base_again[1],
        random_arm=None if beside.random_arm is None else beside.random_arm[1],
        random_health=beside.random_health,
        rivals={name: arm[1] for name, arm in rivals.items() if name in plan.rivals},
        planned_points=beside.planned.smallest_detectable_points,
        level=level_of(beside.opened, plan),
        opened=beside.opened,
        notes=[
            *beside.notes,
            *rival_notes(task, plan, facts),
            *_notes(task, trained, before[1], after[1], base_greedy[1], post_greedy[1]),
            *_cautions(task, trained, log, before, after),
            *detail_notes(details),
        ],
    )
    findings = [each if isinstance(each, str) else each[1] for each in blockers]
    baselines = {name: report for name, (report, _) in scripted.items()}
    gaps = _gaps(before, after, plan, differences_of(claim))
    metrics = before_after_metrics(
        before[0], after[0], gaps, (base_greedy[0], post_greedy[0], _gaps(base_greedy, post_greedy, plan, {}))
    )
    components = log_table(project, "reward_components.csv", "step", "n", "mean_cumulative")
    alarms_of_training = read_records(
        project.results("health.jsonl"), HealthEvent, fix="./run dvc repro train"
    )
    training = of_training(
        log,
        components,
        checkpoints,
        alarms_of_training,
        steps=trained.steps,
        unmeasured=trained.health.unmeasured,
        chosen_step=trained.chosen_step,
    )
    comparison = of_comparison(
        claim, before[0], after[0], (before[1], after[1]), gaps, baselines, cluster_name=task.cluster_name
    )
    validity = validity_frame(before[0], after[0])
    own = {} if validity is None else {"Validity and field F1 by stratum": validity}
    measures, strata = measures_frame(before[0], after[0], gaps), strata_frame(claim, before[0], after[0])
    tables = {"Every measure": measures, "By stratum": strata, **own}
    tables |= detail_tables(details, beside.planned, task.cluster_name)
    path = project.results("contamination.json")
    write_pages(
        project,
        task,
        claim,
        trained,
        before,
        after,
        findings=findings,
        checked=integrity(
            claim,
            trained,
            read_record(path, Contamination, fix="./run dvc repro fingerprint") if path.exists() else None,
            blockers=blockers,
            graded={name: len(episodes) for name, (_, episodes) in arms.items()},
            misgraded=misgraded,
        ),
        compared=_drawn(project, comparison),
        training_figures=_drawn(project, training),
        tables=tables,
        baselines=ladder_frame(baselines, before[0], after[0], floor=task.floor, ceiling=task.ceiling),
        rivals=_drawn(project, of_rivals_of(claim)),
        limits=limits(task, claim, before[0], after[0], baselines),
    )
    summary = readme_block(
        claim,
        before[0],
        after[0],
        gaps,
        baselines=baselines,
        ends=(task.floor, task.ceiling),
        further=own,
        greedy=(base_greedy[0], post_greedy[0]),
    )
    reports = Reports(arms={name: report for name, (report, _) in arms.items()}, baselines=baselines)
    write_json(project.results("reports.json"), reports)
    write_json(project.results("plan_power.json"), beside.planned)
    write_json(project.results("details.json"), details)
    write_json(project.results("before_after_metrics.json"), metrics)
    write_json(project.results("claim.json"), claim)
    write_json(
        project.results("metrics.json"),
        _flat(claim, trained.chosen_step, task, before[0], after[0], baselines),
    )
    write_text(project.results("summary.md"), summary)
    drawn = plot_tables(claim, before[0], after[0], (before[1], after[1]), gaps) | {
        "checkpoints": checkpoints
    }
    for name, table in drawn.items():
        write_text(project.results(f"plots/{name}.csv"), table.to_csv(index=False, lineterminator="\n"))
    _sum_up_clocks(project)
    tell(claim, project.params.dataset.name, opened_said(project, claim))


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


def tell(claim: Claim, data: str, further: Sequence[tuple[str, str]]) -> None:
    """Say the verdict and what it is about, every warning, what else there is to say by kind, and where the
    report is."""
    say(f"{data}: {claim.verdict}: {claim.sentence}")
    for kind, said in (*(("warning", text) for text in claim.warnings), *further):
        say(f"{kind}: {said}")
    say(f"report: {place_of('report.html')}")


def _gaps(
    before: tuple[Report, list[Episode]],
    after: tuple[Report, list[Episode]],
    plan: ClaimPlan,
    known: Mapping[str, Interval],
) -> dict[str, Interval]:
    """Return the paired difference of every measure; those that are known already are what they are."""
    names = [name for name in before[0].measures if name in after[0].measures and name not in known]
    seed, largest = derive_seed("gaps", plan.suite_digest), plan.largest_cluster or 0
    return deltas(before[1], after[1], names, seed, largest=largest) | dict(known)


def _drawn(project: Project, gallery: Sequence[Drawn]) -> list[Shown]:
    """Write every figure as PNG and SVG; return them as a page shows them."""
    shown = []
    for each in gallery:
        rendered = render(each.figure, each.finding)
        for kind, content in rendered.items():
            write_bytes(project.results(f"figures/{each.name}.{kind}"), content)
        shown.append(
            Shown(
                each.name,
                rendered["svg"],
                each.caption,
                each.table,
                SOURCES.get(each.name, EPISODES),
                each.finding,
            )
        )
    return shown


def _notes(
    task: Task, trained: TrainFacts, before: list[Episode], after: list[Episode], *greedy: list[Episode]
) -> list[str]:
    """Return what a reader must be warned of that no comparison shows: alarms, and prompts that were cut."""
    found = [training_alarm_said(alarm) for alarm in trained.alarms]
    for arm, episodes in zip(
        ("before", "after", "before (greedy)", "after (greedy)"), (before, after, *greedy), strict=True
    ):
        found += [alarm_said(alarm, f"held-out episodes {arm}") for alarm in alarms(task, episodes)]
    cut = cuts_said([*before, *after])
    return found if cut is None else [*found, f"Held-out: {cut}."]


def _cautions(
    task: Task,
    trained: TrainFacts,
    log: pd.DataFrame,
    before: tuple[Report, list[Episode]],
    after: tuple[Report, list[Episode]],
) -> list[str]:
    found = (
        untrained_said(trained.chosen_step),
        other_machines_said(trained.other_machines),
        no_spread_said(column(log, "reward_std")),
        cut_off_said(before[0], after[0]),
        no_gold_said([*before[1], *after[1]], task.flags),
    )
    return [said for said in found if said is not None]


def _flat(
    claim: Claim, chosen_step: int, task: Task, before: Report, after: Report, baselines: dict[str, Report]
) -> dict[str, Any]:
    """Return the few numbers that `dvc metrics` and `dvc exp show` put side by side; names are short, for
    columns."""
    floor, ceiling = (baselines[name].measures["mean_reward"].value for name in (task.floor, task.ceiling))
    numbers: dict[str, Any] = {"verdict": claim.verdict, "p": claim.p, "step": chosen_step}
    if claim.verdict == "NOT EVALUABLE":
        return numbers | {"p": None}
    for name, measure in (("success", "success_rate"), ("reward", "mean_reward"), ("parsed", "parsed_rate")):
        numbers |= {f"{name}_before": before.measures[measure].value, name: after.measures[measure].value}
    if claim.difference is not None:
        numbers |= {
            "gain": claim.difference.value,
            "gain_low": claim.difference.low,
            "gain_high": claim.difference.high,
        }
    numbers["score"] = normalised_score(after.measures["mean_reward"].value, floor, ceiling)
    return numbers
