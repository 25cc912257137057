"""What can be known before a stage that takes long: looked at before the base is built, and before the first
evaluation.

It is no part of a stage and no dependency of one: it computes nothing that a stage writes, and only keeps one
from being begun in vain. `train` looks once more, with the base there.
"""

from __future__ import annotations

import torch

from assay.core.config.settings import PretrainedBase
from assay.core.console import progress
from assay.dataset.suite import Play, choose
from assay.pipeline.inputs import heldout_suite, items_of, task_of, validation_suite
from assay.pipeline.project import Project
from assay.policy.model import Policy
from assay.tasks.protocol import Task
from assay.tools.doctor import AHEAD, Finding, examine_ahead, examine_without_model, refuse_faults
from assay.tools.doctor.deadline import MOST_SECONDS, Deadline
from assay.tools.doctor.findings import Check
from assay.tools.doctor.forecast.forecast import folder_ahead, look_ahead, memory_ahead
from assay.tools.doctor.lengths import context_limit
from assay.tools.doctor.preflight.kept_looks import looked
from assay.tools.doctor.preflight.prompt_lengths import refuse_long_prompts
from assay.tools.doctor.preflight.unbuilt import unbuilt


def look(project: Project) -> None:
    """Refuse what a later stage would refuse: settings, suites, data, grader, prompts in tokens, memory.

    Raises:
        AssayError: A setting or the data cannot be used.
        TrainingError: A training could not work so; not where health.preflight is false.
    """
    params, base = project.params, project.params.base
    ahead = folder_ahead(base, project.root) if isinstance(base, PretrainedBase) else None
    with progress("looking ahead: settings, data, grader, prompts", 1) as advance:
        findings = looked(project, "ahead", ahead, lambda: _looked_ahead(project))
        advance(1)
    if not params.health.preflight:
        return
    if ahead is not None and params.device == "cuda" and torch.cuda.is_available():
        findings += looked(project, "memory", ahead, lambda: [memory_finding(project)])
    refuse_faults(findings, "what can be known before a base is there (health.preflight)")


def memory_finding(project: Project) -> Finding:
    """Return whether a training on a pretrained base fits the device that is here, forecast without its
    weights."""
    params = project.params
    assert isinstance(params.base, PretrainedBase)
    folder = folder_ahead(params.base, project.root)
    assert folder is not None
    task, items, validation = (
        task_of(project, shaping=True),
        items_of(project, "train"),
        validation_suite(project),
    )
    return memory_ahead(
        look_ahead(folder, params), task, items, validation, params, Deadline(AHEAD * MOST_SECONDS)
    )[0]


def prompts_of(project: Project) -> dict[str, list[Play]]:
    """Return everything that will be opened, once: all that may be trained on, and the two suites."""
    items = items_of(project, "train")
    train = choose(items, len(items), split="train", draws=1, seed=project.params.seed)
    suites = {
        "train": train,
        project.params.validation.suite: validation_suite(project),
        "heldout": heldout_suite(project),
    }
    return {
        name: list({each.item.id: each for each in suite.plays()}.values()) for name, suite in suites.items()
    }


def refuse_prompts(project: Project, task: Task, policy: Policy) -> Finding:
    """Return how long the prompts are in the tokens of a base.

    Raises:
        DataError: Some are too long.
    """
    params = project.params
    room = params.task.max_new_tokens[params.generation.surface]
    found = refuse_long_prompts(
        task,
        policy.dialogue,
        prompts_of(project),
        # Who wants no examination may play beyond the positions that a base was made for; what the task
        # refuses stays so.
        positions=context_limit(policy.model) if params.health.preflight else None,
        room=room,
        retries=params.health.retries,
    )
    told = ", ".join(f"{split} {tokens}" for split, tokens in found.items())
    check = Check("prompts of all splits", "prompts that fit the task's limit and the base", "the data")
    return check.ok(f"up to {told} tokens")


def _looked_ahead(project: Project) -> list[Finding]:
    params, task, judged = project.params, task_of(project, shaping=True), task_of(project)
    items, validation = items_of(project, "train"), validation_suite(project)
    policy = unbuilt(params, judged, project.root)
    if policy is None:  # the stage that needs it says where it is to be had
        return examine_without_model(task, judged, items, validation, params)
    told = refuse_prompts(project, judged, policy)
    return [*examine_ahead(policy, task, judged, items, validation, params, folder=project.root), told]
