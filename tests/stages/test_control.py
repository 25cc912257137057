"""The control training for random rewards: asked for or not, and what it may and may not touch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from assay.core.config.reading import parse_params
from assay.core.records import ControlFacts, Episode
from assay.core.storage.json import read_record, read_records
from assay.pipeline.project import Project
from assay.stages import base, control, fingerprint
from assay.training.recipe import coin
from tests import own_data
from tests.house import ROOT
from tests.stages.test_own_base import small


def asked(project: Project, *controls: str, share: float = 1.0) -> Project:
    values = project.params.model_dump(mode="json")
    values["claim"] |= {"controls": list(controls), "control_share": share}
    return Project(project.root, parse_params(values))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    own_data.write_data(tmp_path)
    for name in ("params.yaml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    ready = small(tmp_path)
    for stage in (fingerprint, base):
        stage.run(ready)
    return ready


def facts_of(project: Project) -> ControlFacts:
    return read_record(project.results("control.json"), ControlFacts, fix="")


def test_nothing_is_trained_where_no_control_was_asked_for(project: Project) -> None:
    control.run(asked(project, "aa"))
    assert facts_of(project) == ControlFacts(asked=False)
    assert [path.name for path in project.results("control.json").parent.iterdir()] == ["control.json"]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_control_is_played_on_the_held_out_suite_and_twice_the_same(project: Project) -> None:
    wanted = asked(project, "aa", "random_reward", share=0.4)
    assert 0 < wanted.params.control_steps < wanted.params.train.steps
    control.run(wanted)
    first = {path.name: path.read_bytes() for path in project.results("control.json").parent.iterdir()}
    assert set(first) == {"control.json", "control_eval.jsonl"}
    facts = facts_of(project)
    assert facts.asked
    assert facts.chosen_step == facts.steps == wanted.params.control_steps, (
        "the last one, whatever validation says"
    )
    assert facts.validation_step is not None
    assert facts.policy_digest not in (None, facts.base_digest), "the base itself would test nothing"
    episodes = read_records(project.results("control_eval.jsonl"), Episode, fix="")
    assert len(episodes) == 4 * 2  # items x draws
    assert not (project.root / "models/adapter").exists()
    control.run(wanted)
    assert {
        path.name: path.read_bytes() for path in project.results("control.json").parent.iterdir()
    } == first
    leftover = [path for path in (project.root / ".scratch/control").glob("*") if path.is_dir()]
    assert leftover == []


def test_coins_are_fair_and_know_nothing_of_what_was_played() -> None:
    tosses = [
        coin(seed, step, item, k)
        for seed in (0, 1)
        for step in range(50)
        for item in "abcd"
        for k in range(8)
    ]
    assert set(tosses) == {0.0, 1.0}
    assert abs(sum(tosses) / len(tosses) - 0.5) < 4 * 0.5 / len(tosses) ** 0.5
    assert [coin(0, 3, "a", k) for k in range(8)] == [coin(0, 3, "a", k) for k in range(8)]
    assert json.dumps(tosses[:1600]) != json.dumps(tosses[1600:])
