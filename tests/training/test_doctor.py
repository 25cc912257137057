"""The doctor names every misconfiguration of the fault library, and is silent where nothing is wrong."""

from __future__ import annotations

import json
import random
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from assay.checks import findings as checks
from assay.checks.doctor import command as tool
from assay.checks.doctor import probe
from assay.checks.doctor.examination import examine_without_model
from assay.checks.doctor.forecast import passes
from assay.checks.doctor.observed import MOST_STEPS
from assay.checks.doctor.texts import render_prompts
from assay.checks.findings import DoctorCheck, refuse_faults, verdict_of
from assay.core.errors import TrainingError
from assay.health.rules.signals import StepSignals
from assay.pipeline.project import Project
from assay.rollout.dataset.suite import choose
from assay.rollout.evaluation import retries
from assay.rollout.policy.model import Policy
from assay.rollout.tasks.protocol import Step
from assay.training.adapter import tensors_digest
from assay.training.setup import Setup as TrainingSetup
from tests.training.fault_library import FAULTS, Fault, sliding_window, with_policy
from tests.training.faulty_tasks import NeverEnds, State
from tests.training.healthy_setup import (
    Setup,
    amiss,
    examined_project,
    healthy,
    settings,
    shipped,
    spoken,
    with_preset,
)


def test_a_healthy_set_up_gives_no_cause_for_doubt() -> None:
    findings = healthy().examined()
    assert amiss(findings) == []
    assert len(findings) >= 60
    assert len({finding.check for finding in findings}) == len(findings)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_real_fault_is_named_with_the_setting_to_blame(
    fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "pause", lambda seconds: None)
    findings = fault.examined()
    named = fault.named_by(findings)
    assert named is not None, amiss(findings)
    assert named.expected and named.found and named.where and named.fix


def test_the_library_holds_many_faults_of_many_kinds() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 80
    assert len({fault.check for fault in FAULTS}) >= 50


@pytest.mark.parametrize("checkpointing", [False, True])
def test_gradient_checkpointing_is_no_fault(checkpointing: bool) -> None:
    assert amiss(settings(train__gradient_checkpointing=checkpointing)(healthy()).examined()) == []


def test_a_window_shorter_than_an_episode_is_played_as_it_is_trained() -> None:
    findings = {finding.check: finding.level for finding in sliding_window(healthy()).examined()}
    assert findings["log-probabilities"] == "ok" and "fault" not in findings.values()


def state_of(setup: Setup) -> dict[str, object]:
    """Return everything about a policy and the process that an examination could leave changed."""
    model = setup.policy.model
    named = list(model.named_modules())
    return {
        "weights": tensors_digest(model.named_parameters()),
        "modules": [(name, id(module)) for name, module in named],
        "modes": [module.training for _, module in named],
        "hooks": [len(module._forward_hooks) + len(module._forward_pre_hooks) for _, module in named],
        "gradients": [(p.requires_grad, p.grad is None) for p in model.parameters()],
        "attributes": sorted(vars(model)),
        "config": model.config.to_dict(),
        "checkpointing": model.is_gradient_checkpointing,
        "python": random.getstate(),
        "numpy": str(np.random.get_state()),
        "torch": torch.get_rng_state().tolist(),
        "tokenizer": (len(setup.policy.tokenizer), setup.policy.tokenizer.padding_side),
    }


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("targets", ["all-linear", ["q_proj", "mlp"]])
def test_policy_and_random_generators_are_left_as_they_were(
    training: bool, checkpointing: bool, targets: object
) -> None:
    setup = settings(train__gradient_checkpointing=checkpointing, train__lora__target_modules=targets)(
        healthy()
    )
    setup.policy.model.train(training)
    setup.policy.model.model.embed_tokens.requires_grad_(False)
    before = state_of(setup)
    setup.examined()
    assert state_of(setup) == before


def test_the_same_set_up_is_told_the_same_twice() -> None:
    setup = healthy()
    one, other = (
        [f for f in setup.examined() if "forecast" not in f.check and f.check != "probe"] for _ in range(2)
    )
    assert one == other


def test_a_training_is_refused_with_all_its_faults_and_their_fixes() -> None:
    setup = settings(train__learning_rate=0.5, train__kl_probe_episodes=64)(healthy())
    findings = setup.examined()
    with pytest.raises(TrainingError) as caught:
        refuse_faults(findings)
    for told in (
        "2 faults",
        "learning rate",
        "KL probe",
        "train.kl_probe_episodes: 40",
        "health.let_pass: [",
    ):
        assert told in str(caught.value)
    refuse_faults([finding for finding in findings if finding.level != "fault"])


def test_a_fault_is_let_pass_alone_by_its_name_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(checks, "complain", said.append)
    findings = settings(train__learning_rate=0.5, train__kl_probe_episodes=64)(healthy()).examined()
    with pytest.raises(TrainingError) as caught:
        refuse_faults(findings, let_pass=["KL probe"])
    assert "found 1 fault" in str(caught.value) and "train.kl_probe_episodes" not in str(caught.value)
    assert len(said) == 1 and said[0].startswith("let pass (health.let_pass): FAULT KL probe")
    answered = re.search(r"health\.let_pass: (\[.*\]) trains", str(caught.value))
    assert answered is not None
    refuse_faults(findings, let_pass=json.loads(answered[1]))


@pytest.mark.parametrize(
    ("ok", "warnings", "faults", "said"),
    [
        (1, 1, 1, "1 check is well, 1 warning, 1 fault ("),
        (2, 0, 3, "2 checks are well, 0 warnings, 3 faults ("),
    ],
)
def test_the_last_line_of_the_doctor_counts_as_people_do(
    ok: int, warnings: int, faults: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = DoctorCheck("steps", "some", "params.yaml, train.steps")
    found = (
        [check.ok("3")] * ok + [check.warning("2", "more")] * warnings + [check.fault("0", "more")] * faults
    )
    monkeypatch.setattr(tool, "examined", lambda project, device_memory: (found, []))
    monkeypatch.setattr(tool, "site_cache_finding", lambda *_: check.note("of this machine"))
    monkeypatch.setattr(tool.Project, "open", lambda root: healthy())
    lines: list[str] = []
    monkeypatch.setattr(tool, "say", lines.append)
    assert tool.run(Path()) == 1
    assert lines[-1].startswith(said)


def test_one_of_anything_is_not_said_in_the_plural() -> None:
    one = healthy()
    items, validation = [one.items[0]] * 2, replace(one.validation, items=(one.items[0],))
    told = [
        each.found
        for each in examine_without_model(TrainingSetup(one.task, one.task, items, validation, one.params))
    ]
    assert any(found.startswith("1 item in both") for found in told), told
    assert any("with 1 id" in found and "ids" not in found for found in told), told


def test_no_training_items_are_a_finding_and_no_crash() -> None:
    setup = healthy()
    findings = examine_without_model(Setup(setup.task, setup.task, [], setup.validation, setup.params))
    assert ("fault", "training items", "none") in amiss(findings)


def test_an_endless_environment_is_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, original = [0], NeverEnds.step

    def counted(self: NeverEnds, state: State, completion: str) -> Step:
        steps[0] += 1
        return original(self, state, completion)

    monkeypatch.setattr(NeverEnds, "step", counted)
    setup = replace(healthy(), task=NeverEnds())
    findings = examine_without_model(
        TrainingSetup(setup.task, setup.task, setup.items, setup.validation, setup.params)
    )
    assert "endings" in {check for _, check, _ in amiss(findings)}
    assert steps[0] < MOST_STEPS + 1000


# A large model on a slow machine: what there is no time for is said.


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the toy policy count as a large one, whose pace is measured."""
    monkeypatch.setattr(probe, "SMALL_MODEL", 0)


@pytest.mark.usefixtures("large")
def test_a_large_model_that_is_fast_is_looked_at_whole() -> None:
    findings = healthy().examined()
    assert amiss(findings) == []
    assert {finding.check for finding in findings} >= {
        "reward spread",
        "log-probabilities",
        "gradients",
        "time (forecast)",
    }


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    ("what", "words"),
    [("_seconds_to_read", "tokens takes some"), ("_seconds_per_token", "a token takes 1e+03 s to write")],
)
def test_a_model_too_slow_to_play_is_not_played_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, what: str, words: str
) -> None:
    monkeypatch.setattr(probe, what, lambda *_: 1000.0)
    told = amiss(healthy().examined())
    ((level, check, found),) = told
    assert (level, check) == ("warning", "probe") and words in found and found.startswith("none: ")


@pytest.mark.usefixtures("large")
def test_a_slow_writer_has_shorter_completions_and_no_findings_about_rewards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe, "_seconds_per_token", lambda *_: 0.5)
    findings = healthy().examined()
    ((level, check, found),) = amiss(findings)
    assert (level, check) == ("warning", "probe") and re.match(
        r"completions of (\d+) instead of 48 tokens", found
    )
    assert 16 <= int(found.split()[2]) < 48
    assert {finding.check for finding in findings} >= {"log-probabilities", "gradients"}
    assert "reward spread" not in {finding.check for finding in findings}


@pytest.mark.usefixtures("large")
def test_a_pass_there_is_no_time_for_is_not_made_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "LEARNING", 1e12)
    findings = healthy().examined()
    ((level, check, found),) = amiss(findings)
    assert (level, check) == ("warning", "learning pass") and re.match(
        r"none in the \d+ s that were left", found
    )
    assert "gradients" not in {finding.check for finding in findings}


def test_prompts_that_take_long_to_render_are_as_many_as_there_is_time_for() -> None:
    setup = healthy()
    plays = choose(setup.items, 8, split="train", draws=1, seed=0).plays()
    assert len(render_prompts(setup.policy, setup.task, plays).prompts) == 8
    assert len(render_prompts(setup.policy, setup.task, plays, until=0.0).prompts) == 1


def test_copies_within_a_group_are_forecast_as_what_the_alarm_of_a_training_would_say() -> None:
    setup = with_policy(words=["x", "y"])(healthy())  # two words: few texts there are, and none is long
    found = StepSignals.of(0, []).distinct
    assert found is None
    strict = settings(
        health__distinct=setup.params.health.distinct.model_copy(update={"amber": 1.0, "red": 0.9})
    )(healthy())
    told = [each for each in amiss(strict.examined()) if each[1] == "variety"]
    assert told == [] or "below health.distinct.amber: 1" in told[0][2]


# The shipped presets


@pytest.fixture(scope="module", params=["collider", "structured"])
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A fingerprinted project with the shipped data of a task."""
    return shipped(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def policy(project: Project) -> Policy:
    """A base that speaks the task."""
    return spoken(project)


@pytest.mark.long
@pytest.mark.parametrize("preset", ["tiny", "tiny_smoke"])
def test_a_shipped_preset_gives_no_false_alarm(project: Project, policy: Policy, preset: str) -> None:
    findings = examined_project(with_preset(project, preset), policy)
    # A base of so few steps may not parse well enough; that would be true.
    assert [told for told in amiss(findings) if told[1] != "parsing"] == []
    assert {finding.check for finding in findings} >= {
        "reward spread",
        "log-probabilities",
        "gradients",
        "time (forecast)",
    }


def test_the_pretrained_preset_has_nothing_against_it_but_the_missing_gpu(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (project.root / tool.BASE).mkdir(parents=True)
    findings, unseen = tool.examined(with_preset(project, "pretrained"))
    (project.root / tool.BASE).rmdir()
    assert [(level, check) for level, check, _ in amiss(findings)] == [("fault", "base")]
    assert "CUDA" in findings[-1].expected and "tokenizer" in unseen[0]


def test_without_a_base_the_tool_looks_at_the_rest_and_says_what_it_did_not_see(project: Project) -> None:
    findings, unseen = tool.examined(project)
    assert amiss(findings) == [] and verdict_of(findings) != "fault"
    assert {finding.check for finding in findings} >= {"grader", "repetition", "validation kept apart"}
    assert "no models/base yet" in unseen[0] and "./run dvc repro base" in unseen[0]


def test_without_a_fingerprint_the_settings_are_looked_at_all_the_same(tmp_path: Path) -> None:
    wrong = settings(train__learning_rate=0.5)(healthy()).params
    findings, unseen = tool.examined(Project(tmp_path, wrong))
    assert [check for _, check, _ in amiss(findings)] == ["learning rate", "data"]
    assert "data" in unseen[0]


def test_the_tool_prints_what_is_amiss_and_exits_with_1(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(tool, "say", said.append)
    monkeypatch.setattr(tool, "say_table", lambda columns, rows: said.extend(" ".join(row) for row in rows))
    monkeypatch.setattr(tool.Project, "open", lambda root: project)
    other = with_policy(words=["x", "y"])(healthy()).policy
    for part in (other.model, other.tokenizer):
        part.save_pretrained(project.root / tool.BASE)
    assert tool.run(project.root) == 1
    shutil.rmtree(project.root / tool.BASE)
    told = "\n".join(said)
    assert (
        "FAULT vocabulary: tokenizer.json of the base: expected" in told
        and "Fix: ./run dvc repro base" in told
    )
    assert "checks are well" in told and "a training could not work so" in told


def test_the_tool_exits_with_0_where_nothing_is_at_fault(
    project: Project, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(tool, "say", said.append)
    monkeypatch.setattr(tool.Project, "open", lambda root: project)
    for part in (policy.model, policy.tokenizer):
        part.save_pretrained(project.root / tool.BASE)
    assert tool.run(project.root) == 0
    shutil.rmtree(project.root / tool.BASE)
    assert any(line.startswith("time (forecast): about") for line in said)
