"""What render_evidence writes for readers: report.html, sample_trajectories.md and evidence/README.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from assay.core.counting import counted
from assay.core.records import Interval, TrainFacts
from assay.core.seeds import rng
from assay.core.storage.files import write_text
from assay.core.storage.json import read_record
from assay.pipeline.inputs import decoding_of, read_fingerprint
from assay.pipeline.project import Project
from assay.rollout.dataset.audit_records import Audit, Contamination
from assay.rollout.dataset.external import Training
from assay.rollout.dataset.suite import Suite
from assay.rollout.tasks.protocol import Message, Task
from assay.stages.render_evidence import README
from assay.stages.render_evidence.claim_at import ClaimMade
from assay.stages.render_evidence.integrity import integrity
from assay.stages.render_evidence.limits import limits
from assay.verdict.evidence.claim.base_facts import BaseFacts, base_said
from assay.verdict.evidence.claim.secondary_suites import SECONDARY_TABLE, secondary_frame
from assay.verdict.evidence.claim.what_was_run import (
    contamination_frame,
    findings_frame,
    run_frame,
    splits_frame,
)
from assay.verdict.evidence.details.tables import detail_tables
from assay.verdict.evidence.page.report import Basis, Comparison, Shows, report_html
from assay.verdict.evidence.page.shell import Shown
from assay.verdict.evidence.tables.claim_tables import ladder_frame, measures_frame, strata_frame
from assay.verdict.evidence.tables.evidence_readme import VERIFY, landing_page
from assay.verdict.evidence.tables.trajectories import Stepped, choose_pairs, sample_trajectories
from assay.verdict.statistics.report import Report

KEY_FIGURE = "before_after_summary"
EPISODES = "pre_eval.jsonl and post_eval.jsonl"
SOURCES = {
    "training_curve": "training_log.csv",
    "health": "health.jsonl",
    "reward_components": "reward_components.csv",
    "checkpoint_progression": "checkpoint_evals.csv",
    "rivals": "claim.json",
    KEY_FIGURE: "before_after_metrics.json",
}


# From the folder of report.html. Commit and clock stand in none of the results, which are the same each time.
LINKS = (
    ("repository", "../../../README.md"),
    ("documentation", "../../../docs/"),
    ("package to verify", "../../../dist/assay-package.tar"),
    ("commit, date and machine", "../../observed/provenance.json"),
)


def _asked(messages: Sequence[Message]) -> str:
    """Return an opening as readers are shown it: a conversation with who said what, a single message as it
    is."""
    if len(messages) == 1:
        return messages[0]["content"]
    return "\n".join(f"[{message['role']}] {message['content']}" for message in messages)


def write_pages(
    project: Project,
    made: ClaimMade,
    gaps: Mapping[str, Interval],
    own: Mapping[str, pd.DataFrame],
    *,
    suite: Suite,
    figures: Sequence[Sequence[Shown]],
    shown: Sequence[Stepped],
) -> None:
    """Write the three pages.

    Args:
        project: The run.
        made: The claim and what it was made of.
        gaps: The paired difference of every measure.
        own: Tables that only this task has, by caption.
        suite: The held-out one.
        figures: Those of the comparison, of the training and of the rivals.
        shown: Pairs of episodes to step through.
    """
    claim, task, trained, baselines = made.claim, made.task, made.trained, made.baselines
    before, after = made.arms["pre_eval"], made.arms["post_eval"]
    compared, training_figures, rivals = figures
    plays = [play for play in suite.plays() if play.draw == 0]
    given = {
        "prompts": {play.item.id: _asked(task.start(play.item, play.world_seed)[0]) for play in plays},
        "truths": {play.item.id: task.truth(play.item) for play in plays},
    }
    digest = claim.plan.suite_digest
    few = choose_pairs(before[1], after[1], rng("pairs", digest))
    fingerprint = read_fingerprint(project.root)
    audit = read_record(project.results("audit.json"), Audit, fix="./run dvc repro fingerprint")
    path = project.results("contamination.json")
    shared = read_record(path, Contamination, fix="./run dvc repro fingerprint") if path.exists() else None
    tables = {SECONDARY_TABLE: secondary_frame(claim.secondary_suites)} if claim.secondary_suites else {}
    tables |= {
        "Every measure": measures_frame(before[0], after[0], gaps),
        "By stratum": strata_frame(claim, before[0], after[0]),
        **own,
        **detail_tables(made.details, made.planned, task.cluster_name),
    }
    stated = limits(task, claim, before[0], after[0], baselines)
    here = isinstance(trained, TrainFacts)
    begun = "training began" if here else "what was trained elsewhere was taken"
    page = report_html(
        claim,
        f"assay: {project.params.dataset.name}, before and after {'GRPO' if here else 'training'}",
        basis=Basis(
            about=_about(project, task, trained),
            digests={
                f"claim_plan.json (sha256 of the file, when {begun})": trained.claim_plan_sha256,
                "dataset (digest of its records, in any order)": fingerprint.dataset_sha256,
            },
            run=_what_was_run(project, claim.plan.checkpoint_rule, trained, before[0]),
            checked=integrity(
                claim,
                trained,
                shared,
                blockers=made.blockers,
                graded={name: len(episodes) for name, (_, episodes) in made.arms.items()},
                misgraded=made.misgraded,
            ),
            findings=made.blockers,
            data={
                "Splits": splits_frame(fingerprint),
                "What the audit found at least once": findings_frame(audit),
                "What splits share": contamination_frame(shared),
            },
            limits=stated,
            verify=VERIFY,
            links=LINKS,
        ),
        comparison=Comparison(
            arms=(before[1], after[1]),
            figures=compared,
            tables=tables,
            baselines=ladder_frame(baselines, before[0], after[0], floor=task.floor, ceiling=task.ceiling),
            rivals=rivals,
        ),
        shows=Shows(stepped=shown, pairs=few, prompts=given["prompts"], truths=given["truths"]),
        trained=trained if isinstance(trained, TrainFacts) else None,
        training=training_figures,
    )
    captions = {each.name: each.caption for each in compared}
    key = (KEY_FIGURE, captions[KEY_FIGURE]) if KEY_FIGURE in captions else None
    write_text(project.results("report.html"), page)
    write_text(project.results("sample_trajectories.md"), sample_trajectories(few, **given))
    write_text(project.root / README, landing_page(claim, key, stated, data=project.params.dataset.name))


def _about(project: Project, task: Task, trained: Training) -> tuple[str, str]:
    base = read_record(project.results("base.json"), BaseFacts, fix="./run dvc repro base")
    how = (
        f"GRPO, {counted(trained.steps, 'steps')}, training seed {trained.seed}"
        if isinstance(trained, TrainFacts)
        else "trained elsewhere"
    )
    said = task.about or f"{project.params.dataset.name}: success is what the code of the task says it is."
    return said, f"Model: {base_said(base)}. {how}."


def _what_was_run(project: Project, checkpoint_rule: str, trained: Training, before: Report) -> pd.DataFrame:
    params, decoding = project.params, decoding_of(project.params)
    limit = counted(decoding.max_new_tokens, "tokens")
    name, kind = params.dataset.name, params.task.name
    called = name if name == kind else f"{name} (a {kind} task)"
    return run_frame(
        task=called,
        data=params.dataset.root,
        dataset_sha256=read_fingerprint(project.root).dataset_sha256,
        base=read_record(project.results("base.json"), BaseFacts, fix="./run dvc repro base"),
        trained=trained,
        checkpoint_rule=checkpoint_rule,
        before=before,
        decoding=(
            f"temperature {decoding.temperature:g}, at most {limit}, {params.generation.surface} surface"
        ),
    )
