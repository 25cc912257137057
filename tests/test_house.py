"""The house stands as ARCHITECTURE.md says: floors, file access, heavy imports, exact stage dependencies."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest
from ruamel.yaml import YAML

from tests import house

PIPELINE = YAML(typ="safe", pure=True).load((house.ROOT / "dvc.yaml").read_text(encoding="utf-8"))

# A room may import from rooms on lower floors and from itself; neighbours do not know each other.
FLOOR = {
    "errors": 0, "counting": 0, "records": 1, "config": 1, "seeds": 1, "storage": 2, "provenance": 2, "console": 2,
    "composition": 3, "tasks": 3, "policy": 4, "dataset": 4, "evaluation": 5, "training": 6, "evidence": 6, "packaging": 7,
    "stages": 8, "verification": 9, "tools": 10, "cli": 11,
}  # fmt: skip


def room_of(name: str) -> str:
    """Return the room of a module name such as assay.tasks.protocol."""
    return name.split(".")[1]


def relative(path) -> str:  # type: ignore[no-untyped-def]
    return path.relative_to(house.SRC).as_posix()


@pytest.mark.parametrize("path", house.modules(), ids=relative)
def test_imports_point_down_only(path) -> None:  # type: ignore[no-untyped-def]
    room = relative(path).removesuffix(".py").split("/")[1]
    if room == "__init__":
        return
    for name in house.imported(path):
        if name.startswith("assay.") and room_of(name) != room and room_of(name) in FLOOR:
            assert FLOOR[room_of(name)] < FLOOR[room], f"{relative(path)} imports {name}"


@pytest.mark.parametrize("stage", house.STAGES)
def test_a_stage_depends_on_exactly_the_code_it_can_run(stage: str) -> None:
    declared = [dep for dep in PIPELINE["stages"][stage]["deps"] if dep.startswith("src/")]
    assert declared == house.code_deps(stage)


@pytest.mark.parametrize("stage", house.STAGES)
def test_what_a_stage_says_it_reads_and_writes_is_what_dvc_is_told(stage: str) -> None:
    declared = PIPELINE["stages"][stage]
    reads, writes = house.reads_and_writes(stage)
    data = [
        dep for dep in declared["deps"] if not dep.startswith("src/") and dep not in {"constraints.txt"} - set(reads)
    ]
    assert data == [read for read in reads if read != house.SOURCE]
    outs = [
        next(iter(out)) if isinstance(out, dict) else out
        for kind in ("outs", "metrics", "plots")
        for out in declared.get(kind, [])
    ]
    assert sorted(outs) == sorted(writes)


def test_training_never_reads_the_held_out_split() -> None:
    deps = PIPELINE["stages"]["train"]["deps"]
    assert not [dep for dep in deps if "heldout" in dep or dep == "${dataset.root}"]


def test_training_settings_do_not_touch_the_measurement_before() -> None:
    shared = set(PIPELINE["stages"]["pre_eval"]["params"])
    assert not shared & {"seed", "train", "claim", "validation"}


def test_no_module_is_named_after_nothing() -> None:
    for path in house.modules():
        assert path.stem not in {"utils", "common", "misc", "helpers"}, relative(path)


def test_trl_is_known_to_the_training_room_alone() -> None:
    for path in house.modules():
        if any(name.split(".")[0] == "trl" for name in house.imported(path)):
            assert relative(path).startswith("assay/training/")


def test_tasks_open_no_file_and_import_no_torch() -> None:
    for path in house.modules():
        if relative(path).startswith("assay/tasks/"):
            roots = {name.split(".")[0] for name in house.imported(path)}
            assert not roots & {"torch", "transformers", "pathlib", "os", "io", "time", "datetime", "random"}, path
            calls = {node.func.id for node in ast.walk(ast.parse(path.read_text())) if _is_call_by_name(node)}
            assert not calls & {"open", "print"}, path


def _is_call_by_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def test_nothing_prints_but_the_console() -> None:
    for path in house.modules():
        assert not re.search(r"^\s*print\(", path.read_text(encoding="utf-8"), re.M), relative(path)


def test_evidence_can_be_rendered_without_torch() -> None:
    code = (
        "import sys, assay.cli, assay.stages.fingerprint, assay.stages.render_evidence, assay.stages.package\n"
        "heavy = {'torch', 'transformers', 'trl', 'peft'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_setting_is_read_somewhere() -> None:
    from pydantic import BaseModel

    from assay.config import claim, health, package, settings, tasks

    text = "\n".join(path.read_text(encoding="utf-8") for path in house.modules())
    for name, model in [each for module in (claim, health, package, settings, tasks) for each in vars(module).items()]:
        if isinstance(model, type) and issubclass(model, BaseModel) and model is not BaseModel:
            for field in model.model_fields:
                # What is done about odd records is looked up by the name of the kind.
                assert re.search(rf'\.{field}\b|"{field}"', text), f"{name}.{field} is never read"
