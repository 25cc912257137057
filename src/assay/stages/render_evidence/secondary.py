"""The secondary suites of a claim: what base and trained policy played on them, and what bears on that."""

from __future__ import annotations

from collections.abc import Mapping

from assay.core.storage.json import read_record
from assay.pipeline.inputs import secondary_file
from assay.pipeline.project import Project
from assay.rollout.dataset.audit_records import Contamination, judged
from assay.rollout.dataset.external import Training
from assay.stages.render_evidence.arms import Arm, ArmReader
from assay.stages.render_evidence.rivals import ScriptedArms
from assay.verdict.evidence.claim.plan import ClaimPlan
from assay.verdict.evidence.claim.secondary_suites import PlayedSuite
from assay.verdict.evidence.claim.warnings import of_secondary
from assay.verdict.evidence.words.remarks import Remark, remark

BEFORE, AFTER = "pre_eval", "post_eval"
Both = Mapping[str, Arm]


def secondary_arms(reader: ArmReader) -> dict[str, Both]:
    """Return the arms before and after, by the names of their files, of each secondary suite.

    Raises:
        RecordError: A file is missing or damaged.
        EvidenceError: The episodes are not a whole suite.
    """
    found: dict[str, Both] = {}
    for suite in reader.project.params.played[1:]:
        names = [secondary_file(stage, suite) for stage in (BEFORE, AFTER)]
        found[suite] = {name: reader.arm(name) for name in names}
    return found


def played_suites(
    plan: ClaimPlan, beyond: Mapping[str, Both], scripted: Mapping[str, ScriptedArms]
) -> dict[str, PlayedSuite]:
    """Return what was played on each secondary suite, with the players of the plan that need no skill."""
    found = {}
    for name, both in beyond.items():
        (_, before), (_, after) = both.values()
        played = scripted[name].episodes
        trivial = {
            who: played[who] for who, kind in plan.rivals.items() if kind == "trivial" and who in played
        }
        found[name] = PlayedSuite(before, after, trivial)
    return found


def other_players(beyond: Mapping[str, Both], trained: Training) -> list[Remark]:
    """Return why no claim may be made: a secondary suite was played by others than the held-out one."""
    return [
        remark("suite_of_other_policy", file=f"{name}.jsonl")
        for both in beyond.values()
        for (name, (report, _)), expected in zip(
            both.items(), (trained.base_digest, trained.policy_digest), strict=True
        )
        if report.policy_digest != expected
    ]


def shared_with_train(project: Project) -> list[Remark]:
    """Return what secondary suites share with train, as warnings: it says that they are not as new as they
    seem, and bars nothing."""
    path = project.results("contamination.json")
    found = read_record(path, Contamination, fix="./run dvc repro fingerprint")
    notes = list[Remark]()
    for suite in project.params.played[1:]:
        notes += of_secondary(*judged(found, ("train", suite)))
    return notes
