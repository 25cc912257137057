"""What bears on a claim besides the episodes of its two arms: the plan's power, contamination, alarms, controls, openings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel

from assay.dataset.contamination import Contamination, judged
from assay.evaluation.planning import PlannedPower
from assay.evaluation.report import Report
from assay.evidence.acknowledged import answer_for
from assay.evidence.cautions import openings_said
from assay.evidence.claim import Claim
from assay.evidence.plan import ClaimPlan
from assay.records import ControlFacts, Episode, TrainFacts
from assay.stages.inputs import splits_of
from assay.stages.opened import openings
from assay.stages.project import RESULTS, Project
from assay.storage.files import read_bytes, sha256_bytes
from assay.storage.json import read_record, read_records

R = TypeVar("R", bound=BaseModel)
CONTROL = "control"
READS = (f"{RESULTS}/contamination.json", f"{RESULTS}/plan_power.json", f"{RESULTS}/{CONTROL}")


@dataclass(frozen=True, slots=True)
class ClaimInputs:
    """Reasons why no claim may be made, as (kind, what was found); warnings; and what a claim is compared beside."""

    blockers: list[tuple[str, str]]
    notes: list[str]
    planned_points: float | None
    random_arm: tuple[Report, list[Episode]] | None


def claim_inputs(project: Project, plan: ClaimPlan, trained: TrainFacts, arms: tuple[Report, Report]) -> ClaimInputs:
    """Read them all; what is missing because it was never measured is warned of, what is damaged is refused.

    Raises:
        RecordError: A file is damaged.
    """
    red, notes = answer_for(
        trained.health.rules, {each.rule: each.reason for each in project.params.evidence.acknowledged_alarms}
    )
    blockers = [*_changed_since(project, trained, arms[0].policy_digest), *red]
    found = _maybe(project, "contamination.json", Contamination, "fingerprint")
    if found is None:
        notes.append("Whether held-out work stands in the training data was not checked: no contamination.json.")
    else:
        bars, warned = judged(found, splits_of(project.params))
        blockers, notes = [*blockers, *bars], [*notes, *warned]
    planned = _maybe(project, "plan_power.json", PlannedPower, "pre_eval")
    points = None
    if planned is None:
        notes.append("The smallest detectable effect was not planned before training: no plan_power.json.")
    elif (planned.suite_digest, planned.policy_digest) != (arms[0].suite_digest, arms[0].policy_digest):
        notes.append("The smallest detectable effect was planned for another suite or base, so it is not shown.")
    else:
        points = planned.smallest_detectable_points
        if points is None or points > plan.smallest_effect_points:
            reach = "no possible gain" if points is None else f"only gains from {points:.1f} points on"
            notes.append(
                f"Before training, {reach} would have been found with power {planned.power:g}; the smallest that matters is "
                f"{plan.smallest_effect_points:g} points."
            )
    return ClaimInputs(blockers, notes, points, _random_arm(project))


def _maybe(project: Project, name: str, kind: type[R], stage: str) -> R | None:
    path = project.results(name)
    return read_record(path, kind, fix=f"./run dvc repro {stage}") if path.exists() else None


def _changed_since(project: Project, trained: TrainFacts, base_digest: str) -> list[tuple[str, str]]:
    """Return why no claim may be made whatever the episodes say: the plan or the base changed after training began."""
    plan = sha256_bytes(read_bytes(project.results("claim_plan.json"), fix="./run dvc repro fingerprint"))
    found = []
    if plan != trained.claim_plan_sha256:
        found.append("the plan of the claim was changed after training")
    if base_digest != trained.base_digest:
        found.append("the adapter was trained on another base than the one measured before")
    return [(text, text) for text in found]


def opened_said(project: Project, claim: Claim) -> str | None:
    """Return what the log of openings says against a claim; it is no part of it, since it is no function of its inputs."""
    noted = openings(project)
    opened = None
    if noted is not None:
        opened = {(each.stage, each.policy_digest) for each in noted if each.suite_digest == claim.plan.suite_digest}
    return openings_said(opened, {claim.before_policy, claim.after_policy})


def _random_arm(project: Project) -> tuple[Report, list[Episode]] | None:
    facts = _maybe(project, f"{CONTROL}/control.json", ControlFacts, CONTROL)
    if facts is None or not facts.asked:
        return None
    fix = f"./run dvc repro {CONTROL}"
    report = read_record(project.results(f"{CONTROL}/post_eval.json"), Report, fix=fix)
    return report, read_records(project.results(f"{CONTROL}/post_eval.jsonl"), Episode, fix=fix)
