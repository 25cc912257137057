"""`assay seeds` runs what is not finished, each seed in a copy of its own, and puts all of them into
recipe.json."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from assay.core.config.composition import Selection, selected, use
from assay.core.errors import ConfigError, RecordError, RunningAlready
from assay.core.evidence_files import folder_of, place_of
from assay.core.storage.json import read_record, write_json, write_jsonl
from assay.core.storage.locks import hold
from assay.package.recipe import recipe_file, seeds
from assay.package.recipe.seeds import SeedJob
from assay.pipeline.heldout_ledger import copy_id, openings
from assay.pipeline.note_openings import note_opening, tries
from assay.pipeline.project import Project
from assay.rollout.dataset.suite import Suite
from assay.rollout.tasks.protocol import Item
from assay.verdict.evidence.recipe.tables import seeds_block
from assay.verdict.evidence.words.remarks import remark
from tests.evidence.conftest import make_claim
from tests.evidence.synthetic_episodes import arm
from tests.few_presets import leave_few
from tests.house import ROOT
from tests.tools.test_compare import BEFORE, RESULTS, write_run

# Which stage hands out which of the prepared folders.
OUTS = {name: name for name in ("base", "pre_eval", "train", "control", "post_eval")}
OUTS = {"fingerprint": "data"} | OUTS | {"render_evidence": "report"}
STAGE = """
import pathlib, shutil, sys
name, seed, out = sys.argv[1:]
here = pathlib.Path.cwd()
with (here.parent / "calls").open("a") as log:
    log.write(f"{here.name} {name}\\n")
prepared = here / "data" / "prepared" / f"seed-{seed}"
if (prepared / f"{name}-fails").is_file():
    sys.exit(f"assay: {here}/evidence: expected a disk, found none.")
shutil.copytree(prepared / out, here / "evidence/results" / out, dirs_exist_ok=True)
"""
PREFIX = "collider-tiny_smoke"
BARRED = "a red alarm of the training is not acknowledged: entropy"
TWO_SEEDS = remark("too_few_seeds", n=2, level=0.05, needed=6, sided="two-sided")


def prepare(folder: Path, seed: int, *, barred: str | None = None) -> None:
    """Write the folders that the stages of one run would."""
    project = write_run(folder.parent / f"{folder.name}-run", seed)
    if barred is not None:
        policy = read_record(project / place_of("claim.json"), recipe_claim(), fix="").after_policy
        after = arm(f"trained {seed} 0.001", 0.7, clusters=24)
        claim = make_claim(
            BEFORE,
            after,
            training_seeds=(seed,),
            policies=("b" * 64, policy),
            stops=[remark("misgraded", found=barred)],
        )
        write_json(project / place_of("claim.json"), claim)
    for name in ("pre_eval_greedy", "post_eval_greedy"):
        write_jsonl(project / place_of(f"{name}.jsonl"), BEFORE)
    # As render_evidence has it: a run that is not evaluable has no score.
    write_json(project / place_of("metrics.json"), {"p": None} if barred else {"p": 0.1, "score": 0.5})
    write_json(project / place_of("fingerprint.json"), {})
    scripted = project / folder_of("report") / "scripted"
    scripted.mkdir(parents=True)
    (scripted / "heldout.jsonl.gz").write_bytes(gzip.compress(b"", mtime=0))
    write_json(project / place_of("control.json"), {"asked": False})
    write_json(
        project / place_of("base.json"), {"copy_accuracy": 1.0, "parsed_rate": 0.9, "success_rate": 0.2}
    )
    shutil.copytree(project / RESULTS, folder)
    shutil.rmtree(project)


def recipe_claim() -> type:
    """Return the record of claim.json."""
    from assay.verdict.evidence.claim.claim import Claim

    return Claim


def write_pipeline(root: Path) -> Path:
    """Write a project whose stages are ours by name and outputs, and hand out files that were prepared."""
    (root / "src").mkdir(parents=True)
    (root / "src/stage.py").write_text(STAGE)
    for name in ("configs", "tasks", ".dvc/plots"):
        shutil.copytree(ROOT / name, root / name)
    leave_few(root)
    preset = root / "configs/grpo/tiny_smoke.yaml"
    preset.write_text(preset.read_text().replace("open: false", "open: true"))
    for name in (".dvc/config", ".dvcignore", "constraints.txt"):
        shutil.copy(ROOT / name, root / name)
    use(root, grpo="tiny_smoke", task="collider", seed=0)
    stages, before = {}, "data/prepared/seed-0/data/fingerprint.json"
    for name, out in OUTS.items():
        own = name not in ("fingerprint", "base", "pre_eval")
        seed = "${seed}" if own else "0"
        stages[name] = {
            "cmd": f"python src/stage.py {name} {seed} {out}",
            "deps": ["src", before],
            "params": ["seed", "train"] if own else ["base"],
            "outs": [{folder_of(out): {"cache": False}}],
        }
        before = folder_of(out)
    with (root / "dvc.yaml").open("w") as stream:
        YAML().dump({"stages": stages}, stream)
    return root


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project where three seeds were run: one is fine, one is not evaluable, one failed; not to be
    changed."""
    root = write_pipeline(tmp_path_factory.mktemp("a project"))
    # What the copies are packed with.
    (root / "data/collider").mkdir(parents=True)
    (root / "data/collider/train.jsonl").touch()
    prepare(root / "data/prepared/seed-0", 0)
    prepare(root / "data/prepared/seed-1", 1, barred=BARRED)
    prepare(root / "data/prepared/seed-2", 2)
    (root / "data/prepared/seed-2/train-fails").touch()
    assert seeds.run(root, [0, 1, 2], jobs=2, few=True) == 1
    return root


@pytest.fixture
def moved(project: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(project, tmp_path / "moved"))


def calls(root: Path) -> Counter[str]:
    """Return how often each stage ran in each copy."""
    return Counter((root / ".scratch/seeds/calls").read_text().splitlines())


def test_all_seeds_share_one_base_and_one_measurement_of_it(project: Path) -> None:
    found = Counter(line.split()[1] for line in calls(project).elements())
    assert (found["base"], found["pre_eval"], found["train"]) == (1, 1, 3)
    assert calls(project)[f"{PREFIX}-seed0 render_evidence"] == 1


def test_a_seed_that_fails_or_does_not_count_stands_in_the_record_with_its_reason(project: Path) -> None:
    entry = recipe_file.read_recipes(project)["collider"]
    fine, barred, broken = entry.runs
    assert (fine.verdict, fine.normalised_score) == ("IMPROVED", 0.5)
    assert barred.verdict == "NOT EVALUABLE" and barred.normalised_score is None
    assert barred.reasons == (remark("misgraded", found=BARRED),)
    assert (broken.state, broken.verdict, broken.gain) == ("failed", None, None)
    assert broken.reasons == (remark("failed", found="evidence: expected a disk, found none"),)
    assert (entry.verdict, entry.recipe) == ("NOT EVALUABLE", None)
    assert entry.reasons == (
        remark("seed_not_evaluable", training=barred.name, reasons=barred.reasons),
        remark("seed_failed", training=broken.name, reasons=broken.reasons),
    )
    for run in (barred, broken):
        assert (
            run.name in entry.sentence
            and run.reason in entry.sentence
            and run.reason in seeds_block(entry, "collider", None)
        )


def test_recipe_json_names_no_place_of_this_machine(project: Path) -> None:
    assert str(project) not in (project / recipe_file.FILE).read_text()


def test_what_is_finished_does_not_run_again_unless_it_failed_and_is_told_where_it_is_left_out(
    moved: Path,
) -> None:
    (moved / "data/prepared/seed-2/train-fails").unlink()
    (moved / ".scratch/seeds/calls").unlink()
    # No stage depends on the folder it came from, and seed 1 is left out of this call.
    assert seeds.run(moved, [0, 2], few=True) == 0
    ran = {line.split()[0].removeprefix(PREFIX) for line in calls(moved)}
    assert ran == {"-seed2"}
    entry = recipe_file.read_recipes(moved)["collider"]
    assert [run.verdict for run in entry.runs] == ["IMPROVED", "IMPROVED"]
    assert (entry.verdict, entry.reasons) == ("NOT EVALUABLE", (TWO_SEEDS,))
    assert entry.notes == (remark("seeds_not_asked", seeds=[1]),)
    assert str(entry.notes[0]) in seeds_block(entry, "collider", None)


def test_a_seed_that_another_process_is_at_is_told_and_ends_no_other(
    moved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = seeds.wait_for_stages
    monkeypatch.setattr(seeds, "wait_for_stages", lambda copy: waits(copy, seconds=0.0))
    with hold(moved / f".scratch/seeds/{PREFIX}-seed1/.scratch/train/abc.lock"):
        assert seeds.run(moved, [0, 1], few=True) == 1
    entry = recipe_file.read_recipes(moved)["collider"]
    fine, busy = entry.runs
    assert entry.notes == ()  # seed 2 never finished: there is nothing of it to leave out
    assert (fine.verdict, busy.verdict) == ("IMPROVED", None)
    assert "no other process on this run" in busy.reason and str(moved) not in busy.reason


def test_a_second_call_on_the_same_recipe_is_refused(project: Path) -> None:
    with hold(project / f".scratch/seeds/{PREFIX}.lock"), pytest.raises(RunningAlready):
        seeds.run(project, [0], few=True)


def test_settings_that_stand_in_params_yaml_alone_and_a_damaged_record_are_refused_before_anything_runs(
    moved: Path,
) -> None:
    (moved / ".scratch/seeds/calls").unlink()
    text = (moved / "params.yaml").read_text()
    (moved / "params.yaml").write_text(re.sub(r"learning_rate: .*", "learning_rate: 0.5", text))
    with pytest.raises(ConfigError, match="learning_rate"):
        seeds.run(moved, [0], few=True)
    (moved / "params.yaml").write_text(text)
    (moved / recipe_file.FILE).write_text("{}")
    with pytest.raises(RecordError):
        seeds.run(moved, [0], few=True)
    assert not (moved / ".scratch/seeds/calls").exists()


def test_all_seeds_of_a_call_are_of_one_state_of_the_project_and_too_few_are_told_before(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "a, b #c"  # grammar in DVC's settings
    shutil.copytree(project, root)
    hands, said = seeds.hand_over, list[str]()

    def edited_meanwhile(source: Path, copy: Path, *rest: object, **more: object) -> None:
        (root / "src/stage.py").write_text(f"{STAGE}# edited\n")
        hands(source, copy, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(seeds, "hand_over", edited_meanwhile)
    monkeypatch.setattr(seeds, "complain", said.append)
    prepared = root / "data/prepared"
    shutil.copytree(prepared / "seed-0", prepared / "seed-3")
    prepare(root / "data/new/seed-3", 3)
    shutil.rmtree(prepared / "seed-3")
    (root / "data/new/seed-3").rename(prepared / "seed-3")
    assert seeds.run(root, [0, 3], few=True) == 0
    entry = recipe_file.read_recipes(root)["collider"]
    assert entry.reasons == (TWO_SEEDS,) and "edited" in (root / "src/stage.py").read_text()
    assert said[0].startswith("these are not the seeds of the plan (claim.seeds: 0)")
    assert said[1].startswith("there will be no verdict over seeds: 2 seeds, where a two-sided test")


def test_a_torn_dvc_lock_of_a_copy_makes_its_stages_run_again(moved: Path) -> None:
    (moved / ".scratch/seeds/calls").unlink()
    # Nothing of one was written, and half of the other.
    for name, torn in (("shared", ""), ("seed0", "schema: '2.0'\nstages:\n  tra")):
        (moved / f".scratch/seeds/{PREFIX}-{name}/dvc.lock").write_text(torn)
    assert seeds.run(moved, [0], few=True) == 0
    assert calls(moved)[f"{PREFIX}-shared base"] == calls(moved)[f"{PREFIX}-seed0 train"] == 1
    assert recipe_file.read_recipes(moved)["collider"].runs[0].verdict == "IMPROVED"


def test_bases_from_seeds_are_refused_where_the_base_is_a_pretrained_one(moved: Path) -> None:
    use(moved, grpo="pretrained", task=None, seed=None)
    with pytest.raises(ConfigError, match="pretrained"):
        seeds.run(moved, [0], bases=(1,))


def test_seeds_of_another_preset_are_not_replaced(moved: Path) -> None:
    held = (moved / recipe_file.FILE).read_bytes()
    use(moved, grpo="tiny", task=None, seed=None)
    with pytest.raises(ConfigError, match="3 seeds of preset tiny_smoke"):
        seeds.run(moved, [0], few=True)
    assert (moved / recipe_file.FILE).read_bytes() == held


def test_seeds_that_no_verdict_can_come_of_are_not_trained_unless_asked_for(moved: Path) -> None:
    before = calls(moved)
    with pytest.raises(ConfigError, match="8 seeds or more, found 4 seeds") as refused:
        seeds.run(moved, range(4))
    assert refused.value.fix == "./run assay seeds 0..7, or add --yes" and calls(moved) == before
    for asked, few in ((seeds.parse_seeds("0..7"), False), (seeds.parse_seeds("0..3"), True)):
        assert seeds.check_request(moved, selected(moved), asked, (), one_sided=False, few=few) == "collider"


def test_a_draft_is_not_trained_on_seeds(moved: Path) -> None:
    preset = moved / "configs/grpo/tiny_smoke.yaml"
    preset.write_text(preset.read_text().replace("open: true", "open: false"))
    use(moved, grpo=None, task=None, seed=None)
    with pytest.raises(ConfigError, match="settings with a verdict, found a draft"):
        seeds.run(moved, range(6))


def test_an_unknown_task_is_refused_before_anything_runs(project: Path) -> None:
    with pytest.raises(ConfigError, match="structured"):
        seeds.run(project, [0], task="structred")


@pytest.mark.parametrize(
    "text", ["", "a", "-1", "4..2", "0..100", "1,1", "0..2,2", "1.5", "0...3", "٣", "0..5,"]
)
def test_what_names_no_seeds_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        seeds.parse_seeds(text)


def test_a_copy_loses_what_the_project_no_longer_has_and_keeps_its_outputs(tmp_path: Path) -> None:
    root = write_pipeline(tmp_path / "project")
    (root / "data").mkdir()
    (root / "src/gone.py").write_text("")
    copy = root / ".scratch/seeds/copy"
    seeds.prepare_copy(SeedJob(copy, root, Selection("tiny_smoke", "structured", 3), (), "base"))
    (copy / "models").mkdir()
    (root / "src/gone.py").unlink()
    seeds.prepare_copy(SeedJob(copy, root, Selection("tiny_smoke", "structured", 4), (), "base", 9))
    assert [path.name for path in (copy / "src").iterdir()] == ["stage.py"]
    params = YAML(typ="safe").load((copy / "params.yaml").read_text())
    assert (params["seed"], params["task"]["name"], params["base"]["seed"]) == (4, "structured", 9)
    assert (copy / "models").is_dir()
    assert YAML(typ="safe").load((root / "params.yaml").read_text())["base"]["seed"] == 0
    head = "# @package _global_\ndefaults: [tiny_smoke, _self_]\nbase:\n"
    for own, alike in (("  kind: scratch\n  seed: 5\n", True), ("  seed: 5\n", False)):
        (root / "configs/grpo/mine.yaml").write_text(head + own)
        job = SeedJob(copy, root, Selection("mine", "structured", 4), (), "base", 9)
        if alike:
            seeds.prepare_copy(job)
            assert YAML(typ="safe").load((copy / "params.yaml").read_text())["base"]["seed"] == 9
        else:
            with pytest.raises(ConfigError, match="found seed 5, which does not stand below kind: scratch"):
                seeds.prepare_copy(job)


def test_a_copy_is_given_all_that_a_stage_reads_and_no_stage_makes() -> None:
    pipeline = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text())["stages"]
    stages = [
        stage for name, stage in pipeline.items() if name != "package"
    ]  # what comes of the seeds is packed
    made = {
        name for stage in stages for out in stage["outs"] for name in ([out] if isinstance(out, str) else out)
    }
    read = {name for stage in stages for name in stage["deps"]} | {"tasks/words/settings.py"}
    given = (*made, *seeds.INPUTS, "${dataset.root}", "${task.code}")
    assert not [name for name in read if not name.startswith(given)]


def test_a_base_and_data_named_relative_to_the_project_are_there_in_a_copy(tmp_path: Path) -> None:
    root, copy = write_pipeline(tmp_path / "project"), tmp_path / "project/.scratch/seeds/copy"
    (root / "data").mkdir()
    (root / "kept/model").mkdir(parents=True)
    (root / "own").mkdir()
    (root / "own/jobs.jsonl").write_text("{}\n")
    preset, task = root / "configs/grpo/mine.yaml", root / "configs/task/mine.yaml"
    text = (root / "configs/grpo/pretrained.yaml").read_text()
    preset.write_text(re.sub(r"(  model: ).*", r"\1kept/model", text))
    text = (root / "configs/task/structured.yaml").read_text()
    task.write_text(re.sub(r"(  root: ).*", r"\1own", text))
    for _ in range(2):
        seeds.prepare_copy(SeedJob(copy, root, Selection("mine", "mine", 0), (), "base"))
    assert (copy / "own/jobs.jsonl").read_text() == "{}\n" and (copy / "kept/model").is_dir()


def test_a_stage_of_a_killed_call_is_waited_for_but_not_for_ever(tmp_path: Path) -> None:
    lock = tmp_path / ".scratch/train/abc.lock"
    with hold(lock), pytest.raises(RunningAlready):
        seeds.wait_for_stages(tmp_path, seconds=0.0)
    lock.write_text("12345\n")  # of one who was killed
    seeds.wait_for_stages(tmp_path, seconds=0.0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "noise\nassay: a: expected b, found c.\nFix: d\nERROR: failed to reproduce 'train'\n",
            "a: expected b, found c",
        ),
        ("ERROR: lock\nERROR: second\n", "lock"),
        ("", "DVC was ended by signal 9"),
    ],
)
def test_the_reason_of_a_failure_is_what_assay_said_else_what_dvc_said(
    tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "log").write_text(text)
    assert seeds.read_failure(tmp_path / "log", -9) == reason


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only the Linux kernel ends a child with its parent"
)
def test_a_command_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    starts = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-m", "assay.core.parent", {shutil.which("sleep")!r}, "300"])
open({str(tmp_path / "pid")!r} + ".new", "w").write(str(child.pid))
time.sleep(1.5)
import os
os.rename({str(tmp_path / "pid")!r} + ".new", {str(tmp_path / "pid")!r})
time.sleep(300)
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    parent = subprocess.Popen([sys.executable, "-c", starts], env=environment)
    try:
        wait_for((tmp_path / "pid").is_file)
        child = int((tmp_path / "pid").read_text())
        assert Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"/") and alive(child)
    finally:
        parent.kill()
        parent.wait()
    wait_for(lambda: not alive(child))


def alive(pid: int) -> bool:
    """Return whether a process runs; one that nobody has buried yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition) -> None:  # type: ignore[no-untyped-def]
    """Wait until something holds, 20 seconds at most."""
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.05)


def test_a_copy_knows_what_its_project_opened_and_the_project_what_the_copy_did(tmp_path: Path) -> None:
    root = write_pipeline(tmp_path / "project")
    copy = root / ".scratch/seeds/a"
    shutil.copytree(ROOT / "configs", copy / "configs")
    use(copy, grpo="tiny_smoke", task="collider", seed=3)
    project, own = Project.open(root), Project.open(copy)
    suite = Suite("heldout", (Item("a", "a", {}, None, None, record="r" * 64),), 2, 0)
    note_opening(project.root, project.params, "pre_eval", suite, "b" * 64, base="b" * 64)
    note_opening(project.root, project.params, "post_eval", suite, "c" * 64, base="b" * 64)
    seeds.lend_ledger(copy)
    note_opening(own.root, own.params, "post_eval", suite, "d" * 64, base="b" * 64)
    seeds.take_back_ledger(copy)
    known = openings(project.root)
    assert known is not None
    assert {
        each.policy_digest: each.place for each in tries(known, suite.contents, "b" * 64, suite.digest)
    } == {"c" * 64: 1, "d" * 64: 2}
    assert {each.copy_id for each in known.openings} == {copy_id(project.root)}, (
        "one working copy opened them all"
    )


def test_without_seeds_on_the_command_line_those_of_the_plan_are_run(tmp_path: Path) -> None:
    root = write_pipeline(tmp_path / "project")
    assert seeds.planned_seeds(root) == (0,)
