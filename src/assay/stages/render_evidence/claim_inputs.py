"""What bears on a claim besides the episodes of its two arms: the plan's power, contamination, alarms,
controls, openings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from pydantic import BaseModel

from assay.core.evidence_files import NAMED_DATA
from assay.core.records import ControlFacts, HealthEvent, HealthSummary, OpenedRecords, TrainFacts
from assay.core.storage.files import read_bytes, sha256_bytes
from assay.core.storage.json import read_record, read_records
from assay.pipeline.heldout_ledger import key_of, known_copy_id, ledger_stands, openings, policies_that_saw
from assay.pipeline.inputs import read_fingerprint, splits_of
from assay.pipeline.note_openings import note_called
from assay.pipeline.project import Project
from assay.rollout.dataset.audit_records import Contamination, judged
from assay.rollout.dataset.external import ExternalFacts, NamedFound, Training
from assay.rollout.dataset.suite import Suite
from assay.rollout.tasks.protocol import reward_range
from assay.rollout.tasks.rivals import MORE_SFT, rivals_of
from assay.stages.render_evidence.arms import AGAIN, CONTROL, Arm, ArmReader
from assay.stages.render_evidence.fresh_suite import fresh_suite, planned_before
from assay.verdict.evidence.claim.base_facts import BaseFacts
from assay.verdict.evidence.claim.claim import UNREAD, Claim
from assay.verdict.evidence.claim.openings import Openings, opening_obstacles, opening_warnings, openings_of
from assay.verdict.evidence.claim.plan import ClaimPlan, plan_of
from assay.verdict.evidence.claim.random_reward import control_left_out, other_control
from assay.verdict.evidence.claim.relaxed import looser_limits, other_measuring
from assay.verdict.evidence.claim.verdict import DRAFT
from assay.verdict.evidence.claim.warnings import (
    answer_for,
    control_health,
    of_external,
    of_openings,
    of_secondary,
    of_whole,
    other_openings,
)
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.statistics.openings import opening_level
from assay.verdict.statistics.power import PlannedPower, planned_power

R = TypeVar("R", bound=BaseModel)
CONTROL_STAGE = "control"


# What was measured or planned is not what was trained, by what is compared.
OTHER_PLAN = ("plan_changed", "plan_of_other_data", "plan_not_asked")
OTHER_POLICY = (
    "other_base",
    "other_base_measured",
    "other_policy_measured",
    "other_greedy_before",
    "other_greedy_after",
)

# Of the held-out suite: base, chosen checkpoint, and both again with greedy decoding.
Arms = tuple[Arm, Arm, Arm, Arm]


@dataclass(frozen=True, slots=True)
class ClaimInputs:
    """Why no claim may be made, warnings, and what a claim is compared beside."""

    blockers: list[Remark]
    notes: list[Remark]
    planned: PlannedPower
    base_again: Arm
    random_arm: Arm | None
    random_health: HealthSummary | None
    opened: Openings | None


def claim_inputs(reader: ArmReader, plan: ClaimPlan, trained: Training, arms: Arms) -> ClaimInputs:
    """Read them all; what does not hold together bars the claim, what is missing or damaged is refused.

    Raises:
        RecordError: A file is missing or damaged.
    """
    project = reader.project
    blockers, notes = _changed_since(reader, plan, trained, arms), list[Remark]()
    if isinstance(trained, TrainFacts):
        red, notes = answer_for(
            trained.health.rules,
            {each.rule: each.reason for each in project.params.evidence.acknowledged_alarms},
        )
        blockers = [*blockers, *_other_alarms(project, trained), *red]
    else:
        bars, notes = _external(project, trained, arms)
        blockers = [*blockers, *bars]
    found = read_record(
        project.results("contamination.json"), Contamination, fix="./run dvc repro fingerprint"
    )
    splits = read_fingerprint(project.root).splits
    if found.n_records != {name: split.n_records for name, split in splits.items()}:
        blockers.append(remark("other_records"))
    shared, odd = judged(found, splits_of(project.params))
    blockers += [remark("leak", overlap=each) for each in shared]
    notes += [remark("contamination", overlap=each) for each in odd]
    base = read_record(project.results("base.json"), BaseFacts, fix="./run dvc repro base")
    if base.sft is not None:
        of = {"rows": base.sft.rows, "of": base.sft.train_rows, "steps": base.sft.steps}
        notes.append(remark("base_fine_tuned", model=str(base.model), **of))
        notes += [remark("more_sft_left_out")] if MORE_SFT not in plan.rivals else []
    before, episodes = arms[0]
    homes = {each.item_id: each.cluster for each in episodes}
    warned, n_clusters = list[Remark](), len(set(homes.values()))
    if n_clusters != len(homes):
        name = plan.cluster_name
        warned.append(remark("fewer_clusters", n=len(homes), n_clusters=n_clusters, clusters=name))
    planned = reader.once(
        partial(
            planned_power,
            episodes,
            before.suite_digest,
            before.draws,
            primary=plan.primary,
            alpha=opening_level(1, plan.alpha, looks=plan.looks),
            unseen=plan.unseen,
            smallest_effect_points=plan.smallest_effect_points,
        ),
        "planned power",
        reader.suite,
        "pre_eval.jsonl",
        "claim_plan.json",
    )
    points = planned.smallest_detectable_points
    if points is None or points > plan.smallest_effect_points:
        reach = {"detectable": points, "power": planned.power, "matters": plan.smallest_effect_points}
        warned.append(remark("planned_exceeds", elsewhere=not isinstance(trained, TrainFacts), **reach))
    again = reader.arm(AGAIN)
    if again[0].policy_digest != before.policy_digest:
        blockers.append(remark("other_base_again"))
    opened, claimed = None, project.params.evaluation.open
    if claimed:
        opened, bars, told = _opened(project, reader.suite, plan, trained)
        blockers, notes = [*blockers, *bars], [*notes, *warned, *told]
    facts = read_record(project.results("control.json"), ControlFacts, fix=f"./run dvc repro {CONTROL_STAGE}")
    arm, bars, warned = _random_arm(reader, facts, trained)
    params = project.params
    if claimed:  # what weakens a claim weakens no draft
        notes = [*control_left_out(params), *notes, *looser_limits(params), *other_measuring(params), *warned]
    return ClaimInputs([*blockers, *bars], notes, planned, again, arm, facts.health, opened)


class Suites(Protocol):
    """The suites of a project as somebody has read them."""

    @property
    def heldout(self) -> Suite:
        """The one that decides."""

    @property
    def validation(self) -> Suite:
        """The one that chooses the checkpoint."""

    @property
    def secondary(self) -> Mapping[str, Suite]:
        """Those beside, by data file."""


def plan_asked(project: Project, cluster_name: str, suites: Suites | None = None) -> ClaimPlan:
    """Return the plan that the settings make of the data at hand, which are read where they were not yet."""
    suites = suites or project.inputs("heldout", "validation", "secondary")
    task = project.task()
    return plan_of(
        project.params,
        suites.heldout,
        suites.validation,
        cluster_name=cluster_name,
        data=read_fingerprint(project.root),
        rivals=rivals_of(task, project.params.evaluation.rivals),
        reward_range=reward_range(task),
        secondary=suites.secondary,
    )


def _changed_since(reader: ArmReader, plan: ClaimPlan, trained: Training, arms: Arms) -> list[Remark]:
    """Return why no claim may be made whatever the episodes say: what was trained is not what was measured or
    planned."""
    project = reader.project
    written = sha256_bytes(read_bytes(project.results("claim_plan.json"), fix="./run dvc repro fingerprint"))
    asked = plan_asked(project, plan.cluster_name, reader.inputs)
    base = read_record(project.results("base.json"), BaseFacts, fix="./run dvc repro base")
    before, after, base_greedy, after_greedy = (report for report, _ in arms)
    holds = (
        written == trained.claim_plan_sha256 or planned_before(project, plan, trained),
        plan.dataset_sha256 == asked.dataset_sha256,
        plan == asked,
        base.digest == trained.base_digest,
        before.policy_digest == trained.base_digest,
        after.policy_digest == trained.policy_digest,
        base_greedy.policy_digest == before.policy_digest,
        after_greedy.policy_digest == after.policy_digest,
    )
    codes = (*OTHER_PLAN, *OTHER_POLICY)
    return [remark(code) for held, code in zip(holds, codes, strict=True) if not held]


def _external(project: Project, trained: ExternalFacts, arms: Arms) -> tuple[list[Remark], list[Remark]]:
    """Return why no claim may be made of what was trained elsewhere, and what nobody here can know of it."""
    asked = project.params.external
    if asked is None or (asked.sha256, asked.how) != (trained.sha256, trained.how):
        return [remark("other_external")], []
    notes = of_external(trained.how, [each.file for each in asked.data])
    if trained.whole is not None:
        notes += of_whole(trained.whole, *other_openings(arms[0][1], arms[1][1]))
    found = read_record(project.results(NAMED_DATA), NamedFound, fix="./run dvc repro -f post_eval")
    if [(each.file, each.sha256) for each in found.files] != [
        (each.file, each.sha256) for each in asked.data
    ]:
        return [remark("other_named_data")], notes
    bars, odd = judged(found.shared, ("train", project.params.played[0]))
    warned = [remark("contamination", overlap=each) for each in odd]
    for suite in project.params.played[1:]:
        warned += of_secondary(*judged(found.shared, ("train", suite)))
    leaks = [remark("of_named_data", found=remark("leak", overlap=each)) for each in bars]
    return leaks, [*notes, *(remark("of_named_data", found=each) for each in warned)]


def _other_alarms(project: Project, trained: TrainFacts) -> list[Remark]:
    events = read_records(project.results("health.jsonl"), HealthEvent, fix="./run dvc repro train")
    told = HealthSummary.of(events, trained.health.unmeasured) if events else None
    if told == trained.health and all(event.step <= trained.steps for event in events):
        return []
    return [remark("other_alarms")]


def _opened(
    project: Project, suite: Suite, plan: ClaimPlan, trained: Training
) -> tuple[Openings, list[Remark], list[Remark]]:
    """Return what was known of the held-out records when they were opened, why it bars the claim, and what
    weakens it."""
    path, fix = project.results("openings.json"), "./run dvc repro -f post_eval"
    found = read_record(path, OpenedRecords, fix=fix)
    opened = openings_of(found, sha256_bytes(read_bytes(path, fix=fix)), plan.looks)
    records = key_of(suite.contents)
    seed = trained.seed if isinstance(trained, TrainFacts) else project.params.seed
    bars = opening_obstacles(found, plan, policy=trained.policy_digest, records=records, seed=seed)
    bars_fresh, told = fresh_suite(project, trained)
    return opened, [*bars, *bars_fresh], [*opening_warnings(opened, found), *told]


def note_outcome(project: Project) -> None:
    """Write into the ledger whether the claim that stands was called better at its level.

    Raises:
        RecordError: Claim or ledger are damaged.
    """
    claim = read_record(project.results("claim.json"), Claim, fix="./run dvc repro -f render_evidence")
    if claim.opened is not None and claim.effect is not None:
        suite, called = project.inputs("heldout").heldout, claim.effect.direction == "better"
        note_called(project.root, claim.after_policy, suite, called=called)


def opened_since(project: Project, claim: Claim, heldout: Suite | None = None) -> list[tuple[str, Remark]]:
    """Return what the ledger of openings says of a claim by now, as (warning or note, what).

    The claim itself holds what was known when its policy was let loose (openings.json), which is what it pays
    for; what was opened since is no function of its inputs. `heldout` is the suite, where it was read.

    Raises:
        RecordError: The ledger is damaged.
    """
    if claim.verdict == DRAFT:
        return []
    suite = heldout or project.inputs("heldout").heldout
    ledger, own = openings(project.root), known_copy_id(project.root)
    if ledger is None:
        return of_openings(0, 0, known=False, whole=False)
    seen, expected = policies_that_saw(ledger, suite.contents), {claim.before_policy, claim.after_policy}
    others = [
        found for policy, found in seen.items() if policy not in expected and found.stages != {CONTROL_STAGE}
    ]
    here = sum(own is not None and own in found.copies for found in others)
    # A claim whose evidence could not be read names no policies.
    whole = ledger_stands(project.root) and expected - {UNREAD} <= seen.keys()
    return of_openings(here, len(others) - here, known=True, whole=whole)


def _random_arm(
    reader: ArmReader, facts: ControlFacts, trained: Training
) -> tuple[Arm | None, list[Remark], list[Remark]]:
    """Return the arm that was paid by a coin, why it is no control of this training, and what weakens it."""
    if not facts.asked or not isinstance(trained, TrainFacts):
        return None, [], []
    if facts.stopped is not None:
        return None, [remark("control_stopped", stopped=facts.stopped)], []
    report, episodes = reader.arm(CONTROL)
    bars = other_control(facts, report.policy_digest, trained, reader.project.params.control_steps)
    notes = control_health(facts.health)
    if facts.other_machines:
        notes.append(remark("control_other_machines"))
    return (report, episodes), bars, notes
