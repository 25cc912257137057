"""What a task of one's own can do beside playing: the example that does all of it, wherever its code runs,
and what is said where an ability is not as it is declared."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from assay.core.config.settings import Params
from assay.core.errors import ConfigError, TaskError
from assay.core.seeds import rng
from assay.core.storage.json import dumps
from assay.core.storage.yaml import read_yaml
from assay.rollout.dataset.suite import Play
from assay.rollout.evaluation.replay import play_baseline
from assay.rollout.policy.base.words import Words
from assay.rollout.tasks.own.recorded import Recorded, Recorder, ToldLine
from assay.rollout.tasks.own.settings import OwnTask as Settings
from assay.rollout.tasks.own.task import OwnState, OwnTask, own_task, runner_of
from assay.rollout.tasks.protocol import answer_key, illustrated, schematic
from assay.rollout.tasks.rivals import players_of, rivals_of
from tests.house import ROOT
from tests.tasks.own.test_lessons import REWARD, settings

SPLITS = ("train", "validation", "heldout", "wide")
PROBE, DIG = '{"act":"probe","plot":2}', '{"act":"dig","plot":7}'


def lode(**changes: Any) -> Settings:
    """Return the settings of the example."""
    given = read_yaml(ROOT / "configs/task/lode.yaml", fix="")["task"]
    return Settings.model_validate(given | changes)


def rows(split: str = "train") -> list[dict[str, Any]]:
    """Return the records of a split."""
    return [json.loads(line) for line in (ROOT / f"data/lode/{split}.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module", params=["inline", "worker"])
def example(request: pytest.FixtureRequest) -> Iterator[OwnTask]:
    """Return the example, its code in this process or in another."""
    given = lode(isolation=request.param)
    runner = runner_of(given, str(ROOT))
    task = own_task(given, None, runner)
    task.learn_from([task.item(row) for row in rows()])
    yield task
    runner.close()


def played(task: OwnTask, *said: str) -> tuple[list[Any], list[Any]]:
    """Return states and steps of the first record."""
    states, steps = [task.start(task.item(rows()[0]), 1)[1]], list[Any]()
    for text in said:
        steps.append(task.step(states[-1], text))
        states.append(steps[-1].state)
    return states, steps


def test_its_records_are_made_by_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = module("make_data", monkeypatch)
    monkeypatch.setattr(made, "FOLDER", tmp_path)
    made.main()
    for name in (*(f"{split}.jsonl" for split in SPLITS), "SHA256SUMS"):
        assert (tmp_path / name).read_bytes() == (ROOT / "data/lode" / name).read_bytes()


def module(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a file of the example."""
    monkeypatch.syspath_prepend(str(ROOT / "tasks/lode"))
    monkeypatch.delitem(sys.modules, "task", raising=False)
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tasks/lode/{name}.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    monkeypatch.delitem(sys.modules, "task", raising=False)
    return found


def test_a_completion_has_an_action_facts_and_an_ending_of_the_tasks_own(example: OwnTask) -> None:
    states, steps = played(example, "x", f"I say {PROBE}", DIG)
    assert [step.outcome for step in steps] == ["failed", "repaired", "ok"]
    assert [step.action for step in steps] == [None, "probe 2", "dig 7"]
    assert [step.ending for step in steps] == [None, None, "dug"]
    verdict = example.judge(states[-1])
    assert verdict.success and verdict.flags == {"near": True, "again": False, "in_field": True}
    assert verdict.metrics == {"probes": 1.0} and example.alarms == {"again": 0.5}
    assert example.valid_flags == ("in_field",)


def test_who_runs_out_of_turns_has_no_facts(example: OwnTask) -> None:
    states, steps = played(example, *[PROBE] * 4)
    assert steps[-1].ending == "out_of_turns"
    assert example.judge(states[-1]).flags == dict.fromkeys(("near", "again", "in_field"))


def test_its_answer_key_gives_it_an_oracle_a_constant_player_and_fields(example: OwnTask) -> None:
    key, item = answer_key(example), example.item(rows()[0])
    assert key is not None and example.ceiling == "gold"
    assert (key.solution(item), key.right_answer(item), key.shape(item)) == (DIG, "7", "8 plots")
    assert key.answer(item, "dig 3") == "3" and example.truth(item) == "7"
    assert {name: each.right for name, each in key.fields(item, "dig 3").items()} == {"plot": False}
    assert key.fields(item, "probe 3") == {}
    alike = [example.item({**rows()[0], "id": str(k)}) for k in range(3)]
    assert [each.kind for each in key.survey(alike)] == ["constant_field"]
    assert "constant" in players_of(example, example.train)
    asked = Params.model_validate(read_yaml(ROOT / "params.yaml", fix="")).evaluation.rivals
    assert {"constant", "constrained", "few_shot", "search", "first"} <= rivals_of(example, asked).keys()


def test_its_schema_its_lessons_and_its_records_are_its_own(example: OwnTask) -> None:
    item, written = example.item(rows()[0]), schematic(example)
    assert (
        written is not None and json.loads(written.answer_schema(item))["properties"]["plot"]["enum"][-1] == 7
    )
    words = Words(example.vocabulary())
    shown = [*example.demonstrations(rng("x"), 20), *example.drills(rng("y"), 20)]
    assert all(words.can_write(each["content"]) for dialogue in shown for each in dialogue)
    assert len(shown) == 40 and shown == [
        *example.demonstrations(rng("x"), 20),
        *example.drills(rng("y"), 20),
    ]
    assert example.examine(rows()[0] | {"plots": "8"})[1][0].kind == "type_spelling"
    assert example.examine(rows()[0])[1] == []
    shorter = example.shortened(item, 3)
    assert shorter is not None and shorter.chars_cut == 3 and shorter.id == item.id
    assert len(example.start(shorter, 0)[0][0]["content"]) + 3 == len(example.start(item, 0)[0][0]["content"])
    assert example.shortened(item, 1000) is None


def test_it_shows_what_was_done(example: OwnTask) -> None:
    states, _ = played(example, PROBE, "x", DIG)
    offer = illustrated(example)
    assert offer is not None and offer.plane[1] == "specks there"
    assert offer.marks == {"gold": True, "rubble": False, "gold not dug": None}
    pictures = offer.pictures(states)
    assert [each.said for each in pictures] == ["", "probe", "unreadable", "dig"]
    assert pictures[-1].panels[0].named == (7.0, 8.0) and pictures[0].panels[0].right == 7.5
    mark = offer.mark(states)
    assert mark is not None and (mark.x, mark.kind) == (7.0, "gold")
    assert sum(offer.spent(states)["turns"].values()) == 1.0


def test_batches_lead_to_what_single_steps_lead_to(example: OwnTask) -> None:
    items = [example.item(row) for row in rows()[:12]]
    opened = example.starts(items, range(12))
    states: list[Any] = [each[1] for each in opened]  # type: ignore[index]
    said = [(PROBE, DIG, "x", PROBE)[k % 4] for k in range(12)]
    together = example.steps(states, said)
    assert together == [example.step(state, text) for state, text in zip(states, said, strict=True)]


def test_only_training_pays_shaping_and_an_episode_pays_the_potential_it_began_with() -> None:
    judged, trained = own_task(lode(), str(ROOT)), own_task(lode(), str(ROOT), shaping=True)
    for said in ((PROBE, DIG), (PROBE, PROBE, "x", PROBE)):
        plain, shaped = played(judged, *said)[1], played(trained, *said)[1]
        assert all("shaping" not in step.parts for step in plain)
        paid = [step.parts["shaping"] for step in shaped]
        assert paid[0] > 0.0
        if shaped[-1].ending == "dug":
            assert sum(paid) == pytest.approx(0.0)  # the potential is 0 at both ends
        assert [step.state.reward for step in shaped] == [step.state.reward for step in plain]
    assert trained.parts["shaping"] == judged.parts["shaping"] == "shaping"


def test_settings_of_a_task_without_abilities_are_written_as_before() -> None:
    new = {"abilities", "flags", "valid_flags", "metrics", "actions", "endings", "shaping", "gamma"}
    assert not new & settings().model_dump(mode="json").keys()
    assert new - {"gamma"} <= lode().model_dump(mode="json").keys()
    assert {"shaping", "gamma"} <= Settings.not_measured  # training alone reads them


def test_a_package_knows_what_the_code_said_of_abilities_without_it() -> None:
    given = lode()
    recorder = Recorder(runner_of(given, str(ROOT)))
    task = own_task(given, None, recorder)
    task.learn_from([task.item(row) for row in rows()])
    words, item = task.vocabulary(), task.item(rows("heldout")[0])
    plays = [Play(item, 0, seed=1, world_seed=2)]
    (episode,) = play_baseline(task, task.baselines()["search"], plays, "search", retries=0)
    task.start(item, 2)
    told = Recorded([ToldLine.model_validate_json(dumps(line)) for line in recorder.lines(Recorded())])
    told.add(item.hidden, 2, episode, given)
    again = own_task(given, None, told)
    again.learn_from(task.train)
    assert again.vocabulary() == words
    step, state = None, again.start(item, 2)[1]
    for turn in episode.turns:
        step = again.step(state, turn.completion)
        state = step.state
        assert (step.outcome, step.action, step.observation) == (turn.outcome, turn.action, turn.observation)
    assert step is not None and step.ending == episode.ending == "dug"
    verdict = again.judge(state)
    assert (verdict.flags, verdict.metrics) == (episode.flags, episode.metrics)
    with pytest.raises(TaskError, match="was not written down"):
        again.solution(item)  # type: ignore[attr-defined]


def test_an_episode_is_not_believed_what_its_task_does_not_declare() -> None:
    row, plain = rows()[0], lode(actions=False, endings=[], flags={}, valid_flags=[], metrics=[])
    task = own_task(lode(), str(ROOT))
    plays = [Play(task.item(row), 0, seed=1, world_seed=2)]
    (episode,) = play_baseline(task, task.baselines()["search"], plays, "search", retries=0)
    told = Recorded()
    told.add(row, 2, episode, plain)
    again = own_task(plain, None, told)
    state = OwnState("train-0001", row, 2, told=({"role": "user", "content": ""},))
    for turn in episode.turns:
        step = again.step(state, turn.completion)
        state = step.state
        assert step.action == turn.completion != turn.action
    assert step.ending == "ended" and again.judge(state).flags == {}


KEY = """
from assay.rollout.tasks.own.api import FieldAnswer

def solution(row):
    return row["answer"]
"""
GUESS = """
from assay.rollout.tasks.own.api import Environment, Told, {mixin}

class Guess(Environment{base}):
    def reset(self, row, seed):
        return row["prompt"]

    def step(self, completion):
        return Told(None, 1.0, success=True{told})
{body}
"""


def written(root: Path, code: str, **changes: Any) -> OwnTask:
    """Return a task whose folder is written first."""
    (root / "mine").mkdir()
    (root / "mine/task.py").write_text(code)
    return own_task(settings(**changes), str(root))


def test_a_reward_functions_file_has_abilities_as_functions(tmp_path: Path) -> None:
    changes = {"success": {"compare": "reward", "at_least": 1.0}, "abilities": ["answer_key", "batch_step"]}
    task = written(tmp_path, REWARD + KEY, **changes)
    items = [task.item({"id": str(k), "prompt": "?", "answer": "abc"[k % 3]}) for k in range(9)]
    key = answer_key(task)
    assert key is not None and [key.solution(item) for item in items[:3]] == ["a", "b", "c"]
    assert key.fields(items[0], "b")["answer"].right is False
    states = [task.start(item, 0)[1] for item in items]
    rewards = [step.parts["reward"] for step in task.steps(states, ["a"] * 9)]  # type: ignore[union-attr]
    assert rewards == [1.0, 0.0, 0.0] * 3 and task.ceiling == "gold"


FACTORY = """
from assay.rollout import Mark, Picture

class Echo:
    def reset(self, prompt, **row):
        self.said = []

    def say(self, word: str) -> str:
        self.said.append(word)
        return word

    def get_reward(self):
        return float(len(self.said))

plane, marks = ("turns", "words"), {"said": True}

def solution(row):
    return row["answer"]

def picture(row, completions):
    return None

def mark(row, completions):
    return Mark(len(completions), 1, "said")

def spent(row, completions):
    return {"turns": {"used": len(completions) / 2}}
"""


@pytest.mark.parametrize("isolation", ["inline", "worker"])
def test_a_public_environments_abilities_stand_beside_its_players(tmp_path: Path, isolation: str) -> None:
    asked = {"entry": "assay.adapters:trl_factory", "options": {"entry": "task.py:Echo"}}
    asked |= {"abilities": ["answer_key", "illustrate"], "max_turns": 2, "isolation": isolation}
    task = written(tmp_path, FACTORY, **asked, success={"compare": "reward", "at_least": 1.0})
    item = task.item({"id": "1", "prompt": "Say it.", "answer": "plum"})
    state = task.start(item, 0)[1]
    end = task.step(state, "plum").state
    key, offer = answer_key(task), illustrated(task)
    assert key is not None and key.solution(item) == "plum"
    assert offer is not None and offer.pictures([state, end]) == [] and offer.mark([state, end]) is not None
    assert offer.spent([state, end]) == {"turns": {"used": 0.5}}
    lacking = settings(
        **asked | {"abilities": ["batch_step"]}, success={"compare": "reward", "at_least": 1.0}
    )
    with pytest.raises(ConfigError, match="step_batch"):
        _ = own_task(lacking, str(tmp_path)).start(item, 0)


OF_CLASS = {"entry": "task.py:Guess", "success": {"compare": "environment"}}


@pytest.mark.parametrize(
    ("code", "changes", "found"),
    [
        (GUESS.format(mixin="Shaped", base=", Shaped", told="", body="    potential = lambda self: 1.0\n"),
         OF_CLASS, "shape among task.abilities"),
        (GUESS.format(mixin="Shaped", base="", told="", body=""), OF_CLASS | {"abilities": ["shape"]},
         "a class of Shaped"),
        (GUESS.format(mixin="Shaped", base=", Shaped", told="", body=""), OF_CLASS | {"abilities": ["shape"]},
         "shape: potential"),
        (GUESS.format(mixin="Illustrated", base=", Illustrated", told="",
                      body="    picture = mark = spent = lambda self: None\n"),
         OF_CLASS | {"abilities": ["illustrate"]}, "illustrate: marks, plane"),
        (REWARD, {"abilities": ["teach"]}, "teach: demonstrations, drills, vocabulary"),
        (REWARD, {"abilities": ["records"]}, "records: oddities, shortened"),
    ],
)  # fmt: skip
def test_an_ability_that_is_not_there_or_not_declared_is_named(
    tmp_path: Path, code: str, changes: dict[str, Any], found: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        written(tmp_path, code, **changes)
    assert found in raised.value.expected and "task.abilities" in raised.value.fix


@pytest.mark.parametrize(
    ("told", "changes", "found"),
    [
        (", flags={'odd': True}", {}, "odd"),
        (", flags={'odd': 1}", {"flags": {"odd": None}}, "flag odd is 1"),
        (", metrics={'size': 2}", {}, "size"),
        (", metrics={'size': float('nan')}", {"metrics": ["size"]}, "metric size is nan"),
        (", ending='left'", {}, "left"),
        (", action='x'", {}, "action"),
        (", repaired=True", {}, "action"),
    ],
)
def test_what_a_task_says_undeclared_or_wrongly_stops_it(
    tmp_path: Path, told: str, changes: dict[str, Any], found: str
) -> None:
    task = written(tmp_path, GUESS.format(mixin="Shaped", base="", told=told, body=""), **OF_CLASS | changes)
    state = task.start(task.item({"prompt": "?", "answer": "a"}), 0)[1]
    with pytest.raises(TaskError, match=found):
        task.step(state, "a")


@pytest.mark.parametrize(
    ("ability", "body", "ask"),
    [
        ("answer_key", "    def solution(self, row):\n        return 3\n", lambda t, i: t.solution(i)),
        ("answer_key", "    def solution(self, row):\n        return {}['x']\n", lambda t, i: t.solution(i)),
        ("schema", "    def answer_schema(self, row):\n        return [1]\n",
         lambda t, i: t.answer_schema(i)),
        ("schema", "    def answer_schema(self, row):\n        return {'x': float('inf')}\n",
         lambda t, i: t.answer_schema(i)),
        ("records", "    def oddities(self, row):\n        return ['odd']\n",
         lambda t, i: t.examine(i.hidden)),
    ],
)  # fmt: skip
def test_an_ability_that_gives_something_else_is_named(
    tmp_path: Path, ability: str, body: str, ask: Callable[[Any, Any], Any]
) -> None:
    mixin = {"answer_key": "AnswerKey", "schema": "JsonAnswers", "records": "Records"}[ability]
    code = GUESS.format(mixin=mixin, base=f", {mixin}", told="", body=body)
    task = written(tmp_path, code, **OF_CLASS | {"abilities": [ability]})
    method = body.split("def ")[1].split("(")[0]
    with pytest.raises(TaskError) as raised:
        ask(task, task.item({"prompt": "?", "answer": "a"}))
    assert method in str(raised.value)


def test_a_batch_that_fails_is_played_one_by_one_so_that_what_is_at_fault_is_named(tmp_path: Path) -> None:
    body = """
    @staticmethod
    def step_batch(environments, completions):
        return [Told(None, 1 / len(said), success=True) for said in completions]
"""
    code = GUESS.format(mixin="Batched", base=", Batched", told="", body=body)
    code = code.replace("Told(None, 1.0", "Told(None, 1 / len(completion)")
    task = written(tmp_path, code, **OF_CLASS | {"abilities": ["batch_step"]})
    states = [task.start(task.item({"id": str(k), "prompt": "?", "answer": "a"}), 0)[1] for k in range(3)]
    with pytest.raises(TaskError) as raised:
        task.steps(states, ["a", "", "b"])
    assert raised.value.where == "item 1"
