"""What the task itself gives away: a reward that cannot teach, a grader that fails, a world that does not
repeat itself."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

from assay.checks.doctor.observed import RAISED, Observed
from assay.checks.envcheck.completions import BAD_COMPLETIONS
from assay.checks.envcheck.watching import state_of_process
from assay.checks.findings import DoctorCheck, Finding
from assay.core.config.places import setting
from assay.core.config.settings import Params
from assay.core.counting import counted
from assay.core.errors import EnvironmentFailure
from assay.core.records import Episode
from assay.pipeline.project import Project
from assay.rollout.dataset.suite import Play
from assay.rollout.evaluation.rollout import play_baseline
from assay.rollout.tasks.protocol import Step, Task
from assay.training.setup import Setup

LARGE_REWARD = 100.0


def setup_of(project: Project) -> Setup:
    """Return the training that settings and data of a project say.

    Raises:
        AssayError: They cannot be used.
    """
    inputs = project.inputs("train", "validation")
    return Setup(project.task(shaping=True), inputs.task, inputs.train, inputs.validation, inputs.params)


@dataclass(frozen=True, slots=True)
class Scripted:
    """What the task's floor and ceiling players did, by name; one that is not there, or failed, is
    missing."""

    floor: list[Episode] | None
    ceiling: list[Episode] | None


def play_scripted(task: Task, plays: Sequence[Play], params: Params) -> tuple[Scripted, list[Finding]]:
    """Let the floor and the ceiling player play, and return what that says about grader and reward."""
    check = DoctorCheck(
        "scripted players", f"{task.floor} and {task.ceiling}, which play", "the task's baselines"
    )
    played: dict[str, list[Episode]] = {}
    try:
        players = task.baselines()
        for name in dict.fromkeys((task.floor, task.ceiling)):
            if name in players:
                played[name] = play_baseline(task, players[name], plays, name, retries=params.health.retries)
    except RAISED as error:
        told = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return Scripted(None, None), [
            check.fault(told, "correct the task's players, or the records they read")
        ]
    both = Scripted(played.get(task.floor), played.get(task.ceiling))
    if both.floor is None or both.ceiling is None or task.floor == task.ceiling:
        fix = "give the task two players, so that grader, reward and token limit can be looked at"
        return both, [check.warning(f"{', '.join(played) or 'none'}", fix)]
    told = f"{counted(len(plays), 'items')} each"
    return both, [check.ok(told), _grader(task, both.ceiling), _order(task, both.floor, both.ceiling)]


def _grader(task: Task, ceiling: Sequence[Episode]) -> Finding:
    rate = float(np.mean([episode.success for episode in ceiling]))
    check = DoctorCheck(
        "grader",
        f"success for {task.ceiling}, who knows what is right",
        "the task's judge, and the golds of train",
    )
    if rate == 0.0:
        endings = sorted({episode.ending for episode in ceiling})
        found = f"none in {counted(len(ceiling), 'episodes')} (endings: {', '.join(endings)})"
        return check.fault(found, "correct the rule of success in the task's judge, or the golds")
    return check.ok(f"{rate:.0%}")


def _order(task: Task, floor: Sequence[Episode], ceiling: Sequence[Episode]) -> Finding:
    low, high = (float(np.mean([episode.reward for episode in one])) for one in (floor, ceiling))
    check = DoctorCheck(
        "reward order", f"more reward for {task.ceiling} than for {task.floor}", "the task's reward parts"
    )
    found, ok = f"{high:.3g} for {task.ceiling}, {low:.3g} for {task.floor}", f"{high:.3g} against {low:.3g}"
    fix = "correct the reward parts in the task's rewards, or their weights (task.weights)"
    return check.judge(found, fix, fault=high <= low, ok=ok)


# By kind of problem: what is looked at, what it should be, where it lies, and what to do.
_TROUBLES: Mapping[str, tuple[str, str, str, str]] = {
    "raised": (
        "task code",
        "no error, whatever is played",
        "the task's start, step and judge",
        "a bad completion is data: return a failed step; raise EnvironmentFailure for a crashed environment",
    ),
    "number": (
        "reward numbers",
        "finite numbers",
        "the task's reward parts",
        "correct the task's reward parts; GRPO would lose the group, or the run",
    ),
    "undeclared": (
        "reward parts",
        "parts that task.parts declares",
        "the task's parts",
        "name it in the task's parts; what is not named there never counts",
    ),
    "form": (
        "records",
        "steps and verdicts that can be recorded",
        "the task's step and judge",
        "return text, bool and finite numbers as tasks/protocol.py says",
    ),
    "endless": (
        "endings",
        "an end to every episode",
        "the task's step",
        "end episodes after task.max_turns or another limit",
    ),
}


def trouble_findings(observed: Observed) -> dict[str, Finding]:
    """Return for each kind of problem whether it was noted while the task was played so far."""
    findings = {}
    for kind, (name, expected, where, fix) in _TROUBLES.items():
        check, detail = DoctorCheck(name, expected, where), observed.problems.get(kind)
        findings[kind] = check.ok("nothing else") if detail is None else check.fault(detail, fix)
    return findings


def reward_size(rewards: Sequence[float], params: Params) -> Finding:
    """Return whether rewards are of a size that can be learned from where nothing scales them."""
    largest = max((abs(reward) for reward in rewards), default=0.0)
    expected = f"at most {LARGE_REWARD:g} where it is not scaled"
    check = DoctorCheck("reward size", expected, setting("train.scale_rewards"))
    odd = largest > LARGE_REWARD and params.train.scale_rewards == "none"
    found, fix = (
        f"{largest:.3g}, with train.scale_rewards: none",
        "train.scale_rewards: group, or smaller parts",
    )
    return check.judge(found, fix, doubtful=odd, ok=f"{largest:.3g}")


def put_bad_completions(observed: Observed, plays: Sequence[Play]) -> None:
    """Play texts that no task expects; the observed task notes what they break."""
    task = cast(Task, observed)
    for number, text in enumerate(BAD_COMPLETIONS):
        each = plays[number % len(plays)]
        try:
            step = task.step(task.start(each.item, each.world_seed)[1], text)
            if step.ending is not None:
                task.judge(step.state)
        except EnvironmentFailure:
            continue


def repetition(task: Task, played: Sequence[tuple[Play, Episode]]) -> Finding:
    """Return whether worlds repeat themselves: same prompt, same answers to the same completions, same
    verdict.

    Between two looks the global generators are moved on, as a training moves them.
    """
    check = DoctorCheck(
        "repetition",
        "equal worlds from equal world seeds, and states that are values",
        "the task's start and step",
    )
    fix = "derive all randomness of the task from world_seed (assay.core.seeds), and copy what a step changes"
    for each, episode in played:
        try:
            problem = _difference(task, each, episode)
        except EnvironmentFailure:
            continue
        if problem is not None:
            return check.fault(f"item {each.item.id}: {problem}", fix)
    return check.ok(f"{counted(len(played), 'episodes')} played twice")


def _difference(task: Task, each: Play, episode: Episode) -> str | None:
    first_messages, state = task.start(each.item, each.world_seed)
    before = _generators()
    if task.start(each.item, each.world_seed)[0] != first_messages:
        return "two starts with one world seed give other messages"
    for number, turn in enumerate(episode.turns, start=1):
        first = task.step(state, turn.completion)
        if before != _generators():
            return f"turn {number} draws from a global random generator"
        _draw()
        before = _generators()
        if _describe_step(task.step(state, turn.completion)) != _describe_step(first):
            return f"turn {number}, played twice from one state, gives another answer"
        recorded = (
            turn.observation,
            turn.outcome,
            turn.failure,
            turn.action,
            repr(sorted(turn.parts.items())),
        )
        if _describe_step(first)[1:] != recorded:
            return f"turn {number}, played again from the start, gives another answer"
        state = first.state
    verdict = task.judge(state)
    if _plain(verdict.success, verdict.flags, verdict.metrics) != _plain(
        episode.success, episode.flags, episode.metrics
    ):
        return "another verdict on the same completions"
    return None


def _describe_step(step: Step) -> tuple[Any, ...]:
    parts = repr(sorted((name, float(value)) for name, value in step.parts.items() if value))
    return step.ending, step.observation, step.outcome, step.failure, step.action, parts


def _plain(success: bool, flags: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    numbers = {name: None if value is None else float(value) for name, value in metrics.items()}
    return repr((success, sorted(flags.items()), sorted(numbers.items())))


def _generators() -> dict[str, Any]:
    return {name: each for name, each in state_of_process().items() if name.startswith("generator")}


def _draw() -> None:
    """Move every global generator on."""
    random.random()
    np.random.random()
    torch.rand(1)
