"""What can be known before a stage that takes long: looked at before the base is built, and before the first
evaluation.

It is no part of a stage and no dependency of one: it computes nothing that a stage writes, and only keeps one
from being begun in vain. `train` looks once more, with the base there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

import assay
from assay.checks.doctor.examination import examine, examine_ahead, examine_without_model
from assay.checks.doctor.forecast.forecast import folder_ahead, look_ahead, memory_ahead
from assay.checks.doctor.level import level_finding, next_look
from assay.checks.doctor.worlds import setup_of
from assay.checks.envcheck.command import QUICK_SECONDS, examined
from assay.checks.findings import (
    AHEAD,
    LEAST,
    MOST_SECONDS,
    Deadline,
    DoctorCheck,
    Finding,
    in_words,
    refuse_faults,
)
from assay.core.config.places import setting
from assay.core.config.settings import Params, PretrainedBase, ScratchBase
from assay.core.console import complain, progress, say
from assay.core.counting import counted
from assay.core.errors import DataError, PolicyError, RecordError, TaskError
from assay.core.provenance import packages
from assay.core.records import Episode, Record
from assay.core.storage.json import digest, read_record, read_records, write_json
from assay.core.storage.untrusted import sha256_contents
from assay.pipeline.inputs import code_of, read_fingerprint, requires_of
from assay.pipeline.project import Project
from assay.rollout.dataset.suite import Play, choose
from assay.rollout.evaluation.retries import GivenUp, tried
from assay.rollout.evaluation.trajectory import open_item
from assay.rollout.policy.base import tiny
from assay.rollout.policy.base.pretrained import locate
from assay.rollout.policy.base.warm_start import teach, tokenizer_of
from assay.rollout.policy.engine.context import positions_of
from assay.rollout.policy.model import Policy
from assay.rollout.policy.renderer import Dialogue
from assay.rollout.tasks.protocol import Task
from assay.training.rollouts import untouched
from assay.verdict.evidence.claim.plan import expected_unseen
from assay.verdict.statistics.power import planned_power, planned_said

if TYPE_CHECKING:
    from assay.stages.train import Training

FOLDER = ".scratch/preflight"


class _Looked(Record):
    """What one look found, and for what it was taken."""

    key: str
    findings: tuple[Finding, ...]


def look_once(
    project: Project, name: str, ahead: Path | None, look: Callable[[], Sequence[Finding]]
) -> list[Finding]:
    """Return what a look finds; the last one of the name is not taken again while nothing changed that it
    depends on.

    Args:
        project: Whose settings, data and code decide what is found.
        name: Of the look.
        ahead: Folder of a pretrained base, of which everything but the weights counts; None: there is none.
        look: Takes it.
    """
    path = project.root / FOLDER / f"{name}.json"
    files = (
        {} if ahead is None else {p.name: sha256_contents(p) for p in sorted(ahead.glob("*")) if _is_small(p)}
    )
    code = sha256_contents(Path(assay.__file__).parent)
    key = digest(
        [
            project.params.model_dump(mode="json"),
            read_fingerprint(project.root).model_dump(mode="json"),
            files,
            code,
            code_of(project.root, project.params.task),
            [each.model_dump() for each in requires_of(project.params.task, project.recorded) or ()],
            packages(),
            torch.cuda.get_device_properties(0).total_memory if torch.cuda.is_available() else None,
        ]
    )
    if path.exists():
        try:
            kept = read_record(path, _Looked, fix="nothing to do")
            if kept.key == key:
                return list(kept.findings)
        except RecordError:
            pass  # it is taken anew
    found = tuple(look())
    write_json(path, _Looked(key=key, findings=found))
    return list(found)


def _is_small(path: Path) -> bool:
    return path.is_file() and path.suffix in (".json", ".jinja", ".txt", ".model")


NAMED = 3  # items that a refusal names


def refuse_long_prompts(
    task: Task,
    dialogue: Dialogue,
    plays: Mapping[str, Sequence[Play]],
    *,
    positions: int | None,
    room: int,
    retries: int,
) -> dict[str, int]:
    """Return the tokens of the longest prompt of each split; what the task may cut to fit counts as it is
    cut.

    Args:
        task: Says how many tokens a prompt may have.
        dialogue: Renders it, as in play.
        plays: All that will be played, by split.
        positions: That the base has, None where it does not say.
        room: Tokens that a completion may take behind the prompt.
        retries: Of an environment that crashed.

    Raises:
        DataError: Prompts are longer than task.max_prompt_tokens or leave no room in the base; names how
            many, and which.
        EnvironmentLost: The environment failed for good.
    """
    told: list[str] = []
    longest: dict[str, int] = {}
    needed = 0
    limits = (task.max_prompt_tokens, None if positions is None else positions - room)
    limit = min((n for n in limits if n is not None), default=None)
    for split, each in plays.items():
        sizes = dict(_sizes(task, dialogue, each, retries))
        longest[split] = max(sizes.values(), default=0)
        over = {name: size for name, size in sizes.items() if limit is not None and size > limit}
        needed = max([needed, *over.values()])
        if over:
            named = ", ".join(
                f"{name!a} {size}" for name, size in sorted(over.items(), key=lambda one: -one[1])[:NAMED]
            )
            told.append(f"{len(over)} of {counted(len(sizes), 'prompts')} of {split} (longest: {named})")
    if not told:
        return longest
    found = f"more in {'; '.join(told)}"
    if limit == task.max_prompt_tokens:
        fix = (
            f"set task.max_prompt_tokens: {needed} or more, or task.truncate_prompts: true if the task has"
            " it, or drop them"
        )
        expected, where = (
            f"at most {limit} tokens in every rendered prompt",
            setting("task.max_prompt_tokens"),
        )
    else:
        fix = (
            "use a base with more positions (base.model, base.architecture.max_positions), or drop the"
            " records"
        )
        expected = (
            f"at most {limit} tokens in every rendered prompt, so that {room} for a completion fit"
            f" {positions} positions"
        )
        where = setting("base")
    raise DataError(expected, found=found, where=where, fix=fix)


def _sizes(task: Task, dialogue: Dialogue, plays: Sequence[Play], retries: int) -> Iterable[tuple[str, int]]:
    """Yield item and tokens of each prompt as it would be played, whole where it cannot be cut to fit."""
    for each in plays:
        try:
            prompt, _ = tried(retries, open_item, task, dialogue, each.item, each.world_seed)
            yield each.item.id, len(prompt.prompt_ids)
        except TaskError:
            yield each.item.id, len(dialogue.prompt(task.start(each.item, each.world_seed)[0]))
        except GivenUp as gone:
            raise gone.of(each) from gone


def read_ahead(params: Params, task: Task, root: Path) -> Policy | None:
    """Return a base as far as it is known before it is built or loaded; None where a pretrained one is not
    here.

    Of a tiny base that is its whole vocabulary, of a pretrained one config.json and tokenizer: its weights,
    if they lie there, are not read, and its modules take no memory.

    Raises:
        PolicyError: Configuration or tokenizer cannot be read, or the chat template cannot be served.
    """
    if isinstance(params.base, ScratchBase):
        tokenizer = tokenizer_of(params.base, task)
        with untouched():
            model = tiny.build_model(params.base.architecture, tokenizer, 0)
        return Policy(model, tokenizer, Dialogue(tokenizer), "")
    folder = folder_ahead(params.base, root)
    if folder is None:
        return None
    from transformers import AutoModelForCausalLM

    try:
        ahead = look_ahead(folder, params)
        with untouched(), torch.device("meta"):
            shape = cast(Any, AutoModelForCausalLM).from_config(ahead.config, trust_remote_code=False)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        first, fix = str(error).split("\n")[0], "use a base that transformers can read: base.model"
        raise PolicyError(
            "config.json and tokenizer of a base", found=first, where=folder.name, fix=fix
        ) from None
    return Policy(shape, ahead.policy.tokenizer, ahead.policy.dialogue, "")


def look(project: Project) -> None:
    """Refuse what a later stage would refuse: settings, suites, data, grader, prompts in tokens, memory.

    Raises:
        AssayError: A setting or the data cannot be used.
        TrainingError: A training could not work so; not where health.preflight is false.
    """
    params, base = project.params, project.params.base
    ahead = folder_ahead(base, project.root) if isinstance(base, PretrainedBase) else None
    with progress("looking ahead: settings, data, grader, prompts", 1) as advance:
        findings = look_once(project, "ahead", ahead, lambda: _looked_ahead(project))
        advance(1)
    if not params.health.preflight:
        return
    taken = params.external is not None
    if ahead is not None and not taken and params.device == "cuda" and torch.cuda.is_available():
        findings += look_once(project, "memory", ahead, lambda: [memory_finding(project)])
    # Not kept with the others: each opening changes it.
    findings = [*findings, level_finding(project)]
    where = "what can be known before a base is there (health.preflight)"
    refuse_faults(findings, where, let_pass=params.health.let_pass)


def memory_finding(project: Project) -> Finding:
    """Return whether a training on a pretrained base fits the device that is here, forecast without its
    weights."""
    params = project.params
    assert isinstance(params.base, PretrainedBase)
    folder = folder_ahead(params.base, project.root)
    assert folder is not None
    deadline = Deadline(AHEAD * MOST_SECONDS)
    return memory_ahead(look_ahead(folder, params), setup_of(project), deadline)[0]


def prompts_of(project: Project) -> dict[str, list[Play]]:
    """Return everything that will be opened, once: all that may be trained on, and every suite."""
    inputs = project.inputs("train", "validation", "heldout", "secondary")
    items = inputs.train
    train = choose(items, len(items), split="train", draws=1, seed=project.params.seed)
    suites = {
        "train": train,
        project.params.validation.suite: inputs.validation,
        "heldout": inputs.heldout,
        **inputs.secondary,
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
        positions=positions_of(policy.model.config) if params.health.preflight else None,
        room=room,
        retries=params.health.retries,
    )
    told = ", ".join(f"{split} {tokens}" for split, tokens in found.items())
    check = DoctorCheck("prompts of all splits", "prompts that fit the task's limit and the base", "the data")
    return check.ok(f"up to {told} tokens")


def _looked_ahead(project: Project) -> list[Finding]:
    if project.params.external is not None:  # nothing is trained here, and all is played
        inputs = project.inputs("train")
        teach(inputs.params, inputs.task, inputs.train)
        base = read_ahead(project.params, inputs.task, project.root)
        return [] if base is None else [refuse_prompts(project, inputs.task, base)]
    training = setup_of(project)
    teach(project.params, training.judged, training.items)
    policy = read_ahead(project.params, training.judged, project.root)
    if policy is None:  # the stage that needs it says where it is to be had
        return examine_without_model(training)
    told = refuse_prompts(project, training.judged, policy)
    return [*examine_ahead(policy, training, folder=project.root), told]


def report_power(project: Project) -> None:
    """Say the smallest gain that the held-out suite can show, before hours are spent on what it cannot.

    It follows from the base's own episodes; without them nothing is known, and nothing said, nor of a draft.
    """
    path = project.results("pre_eval.jsonl")
    if not (path.is_file() and project.params.evaluation.open):
        return
    claim, inputs = project.params.claim, project.inputs("heldout")
    suite = inputs.heldout
    episodes = read_records(path, Episode, fix="./run dvc repro pre_eval")
    planned = planned_power(
        episodes,
        suite.digest,
        suite.draws,
        primary=claim.primary,
        alpha=next_look(project, suite)[1] or claim.alpha,
        unseen=expected_unseen(project.params, suite, inputs.fingerprint),
        smallest_effect_points=claim.smallest_effect_points,
    )
    said, enough = planned_said(planned, claim.smallest_effect_points, inputs.task.cluster_name)
    (say if enough else complain)(f"plan: {said}")


def examine_training(training: Training) -> None:
    """Let the main process look at a training that is about to begin, while the others wait; a fault ends all
    of them.

    Raises:
        TrainingError: A training could not work so.
        SystemExit: In all processes but the main one.
    """
    processes = training.processes
    if training.inputs.params.health.preflight and processes.main and processes.world_size > 1:
        say("train: looking at what is to be trained ...")
    with processes.as_one():
        if processes.main:
            _examine(training)


def _examine(opened: Training) -> None:
    """Say the plan's power, then every warning of the doctor.

    Whether a base of one's own fits a GPU at its longest episodes takes a processor some 15 s; on a CPU,
    whose memory hardly ever is what there is too little of, that is left out.

    Raises:
        TrainingError: A training could not work so.
    """
    project, inputs = opened.project, opened.inputs
    report_power(project)
    params, told, deadline = inputs.params, list[Finding](), Deadline()
    training = opened.setup
    if not params.health.preflight:
        return
    if params.device == "cuda" and isinstance(params.base, PretrainedBase):
        base = locate(project.root / "models/base")

        def weighed() -> list[Finding]:
            ahead, part = look_ahead(base, params), Deadline(AHEAD * MOST_SECONDS)
            return [memory_ahead(ahead, training, part)[0]]

        told += look_once(project, "memory", base, weighed)
    if params.task.brings_code:
        told += examined(project, QUICK_SECONDS)
    seconds = max(deadline.left, LEAST)
    findings = [*examine(opened.base, training, folder=opened.folder.path, seconds=seconds), *told]
    for finding in (each for each in findings if each.level == "warning"):
        complain(in_words(finding))
    refuse_faults(findings, let_pass=params.health.let_pass)
