"""`assay task new`: what it writes runs as it is, is nobody else's, and takes records of one's own."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from assay.checks.own_data.audit import project_for
from assay.cli.tools import new_task
from assay.core.errors import ConfigError
from assay.core.storage.yaml import read_yaml
from tests.calling import called
from tests.house import ROOT

WRITTEN = ("tasks/mine/task.py", "tasks/test_mine.py", "configs/task/mine.yaml", "data/mine/train.jsonl")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with the example and nothing else."""
    for name in ("configs", "tasks/words", "data/words"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    return tmp_path


def tried(root: Path) -> subprocess.CompletedProcess[str]:
    """Run the test that was written."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tasks/test_mine.py"]
    return subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)


def test_it_writes_a_task_with_preset_records_and_a_test_that_passes(root: Path) -> None:
    done = called(root, "task", "new", "mine")
    assert done.returncode == 0, done.stderr
    for place in WRITTEN:
        assert (root / place).is_file() and place in done.stdout
    for line in (root / "data/mine/SHA256SUMS").read_text().splitlines():
        value, _, name = line.partition("  ")
        assert hashlib.sha256((root / "data/mine" / name).read_bytes()).hexdigest() == value
    assert tried(root).returncode == 0, tried(root).stdout
    with (root / "data/mine/train.jsonl").open("a", encoding="utf-8") as stream:  # U+2028 ends no row
        stream.write('{"prompt": "pick:\u2028 *reed fern", "answer": "reed", "id": "more"}\n')
    assert tried(root).returncode == 0, tried(root).stdout
    with (root / "tasks/mine/task.py").open("a", encoding="utf-8") as stream:  # of named parts
        stream.write("\n\nnumber = reward\n\n\ndef reward(**columns):\n")
        stream.write("    return [{'good': one / 4, 'best': 3 * one / 4} for one in number(**columns)]\n")
    assert tried(root).returncode == 0, tried(root).stdout
    (root / "tasks/mine/task.py").write_text("def reward(prompts, completions, answer):\n    return []\n")
    assert tried(root).returncode == 1


@pytest.mark.long
def test_what_it_says_to_do_next_leads_on_in_that_order(root: Path) -> None:
    told = called(root, "task", "new", "mine").stdout
    (root / "MINE.jsonl").write_text(
        "".join(f'{{"prompt": "pick: a{n} *b{n} c{n}", "answer": "b{n}", "id": "r{n}"}}\n' for n in range(80))
    )
    steps = [line.partition("   #")[0].split()[1:] for line in told.split("\n") if line.startswith("  ./run")]
    assert [step[:3] for step in steps] == [
        ["test", "tasks/test_mine.py"],
        ["assay", "task", "audit"],
        ["assay", "task", "check"],
        ["assay", "config", "use"],
        ["repro"],
    ]
    assert tried(root).returncode == 0
    for step in (steps[1], steps[3]):
        done = called(root, *step[1:])
        assert done.returncode == 0, done.stderr
    assert tried(root).returncode == 0  # of the records that are there now


@pytest.mark.long
def test_its_test_says_which_columns_there_are_where_the_records_name_what_is_right_otherwise(
    root: Path,
) -> None:
    new_task.run(root, "mine")
    for path in (root / "data/mine").glob("*.jsonl"):
        path.write_text(path.read_text().replace('"answer"', '"word"'))
    task = root / "tasks/mine/task.py"
    task.write_text(task.read_text().replace("answer", "word"))
    test = root / "tasks/test_mine.py"
    test.write_text(test.read_text().replace("answer=answers", "word=answers"))
    done = tried(root)
    assert done.returncode == 1 and "name one of them as RIGHT" in done.stdout and "word" in done.stdout
    test.write_text(test.read_text().replace('RIGHT = "answer"', 'RIGHT = "word"'))
    assert tried(root).returncode == 0, tried(root).stdout


def test_its_preset_is_the_examples_but_for_its_places(root: Path) -> None:
    new_task.run(root, "mine")
    made, example = (
        read_yaml(root / f"configs/task/{name}.yaml", fix="none") for name in ("mine", new_task.EXAMPLE)
    )
    assert made["task"].pop("code") == "tasks/mine"
    assert made["dataset"].pop("root") == "data/mine"
    del example["task"]["code"], example["dataset"]["root"]
    assert made == example


def test_it_plays_what_it_wrote(root: Path) -> None:
    new_task.run(root, "mine")
    task = project_for(root, "mine").task()
    row = {"id": "1", "prompt": "pick: plum *reed fern dust", "answer": "reed"}
    _, state = task.start(task.item(row), 0)
    step = task.step(state, "reed")
    assert dict(step.parts) == {"reward": 1.0} and task.judge(step.state).success


@pytest.mark.parametrize("place", WRITTEN)
def test_nothing_that_is_there_is_overwritten(root: Path, place: str) -> None:
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).write_text("mine")
    with pytest.raises(ConfigError, match="expected a new task") as caught:
        new_task.run(root, "mine")
    assert place in str(caught.value)
    assert [each for each in WRITTEN if (root / each).exists()] == [place]
    assert (root / place).read_text() == "mine"


@pytest.mark.parametrize("name", ["My Task", "../mine", "1st", "", "a-b", "mine\n"])
def test_what_is_no_name_is_refused_with_one_that_is(root: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"\./run assay task new [a-z]") as caught:
        new_task.run(root, name)
    near = str(caught.value).rsplit(" ", 1)[1]
    assert new_task.NAME.fullmatch(near)


def test_records_of_ones_own_take_the_place_of_the_first_ones(root: Path) -> None:
    new_task.run(root, "mine")
    (root / "mine.jsonl").write_text(
        "".join(f'{{"prompt": "pick: a{n} *b{n} c{n}", "answer": "b{n}", "id": "r{n}"}}\n' for n in range(60))
    )
    told = called(root, "task", "audit", "mine.jsonl", "--task", "mine")
    assert told.returncode == 0, told.stderr
    asked = "--fix-splits --task mine --data data/mine --force"
    assert asked in told.stdout and "tiny: runs here" in told.stdout
    done = called(root, "task", "audit", "mine.jsonl", *asked.split())
    assert done.returncode == 0, done.stderr
    rows = sum(
        (root / f"data/mine/{split}.jsonl").read_text().count("\n")
        for split in ("train", "validation", "heldout")
    )
    assert rows == 60
    assert "hf download" not in done.stdout  # a base is built from the lessons of the train records
    items = read_yaml(root / "configs/grpo/mine.yaml", fix="none")["evaluation"]["items"]
    assert items == (root / "data/mine/heldout.jsonl").read_text().count("\n")
