"""`assay task audit` on files as they come: a table, an audit.json and an exit code, and on hostile ones
never a traceback."""

from __future__ import annotations

import copy
import json
import os
import shutil
from functools import cache
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from assay.checks.own_data.advice import MachineSize, find_fitting, make_preset
from assay.checks.own_data.audit import project_for
from assay.core import console
from assay.core.config.composition import selected, use
from assay.core.storage.yaml import read_yaml
from assay.pipeline.project import Project
from assay.rollout.dataset.suite import FEWEST_CLUSTERS, MORE_HELD_OUT
from assay.stages import fingerprint
from assay.verdict.statistics.bounded_mean import clusters_needed, smallest_certain_gain
from tests import calling, own_data, templates
from tests.calling import assay
from tests.own_data import jsonl, row

SOUND = jsonl([row(number) for number in range(60)])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project, and in it a folder with schema files for tasks; beside the project a secret."""
    project = tmp_path / "project"
    project.mkdir()
    own_data.copy_project(project)
    own_data.write_data(project)
    (project / "data/mine").rename(project / "raw")
    (tmp_path / "secret.json").write_text('{"title": "the secret"}')
    return project


def called(root: Path, *words: str) -> tuple[int, str]:
    """Return exit code and messages of a call in this process."""
    done = calling.called(root, "task", "audit", *words)
    return done.returncode, done.stdout + done.stderr


def fix_of(told: str) -> list[str]:
    """Return the words of the fix that a message names, without what explains it."""
    return told.partition("Fix: ")[2].partition("\n")[0].partition("   ")[0].split()


def write(root: Path, content: bytes, name: str = "raw/tasks.jsonl") -> str:
    (root / name).write_bytes(content)
    return name


@pytest.mark.usefixtures("advised")
def test_a_usable_file_is_told_with_its_oddities_and_exit_code_0(root: Path) -> None:
    name = write(root, b"\n" + SOUND + jsonl([row(7), row(61, id=None)]))
    done = calling.called(root, "task", "audit", name, "--out", "report")
    assert done.returncode == 0, done.stderr
    for word in ("duplicate_record", "derived_id", "blank_line", "61 usable", "1 left out"):
        assert word in done.stdout
    found = json.loads((root / "report/audit.json").read_text())
    assert found["kinds"]["duplicate_record"]["first"][0]["line"] == 62
    assert found["kept"] == {"tasks": 61}


def test_an_unusable_file_has_its_audit_written_and_exit_code_1(root: Path) -> None:
    name = write(root, SOUND + b"NaN\n")
    done = assay(root, "task", "audit", name)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    for word in ("unreadable", "line 61", "Fix: "):
        assert word in done.stderr
    assert json.loads((root / "audit.json").read_text())["kinds"]["unreadable"]["count"] == 1


HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "nan": b'{"prompt": "x", "schema": {}, "gold": {"a": NaN}}\n',
    "utf-16": "\ufeff{}".encode("utf-16-le"),
    "escapes of a terminal": jsonl([row(1, id="\x1b[2J\x1b]0;x\x07", gold={"name": ""})]),
    "climbing": jsonl([row(1, schema_path="../../secret.json")]),
    "link": jsonl([row(1, schema_path="link.json")]),
    "network": jsonl([row(1, schema_path="network.json")]),
    "types": b'{"id": [], "prompt": {}, "schema": 3, "gold": "x", "schema_path": {}, "functions": 1}\n',
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_a_hostile_file_is_refused_in_words_without_a_look_outside(root: Path, name: str) -> None:
    (root / "raw/link.json").symlink_to(root.parent / "secret.json")
    (root / "raw/network.json").write_text('{"$ref": "https://example.com/x.json"}')
    tasks = write(root, HOSTILE[name])
    code, told = called(root, tasks)
    assert code == 1
    assert "Fix: " in told
    for place in (told, *(path.read_text() for path in root.glob("audit.json"))):
        assert "the secret" not in place
        assert str(root.parent) not in place


@pytest.mark.parametrize("tasks", ["none.jsonl", "raw", "/dev/zero", "raw/pipe.jsonl", "\udcff"])
def test_what_is_no_file_is_refused_in_words(root: Path, tasks: str) -> None:
    os.mkfifo(root / "raw/pipe.jsonl")
    code, told = called(root, tasks)
    assert code == 1
    assert "Fix: " in told


ALIASES, NESTED, LONG = "a: &a [1]\nb: [*a, *a]\n", "a: " + "[" * 100_000, "# " + "x" * 1_100_000


@pytest.mark.parametrize(
    ("name", "bomb"),
    [
        ("task/structured", ALIASES),
        ("grpo/tiny", ALIASES),
        ("config", ALIASES),
        ("config", NESTED),
        ("config", LONG),
    ],
)
def test_a_bomb_in_a_preset_is_refused_before_anything_expands_it(root: Path, name: str, bomb: str) -> None:
    path = root / f"configs/{name}.yaml"
    path.write_text(path.read_text() + bomb)
    code, told = called(root, write(root, SOUND))
    assert code == 1
    assert path.name in told


def test_an_unknown_preset_lists_the_known_ones(root: Path) -> None:
    code, told = called(root, write(root, SOUND), "--task", "structurd")
    assert code == 1
    assert "task=structured" in told


def test_of_a_selected_preset_that_was_removed_the_command_is_named_that_selects_another(root: Path) -> None:
    (root / f"configs/grpo/{selected(root).grpo}.yaml").unlink()
    code, told = called(root, write(root, SOUND))
    assert code == 1
    assert "Fix: ./run assay config use grpo=PRESET" in told and "pretrained" in told
    use(root, grpo="pretrained", task=None, seed=None)
    assert called(root, "raw/tasks.jsonl")[0] == 0


@pytest.mark.parametrize("task", [None, "words"])
def test_the_presets_that_a_file_is_read_by_are_told(root: Path, task: str | None) -> None:
    shutil.copytree(own_data.ROOT / "tasks", root / "tasks")
    rows = [{"prompt": f"pick: a{n} *b{n}", "answer": f"b{n}"} | row(n) for n in range(20)]
    more = [] if task is None else ["--task", task]
    code, told = called(root, write(root, jsonl(rows)), *more)
    assert code == 0, told
    assert f"(read by task={task or 'structured'} grpo={selected(root).grpo})" in told


@pytest.mark.usefixtures("advised")
def test_few_held_out_clusters_are_told_with_the_option_that_holds_out_more(root: Path) -> None:
    tasks = write(root, SOUND)
    code, told = called(root, tasks, "--fix-splits")
    needed = clusters_needed(np.ones(6), gain=0.1)
    assert code == 0 and "heldout has 6 clusters: a test needs 6 of such sizes" in told
    assert f"{needed} to show that each gained 10 points; {MORE_HELD_OUT} holds out 24" in told
    write(root, jsonl([row(n) for n in range(120)]))
    code, told = called(root, tasks, "--fix-splits", "--force", *MORE_HELD_OUT.split())
    assert code == 0 and "heldout 48" in told and "a test needs" not in told
    page = " ".join((own_data.ROOT / "docs/own-data.md").read_text(encoding="utf-8").split())
    assert f"fewer than {FEWEST_CLUSTERS} clusters" in page and f"takes {needed}" in page
    assert MORE_HELD_OUT in page


TOO_FEW: dict[str, tuple[list[dict[str, object]], str]] = {
    "2 records": ([row(n) for n in range(2)], "no split of 2 clusters can show anything"),
    "12 records": ([row(n) for n in range(12)], "no split of 12 clusters can show 10 points, 45 at most"),
    "a chain": (templates.queries(400, answer=False), "no split of 6 clusters can show anything"),
    "one that outweighs all": ([row(n, family=max(0, n - 200)) for n in range(210)], "10 clusters"),
}


@pytest.mark.usefixtures("advised")
@pytest.mark.parametrize("name", TOO_FEW)
def test_too_few_clusters_are_refused_with_what_they_can_show_and_nothing_is_written(
    root: Path, name: str
) -> None:
    rows, most = TOO_FEW[name]
    asked = [each if "schema_path" in each else {"schema": {"type": "object"}, **each} for each in rows]
    before = sorted((root / "configs").rglob("*"))
    code, told = called(root, write(root, jsonl(asked)), "--fix-splits")
    assert code == 1 and most in told and "Fix: add records" in told, told
    assert "--fractions" not in told  # it would not help
    assert ("the largest is a chain" in told) == (name == "a chain")
    assert sorted((root / "configs").rglob("*")) == before and not list((root / "data").iterdir())


@pytest.mark.usefixtures("advised")
def test_of_clusters_that_are_enough_for_a_test_and_not_for_the_plan_it_is_said_what_they_show(
    root: Path,
) -> None:
    families = write(root, jsonl([row(n, family=n % 12) for n in range(600)]))
    code, told = called(root, families, "--fix-splits")
    best = round(100 * (smallest_certain_gain(np.ones(12)) or 0))
    assert code == 0 and f"no split of 12 clusters can show 10 points, {best} at most" in told
    assert "--fractions" not in told


@pytest.mark.usefixtures("advised")
@pytest.mark.parametrize("name", ["family", "template_id", "cluster"])
def test_families_that_are_split_are_told_with_the_option_that_keeps_each_whole(
    root: Path, name: str
) -> None:
    rows = [{**row(n), name: f"customer {n % 30}"} for n in range(120)]
    code, told = called(root, write(root, jsonl(rows)), "--fix-splits")
    assert code == 0 and "in several splits: " in told and f"such as {name} customer" in told, told
    assert "--whole-families keeps each in one split" in told
    code, told = called(root, "raw/tasks.jsonl", "--fix-splits", "--force", "--whole-families")
    assert code == 1 and "Fix: --fractions" in told, told  # families are fewer than records
    code, told = called(root, "raw/tasks.jsonl", "--fix-splits", "--force", "--whole-families", *fix_of(told))
    assert code == 0 and "in several splits" not in told, told
    split = [
        {json.loads(line)[name] for line in (root / f"data/tasks/{part}.jsonl").read_text().splitlines()}
        for part in ("train", "validation", "heldout")
    ]
    assert sum(map(len, split)) == len(set.union(*split)) == 30


@pytest.mark.usefixtures("advised")
@pytest.mark.parametrize("n", [20, 30, 45, 55])
def test_where_other_shares_give_suites_enough_they_are_named_and_lead_on(root: Path, n: int) -> None:
    tasks = write(root, jsonl([row(k) for k in range(n)]))
    code, told = called(root, tasks, "--fix-splits")
    assert code == 1 and "Fix: --fractions" in told and not list((root / "data").iterdir())
    code, told = called(root, tasks, "--fix-splits", *fix_of(told))
    assert code == 0, told


@pytest.mark.usefixtures("advised")
def test_splits_are_made_with_schemas_checksums_and_a_preset_and_pass_the_fingerprint(root: Path) -> None:
    name = write(root, SOUND + jsonl([row(n, id=f"again{n}") for n in range(20)]))
    code, told = called(root, name, "--fix-splits")
    assert code == 1 and "6 in heldout, which needs 8" in told  # some prompts come twice
    done = calling.called(root, "task", "audit", name, "--fix-splits", *fix_of(told))
    assert done.returncode == 0, done.stderr
    for word in ("./run assay config use task=tasks", "./run repro", "evaluation.items"):
        assert word in done.stdout
    folder = root / "data/tasks"
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    schemas = {"schemas/parts/text.json", "schemas/person.json"}
    assert written == {"SHA256SUMS", "heldout.jsonl", "train.jsonl", "validation.jsonl"} | schemas
    project = project_for(root, "tasks")
    assert project.params.dataset.root == "data/tasks"
    assert getattr(project.params.task, "lessons", "none") is None
    small = {
        name: getattr(project.params, name).model_copy(update={"items": 2})
        for name in ("evaluation", "validation")
    }
    fingerprint.run(Project(root, project.params.model_copy(update=small)))


def test_a_missing_folder_of_schemas_is_told_once_with_every_place_where_it_was_looked_for(
    root: Path,
) -> None:
    rows = [row(n, schema_path=f"nowhere/{n % 3}.json") for n in range(40)]
    done = calling.called(root, "task", "audit", write(root, jsonl([*rows, row(50)])))
    assert done.returncode == 1
    told = [line for line in done.stdout.split("\n") if "nowhere" in line]
    assert len(told) == 2, done.stdout  # the row of the table, and where it was looked for
    assert "raw/nowhere and nowhere" in told[1] and " 40 " in told[0]
    assert "41 records: 1 usable, 40 refused" in done.stdout
    found = json.loads((root / "audit.json").read_text())
    assert [each["line"] for each in found["kinds"]["unreadable"]["first"]] == list(range(1, 41))
    assert (found["usable"], found["refused"]) == ({"tasks": 1}, {"tasks": 40})


def test_contradicting_golds_set_a_ceiling_and_are_not_among_what_is_usable(root: Path) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    asked = {"prompt": "Ana or Bo?", "schema_path": None, "schema": schema}
    golds = [row(100 + n, **asked, gold={"name": name}) for n, name in enumerate(("Ana", "Ana ", "Bo"))]
    _, told = called(root, write(root, SOUND + jsonl(golds)))
    assert "no policy can exceed 98.5 % success: 1 prompt has contradicting golds (3 of 63 records)" in told
    assert "63 records: 60 usable, 3 refused" in told
    ceiling = json.loads((root / "audit.json").read_text())["ceilings"]["tasks"]
    assert ceiling["most_success"] == pytest.approx(62 / 63)


def test_calls_with_an_accepted_value_in_common_set_no_ceiling(root: Path) -> None:
    functions = [{"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}]
    asked = {"prompt": "1, 2 or 3?", "schema_path": None, "functions": functions}
    for second, n in (([2, 3], 0), ([3], 1)):
        golds = [row(n, **asked, gold={"f": {"x": values}}) for n, values in enumerate(([1, 2], second))]
        called(root, write(root, jsonl(golds)))
        assert len(json.loads((root / "audit.json").read_text())["ceilings"]) == n


@pytest.mark.long
def test_the_advice_names_no_preset_that_cannot_run_and_writes_one_that_composes(root: Path) -> None:
    tasks = write(root, SOUND)
    _, plain = called(root, tasks)
    assert "tiny: no: its base is built from the lessons" in plain and "--fix-splits" in plain
    _, done = called(root, tasks, "--fix-splits")
    assert "./run assay config use task=tasks grpo=tasks" in done
    use(root, grpo="tasks", task="tasks", seed=None)
    fingerprint.run(Project.open(root))  # its suites are no larger than the splits


@pytest.fixture
def advised(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fits is asked once of the shipped presets, for tests of splits: it reads them all, and twice a
    call."""
    for place in ("advice", "audit", "splits"):
        monkeypatch.setattr(
            f"assay.checks.own_data.{place}.find_fitting", lambda *_, **__: copy.deepcopy(_fitting())
        )


@cache
def _fitting() -> tuple[list[str], list[str]]:
    return find_fitting(own_data.ROOT, MachineSize(None, 16 * 2**30, 4))


@pytest.mark.parametrize(
    ("gpu", "fits"),
    [
        (None, ["cpu_smollm2_135m"]),
        (24, ["4090_qwen3_8b", "8gb_qwen3", "cpu_smollm2_135m", "pretrained"]),
        (8, ["8gb_qwen3", "pretrained"]),
        (80, ["h100_qwen3", "pretrained"]),
    ],
)
def test_a_preset_fits_a_machine_by_its_gpu(gpu: int | None, fits: list[str]) -> None:
    found, lines = find_fitting(own_data.ROOT, MachineSize(gpu and gpu * 2**30, 16 * 2**30, 4))
    assert set(fits) <= set(found) and "tiny" not in found
    assert (found[0] == "pretrained") == ("pretrained" in found) == (gpu is not None)
    assert ("h100_qwen3" in found) == (gpu == 80) and ("12gb_qwen3" in found) == (gpu in (24, 80))
    assert len(lines) > len(found)


def split_of_each(root: Path, folder: str) -> dict[str, str]:
    return {
        json.loads(line)["id"]: path.stem
        for path in (root / folder).glob("*.jsonl")
        for line in path.read_text().split("\n")
        if line
    }


@pytest.mark.usefixtures("advised")
def test_equal_records_and_seed_make_equal_splits_in_any_order(root: Path) -> None:
    tasks = write(root, SOUND)
    assert called(root, tasks, "--fix-splits", "--data", "data/one")[0] == 0
    write(root, jsonl([row(n) for n in reversed(range(60))]))
    assert called(root, tasks, "--fix-splits", "--data", "data/two")[0] == 0
    assert split_of_each(root, "data/one") == split_of_each(root, "data/two")
    assert called(root, tasks, "--fix-splits", "--data", "data/other", "--seed", "1")[0] == 0
    assert split_of_each(root, "data/other") != split_of_each(root, "data/one")


@pytest.mark.usefixtures("advised")
def test_data_that_are_there_are_not_overwritten_unless_told_to(root: Path) -> None:
    tasks = write(root, SOUND)
    assert called(root, tasks, "--fix-splits")[0] == 0
    preset = root / "configs/task/tasks.yaml"
    preset.write_text(preset.read_text() + "# mine\n")
    before = {path: path.read_bytes() for path in (root / "data/tasks").rglob("*") if path.is_file()}
    (root / "data/tasks/README.md").write_text("mine")
    write(root, jsonl([row(n, schema_path=None, schema={"type": "object"}) for n in range(100)]))
    code, told = called(root, tasks, "--fix-splits")
    assert code == 1
    assert "--force" in told
    assert {path: path.read_bytes() for path in before} == before
    code, told = called(root, tasks, "--fix-splits", "--force", "--fractions", "0.4,0.1,0.5")
    assert code == 0
    items = read_yaml(root / "configs/grpo/tasks.yaml", fix="-")["evaluation"]["items"]
    held_out = len((root / "data/tasks/heldout.jsonl").read_text().splitlines())
    assert items != held_out and f"its evaluation.items is {items}, heldout has {held_out}" in told
    _, fix, more = told.partition("Fix: rm ")
    (root / more.partition(",")[0]).unlink()
    assert fix and "call this again with --force" in more
    code, told = called(root, tasks, "--fix-splits", "--force", "--fractions", "0.4,0.1,0.5")
    assert code == 0 and "Fix: " not in told
    items = read_yaml(root / "configs/grpo/tasks.yaml", fix="-")["evaluation"]["items"]
    assert items == held_out
    names = sorted(path.name for path in (root / "data/tasks").rglob("*") if path.is_file())
    assert names == ["README.md", "SHA256SUMS", "heldout.jsonl", "train.jsonl", "validation.jsonl"]
    assert preset.read_text().endswith("# mine\n")


def test_a_preset_is_made_like_a_shipped_one_and_never_like_that_of_other_data(root: Path) -> None:
    machine = MachineSize(None, 16 * 2**30, 4)
    first = make_preset(root, machine, {"train": 9, "validation": 2, "heldout": 3})
    for group in ("grpo", "task"):
        (root / f"configs/{group}/aaa.yaml").write_text(first[1])  # which would be found before all others
    assert make_preset(root, machine, {"train": 900, "validation": 200, "heldout": 300})[0] == first[0]


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (["--data", "data/My-Tasks"], "--data data/my_tasks"),
        (["--data", "../outside"], "--data"),
        (["--data", "/tmp/outside"], "--data"),
        (["--data", "raw"], "outside the folder"),
        (["--fractions", "0.5,0.5"], "0.8,0.1,0.1"),
        (["--fractions", "0.9,0.1,0"], "0.8,0.1,0.1"),
        (["--fractions", "a,b,c"], "0.8,0.1,0.1"),
        (["--fractions", "nan,nan,nan"], "0.8,0.1,0.1"),
        (["--fractions", "0.999,0.0005,0.0005"], "--fractions"),
    ],
)
def test_splits_that_cannot_be_are_refused_before_anything_is_written(
    root: Path, more: list[str], word: str
) -> None:
    presets = sorted((root / "configs/task").iterdir())
    code, told = called(root, write(root, SOUND), "--fix-splits", *more)
    assert code == 1
    assert word in told
    assert not list((root / "data").iterdir())
    assert sorted((root / "configs/task").iterdir()) == presets


def test_unusable_records_make_no_splits(root: Path) -> None:
    code, _ = called(root, write(root, SOUND + b"{}\n"), "--fix-splits")
    assert code == 1
    assert not list((root / "data").iterdir())


@pytest.mark.usefixtures("advised")
def test_a_file_outside_the_project_may_be_named_and_brings_its_own_schemas(root: Path) -> None:
    shutil.copytree(root / "raw", root.parent / "elsewhere")
    shutil.rmtree(root / "raw")
    tasks = root.parent / "elsewhere/tasks.jsonl"
    tasks.write_bytes(SOUND)
    assert called(root, str(tasks), "--fix-splits")[0] == 0
    assert (root / "data/tasks/schemas/parts/text.json").is_file()


def test_collider_data_can_be_looked_at_too(root: Path) -> None:
    path = own_data.ROOT / "data/collider/validation.jsonl"
    code, told = called(root, str(path), "--task", "collider")
    assert code == 0
    assert "256 usable" in told


def test_what_data_say_cannot_steer_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out = StringIO()
    monkeypatch.setattr(console, "_OUT", Console(file=out, soft_wrap=True, highlight=False, markup=False))
    console.say_table(("a", "b"), [("\x1b[2J[red]x", "\udcff\u202e\nnext")])
    console.say("\x07\udcff[red]")
    assert out.getvalue() == "a              b\n\\x1b[2J[red]x  \\udcff\\u202e next\n\\x07\\udcff[red]\n"
