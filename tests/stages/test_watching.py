"""Alarms are said once with their step and reach the claim; time is written beside the results and never into
them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay.core.records import Episode, HealthSummary, TrainFacts
from assay.core.storage.json import read_record, write_json
from assay.pipeline import live_log as live
from assay.pipeline.project import Project
from assay.rollout.policy.model import Policy
from assay.stages import fingerprint
from assay.stages.render_evidence import claim_at
from assay.training.log.history import History, Validation, Watch
from tests.evaluation.test_statistics import play
from tests.house import ROOT
from tests.small_policy import small_policy
from tests.stages.test_scratch import evaluate
from tests.training.toy_task import Letters

TASK = Letters(alarms={"early": 0.25})


def episodes(raised: int, n: int = 4, cut: int = 0) -> list[Episode]:
    return [
        play(f"item{k}", 0, False).model_copy(
            update={"flags": {"early": k < raised}, "prompt_chars_cut": cut}
        )
        for k in range(n)
    ]


def facts(watch: Watch) -> TrainFacts:
    return TrainFacts(
        seed=0,
        steps=9,
        chosen_step=0,
        claim_plan_sha256="",
        base_digest="",
        policy_digest="",
        validation_suite="",
        chain="",
        alarms=watch.facts(),
        health=HealthSummary.of([]),
    )


def test_each_alarm_is_said_once_and_with_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(live, "complain", said.append)
    watch = Watch(TASK)
    bell = live.Bell(watch)
    for step, raised in enumerate((1, 2, 4, 0, 3)):
        watch.look(step, "batch", episodes(raised))
        bell.ring()
    watch.look(4, "validation", episodes(4))
    bell.ring()
    assert len(said) == 2
    assert "early: 50.0 %" in said[0] and "batch at step 1" in said[0] and "validation at step 4" in said[1]
    batch, validation = watch.facts()
    assert (batch.first_step, batch.times, batch.worst_step, batch.worst.rate) == (1, 3, 2, 1.0)
    assert (validation.source, validation.times) == ("validation", 1)


def test_alarms_survive_train_json(tmp_path: Path) -> None:
    watch = Watch(TASK)
    watch.look(3, "greedy validation", episodes(4))
    write_json(tmp_path / "train.json", facts(watch))
    assert read_record(tmp_path / "train.json", TrainFacts, fix="") == facts(watch)


def test_a_claim_is_noted_with_the_alarms_of_training_and_of_every_arm_and_with_cuts() -> None:
    watch = Watch(TASK)
    watch.look(3, "batch", episodes(4))
    quiet, loud = episodes(0), episodes(3, cut=12)
    reader: Any = SimpleNamespace(task=TASK, suite=SimpleNamespace(split="heldout"))
    notes = claim_at._alarms(reader, facts(watch), (quiet, loud, quiet, loud))
    assert [note.code for note in notes] == ["alarm_in_training", "alarm", "alarm", "prompts_cut"]
    assert "in training" in str(notes[0]) and "first at step 3" in str(notes[0])
    assert [note.values["arm"] for note in notes[1:3]] == ["after", "after (greedy)"]
    assert (notes[3].values["n"], notes[3].values["of"]) == (4, 4)
    assert claim_at._alarms(reader, facts(Watch(TASK)), (quiet,) * 4) == []


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with few held-out items, fingerprinted."""
    root = tmp_path_factory.mktemp("project")
    for name in ("configs", "data"):
        shutil.copytree(ROOT / name, root / name)
    shutil.copy(ROOT / "params.yaml", root)
    params = Project.open(root).params
    few = {
        name: getattr(params, name).model_copy(update={"items": 4, "draws": 2})
        for name in ("evaluation", "validation")
    }
    project = Project(root, params.model_copy(update=few))
    fingerprint.run(project)
    return project


@pytest.fixture(scope="module")
def policy(project: Project) -> Policy:
    return small_policy(project.task().vocabulary(), hidden_size=16, intermediate_size=32)


def test_how_long_a_suite_took_is_written_beside_its_results(project: Project, policy: Policy) -> None:
    evaluate(project, policy)
    for label, n in (("pre_eval", 8), ("pre_eval_greedy", 4)):
        clock = json.loads(project.observed(f"{label}_clock.json").read_text())
        assert clock["episodes"] == n and clock["seconds"] > 0 and clock["seconds_per_completion"] > 0
        assert clock["tokens_per_second"] > 0
        text = project.results(f"{label}.jsonl").read_text()
        assert "second" not in text and "clock" not in text


def test_playing_again_takes_another_time_and_gives_the_same_bytes(project: Project, policy: Policy) -> None:
    names = ["pre_eval.jsonl", "pre_eval_greedy.jsonl"]
    evaluate(project, policy)
    first = [project.results(name).read_bytes() for name in names]
    evaluate(project, policy)
    assert [project.results(name).read_bytes() for name in names] == first


def test_a_validation_is_summarised_once_and_every_row_has_the_same_columns(
    project: Project, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assay.core.decoding import Decoding
    from assay.rollout.evaluation.rollout import Pace
    from assay.rollout.evaluation.rollout import play as played

    suite, task = project.inputs("validation").validation, project.task()
    sampled = [r.episode for r in played(policy, task, suite.plays(), Decoding(1.0, 8), pace=Pace(64))]
    greedy = [e for e in sampled if e.draw == 0]
    history = History(validations=[Validation(0, sampled, greedy)])
    computed: list[int] = []
    summed_up: list[int] = []
    original, scored = live.Tables._row, live.score_rows
    monkeypatch.setattr(live.Tables, "_row", lambda self, v: (computed.append(v.step), original(self, v))[1])
    monkeypatch.setattr(
        live, "score_rows", lambda step, *both: (summed_up.append(step), scored(step, *both))[1]
    )
    tables = live.Tables(project.root, project.params.train.steps, history, suite)
    tables.write()
    history.validations.append(Validation(5, sampled, greedy))
    tables.write()
    tables.write()
    assert computed == summed_up == [0, 5]
    lines = project.results("checkpoint_evals.csv").read_text().splitlines()
    assert len(lines) == 3 and lines[0].startswith(
        "step,fraction_done,episodes,mean_reward,success_rate,channel_acc,mass_acc,"
    )
    assert ",best_of,best_of_k_mean_reward,best_of_k_success_rate," in lines[0]
    assert "_low" not in lines[0] and "_high" not in lines[0]  # a training computes no interval
    header, *rows = project.results("validation_scores.csv").read_text().splitlines()
    assert header.startswith(
        "step,greedy,item_id,cluster,draw,mean_reward,success_rate,channel_correct_rate,"
    )
    asked = [f"0,{sampled[0].item_id}", f"1,{sampled[0].item_id}"]
    assert len(rows) == 2 * (len(sampled) + len(greedy)) and {row.count(",") for row in rows} == {
        header.count(",")
    }
    assert [row for row in rows if row.startswith(("5,0,", "5,1,"))] == [
        f"5{row[1:]}" for row in rows[: len(rows) // 2]
    ]
    assert all(any(row.startswith(f"{step},{each},") for row in rows) for step in (0, 5) for each in asked)
