"""The house stands as ARCHITECTURE.md says: floors, file access, heavy imports, exact stage dependencies."""

from __future__ import annotations

import ast
import importlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from assay.cli.tools import stage_times
from assay.core.config.tasks import settings_class, task_names
from assay.core.evidence_files import FILES, place_of
from assay.package.recipe import recipe_file, seeds
from assay.package.verification.code import RAN
from assay.stages.packing import pages
from assay.stages.render_evidence import at_hand
from tests import house

PIPELINE = YAML(typ="safe", pure=True).load((house.ROOT / "dvc.yaml").read_text(encoding="utf-8"))

CONTRACTS = tomllib.loads((house.ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
# What costs a model's time names no room of what is said about it.
COSTLY = ("base", "pre_eval", "train", "control", "post_eval")
AFTERWARDS = ("verdict", "package", "checks", "cli")


def relative(path: Path) -> str:
    return path.relative_to(house.SRC).as_posix()


_RETRAIN = {"base", "pre_eval", "train", "control", "post_eval"}
# One file of each room → the stages that run when it changes, besides package, which tells of their code.
TOUCHED = {
    "verdict/evidence/figures/forest_figure.py": {"render_evidence"},
    "verdict/evidence/page/report.py": {"render_evidence"},
    "verdict/evidence/claim/verdict.py": {"render_evidence"},
    "verdict/statistics/tests.py": {"render_evidence"},
    "verdict/statistics/intervals.py": {"render_evidence"},
    "checks/doctor/examination.py": set(),
    "package/verification/levels.py": set(),
    "package/checking.py": set(),
    "stages/packing/archive.py": set(),
    "cli/stages.py": set(),
    "rollout/audit/audit.py": {"fingerprint"},
    "training/trainer.py": {"train", "control"},
    "rollout/policy/engine/engine.py": _RETRAIN,
    "rollout/evaluation/rollout.py": {*_RETRAIN, "render_evidence"},
    "rollout/dataset/source.py": {"fingerprint", *_RETRAIN, "render_evidence"},
    "tasks/collider/rewards.py": {"fingerprint", *_RETRAIN, "render_evidence"},
    "core/seeds.py": {"fingerprint", *_RETRAIN, "render_evidence"},
}


def place(name: str) -> str:
    """Return where a file of TOUCHED lies in the project."""
    return name if name.startswith("tasks/") else f"src/assay/{name}"


def rooms_declared(stage: str) -> list[str]:
    """Return what of the source a stage names in dvc.yaml."""
    return [dep for dep in PIPELINE["stages"][stage]["deps"] if dep.startswith("src/")]


def layer_of(name: str, layers: list[str]) -> tuple[int, str] | None:
    """Return the layer of a module, 0 for the highest, and which of those in it; None for one in no layer."""
    for n, layer in enumerate(layers):
        for package in layer.split(" | "):
            if name == package or name.startswith(f"{package}."):
                return n, package
    return None


# .ci/run has import-linter itself read the contracts, those on packages of others included.
@pytest.mark.parametrize("path", house.modules(), ids=relative)
def test_imports_point_down_only(path: Path) -> None:
    module = relative(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    for contract in CONTRACTS:
        if contract["type"] == "layers" and (own := layer_of(module, contract["layers"])):
            for name in house.imported(path):
                other = layer_of(name, contract["layers"])
                assert other is None or other == own or other[0] > own[0], f"{module} imports {name}"


def test_every_module_stands_in_a_room() -> None:
    rooms = re.findall(r"assay\.(\w+)", str(CONTRACTS[0]["layers"]))
    assert len(rooms) <= 10
    for path in house.modules():
        room = relative(path).split("/")[1]
        assert room in rooms or (room == "__init__.py" and not house.holds_code(path)), relative(path)


def test_modules_import_from_where_a_name_stands_never_through_a_public_face() -> None:
    offered = {
        f"assay.{path.parent.name}.{name}"
        for path in (house.SRC / "assay").glob("*/__init__.py")
        for name in getattr(importlib.import_module(f"assay.{path.parent.name}"), "__all__", ())
    }
    assert len(offered) > 10
    for path in house.modules():
        assert not house.imported(path) & offered, relative(path)


# What packs results is no part of them: the code that made each is told by its md5 in dvc.lock.
@pytest.mark.parametrize("stage", [stage for stage in house.STAGES if stage != "package"])
def test_what_a_stage_imports_lies_in_the_rooms_it_declares(stage: str) -> None:
    declared = [house.ROOT / room for room in rooms_declared(stage)]
    assert len(declared) <= 9
    for path in sorted(house.code_of(stage)):
        assert any(path == room or room in path.parents for room in declared), (
            f"{relative(path)} is not in the deps of {stage}"
        )
    for room in declared:
        assert any(path == room or room in path.parents for path in house.code_of(stage)), (
            f"{stage} imports nothing of {room}"
        )


def test_verify_asks_a_lock_for_all_code_that_stages_declare() -> None:
    assert {room for stage in house.STAGES for room in rooms_declared(stage)} == RAN


def test_the_package_is_made_anew_for_other_code_of_a_stage_and_of_nothing_else() -> None:
    others = {room for stage in house.STAGES if stage != "package" for room in rooms_declared(stage)}
    assert {*rooms_declared("package")} == others


@pytest.mark.parametrize("stage", COSTLY)
def test_what_costs_model_time_names_no_room_of_what_is_said_about_it(stage: str) -> None:
    assert not [room for room in rooms_declared(stage) if room.split("/")[2] in AFTERWARDS]


@pytest.mark.parametrize("stage", house.STAGES)
def test_what_a_stage_says_it_reads_and_writes_is_what_dvc_is_told(stage: str) -> None:
    declared = PIPELINE["stages"][stage]
    reads, writes = house.reads_and_writes(stage)
    data = [
        dep
        for dep in declared["deps"]
        if not dep.startswith("src/") and dep not in {"constraints.txt"} - set(reads)
    ]
    assert sorted(data) == sorted(read for read in reads if read != house.SOURCE)
    outs = [next(iter(out)) if isinstance(out, dict) else out for out in declared["outs"]]
    assert sorted(outs) == sorted(writes)


def test_every_folder_of_the_evidence_is_an_out_of_the_stage_it_is_named_after() -> None:
    outs = {out: stage for stage in house.STAGES for out in house.reads_and_writes(stage)[1]}
    named = {"data": "fingerprint", "report": "render_evidence"}
    for folder in FILES:
        name = folder.rsplit("/", 1)[1]
        assert outs[folder] == named.get(name, name)


def test_metrics_and_plots_of_dvc_are_files_that_a_stage_writes() -> None:
    for path in (
        *PIPELINE["metrics"],
        *(next(iter(each)) if isinstance(each, dict) else each for each in PIPELINE["plots"]),
    ):
        inside = path.split("evidence/results/", 1)[1].split("/", 1)[1]
        assert place_of(inside) == path


def test_a_changed_file_of_a_room_runs_the_stages_that_name_the_room_and_no_other(tmp_path: Path) -> None:
    """One file of each room is touched in a copy, and DVC is asked what would run."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=house.ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    wanted = ("src/", "tasks/", "data/", ".dvc", "dvc", "params", "constraints")
    for name in (each for each in listed if each.startswith(wanted)):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(house.ROOT / name, target)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    for name in TOUCHED:
        path = tmp_path / place(name)
        path.write_text(path.read_text(encoding="utf-8") + "# touched\n", encoding="utf-8")
    command = [sys.executable, "-m", "dvc", "status", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    would_run: dict[str, set[str]] = {name: set() for name in TOUCHED}
    for stage, changes in json.loads(done.stdout).items():
        for dep in {
            dep for each in changes if isinstance(each, dict) for dep in each.get("changed deps", {})
        }:
            for name in TOUCHED:
                if f"{place(name)}/".startswith(f"{dep}/"):
                    would_run[name].add(stage)
    assert would_run == {name: {*stages, "package"} if stages else set() for name, stages in TOUCHED.items()}


def test_training_never_reads_the_held_out_split() -> None:
    deps = PIPELINE["stages"]["train"]["deps"]
    assert not [dep for dep in deps if "heldout" in dep or dep == "${dataset.root}"]


# A setting of the dataset, and what a stage calls where the setting decides more than fingerprint.json tells.
DECIDES = {
    "root": r"project",
    "near_duplicates": r"\.(heldout|validation|secondary|shown)\b",
    "secondary": r"params\.played",
    "audit.control_token": r"tell_control_tokens\(",
}


@pytest.mark.parametrize("stage", [*COSTLY, "render_evidence"])
def test_a_stage_lists_whole_sections_or_what_it_reads_of_them_beside_what_fingerprint_made(
    stage: str,
) -> None:
    declared = PIPELINE["stages"][stage]
    assert {"dataset", "health"} <= set(PIPELINE["stages"]["fingerprint"]["params"])
    assert [dep for dep in declared["deps"] if dep.startswith("evidence/results/data")]
    if "dataset" not in declared["params"]:
        own = (house.SRC / "assay/stages").glob(
            f"{stage}*/*.py" if stage == "render_evidence" else f"{stage}.py"
        )
        text = "".join(path.read_text(encoding="utf-8") for path in own)
        read = {f"dataset.{name}" for name, called in DECIDES.items() if re.search(called, text)}
        assert read == {name for name in declared["params"] if name.startswith("dataset.")}


def test_what_stages_call_takes_values_and_paths_and_no_project() -> None:
    below = {"core", "rollout", "health", "verdict", "training", "pipeline"}
    for path in house.modules():
        parts = relative(path).split("/")
        if parts[1] in below and parts[1:] != ["pipeline", "project.py"]:
            assert "assay.pipeline.project" not in house.imported(path), relative(path)


def test_training_settings_do_not_touch_the_measurement_before() -> None:
    shared = set(PIPELINE["stages"]["pre_eval"]["params"])
    assert not shared & {"seed", "train", "claim", "validation"}


def test_no_module_is_named_after_nothing() -> None:
    for path in house.modules():
        assert path.stem not in {"utils", "common", "misc", "helpers"}, relative(path)


# Where somebody's own code is found and run, which is no part of a task's rules.
RUNS_CODE = (
    "assay/rollout/tasks/own/loading.py",
    "assay/rollout/tasks/own/isolation/",
    "assay/rollout/tasks/own/adapters/",
)


def test_tasks_open_no_file_and_import_no_torch() -> None:
    of_room = [path for path in house.modules() if relative(path).startswith("assay/rollout/tasks/")]
    for path in [*of_room, *house.modules_of_tasks()]:
        if path not in of_room or not relative(path).startswith(RUNS_CODE):
            roots = {name.split(".")[0] for name in house.imported(path)}
            assert not roots & {
                "torch",
                "transformers",
                "pathlib",
                "os",
                "io",
                "time",
                "datetime",
                "random",
            }, path
            calls = {node.func.id for node in ast.walk(ast.parse(path.read_text())) if _is_call_by_name(node)}
            assert not calls & {"open", "print"}, path


def _is_call_by_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def test_no_task_is_named_in_assay() -> None:
    # "own" is a word of English too.
    names = re.compile("|".join(rf"\b{name}\b" for name in task_names() if name != "own"), re.I)
    assert names.search("the collider")
    for path in house.modules():
        text = path.read_text(encoding="utf-8")
        assert not names.search(text), f"{relative(path)}: {names.search(text)}"


@pytest.mark.parametrize("path", house.modules_of_tasks(), ids=lambda path: str(path.relative_to(house.ROOT)))
def test_a_task_stands_on_what_tasks_may_use_and_on_no_other_task(path: Path) -> None:
    for name in house.imported(path):
        assert not re.match(r"(assay_)?tasks\b", name)
        assert not name.startswith("assay.") or name.startswith(("assay.core.", "assay.rollout")), name


def test_nothing_prints_but_the_console() -> None:
    for path in house.modules():
        assert not re.search(r"^\s*print\(", path.read_text(encoding="utf-8"), re.M), relative(path)


def test_evidence_can_be_rendered_without_torch() -> None:
    code = (
        "import sys, assay.cli, assay.stages.fingerprint, assay.stages.render_evidence,"
        " assay.stages.package\nheavy = {'torch', 'transformers', 'trl', 'peft'} &"
        " set(sys.modules)\nsys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_setting_is_read_somewhere() -> None:
    from pydantic import BaseModel

    from assay.core.config import health, settings

    own = [sys.modules[settings_class(name).__module__] for name in task_names()]
    text = "\n".join(
        path.read_text(encoding="utf-8") for path in [*house.modules(), *house.modules_of_tasks()]
    )
    for name, model in [each for module in (health, settings, *own) for each in vars(module).items()]:
        if isinstance(model, type) and issubclass(model, BaseModel) and model is not BaseModel:
            for field in model.model_fields:
                # What is done about odd records is looked up by the name of the kind.
                assert re.search(rf'\.{field}\b|"{field}"', text), f"{name}.{field} is never read"


def test_every_list_of_the_stages_has_them_as_the_pipeline_does() -> None:
    stages = tuple(PIPELINE["stages"])
    assert stages == stage_times.STAGES
    assert pages.BEFORE == at_hand.STAGES == stages[:-1]
    assert stages[:-2] == recipe_file.DECIDE and stages[:3] == seeds.SHARED
