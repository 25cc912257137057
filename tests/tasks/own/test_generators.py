"""New records of a task's generator: drawn by plan and policy, none of them there already."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from assay.core.config.composition import Selection, compose
from assay.core.config.reading import parse_params
from assay.core.errors import AssayError
from assay.rollout.dataset.fresh import FreshSuite
from assay.rollout.dataset.wording import content_of
from assay.rollout.tasks.own.task import OwnTask, own_task
from assay.rollout.tasks.protocol import Task
from tests.house import ROOT
from tests.tasks.own.test_adapters import settings

SHIPPED = ("collider", "structured", "lode", "frozen_lake", "rotate_matrix")
PACKAGES = {"frozen_lake": "gymnasium", "rotate_matrix": "reasoning_gym"}


def task_of(name: str) -> Task:
    """Return a shipped task."""
    values = dict(compose(ROOT, Selection("tiny", name, 0)).values)
    params = parse_params(OmegaConf.to_container(OmegaConf.create(values)), None)
    task: Task = params.task.build(params.generation, shaping=False, root=str(ROOT))
    return task


def files_of(name: str, n: int = 200) -> dict[str, bytes]:
    """Return the first records of its files, as they lie beside a first fresh suite."""
    read = {each: (ROOT / f"data/{name}/{each}.jsonl").read_bytes() for each in ("train", "heldout")}
    cut = {each: b"".join(content.splitlines(keepends=True)[:n]) for each, content in read.items()}
    return {"train.jsonl": cut["train"], "heldout_0.jsonl": cut["heldout"]}


def suite(policy: str, n: int = 60) -> FreshSuite:
    """Return a first fresh suite of a policy."""
    return FreshSuite(number=1, plan_digest="p", policy_digest=policy, records=n, heldout_sha256="")


@pytest.mark.parametrize("name", SHIPPED)
def test_equal_policies_draw_equal_records_none_of_which_is_there_already(name: str) -> None:
    if name in PACKAGES:
        pytest.importorskip(PACKAGES[name])
    task, files = task_of(name), files_of(name)
    one, again, other = (suite(policy).draw(task, files) for policy in ("a", "a", "b"))
    assert one is not None and other is not None and one == again
    known = {content_of(json.loads(line)) for text in files.values() for line in text.splitlines()}
    rows = [[json.loads(line) for line in text.splitlines()] for text in (one, other)]
    drawn = [{content_of(row) for row in each} for each in rows]
    assert [len(each) for each in drawn] == [60, 60] and not (drawn[0] | drawn[1]) & known
    assert len(drawn[0] & drawn[1]) <= 3, "jobs are few enough to be met twice"
    assert len({row["id"] for row in rows[0]}) == 60


def own(root: Path, body: str, **changes: Any) -> Task:
    """Return a task whose generator has a body."""
    given = {"abilities": ["generate"], "entry": "task.py:Sums", **changes}
    return own_task(settings(root, "", {}, GENERATOR.replace("{body}", body), **given), str(root))


SEEDS = "".join(json.dumps({"id": f"h{k}", "seed": k, "options": {"low": -0.1}}) + "\n" for k in range(9))
WORLDS = """
def tell(observation):
    return " ".join(f"{x:.4f}" for x in observation)
"""


def test_worlds_of_gymnasium_are_drawn_by_new_seeds_and_what_else_is_known_of_them_is_not_made_up(
    tmp_path: Path,
) -> None:
    pytest.importorskip("gymnasium")
    options = {"id": "CartPole-v1", "text": "task.py:tell", "actions": ["left", "right"]}
    task = own_task(settings(tmp_path, "gymnasium", options, WORLDS), str(tmp_path))
    files = {"heldout_0.jsonl": SEEDS.encode()}
    rows = [json.loads(line) for line in (suite("a", 9).draw(task, files) or "").splitlines()]
    assert len({row["seed"] for row in rows}) == 9 and all(row["options"] == {"low": -0.1} for row in rows)
    assert not {row["seed"] for row in rows} & {*range(9)}
    files = {"heldout_0.jsonl": SEEDS.replace('"seed"', '"way": "far", "seed"').encode()}
    assert suite("a", 9).draw(task, files) is None


GENERATOR = """
from assay.rollout import Environment, Generated, Told


class Sums(Generated, Environment):
    def reset(self, row, seed):
        return row["question"]

    def step(self, completion):
        return Told(None, 0.0)

    def generate(self, rng, n, rows):
        {body}
"""
ADDS = """return [
            {"question": f"What is {a} plus {b}?", "answer": str(a + b)}
            for a, b in rng.integers(50, size=(n, 2)).tolist()
        ]"""
QUESTIONS = b"""{"question":"What is 1 plus 2?","answer":"3"}
{"question":"What is 2 plus 2?","answer":"4"}
"""


@pytest.mark.parametrize("isolation", ["inline", "worker"])
def test_a_generator_of_ones_own_draws_wherever_its_code_runs(tmp_path: Path, isolation: str) -> None:
    task = own(tmp_path, ADDS, isolation=isolation)
    text = suite("a", 40).draw(task, {"heldout_0.jsonl": QUESTIONS}) or ""
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["id"] for row in rows] == [f"fresh-{k:05}" for k in range(1, 41)]
    assert len({row["question"] for row in rows}) == 40
    if isinstance(task, OwnTask) and task.runner is not None:
        task.runner.close()


@pytest.mark.parametrize(
    ("body", "expected", "found"),
    [
        ("return [dict(rows[0]) for _ in range(n)]", "new records", "0 in 20 draws"),
        ("return [{'question': 'What is 7 plus 7?'}]", "2 records", "1"),
        ("return [1] * n", "what generate returns", "an object at 0"),
        ("raise ValueError('nothing left')", "an answer of generate", "nothing left"),
    ],
)
def test_a_generator_that_gives_too_little_or_no_records_is_named(
    tmp_path: Path, body: str, expected: str, found: str
) -> None:
    with pytest.raises(AssayError) as error:
        suite("a", 2).draw(own(tmp_path, body), {"heldout_0.jsonl": QUESTIONS})
    assert expected in error.value.expected and found in error.value.found
