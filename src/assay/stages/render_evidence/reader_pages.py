"""What render_evidence writes for readers: report.html, sample_trajectories.md and evidence/README.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from assay.core.counting import counted
from assay.core.records import TrainFacts
from assay.core.seeds import rng
from assay.core.storage.files import write_text
from assay.core.storage.json import read_record
from assay.dataset.audit_records import Audit, Contamination
from assay.dataset.external import Training
from assay.evidence.claim.claim import Claim
from assay.evidence.claim.what_was_run import (
    BaseFacts,
    contamination_frame,
    findings_frame,
    run_frame,
    splits_frame,
)
from assay.evidence.page.report import report_html
from assay.evidence.page.shell import Shown, Tick
from assay.evidence.tables.evidence_readme import VERIFY, landing_page
from assay.evidence.tables.trajectories import Stepped, choose_pairs, sample_trajectories
from assay.pipeline.inputs import decoding_of, fingerprint_of, heldout_suite
from assay.pipeline.project import Project
from assay.stages.render_evidence import README
from assay.stages.render_evidence.arms import Arm
from assay.statistics.report import Report
from assay.tasks.protocol import Message, Task

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


def _asked(messages: Sequence[Message]) -> str:
    """Return an opening as readers are shown it: a conversation with who said what, a single message as it
    is."""
    if len(messages) == 1:
        return messages[0]["content"]
    return "\n".join(f"[{message['role']}] {message['content']}" for message in messages)


def write_pages(
    project: Project,
    task: Task,
    claim: Claim,
    trained: Training,
    before: Arm,
    after: Arm,
    *,
    findings: Sequence[str],
    checked: Sequence[Tick],
    compared: Sequence[Shown],
    training_figures: Sequence[Shown],
    tables: Mapping[str, pd.DataFrame],
    baselines: pd.DataFrame,
    rivals: Sequence[Shown],
    stepped: Sequence[Stepped],
    limits: Sequence[str],
) -> None:
    """Write the three pages from what was computed already; arguments as of `report_html`."""
    plays = [play for play in heldout_suite(project).plays() if play.draw == 0]
    given = {
        "prompts": {play.item.id: _asked(task.start(play.item, play.world_seed)[0]) for play in plays},
        "truths": {play.item.id: task.truth(play.item) for play in plays},
    }
    digest = claim.plan.suite_digest
    few = choose_pairs(before[1], after[1], rng("pairs", digest))
    many = choose_pairs(before[1], after[1], rng("pairs", digest), n_random=16, n_each=4)
    fingerprint = fingerprint_of(project)
    audit = read_record(project.results("audit.json"), Audit, fix="./run dvc repro fingerprint")
    path = project.results("contamination.json")
    shared = read_record(path, Contamination, fix="./run dvc repro fingerprint") if path.exists() else None
    own = isinstance(trained, TrainFacts)
    begun = "training began" if own else "what was trained elsewhere was taken"
    page = report_html(
        claim,
        title=f"assay: {project.params.dataset.name}, before and after {'GRPO' if own else 'training'}",
        digests={
            f"claim_plan.json (sha256 of the file, when {begun})": trained.claim_plan_sha256,
            "dataset (digest of its records, in any order)": fingerprint.dataset_sha256,
        },
        run=_what_was_run(project, claim.plan.checkpoint_rule, trained, before[0]),
        checked=checked,
        findings=findings,
        arms=(before[1], after[1]),
        compared=compared,
        tables=tables,
        baselines=baselines,
        rivals=rivals,
        trained=trained if isinstance(trained, TrainFacts) else None,
        training_figures=training_figures,
        stepped=stepped,
        pairs=many,
        prompts=given["prompts"],
        truths=given["truths"],
        data={
            "Splits": splits_frame(fingerprint),
            "What the audit found at least once": findings_frame(audit),
            "What splits share": contamination_frame(shared),
        },
        limits=limits,
        verify=VERIFY,
    )
    captions = {shown.name: shown.caption for shown in compared}
    key = (KEY_FIGURE, captions[KEY_FIGURE]) if KEY_FIGURE in captions else None
    write_text(project.results("report.html"), page)
    write_text(project.results("sample_trajectories.md"), sample_trajectories(few, **given))
    write_text(project.root / README, landing_page(claim, key, limits, data=project.params.dataset.name))


def _what_was_run(project: Project, checkpoint_rule: str, trained: Training, before: Report) -> pd.DataFrame:
    params, decoding = project.params, decoding_of(project)
    limit = counted(decoding.max_new_tokens, "tokens")
    name, kind = params.dataset.name, params.task.name
    called = name if name == kind else f"{name} (a {kind} task)"
    return run_frame(
        task=called,
        data=params.dataset.root,
        dataset_sha256=fingerprint_of(project).dataset_sha256,
        base=read_record(project.results("base.json"), BaseFacts, fix="./run dvc repro base"),
        trained=trained,
        checkpoint_rule=checkpoint_rule,
        before=before,
        decoding=(
            f"temperature {decoding.temperature:g}, at most {limit}, {params.generation.surface} surface"
        ),
    )
