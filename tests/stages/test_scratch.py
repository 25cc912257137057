"""An evaluation that was killed is gone on with, and nobody can tell from its bytes; nothing of another run
is taken."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.core.config.settings import Params
from assay.core.errors import ConfigError, EnvironmentLost, RunningAlready
from assay.core.records import Episode
from assay.pipeline import heldout
from assay.pipeline import resume as scratch
from assay.pipeline.policies import open_policy
from assay.pipeline.project import Project
from assay.pipeline.resume import KeptEpisodes, difference, locked, run_key
from assay.rollout.evaluation import measure as measuring
from assay.rollout.policy.model import Policy
from assay.rollout.policy.processes import ALONE
from assay.stages import fingerprint, pre_eval
from tests import own_data
from tests.evaluation.failing_environment import Timeout
from tests.house import ROOT
from tests.small_policy import LETTERS, small_base

FILES = ("pre_eval.jsonl", "pre_eval_greedy.jsonl")
# Two episodes a batch: four batches of sampled draws, two of greedy ones.
BATCHES = ["pre_eval"] * 4 + ["pre_eval_greedy"] * 2
# A real evaluation in a process of its own, which is killed as its third batch begins.
KILLED = """
import os, pathlib, signal, sys
from assay.core.config.settings import Params
from assay.rollout.evaluation import measure
from assay.stages import pre_eval
from assay.pipeline.project import Project
played, original = [], measure.play
def play(*arguments, **named):
    played.append(0)
    if len(played) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*arguments, **named)
measure.play = play
root = pathlib.Path(sys.argv[1])
pre_eval.run(Project(root, Params.model_validate_json((root / "params.json").read_text())))
"""


@pytest.fixture(autouse=True)
def not_under_dvc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DVC_ROOT", raising=False)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A fingerprinted project with an untrained base, and what an evaluation gives that nothing
    interrupts."""
    root = tmp_path_factory.mktemp("project")
    own_data.write_data(root)
    small_base(root / "models/base", [*LETTERS, "\n"], hidden_size=16, intermediate_size=32)
    whole = own_data.project(root)
    whole = with_params(whole, "evaluation", items=4, draws=2)
    whole = with_params(whole, "task", max_new_tokens={"compact": 6, "json": 6})
    project = with_params(whole, "generation", batch_size=2)
    fingerprint.run(project)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DVC_ROOT", raising=False)
        pre_eval.run(project)
    for name in FILES:
        shutil.copy(project.results(name), root / name)
    return project


@pytest.fixture
def project(prepared: Project) -> Project:
    """The project as it was before its evaluation."""
    shutil.rmtree(prepared.root / ".scratch", ignore_errors=True)
    for path in (*(prepared.results(name) for name in FILES), *prepared.observed("").glob("*_clock.json")):
        path.unlink(missing_ok=True)
    return prepared


@pytest.fixture(scope="module")
def policy(prepared: Project) -> Policy:
    return open_policy(prepared.params, prepared.root / "models/base")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every line that is said from now on."""
    lines: list[str] = []
    for place, name in ((heldout, "say"), (heldout, "complain"), (scratch, "complain")):
        monkeypatch.setattr(place, name, lines.append)
    return lines


class Playing:
    """Counts the batches that are really played, and can be interrupted before one of them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.batches: list[str] = []
        self.interrupted_at: int | None = None
        self._play = measuring.play
        patch.setattr(measuring, "play", self)

    def __call__(self, policy: Policy, task: Any, plays: Any, decoding: Any, **named: Any) -> Any:
        if len(self.batches) == self.interrupted_at:
            raise KeyboardInterrupt
        self.batches.append("pre_eval_greedy" if decoding.temperature == 0 else "pre_eval")
        return self._play(policy, task, plays, decoding, **named)


@pytest.fixture
def playing(monkeypatch: pytest.MonkeyPatch) -> Playing:
    return Playing(monkeypatch)


def evaluate(project: Project, policy: Policy) -> None:
    """Play the held-out suite as pre_eval does, without its rivals."""
    inputs = project.inputs("heldout")
    opened, root = [inputs.heldout], project.root
    with heldout.open_suites(
        root, inputs, policy, "pre_eval", pre_eval.READS, suites=opened, processes=ALONE
    ) as measurement:
        measurement.play("pre_eval", inputs.heldout)
        measurement.play("pre_eval_greedy", replace(inputs.heldout, draws=1), greedy=True)


def interrupt(project: Project, policy: Policy, playing: Playing, after: int) -> Path:
    """Interrupt an evaluation after so many batches and return the folder of what is kept."""
    playing.interrupted_at = after
    with pytest.raises(KeyboardInterrupt):
        evaluate(project, policy)
    playing.interrupted_at = None
    playing.batches.clear()
    return next(
        (path for path in (project.root / ".scratch/pre_eval").iterdir() if path.is_dir()), project.root
    )


def as_uninterrupted(project: Project) -> bool:
    return all(project.results(name).read_bytes() == (project.root / name).read_bytes() for name in FILES)


def with_params(project: Project, section: str, **changes: Any) -> Project:
    changed = getattr(project.params, section).model_copy(update=changes)
    return Project(project.root, project.params.model_copy(update={section: changed}))


@pytest.mark.long
def test_killed_in_the_middle_and_called_again_it_gives_the_bytes_of_an_undisturbed_run(
    project: Project, playing: Playing, told: list[str]
) -> None:
    (project.root / "params.json").write_text(project.params.model_dump_json())
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", KILLED, str(project.root)], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    kept = sorted((project.root / ".scratch/pre_eval").glob("*/*/*"))
    assert [path.name for path in kept] == ["batch-00000.jsonl", "batch-00001.jsonl"]
    assert not project.results("pre_eval.jsonl").exists()
    pre_eval.run(project)
    assert as_uninterrupted(project)
    assert playing.batches[: len(BATCHES) - 2] == BATCHES[2:]  # the rivals' come behind them
    assert "pre_eval: 4 of 8 episodes were kept from an interrupted call" in told
    assert list((project.root / ".scratch/pre_eval").iterdir()) == []


@pytest.mark.parametrize("after", range(6))
def test_wherever_it_is_interrupted_only_the_rest_is_played(
    project: Project, policy: Policy, playing: Playing, after: int
) -> None:
    interrupt(project, policy, playing, after)
    evaluate(project, policy)
    assert as_uninterrupted(project) and playing.batches == BATCHES[after:]
    playing.batches.clear()
    evaluate(project, policy)
    assert playing.batches == BATCHES


def test_time_is_told_of_what_was_played_in_it_alone(
    project: Project, policy: Policy, playing: Playing
) -> None:
    interrupt(project, policy, playing, 5)
    evaluate(project, policy)
    assert not project.observed("pre_eval_clock.json").exists()  # all of it was kept: nothing was measured
    clock = json.loads(project.observed("pre_eval_greedy_clock.json").read_text())
    assert (clock["episodes"], clock["episodes_kept"]) == (2, 2) and clock["seconds"] > 0
    evaluate(project, policy)
    clock = json.loads(project.observed("pre_eval_clock.json").read_text())
    assert (clock["episodes"], clock["episodes_kept"]) == (8, 0)


@pytest.mark.parametrize(
    ("section", "changes"),
    [
        ("evaluation", {"seed": 5}),
        ("generation", {"temperature": 0.5}),
        ("generation", {"batch_size": 1}),
        ("train", {"steps": 9}),
    ],
)
def test_nothing_is_taken_from_a_run_with_other_settings(
    project: Project, policy: Policy, playing: Playing, section: str, changes: dict[str, Any]
) -> None:
    interrupt(project, policy, playing, 3)
    evaluate(with_params(project, section, **changes), policy)
    # Units of two sampled plays or one greedy
    assert len(playing.batches) == (8 if "batch_size" in changes else 6)
    playing.batches.clear()
    evaluate(project, policy)  # and changed back, what was kept is still there
    assert as_uninterrupted(project) and playing.batches == BATCHES[3:]


def test_nothing_is_taken_from_another_policy_or_other_data(
    project: Project, policy: Policy, playing: Playing
) -> None:
    interrupt(project, policy, playing, 3)
    evaluate(project, replace(policy, digest="another"))
    assert playing.batches == BATCHES
    for name in ("models/base/config.json", "evidence/results/data/fingerprint.json"):
        path = project.root / name
        before = path.read_bytes()
        path.write_bytes(before + b"\n")
        playing.batches.clear()
        evaluate(project, policy)
        path.write_bytes(before)
        assert playing.batches == BATCHES, name


def test_what_another_machine_kept_is_said_and_played_again(
    project: Project, policy: Policy, playing: Playing, told: list[str]
) -> None:
    interrupt(project, policy, playing, 3)
    machine = scratch.machine_of(project.params.device)
    for other in (machine | {"processor": "Another 9"}, machine | {"OMP_NUM_THREADS": "7"}):
        playing.batches.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(heldout, "machine_of", lambda project, other=other: other)
            evaluate(project, policy)
        assert playing.batches == BATCHES
        (line,) = (line for line in told if "of another machine" in line)
        assert ("Another 9" in line) != ("OMP_NUM_THREADS: 7 here" in line)
        told.clear()
    playing.batches.clear()
    evaluate(project, policy)
    assert as_uninterrupted(project) and playing.batches == BATCHES[3:]


def damage_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def forge(path: Path) -> None:
    """Put episodes with better rewards under a header that fits them, but not this evaluation."""
    episodes = [Episode.model_validate_json(line) for line in path.read_text().split("\n")[1:] if line]
    better = [episode.model_copy(update={"reward": 1.0}) for episode in episodes]
    KeptEpisodes(path.parent, "another key").put(1, better)


DAMAGE: list[Callable[[Path], Any]] = [
    damage_a_byte,
    forge,
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(b"\xff\xfe"),
    lambda path: path.write_bytes(path.read_bytes()[:-40]),
    lambda path: path.write_bytes(path.read_bytes() + path.read_bytes().split(b"\n")[1] + b"\n"),
    lambda path: shutil.copy(path.with_name("batch-00000.jsonl"), path),
    lambda path: (path.unlink(), os.mkfifo(path)),
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_batch_that_is_not_what_was_kept_is_played_again(
    project: Project, policy: Policy, playing: Playing, told: list[str], damage: Callable[[Path], Any]
) -> None:
    folder = interrupt(project, policy, playing, 4)
    for index in (1, 2) if damage is damage_a_byte else (1,):
        damage(folder / f"pre_eval/batch-{index:05}.jsonl")
    evaluate(project, policy)
    assert as_uninterrupted(project)
    assert playing.batches == ["pre_eval"] * (2 if damage is damage_a_byte else 1) + ["pre_eval_greedy"] * 2
    assert len([line for line in told if "played again" in line]) == 1
    assert any("kept from an interrupted call" in line for line in told)


def test_two_processes_at_one_evaluation_are_one_too_many(
    project: Project, policy: Policy, playing: Playing
) -> None:
    folder = interrupt(project, policy, playing, 2)
    before = {path: path.read_bytes() for path in folder.rglob("*.jsonl")}
    with (
        locked(folder),
        pytest.raises(RunningAlready, match=f"no other process on this run, found process {os.getpid()}"),
    ):
        evaluate(project, policy)
    assert {path: path.read_bytes() for path in folder.rglob("*.jsonl")} == before and playing.batches == []
    with locked(folder):  # another run is nobody's business
        evaluate(with_params(project, "evaluation", seed=5), policy)
    evaluate(project, policy)
    assert as_uninterrupted(project)


def test_an_environment_that_comes_back_costs_the_batch_it_left_in(
    project: Project, policy: Policy, playing: Playing, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assay_tasks.structured.task import Structured

    original, calls = Structured.step, list[int]()

    def step(self: Structured, state: Any, completion: str) -> Any:
        calls.append(0)
        if 5 <= len(calls) < 5 + 1 + project.params.health.retries:
            raise Timeout("down")
        return original(self, state, completion)

    monkeypatch.setattr(Structured, "step", step)
    with pytest.raises(EnvironmentLost, match="item r"):
        evaluate(project, policy)
    assert playing.batches == BATCHES[:3]
    playing.batches.clear()
    evaluate(project, policy)
    assert as_uninterrupted(project) and playing.batches == BATCHES[2:]


PIPELINE = """
stages:
  pre_eval:
    cmd: assay pre-eval
    deps: [code, '${dataset.root}/heldout.jsonl', lacking]
    params: [generation.surface, evaluation]
  odd:
    cmd: assay odd
    deps: {a: b}
"""


@pytest.fixture
def declared(tmp_path: Path) -> Project:
    """A project with a dvc.yaml of its own."""
    own_data.write_data(tmp_path)
    (tmp_path / "dvc.yaml").write_text(PIPELINE)
    (tmp_path / "code").mkdir()
    (tmp_path / "code/a.py").write_text("1")
    return own_data.project(tmp_path)


def test_a_run_key_names_what_dvc_knows_of_a_stage_and_the_packages(declared: Project) -> None:
    parts = run_key(declared.root, declared.params, "pre_eval", ["elsewhere"]).parts
    names = [name for name in parts if not name.startswith("packages.")]
    assert names == [
        "cmd",
        "params.generation.surface",
        "params.evaluation.open",
        "params.evaluation.seed",
        "params.evaluation.items",
        "params.evaluation.draws",
        "params.evaluation.rivals.few_shot",
        "params.evaluation.rivals.best_of_n",
        "params.evaluation.rivals.constrained",
        "params.evaluation.rivals.more_sft",
        "deps.code",
        "deps.data/mine/heldout.jsonl",
        "deps.lacking",
    ]
    assert parts["params.evaluation.items"] == "3" and parts["deps.lacking"] == "missing"
    assert "packages.torch" in parts


def test_where_dvc_says_nothing_all_parameters_and_what_is_read_count(declared: Project) -> None:
    parts = run_key(declared.root, declared.params, "another", ["${dataset.root}/train.jsonl"]).parts
    assert len(parts["deps.data/mine/train.jsonl"]) == 64 and "params.train.learning_rate" in parts
    (declared.root / "dvc.yaml").unlink()
    assert run_key(declared.root, declared.params, "another", ["${dataset.root}/train.jsonl"]).parts == parts


def test_what_a_stage_does_not_depend_on_leaves_its_key_alone(declared: Project) -> None:
    before = run_key(declared.root, declared.params, "pre_eval", [])
    (declared.root / "code/__pycache__").mkdir()
    (declared.root / "code/__pycache__/a.pyc").write_text("")
    assert (
        run_key(
            with_params(declared, "train", steps=7).root,
            with_params(declared, "train", steps=7).params,
            "pre_eval",
            [],
        )
        == before
    )


CHANGES: list[tuple[Callable[[Path], Any], str]] = [
    (lambda root: (root / "code/a.py").write_text("2"), "code: other content"),
    (lambda root: (root / "code/b.py").write_text(""), "code: other content"),
    (lambda root: shutil.rmtree(root / "code"), "code: missing there"),
    (lambda root: (root / "lacking").write_text(""), "lacking: missing here"),
    (
        lambda root: (root / "dvc.yaml").write_text(PIPELINE.replace("assay p", "p")),
        "cmd: assay pre-eval here, pre-eval there",
    ),
]


@pytest.mark.parametrize(("change", "line"), CHANGES)
def test_a_changed_dep_is_another_key_and_is_named(
    declared: Project, change: Callable[[Path], Any], line: str
) -> None:
    before = run_key(declared.root, declared.params, "pre_eval", [])
    change(declared.root)
    after = run_key(declared.root, declared.params, "pre_eval", [])
    assert after.digest != before.digest
    assert difference(before.parts, after.parts) == [line]


def test_differences_are_told_parameters_first(declared: Project) -> None:
    before = run_key(declared.root, declared.params, "pre_eval", []).parts
    (declared.root / "code/a.py").write_text("2")
    after = run_key(
        with_params(declared, "evaluation", draws=9).root,
        with_params(declared, "evaluation", draws=9).params,
        "pre_eval",
        [],
    ).parts
    other = after | {"packages.torch": "0.1"}
    del other["params.generation.surface"]
    draws, torch = before["params.evaluation.draws"], before["packages.torch"]
    assert difference(before, other) == [
        f"evaluation.draws: {draws} here, 9 there",
        'generation.surface: "compact" here, nothing there',
        "code: other content",
        f"torch: {torch} here, 0.1 there",
    ]
    assert difference(before, before) == []


def test_a_pipeline_that_dvc_would_not_read_is_refused(declared: Project) -> None:
    with pytest.raises(ConfigError, match="a list of names"):
        run_key(declared.root, declared.params, "odd", [])


def test_what_is_kept_lies_in_the_repository_dvc_was_called_in(
    declared: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert declared.scratch == declared.root / ".scratch"
    monkeypatch.setenv("DVC_ROOT", "/elsewhere")
    assert declared.scratch == Path("/elsewhere/.scratch")


def test_the_keys_of_the_shipped_pipeline_cover_every_stage() -> None:
    params = Params.model_validate(json.loads(own_data._composed()))
    for stage in ("pre_eval", "train", "post_eval"):
        parts = run_key(Project(ROOT, params).root, Project(ROOT, params).params, stage, []).parts
        assert "deps.constraints.txt" in parts and "params.base.seed" in parts
        assert not any("${" in name for name in parts)
