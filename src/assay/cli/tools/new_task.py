"""`assay task new NAME`: the files of a task of one's own, which run as they are and wait to be changed.

They are those of the example `words`, so what a new task begins with is what is measured and tested there.
"""

from __future__ import annotations

import re
from pathlib import Path

from assay.core.console import say
from assay.core.errors import ConfigError
from assay.core.storage.files import read_text, write_text

NAME = re.compile(r"[a-z][a-z0-9_]*")
EXAMPLE = "words"
RECORDS = ("train.jsonl", "validation.jsonl", "heldout.jsonl", "SHA256SUMS")
ABOUT = "# A task of one's own: docs/own-task.md says what each line means and what else there is.\n"
TEST = '''\
"""What the reward of NAME pays: ./run test tasks/test_NAME.py."""

import json
import runpy
from pathlib import Path

HERE = Path(__file__).resolve().parent
RIGHT = "answer"  # the column of the records that says what is right
TASK = runpy.run_path(str(HERE / "NAME/task.py"))


def paid(**columns):
    """What each completion earns; of a reward of named parts, their sum."""
    found = TASK["reward"](**columns)
    return [round(sum(each.values()) if isinstance(each, dict) else each, 9) for each in found]


def test_the_right_word_earns_most_another_little_and_silence_nothing():
    # Of the example's reward: write down what yours pays.
    prompts, answers = ["pick: plum *reed fern dust"] * 4, ["reed"] * 4
    said = ["reed\\n", "fern", "", "plum reed fern dust"]
    assert paid(prompts=prompts, completions=said, answer=answers) == [1.0, 0.1, 0.0, 0.0]


def test_what_the_records_call_right_earns_most():
    for path in (HERE.parent / "data/NAME").glob("*.jsonl"):
        # Of bytes, where a U+2028 in a text ends no row.
        rows = [json.loads(line) for line in path.read_bytes().splitlines()]
        columns = {name: [row.get(name) for row in rows] for row in rows[:1] for name in row}
        assert RIGHT in columns, f"{path.name} has {', '.join(columns)}: name one of them as RIGHT"
        said = [str(right) for right in columns[RIGHT]]
        prompts = columns.pop("prompt")
        assert set(paid(prompts=prompts, completions=said, **columns)) == {1.0}
'''


def run(root: Path, name: str) -> None:
    """Write a task, its preset, a test of its reward and records to begin with, and say how to go on.

    Raises:
        ConfigError: The name is none, or a file is there already.
        AssayError: The example they are made of is gone.
    """
    if not NAME.fullmatch(name):
        near = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_0123456789") or "my_task"
        raise ConfigError(
            "a name of a-z, 0-9 and _ that begins with a letter",
            found=repr(name),
            where="assay task new",
            fix=f"./run assay task new {near}",
        )
    files = _files(root, name)
    if there := [place for place in files if (root / place).exists()]:
        fix = "choose another name; to begin again, remove it first"
        raise ConfigError("a new task", found="a file that is there", where=there[0], fix=fix)
    for place, text in files.items():
        write_text(root / place, text)
    own = f"--task {name} --fix-splits --data data/{name} --force"
    for line in (
        *(f"wrote {place}" for place in files),
        "it runs as it is; make the reward yours, and its test with it, then:",
        f"  ./run test tasks/test_{name}.py",
        f"  ./run assay task audit MINE.jsonl {own}   # your records instead",
        f"  ./run assay task check {name}",
        f"  ./run assay config use task={name} grpo={name}   # which the audit wrote; grpo=tiny without one",
        "  ./run repro",
    ):
        say(line)


def _files(root: Path, name: str) -> dict[str, str]:
    def example(place: str) -> str:
        return read_text(root / place, fix=f"git checkout -- {place}")

    preset = example(f"configs/task/{EXAMPLE}.yaml")
    preset = re.sub(r"(?m)^# (?!@).*\n", "", preset).replace(f"/{EXAMPLE}", f"/{name}")
    head, _, rest = preset.partition("\n")
    return {
        f"tasks/{name}/task.py": example(f"tasks/{EXAMPLE}/task.py"),
        f"tasks/test_{name}.py": TEST.replace("NAME", name),
        f"configs/task/{name}.yaml": f"{head}\n{ABOUT}{rest}",
        **{f"data/{name}/{file}": example(f"data/{EXAMPLE}/{file}") for file in RECORDS},
    }
