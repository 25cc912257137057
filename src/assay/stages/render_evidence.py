"""Stage 6: from episodes and logs to claims, tables, figures and the report; needs neither torch nor a GPU."""

from __future__ import annotations

import io
from typing import Any

import pandas as pd

from assay.console import say
from assay.errors import RecordError
from assay.evaluation.alarms import alarm_said, alarms, rule_said, training_alarm_said
from assay.evaluation.cuts import cuts_said
from assay.evaluation.replay import discrepancies
from assay.evaluation.report import Baselines, Report
from assay.evidence.cautions import cut_off_said, no_gold_said, no_spread_said, untrained_said
from assay.evidence.checkpoint_figure import checkpoint_progression
from assay.evidence.claim import Claim, compare
from assay.evidence.comparison_figures import before_after_summary, reward_distribution
from assay.evidence.differences import deltas
from assay.evidence.figures import column, render
from assay.evidence.health_figure import health_strip
from assay.evidence.plan import ClaimPlan
from assay.evidence.report import report_html
from assay.evidence.tables import (
    before_after_metrics,
    ladder_frame,
    measures_frame,
    normalised_score,
    readme_block,
    strata_frame,
)
from assay.evidence.training_figures import reward_components, training_curve
from assay.evidence.trajectories import choose_pairs, sample_trajectories
from assay.evidence.validity import validity_frame
from assay.evidence.what_was_run import BaseFacts, run_frame
from assay.evidence.wording import counted
from assay.records import TRAINING_LOG_COLUMNS, Episode, HealthEvent, TrainFacts
from assay.seeds import derive_seed, rng
from assay.stages.inputs import decoding_of, fingerprint_of, heldout_suite, task_of
from assay.stages.project import RESULTS, Project
from assay.storage.files import read_bytes, read_text, sha256_bytes, write_bytes, write_text
from assay.storage.json import read_record, read_records, write_json
from assay.tasks.protocol import Task

READS = "${dataset.root}/heldout.jsonl", *(
    f"{RESULTS}/{name}"
    for name in (
        "fingerprint.json", "claim_plan.json", "base.json", "pre_eval.jsonl", "pre_eval.json", "pre_eval_greedy.jsonl",
        "pre_eval_greedy.json", "baselines.json", "training_log.csv", "reward_components.csv", "checkpoint_evals.csv",
        "health.jsonl", "train.json", "post_eval.jsonl", "post_eval.json", "post_eval_greedy.jsonl", "post_eval_greedy.json",
    )
)  # fmt: skip
WRITES = tuple(
    f"{RESULTS}/{name}"
    for name in (
        "before_after_metrics.json",
        "claim.json",
        "metrics.json",
        "figures",
        "report.html",
        "sample_trajectories.md",
        "summary.md",
    )
)


def run(project: Project) -> None:
    """Write everything a reader sees, from the files the earlier stages wrote."""
    before, after = _arm(project, "pre_eval"), _arm(project, "post_eval")
    base_greedy, post_greedy = _arm(project, "pre_eval_greedy"), _arm(project, "post_eval_greedy")
    plan = read_record(project.results("claim_plan.json"), ClaimPlan, fix="./run dvc repro fingerprint")
    trained = read_record(project.results("train.json"), TrainFacts, fix="./run dvc repro train")
    blockers = _blockers(project, trained, before[0].policy_digest)
    log = _table(project, "training_log.csv", *TRAINING_LOG_COLUMNS)
    task, suite, single = task_of(project), heldout_suite(project), heldout_suite(project, draws=1)
    for name, chosen, (report, episodes) in (
        ("pre_eval", suite, before), ("post_eval", suite, after),
        ("pre_eval_greedy", single, base_greedy), ("post_eval_greedy", single, post_greedy),
    ):  # fmt: skip
        blockers += discrepancies(task, chosen, episodes, report, name)
    claim = compare(
        before[1], after[1], plan, before_suite=before[0].suite_digest, after_suite=after[0].suite_digest,
        before_policy=before[0].policy_digest, after_policy=after[0].policy_digest, split="heldout",
        decoding="sampled", training_seeds=[trained.seed], rng=rng("claim", plan.suite_digest), blockers=blockers,
        notes=[
            *_notes(task, trained, before[1], after[1], base_greedy[1], post_greedy[1]),
            *_cautions(task, trained, log, before, after),
        ],
    )  # fmt: skip
    greedy = (base_greedy[0], post_greedy[0], base_greedy[1], post_greedy[1])
    metrics = before_after_metrics(
        before[0], after[0], before[1], after[1], rng=rng("metrics", plan.suite_digest), greedy=greedy
    )
    baselines = read_record(project.results("baselines.json"), Baselines, fix="./run dvc repro pre_eval").reports
    gaps = deltas(before[1], after[1], list(before[0].measures), derive_seed("gaps", plan.suite_digest))
    components = _table(project, "reward_components.csv", "step", "n", "mean_cumulative")
    checkpoints = _table(project, "checkpoint_evals.csv", "step", "episodes", "mean_reward", "success_rate")
    alarms_of_training = read_records(project.results("health.jsonl"), HealthEvent, fix="./run dvc repro train")
    figures = {
        "training_curve": (training_curve(log), "Reward and loss during training."),
        "health": (
            health_strip(alarms_of_training, trained.steps, trained.health.unmeasured),
            "Alarms during training: AMBER and RED spans of each rule; what was never measured is said.",
        ),
        "reward_components": (reward_components(components), "Reward parts and rates."),
        "checkpoint_progression": (
            checkpoint_progression(checkpoints, trained.chosen_step),
            "The validation suite over checkpoints; the chosen one is marked.",
        ),
        "before_after_summary": (
            before_after_summary(claim, before[0], after[0], gaps, baselines=baselines),
            f"Held-out {task.cluster_name} before and after, and the paired difference with its 95 % interval.",
        ),
        "reward_distribution": (reward_distribution(before[1], after[1]), "Rewards of held-out episodes."),
    }  # fmt: skip
    drawn = {}
    for name, (figure, caption) in figures.items():
        rendered = render(figure)
        for kind, content in rendered.items():
            write_bytes(project.results(f"figures/{name}.{kind}"), content)
        drawn[name] = (rendered["svg"], caption)
    pairs = choose_pairs(before[1], after[1], rng("pairs", plan.suite_digest))
    shown = {
        "prompts": {item.id: task.start(item, 0)[0][-1]["content"] for item in suite.items},
        "truths": {item.id: task.truth(item) for item in suite.items},
    }
    validity = validity_frame(before[0], after[0])
    own = {} if validity is None else {"Validity and field F1 by stratum": validity}
    tables = {
        "Every measure": measures_frame(before[0], after[0], gaps),
        "By stratum": strata_frame(claim, before[0], after[0]),
        **own,
        "Beside scripted players": ladder_frame(baselines, before[0], after[0], floor=task.floor, ceiling=task.ceiling),
    }
    page = report_html(
        claim, title=f"assay: task {task.name}, before and after GRPO", figures=drawn, tables=tables, limits=_limits(task),
        digests={
            "claim_plan.json (sha256 of the file, when training began)": trained.claim_plan_sha256,
            "dataset (digest of its records, in any order)": fingerprint_of(project).dataset_sha256,
        },
        run=_what_was_run(project, trained, plan, before[0]), pairs=pairs, **shown,
        verify_command="./run dvc repro   # re-derives every number; then: sha256sum -c SHA256SUMS inside the package",
    )  # fmt: skip
    samples = sample_trajectories(pairs, **shown)
    summary = readme_block(
        claim, before[0], after[0], gaps, baselines=baselines, ends=(task.floor, task.ceiling), further=own,
        greedy=(base_greedy[0], post_greedy[0]),
    )  # fmt: skip
    write_json(project.results("before_after_metrics.json"), metrics)
    write_json(project.results("claim.json"), claim)
    write_json(project.results("metrics.json"), _flat(claim, task, before[0], after[0], baselines))
    write_text(project.results("report.html"), page)
    write_text(project.results("sample_trajectories.md"), samples)
    write_text(project.results("summary.md"), summary)
    tell(claim)


def tell(claim: Claim) -> None:
    """Say the verdict and where the report is."""
    say(f"{claim.verdict}: {claim.sentence}")
    for warning in claim.warnings:
        say(f"warning: {warning}")
    say(f"report: {RESULTS}/report.html")


def _limits(task: Task) -> tuple[str, ...]:
    what = task.cluster_name
    return (
        "One training run: the claim is about this checkpoint against this base, not about the recipe.",
        f"The held-out {what} come from the same source as the training {what}; nothing is said about any other.",
        "Bit-identity is a promise for one machine; other processors may round differently.",
    )


def _notes(
    task: Task, trained: TrainFacts, before: list[Episode], after: list[Episode], *greedy: list[Episode]
) -> list[str]:
    """Return what a reader must be warned of that no comparison shows: alarms, and prompts that were cut."""
    found = [training_alarm_said(alarm) for alarm in trained.alarms]
    found += [rule_said(rule) for rule in trained.health.rules if rule.level == "RED"]
    for arm, episodes in zip(("before", "after", "before (greedy)", "after (greedy)"), (before, after, *greedy), strict=True):
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
        no_spread_said(column(log, "reward_std")),
        cut_off_said(before[0], after[0]),
        no_gold_said([*before[1], *after[1]], task.flags),
    )
    return [said for said in found if said is not None]


def _what_was_run(project: Project, trained: TrainFacts, plan: ClaimPlan, before: Report) -> pd.DataFrame:
    params, decoding = project.params, decoding_of(project)
    limit = counted(decoding.max_new_tokens, "tokens")
    return run_frame(
        task=params.task.name, data=params.dataset.root, dataset_sha256=fingerprint_of(project).dataset_sha256,
        base=read_record(project.results("base.json"), BaseFacts, fix="./run dvc repro base"), trained=trained,
        checkpoint_rule=plan.checkpoint_rule, before=before,
        decoding=f"temperature {decoding.temperature:g}, at most {limit}, {params.generation.surface} surface",
    )  # fmt: skip


def _flat(claim: Claim, task: Task, before: Report, after: Report, baselines: dict[str, Report]) -> dict[str, Any]:
    """Return the few numbers that `dvc metrics` and `dvc exp show` put side by side; names are unique across files."""
    floor, ceiling = (baselines[name].measures["mean_reward"].value for name in (task.floor, task.ceiling))
    numbers: dict[str, Any] = {"verdict": claim.verdict, "p": claim.p}
    for name in ("success_rate", "mean_reward", "parsed_rate"):
        numbers |= {f"pre_{name}": before.measures[name].value, f"post_{name}": after.measures[name].value}
    if claim.difference is not None:
        numbers |= {"gain": claim.difference.value, "gain_low": claim.difference.low, "gain_high": claim.difference.high}
    numbers["normalised_score"] = normalised_score(after.measures["mean_reward"].value, floor, ceiling)
    return numbers


def _arm(project: Project, name: str) -> tuple[Report, list[Episode]]:
    fix = f"./run dvc repro {name.removesuffix('_greedy')}"
    report = read_record(project.results(f"{name}.json"), Report, fix=fix)
    return report, read_records(project.results(f"{name}.jsonl"), Episode, fix=fix)


def _blockers(project: Project, trained: TrainFacts, base_digest: str) -> list[str]:
    """Return why no claim may be made whatever the episodes say: the plan or the base changed after training began."""
    plan = sha256_bytes(read_bytes(project.results("claim_plan.json"), fix="./run dvc repro fingerprint"))
    found = []
    if plan != trained.claim_plan_sha256:
        found.append("the plan of the claim was changed after training")
    if base_digest != trained.base_digest:
        found.append("the adapter was trained on another base than the one measured before")
    return found


def _table(project: Project, name: str, *needed: str) -> pd.DataFrame:
    text = read_text(project.results(name), fix="./run dvc repro train")
    frame = pd.read_csv(io.StringIO(text)) if text.strip() else pd.DataFrame()
    missing = [column for column in needed if column not in frame.columns]
    if missing or frame.empty:
        found = f"no {', '.join(missing)}" if missing else "no rows"
        raise RecordError(f"columns {', '.join(needed)} and rows", found=found, where=name, fix="./run dvc repro train")
    return frame
