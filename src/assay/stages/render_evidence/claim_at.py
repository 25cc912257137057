"""The claim of a project folder, from its files alone, with what it was made of.

The stage shows it, and whoever checks evidence makes it again by the same function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from assay.core.records import TRAINING_LOG_COLUMNS, Episode, TrainFacts
from assay.core.seeds import rng
from assay.core.storage.json import read_record
from assay.pipeline.project import Project
from assay.pipeline.rival_files import file_of
from assay.rollout.dataset.external import Training, read_training
from assay.rollout.dataset.suite import Suite
from assay.rollout.evaluation.alarms import alarms
from assay.rollout.tasks.protocol import Task
from assay.rollout.tasks.rivals import GREEDY
from assay.stages.render_evidence.ahead import begin
from assay.stages.render_evidence.arms import AGAIN, CONTROL, Arm, ArmReader, checkpoint_frame, log_table
from assay.stages.render_evidence.claim_inputs import claim_inputs
from assay.stages.render_evidence.illustrations import illustrations
from assay.stages.render_evidence.rivals import (
    ScriptedArms,
    base_rivals,
    other_rivals,
    rival_notes,
    scripted_arms,
)
from assay.stages.render_evidence.secondary import (
    other_players,
    played_suites,
    secondary_arms,
    shared_with_train,
)
from assay.verdict.evidence.claim.claim import Beside, Claim, Compared, Played, compare
from assay.verdict.evidence.claim.openings import level_of
from assay.verdict.evidence.claim.plan import ClaimPlan
from assay.verdict.evidence.claim.warnings import cut_off, empty, no_gold, of_training
from assay.verdict.evidence.details.details import Details, details_of
from assay.verdict.evidence.details.tables import detail_notes
from assay.verdict.evidence.figures.drawing import column
from assay.verdict.evidence.figures.illustrated_figures import Illustrations
from assay.verdict.evidence.formatting import split_word
from assay.verdict.evidence.tables.claim_tables import normalised_score
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.statistics.power import PlannedPower
from assay.verdict.statistics.report import Report, Reports


@dataclass(frozen=True, slots=True)
class ClaimMade:
    """A claim, and what it was made of.

    `arms` are those that were played, by the name of their file, and `scripted` what the scripted players did
    on each suite, that of the claim by the name of ""; `shows` is what both arms did, if it was asked for and
    the task shows that; `blockers` is why no claim may be made, and `misgraded` what grading again found,
    which is among them. Of what was trained elsewhere there is no log, and there are no checkpoints.
    """

    claim: Claim
    task: Task
    suite: Suite
    shows: Illustrations | None
    trained: Training
    arms: dict[str, Arm]
    scripted: dict[str, ScriptedArms]
    planned: PlannedPower
    details: Details
    log: pd.DataFrame | None
    checkpoints: pd.DataFrame | None
    blockers: list[Remark]
    misgraded: list[str]

    @property
    def baselines(self) -> dict[str, Report]:
        """The reports of the scripted players on the suite of the claim."""
        return self.scripted[""].reports

    @property
    def reports(self) -> Reports:
        """The reports of all who played."""
        return Reports(
            arms={name: report for name, (report, _) in self.arms.items()}, baselines=self.baselines
        )

    def metrics(self) -> dict[str, Any]:
        """Return the few numbers that `dvc metrics` and `dvc exp show` put side by side; names are short, for
        columns, and what is asked first stands first, where a screen shows it."""
        claim, before, after = self.claim, self.arms["pre_eval"][0], self.arms["post_eval"][0]
        step = {"step": self.trained.chosen_step} if isinstance(self.trained, TrainFacts) else {}
        if claim.verdict == "NOT EVALUABLE":
            return {"verdict": claim.verdict, **step, "p": None}
        gain = claim.difference
        found = {} if gain is None else {"gain": gain.value, "gain_low": gain.low, "gain_high": gain.high}
        success, reward, parsed = (
            {name: after.measures[measure].value, f"{name}_before": before.measures[measure].value}
            for name, measure in _SHORT.items()
        )
        ends = (
            self.baselines[name].measures["mean_reward"].value
            for name in (self.task.floor, self.task.ceiling)
        )
        score = normalised_score(after.measures["mean_reward"].value, *ends)
        told = {"verdict": claim.verdict, **success, **found, **step, "p": claim.p}
        return told | reward | parsed | {"score": score}


_SHORT = {"success": "success_rate", "reward": "mean_reward", "parsed": "parsed_rate"}


def claim_at(
    project: Project,
    known: dict[tuple[str, ...], Any] | None = None,
    *,
    graded: Callable[[], Set[str]] | None = None,
    processes: int = 1,
    illustrated: bool = False,
) -> ClaimMade:
    """Return the claim that the files of a project support; nothing is written.

    Args:
        project: With data, measurements and training; a claim that lies there is not read.
        known: Of `ArmReader`: what runs that share files have in common.
        graded: Of `ArmReader` too.
        processes: As of `begin`, for players and grading; 1 of a task that brings code of its own.
        illustrated: Whether what both arms did is looked at too, where they are well graded.

    Raises:
        AssayError: A file is missing, damaged or not what it should be.
    """
    reader = ArmReader(project, known, graded)
    plan = read_record(project.results("claim_plan.json"), ClaimPlan, fix="./run dvc repro fingerprint")
    processes = 1 if project.params.task.brings_code else processes  # it may talk to processes of its own
    playing = begin(partial(scripted_arms, reader), processes=processes)
    before, after = reader.arm("pre_eval"), reader.arm("post_eval")
    greedy = reader.arm("pre_eval_greedy"), reader.arm("post_eval_greedy")
    trained = read_training(project.results("train.json"), fix="./run dvc repro train")
    beside = claim_inputs(reader, plan, trained, (before, after, *greedy))
    blockers = [*beside.blockers]
    log, checkpoints = None, None
    if isinstance(trained, TrainFacts):
        log, checkpoints = _tables(project, trained, blockers)
    arms = dict(
        zip(
            ("pre_eval", "post_eval", "pre_eval_greedy", "post_eval_greedy"),
            (before, after, *greedy),
            strict=True,
        )
    )
    arms[AGAIN] = beside.base_again
    if beside.random_arm is not None:
        arms[CONTROL] = beside.random_arm
    of_base, facts = base_rivals(reader)
    arms |= {file_of(name): arm for name, arm in of_base.items()}
    blockers += other_rivals(of_base, facts, plan, trained.base_digest)
    beyond = secondary_arms(reader)
    arms |= {name: arm for both in beyond.values() for name, arm in both.items()}
    blockers += other_players(beyond, trained)
    # One that asks another process what was graded is no fork's to call.
    grading = begin(
        partial(_graded, reader, list(arms), illustrated), processes=processes if graded is None else 1
    )
    details = details_of(before[1], after[1], (greedy[0][1], greedy[1][1]), unseen=plan.unseen)
    scripted = playing()
    rivals = scripted[""].episodes | {name: arm[1] for name, arm in of_base.items()} | {GREEDY: greedy[0][1]}
    opened = beside.opened
    compared = partial(
        compare,
        Played(before[1], before[0].policy_digest, before[0].suite_digest),
        Played(after[1], after[0].policy_digest, after[0].suite_digest),
        plan,
        Compared(
            split=reader.suite.split,
            decoding="sampled",
            training_seeds=[trained.seed] if isinstance(trained, TrainFacts) else [],
            planned_points=beside.planned.smallest_detectable_points,
            level=None if opened is None else level_of(opened, plan),
            opened=opened,
        ),
        beside=Beside(
            base_again=beside.base_again[1],
            random_arm=None if beside.random_arm is None else beside.random_arm[1],
            random_health=beside.random_health,
            rivals={name: episodes for name, episodes in rivals.items() if name in plan.rivals},
            secondary_suites=played_suites(plan, beyond, scripted),
        ),
        notes=[
            *beside.notes,
            *rival_notes(reader.task, plan, facts),
            *_alarms(reader, trained, (before[1], after[1], greedy[0][1], greedy[1][1])),
            *_cautions(reader.task, trained, log, before, after),
            *(detail_notes(details) if project.params.evaluation.open else ()),
            *shared_with_train(project),
        ],
    )
    claim = compared(rng=rng("claim", plan.suite_digest), stops=blockers)
    misgraded, shows = grading()
    if misgraded:
        blockers += [remark("misgraded", found=each) for each in misgraded]
        claim = compared(rng=rng("claim", plan.suite_digest), stops=blockers)
    return ClaimMade(
        claim=claim,
        task=reader.task,
        suite=reader.suite,
        shows=shows,
        trained=trained,
        arms=arms,
        scripted=scripted,
        planned=beside.planned,
        details=details,
        log=log,
        checkpoints=checkpoints,
        blockers=blockers,
        misgraded=misgraded,
    )


def _graded(
    reader: ArmReader, names: Sequence[str], illustrated: bool
) -> tuple[list[str], Illustrations | None]:
    """Return what arms say of themselves that the task does not, and what was done by who has just played
    them again: what is found ill may not be played to its end."""
    misgraded = [said for name in names for said in reader.misgraded(name)]
    if misgraded or not illustrated:
        return misgraded, None
    both = reader.arm("pre_eval")[1], reader.arm("post_eval")[1]
    return misgraded, illustrations(reader.task, reader.suite, both, reader.replayed)


def _tables(
    project: Project, trained: TrainFacts, blockers: list[Remark]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return log and checkpoints of a training; what they lack is put among the blockers."""
    log = log_table(project, "training_log.csv", *TRAINING_LOG_COLUMNS)
    checkpoints = checkpoint_frame(project, trained)
    if list(log["step"]) != list(range(1, trained.steps + 1)):
        blockers.append(remark("log_not_whole"))
    if trained.chosen_step not in set(checkpoints["step"]):
        blockers.append(remark("chosen_not_validated"))
    return log, checkpoints


def _alarms(reader: ArmReader, trained: Training, played: Sequence[list[Episode]]) -> list[Remark]:
    """Return which alarms rang in training and in what was played, and how many prompts were cut."""
    split = split_word(reader.suite.split)
    found = [
        remark("alarm_in_training", alarm=each)
        for each in (trained.alarms if isinstance(trained, TrainFacts) else ())
    ]
    names = ("before", "after", "before (greedy)", "after (greedy)")
    for arm, episodes in zip(names, played, strict=True):
        rung = alarms(reader.task, episodes)
        found += [remark("alarm", alarm=each, played=split, arm=arm) for each in rung]
    cuts = {each.item_id: each.prompt_chars_cut for each in [*played[0], *played[1]]}
    n = sum(cut > 0 for cut in cuts.values())
    told = {"n": n, "of": len(cuts), "most": max(cuts.values(), default=0)}
    return [*found, remark("prompts_cut", played=split, **told)] if n else found


def _cautions(
    task: Task, trained: Training, log: pd.DataFrame | None, before: Arm, after: Arm
) -> list[Remark]:
    found = list[Remark]()
    if isinstance(trained, TrainFacts) and log is not None:
        found += of_training(trained, column(log, "reward_std"))
    found += cut_off(before[0], after[0]) + empty(before[1], after[1])
    return found + no_gold([*before[1], *after[1]], task.flags)
