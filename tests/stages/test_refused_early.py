"""What a later stage would refuse is refused before the base is built, whatever setting or record is
wrong."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from assay.checks.doctor import preflight
from assay.checks.doctor.level import level_finding
from assay.checks.findings import Finding
from assay.core.config.composition import Selection, compose
from assay.core.config.reading import parse_params
from assay.core.errors import AssayError, DataError
from assay.core.evidence_files import place_of
from assay.pipeline import first_look, heldout
from assay.pipeline.note_openings import note_opening
from assay.pipeline.project import Project
from assay.stages import base, fingerprint
from tests.calling import called, refused
from tests.few_presets import leave_few
from tests.house import ROOT
from tests.own_data import copy_project, jsonl, write_sums

ROWS = {"train": 48, "validation": 16, "heldout": 24}
Change = Callable[[Path], None]


@functools.cache
def _composed() -> str:
    return json.dumps(compose(ROOT, Selection("tiny_smoke", "structured", 0)).values)


def rows(root: Path, split: str) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in (root / f"data/structured/{split}.jsonl").read_text().split("\n") if line
    ]


def write(root: Path, split: str, records: Sequence[dict[str, Any]]) -> None:
    (root / f"data/structured/{split}.jsonl").write_bytes(jsonl(records))
    write_sums(root / "data/structured")


def made(root: Path, settings: dict[str, Any]) -> Project:
    """Return a project with a few of the shipped records, all of its suites, and some settings other than
    tiny_smoke's."""
    shutil.copytree(ROOT / "data/structured", root / "data/structured")
    for path in (root / "data/structured").glob("*.jsonl"):
        lines = path.read_text().split("\n")[: ROWS.get(path.stem, 0)]
        path.write_text("".join(f"{line}\n" for line in lines)) if lines else path.unlink()
    write_sums(root / "data/structured")
    values = json.loads(_composed())
    values["evaluation"]["open"] = True
    for name, size in (("evaluation.items", 24), ("validation.items", 8), ("dataset.cache", None)):
        values[name.split(".")[0]][name.split(".")[1]] = size
    for name, value in settings.items():
        *steps, last = name.split(".")
        section = values
        for step in steps:
            section = section[step]
        section[last] = value
    return Project(root, parse_params(values))


@pytest.fixture(autouse=True)
def _nothing_is_trained_or_played(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("something was built or played")

    for module, name in ((base, "warm_started"), (base, "check_base"), (heldout, "measure")):
        monkeypatch.setattr(module, name, never)


def first_two_alike(split: str, other: str) -> Change:
    """Put the first record of one split into another one as well."""
    return lambda root: write(root, other, [*rows(root, other), rows(root, split)[0] | {"id": "again"}])


def contradicting(root: Path) -> None:
    first, *rest = rows(root, "train")
    gold = next(
        each["gold"]
        for each in rest
        if each.get("schema_path") == first["schema_path"] and each["gold"] != first["gold"]
    )
    write(root, "train", [first, first | {"id": "b", "gold": gold}, *rest])


def without(name: str) -> Change:
    def change(root: Path) -> None:
        (root / f"data/structured/{name}.jsonl").unlink()
        write_sums(root / "data/structured")

    return change


CASES: dict[str, tuple[dict[str, Any], Change | None, str]] = {
    "validation items": ({"validation.items": 17}, None, r"validation\.items: expected at most 16"),
    "evaluation items": ({"evaluation.items": 25}, None, r"evaluation\.items: expected at most 24"),
    "validation suite": ({"validation.suite": "nosuch"}, None, r"nosuch\.jsonl"),
    "secondary suite": (
        {"dataset.secondary": ["traps"]},
        None,
        r"dataset\.secondary: expected traps\.jsonl in data/structured",
    ),
    "blocklist": ({"task.blocklist": "terms.txt"}, None, r"terms\.txt"),
    "data digest": ({"dataset.expected_dataset_sha256": "0" * 64}, None, "0000"),
    "contradicting golds": ({}, contradicting, "conflicting_gold"),
    "leak": ({}, first_two_alike("train", "heldout"), "leak"),
    "no heldout": ({}, without("heldout"), r"heldout\.jsonl"),
    "empty validation": ({}, lambda root: write(root, "validation", []), r"validation\.jsonl"),
    "rate that moves nothing": ({"train.learning_rate": 1e-9}, None, r"train\.learning_rate"),
    "rate that diverges": ({"train.learning_rate": 5.0}, None, r"train\.learning_rate"),
    "rate of zero": ({"train.steps": 1, "train.warmup_steps": 4}, None, r"train\.warmup_steps"),
    "KL probe": ({"train.kl_probe_episodes": 49}, None, r"train\.kl_probe_episodes"),
    "LoRA targets": ({"train.lora.target_modules": ["nope"]}, None, r"train\.lora\.target_modules.*nope"),
    "prompt tokens": (
        {"task.max_prompt_tokens": 5},
        None,
        r"max_prompt_tokens: .*at most 5 tokens.*48 of 48 prompts of train",
    ),
    "positions": ({"base.architecture.max_positions": 30}, None, r"fit 30 positions.*heldout"),
    "completion limit": (
        {"task.max_new_tokens": {"compact": 2, "json": 160}},
        None,
        r"task\.max_new_tokens\.compact",
    ),
}


@pytest.mark.parametrize("name", list(CASES))
def test_what_cannot_work_is_refused_before_anything_is_trained(tmp_path: Path, name: str) -> None:
    settings, change, told = CASES[name]
    project = made(tmp_path, settings)
    if change is not None:
        change(tmp_path)
    with pytest.raises(AssayError, match=f"(?s){told}") as caught:
        fingerprint.run(project)
        preflight.look(project)
    assert caught.value.fix
    assert not (tmp_path / "models").exists()


def test_what_is_well_is_looked_at_once_for_the_same_settings_and_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = made(tmp_path, {})
    fingerprint.run(project)
    looks: list[str] = []
    look = preflight._looked_ahead

    def counted(here: Project) -> list[Finding]:
        looks.append("looked")
        return look(here)

    monkeypatch.setattr(preflight, "_looked_ahead", counted)
    preflight.look(project)
    preflight.look(project)
    assert looks == ["looked"]
    (tmp_path / ".scratch/preflight/ahead.json").write_text("{")
    preflight.look(project)
    assert len(looks) == 2
    preflight.look(Project(tmp_path, project.params.model_copy(update={"seed": 5})))
    assert len(looks) == 3


def test_who_wants_no_examination_gets_none_but_prompts_that_cannot_be_played(tmp_path: Path) -> None:
    project = made(
        tmp_path,
        {"train.learning_rate": 5.0, "health.preflight": False, "base.architecture.max_positions": 30},
    )
    fingerprint.run(project)
    preflight.look(project)
    task = project.params.task.model_copy(update={"max_prompt_tokens": 5})
    short = Project(tmp_path, project.params.model_copy(update={"task": task}))
    fingerprint.run(short)
    with pytest.raises(DataError, match="at most 5 tokens"):
        preflight.look(short)


def test_a_heldout_suite_that_can_only_be_described_and_a_ceiling_are_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(first_look, "complain", said.append)
    project = made(tmp_path, {"evaluation.items": 3, "dataset.audit.conflicting_gold": "keep"})
    contradicting(tmp_path)
    fingerprint.run(project)
    (few,) = (line for line in said if "can only describe: 3 prompt groups" in line)
    assert "evaluation.items" in few and few.endswith("is 3")
    assert any(
        line.startswith("train: no policy can exceed 98.0 % success: 1 prompt has contradicting golds")
        for line in said
    )
    found = json.loads(project.results("audit.json").read_text())["ceilings"]["train"]
    assert (found["n_records"], found["n_prompts"], found["n_contradicting"]) == (49, 1, 2)
    assert found["most_success"] == pytest.approx(48 / 49)


def test_the_command_for_the_base_refuses_what_train_would_refuse_and_names_the_preset(
    tmp_path: Path,
) -> None:
    made(tmp_path, {})
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    leave_few(tmp_path)
    preset = tmp_path / "configs/grpo/tiny_smoke.yaml"
    lines = preset.read_text().split("\n")
    at = next(n for n, line in enumerate(lines) if line.startswith("  learning_rate:"))
    lines[at] = "  learning_rate: 5.0"
    text = "\n".join(lines).replace("  items: 32\n", "  items: 8\n")
    preset.write_text(text)
    for words in (("config", "use", "grpo=tiny_smoke", "task=structured"), ("fingerprint",)):
        done = called(tmp_path, *words)
        assert done.returncode == 0, done.stderr
    done = called(tmp_path, "base")
    refused(done, f"configs/grpo/tiny_smoke.yaml, line {at + 1}, train.learning_rate", "health.preflight")
    assert not (tmp_path / "models").exists()


def test_openings_of_the_records_make_a_small_suite_too_small(tmp_path: Path) -> None:
    project = made(tmp_path, {"evaluation.items": 20, "claim.looks": None})
    fingerprint.run(project)
    suite = project.inputs("heldout").heldout
    levels = [level_finding(project).level]
    for seed in range(1, 9):
        other = Project(tmp_path, project.params.model_copy(update={"seed": seed}))
        note_opening(other.root, other.params, "post_eval", suite, f"{seed:064d}", base="b" * 64)
        levels.append(level_finding(project).level)
    assert levels[0] == "ok" and levels[-1] == "fault" and levels == sorted(levels, reverse=True)
    told = level_finding(project)
    assert "8 trained policies saw these records before" in told.found
    needed = int(told.fix.split("play ")[1].split()[0])
    assert needed > len({item.cluster for item in suite.items})
    with pytest.raises(AssayError, match=f"clusters for the level of the claim(?s:.*)play {needed} "):
        preflight.look(project)
    # Who trains again what was trained is not told that it comes too late.
    assert level_finding(other).found.count("7 trained policies") == 1
    worst = {"evaluation.items": 20, "claim.worst_cluster": 100.0}
    planned = [made(tmp_path / str(looks), {**worst, "claim.looks": looks}) for looks in (8, 9)]
    for each in planned:
        fingerprint.run(each)
        shutil.copytree(project.root / "evidence/observed", each.root / "evidence/observed")
    assert [level_finding(each).level for each in planned] == ["fault", "warning"]
    with pytest.raises(AssayError, match=r"looks at the held-out records .*: none; 8 trained policies"):
        preflight.look(planned[0])


@pytest.mark.parametrize("stage", ["pre-eval", "train", "post-eval"])
def test_without_a_base_a_stage_says_so_once_before_it_starts_or_takes_away_anything(
    tmp_path: Path, stage: str
) -> None:
    copy_project(tmp_path)
    assert Project.open(tmp_path).params.distributed.processes > 1, "which would all say it"
    claim = tmp_path / place_of("claim.json")
    claim.parent.mkdir(parents=True)
    claim.write_text("{}")
    done = called(tmp_path, stage)
    assert done.returncode == 1 and claim.exists()
    assert done.stderr == "assay: models/base: expected a base, found none yet.\nFix: ./run dvc repro base\n"
