"""The rivals of a claim: who played the held-out suite beside base and trained policy, and what bears on
that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from assay.core.config.rivals import RivalSettings
from assay.core.records import Episode
from assay.core.storage.json import read_record
from assay.pipeline.rival_files import BaseRival, BaseRivals, file_of
from assay.rollout.dataset.suite import Suite
from assay.rollout.evaluation.replay import play_baseline
from assay.rollout.tasks.protocol import Task
from assay.rollout.tasks.rivals import IN_PRE_EVAL, MORE_SFT, players_of, rivals_of
from assay.stages.render_evidence.arms import Arm, ArmReader
from assay.verdict.evidence.claim.plan import ClaimPlan
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.statistics.report import Report, report_on

ALL = RivalSettings(few_shot=3, best_of_n=4, constrained=True)


@dataclass(frozen=True, slots=True)
class ScriptedArms:
    """The scripted players of a task on one suite, by name: their reports, and every episode."""

    reports: dict[str, Report]
    episodes: dict[str, list[Episode]]


def scripted_arms(reader: ArmReader) -> dict[str, ScriptedArms]:
    """Play the held-out suite, by the name of "", and each secondary one with every scripted player."""
    suites = {"": reader.suite, **reader.inputs.secondary}
    return {
        name: reader.once(
            partial(_play_scripted, reader, suite), "scripted players", suite, "fingerprint.json"
        )
        for name, suite in suites.items()
    }


def _play_scripted(reader: ArmReader, suite: Suite) -> ScriptedArms:
    task, retries = reader.task, reader.project.params.health.retries
    found = ScriptedArms({}, {})
    for name, player in sorted(players_of(task, reader.train).items()):
        episodes = play_baseline(reader.replayed, player, suite.plays(), name, retries=retries)
        found.reports[name] = report_on(episodes, suite, f"scripted:{name}", "sampled")
        found.episodes[name] = episodes
    return found


def base_rivals(reader: ArmReader) -> tuple[dict[str, Arm], dict[str, BaseRival]]:
    """Return what the base played as a rival of what is trained on it, and what became of each, by name.

    Raises:
        RecordError: A file is missing or damaged.
        EvidenceError: The episodes are not a whole suite.
    """
    path, fix = reader.project.results("rivals.json"), "./run dvc repro pre_eval"
    facts = read_record(path, BaseRivals, fix=fix).rivals
    return {name: reader.arm(file_of(name)) for name, each in facts.items() if each.used}, facts


def other_rivals(
    played: Mapping[str, Arm], facts: Mapping[str, BaseRival], plan: ClaimPlan, base_digest: str
) -> list[Remark]:
    """Return why no claim may be made: rivals are not those of the plan, or were not played by the base."""
    planned = {name for name in plan.rivals if name in IN_PRE_EVAL}
    return [remark("other_rivals")] * (planned != set(facts)) + [
        remark("rival_of_other_policy", file=f"{file_of(name)}.jsonl")
        for name, (report, _) in played.items()
        if (report.policy_digest == base_digest) is (name == MORE_SFT)
    ]


def rival_notes(task: Task, plan: ClaimPlan, facts: Mapping[str, BaseRival]) -> list[Remark]:
    """Return what weakens the comparison with rivals: what did not play as asked, and what nobody asked
    for."""
    noted = {name: each.note for name, each in facts.items() if each.note is not None}
    found = [remark("rival_noted", rival=name, note=note) for name, note in noted.items()]
    left_out = [
        name
        for name, kind in rivals_of(task, ALL).items()
        if kind == "instead of training" and name not in plan.rivals
    ]
    if left_out:
        found.append(remark("rivals_left_out", rivals=left_out))
    return found
