"""What is doubtful about an evaluation is said before its numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.cli.tools.evaluate import find_cautions
from assay.pipeline.project import Project
from assay.rollout.dataset.suite import Suite
from assay.rollout.policy.model import Policy
from assay.stages import fingerprint
from tests import own_data
from tests.small_policy import small_policy


@pytest.fixture
def project(tmp_path: Path) -> Project:
    own_data.write_data(tmp_path)
    made = own_data.project(tmp_path)
    fingerprint.run(made)
    return made


def speaking(words: list[str]) -> Policy:
    return small_policy(words, 0, hidden_size=16, intermediate_size=16, max_positions=64)


def said(project: Project, split: str, name: str, policy: Policy) -> list[str]:
    return find_cautions(project, project.task(), policy, Suite(split, tuple(project.items(name)), 1, 0))  # type: ignore[arg-type]


def test_a_fluent_policy_on_the_validation_suite_gives_no_cause_for_doubt(project: Project) -> None:
    opened = [project.task().start(item, 0)[0][0] for item in project.items("validation")]
    letters = sorted({letter for message in opened for letter in message["content"]})
    assert said(project, "validation", "validation", speaking(letters)) == []


def test_prompts_of_the_training_file_are_counted(project: Project) -> None:
    letters = [chr(code) for code in range(32, 127)] + ["\n"]
    assert said(project, "tasks", "train", speaking(letters)) == [
        "6 of 6 items have prompts of data/mine/train.jsonl"
    ]
    assert said(project, "tasks", "validation", speaking(letters)) == []


def test_opening_the_held_out_suite_again_is_said(project: Project) -> None:
    letters = [chr(code) for code in range(32, 127)] + ["\n"]
    assert "held-out suite once more" in said(project, "heldout", "heldout", speaking(letters))[0]


def test_a_policy_made_for_other_texts_is_named_as_such(project: Project) -> None:
    assert (
        "unknown to this policy's tokenizer" in said(project, "validation", "validation", speaking(["x"]))[0]
    )
