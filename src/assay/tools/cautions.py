"""What a reader should know before trusting an evaluation: seen prompts, foreign words, a held-out suite
opened again."""

from __future__ import annotations

from assay.core.counting import counted
from assay.core.errors import AssayError
from assay.dataset.suite import Suite
from assay.evaluation.prompts import open_item
from assay.pipeline.inputs import items_of
from assay.pipeline.project import Project
from assay.policy.model import Policy
from assay.tasks.protocol import Task

UNKNOWN_SHARE = 0.01


def cautions(project: Project, task: Task, policy: Policy, suite: Suite) -> list[str]:
    """Return what is doubtful about playing a suite with a policy, a sentence each."""
    found = []
    if suite.split == "heldout":
        found.append(
            "this opens the held-out suite once more: nothing that is chosen by it may be claimed on it"
        )
    if suite.split == "tasks" and (seen := _trained_on(project, suite)):
        have = "has a prompt" if seen == 1 else "have prompts"
        found.append(
            f"{seen} of {counted(len(suite.items), 'items')} {have} of"
            f" {project.params.dataset.root}/train.jsonl"
        )
    share = unknown_share(task, policy, suite)
    if share > UNKNOWN_SHARE:
        found.append(
            f"{share:.0%} of the prompts' tokens are unknown to this policy's tokenizer: it was made for"
            " other texts"
        )
    return found


def _trained_on(project: Project, suite: Suite) -> int:
    try:
        trained = {item.cluster for item in items_of(project, "train")}
    except AssayError:
        return 0  # nothing of this task was fingerprinted here, so nothing was trained on
    return sum(item.cluster in trained for item in suite.items)


def unknown_share(task: Task, policy: Policy, suite: Suite) -> float:
    """Return which share of the openings' tokens is the tokenizer's unknown token; 0 for tokenizers without
    one."""
    unknown = policy.tokenizer.unk_token_id
    if unknown is None:
        return 0.0
    tokens = [i for item in suite.items for i in open_item(task, policy.dialogue, item, 0).prompt_ids]
    return tokens.count(unknown) / max(1, len(tokens))
