"""A base from scratch is taught what train records and players say, whatever the task."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.config.settings import ScratchBase
from assay.core.errors import ConfigError, PolicyError, TaskError
from assay.core.seeds import rng
from assay.rollout.policy.base.limits import MOST_WORDS, refuse_too_large
from assay.rollout.policy.base.words import Words
from assay.rollout.tasks.own.settings import OwnTask as Settings
from assay.rollout.tasks.own.task import OwnTask, own_task
from assay.rollout.tasks.own.vocabulary import words_in

NAMES = ["ash", "elm", "fir", "oak", "yew", "bay", "box", "fig", "ivy", "may"]
REWARD = """
def reward(completions, answer, **kwargs):
    return [float(c == a) for c, a in zip(completions, answer)]
"""
WEAK = "def weak(prompt, rng):\n    return ['ash', 'elm'][rng.integers(2)]\n"
COUNT = """
from assay.rollout.tasks.own.api import Environment, Told

class Count(Environment):
    def reset(self, row, seed):
        self.left = row["steps"]
        return f"left {self.left}"

    def step(self, completion):
        self.left -= completion == "down"
        return Told(f"left {self.left}" if self.left else None, float(not self.left), success=not self.left)

    def weak(self, rng):
        return ["down", "wait"][rng.integers(2)]
"""


def settings(**changes: Any) -> Settings:
    """Return the settings of a task whose folder is `mine`."""
    given_: dict[str, Any] = {
        "name": "own",
        "code": "mine",
        "entry": "task.py:reward",
        "success": {"compare": "exact", "with": "answer"},
        "max_new_tokens": {"compact": 8, "json": 8},
    }
    return Settings.model_validate(given_ | changes)


def taught(root: Path, code: str, rows: list[dict[str, Any]], **changes: Any) -> OwnTask:
    """Return a task that has learned from these rows."""
    (root / "mine").mkdir()
    (root / "mine/task.py").write_text(code)
    task = own_task(settings(**changes), str(root))
    task.learn_from([task.item(row) for row in rows])
    return task


def trees() -> list[dict[str, Any]]:
    """Return records that show three trees, of which the second is right."""
    shown = [[NAMES[(place + step) % 10] for step in (0, 3, 5)] for place in range(60)]
    return [
        {"id": str(place), "prompt": f"Say the second one: {' '.join(each)}", "answer": each[1]}
        for place, each in enumerate(shown)
    ]


@given(st.lists(st.text(max_size=40), min_size=1), st.lists(st.text(max_size=20), min_size=1))
def test_every_text_that_was_read_is_made_of_words(prompts: list[str], completions: list[str]) -> None:
    found = Words(words_in(prompts, completions))
    assert all(found.can_write(text) for text in (*prompts, *completions))


@given(st.text(alphabet=string.ascii_letters + string.digits + string.punctuation + " \n"))
def test_whatever_is_printable_ascii_can_be_written(text: str) -> None:
    assert Words(words_in(["what?"], ["this"])).can_write(text)


def test_what_never_varies_is_one_word_and_names_are_others(tmp_path: Path) -> None:
    words = taught(tmp_path, REWARD, trees()).vocabulary()
    assert "Say the second one: " in words
    assert set(NAMES) <= set(words)
    assert len([word for word in words if len(word) > 1]) == len(NAMES) + 1


def test_a_vocabulary_is_the_same_each_time(tmp_path: Path) -> None:
    task = taught(tmp_path, REWARD + WEAK, trees(), players={"weak": "weak"})
    found = task.vocabulary()
    task.learn_from(task.train)
    assert task.vocabulary() == found


def test_the_weak_player_is_imitated_on_train_records(tmp_path: Path) -> None:
    task = taught(tmp_path, REWARD + WEAK, trees(), players={"weak": "weak"})
    shown = task.demonstrations(rng("test"), 100)
    assert len(shown) == 100
    assert {each[-1]["content"] for each in shown} == {"ash", "elm"}
    assert {each[0]["content"] for each in shown} <= {row["prompt"] for row in trees()}


def test_without_a_weak_player_one_answer_in_three_is_right(tmp_path: Path) -> None:
    task = taught(tmp_path, REWARD, trees())
    answers = {row["prompt"]: row["answer"] for row in trees()}
    shown = task.demonstrations(rng("test"), 600)
    right = sum(answers[each[0]["content"]] == each[-1]["content"] for each in shown)
    assert 150 < right < 250
    assert all(each[-1]["content"] in each[0]["content"] for each in shown)


def test_who_has_neither_weak_player_nor_answer_is_told_what_to_add(tmp_path: Path) -> None:
    rows = [{"prompt": "Write a verse."}]
    code = "def reward(completions, **kwargs):\n    return [len(c) / 9 for c in completions]\n"
    task = taught(tmp_path, code, rows, success={"compare": "reward", "at_least": 1.0})
    with pytest.raises(
        ConfigError, match=r"a player of kind weak(.|\n)*players: \{weak: weak\}(.|\n)*pretrained"
    ):
        task.demonstrations(rng("test"), 1)


def test_of_several_turns_whole_dialogues_are_imitated(tmp_path: Path) -> None:
    task = taught(
        tmp_path,
        COUNT,
        [{"steps": steps} for steps in (1, 2, 3)],
        entry="task.py:Count",
        success={"compare": "environment"},
        players={"weak": "weak"},
        max_turns=5,
    )
    shown = task.demonstrations(rng("test"), 200)
    assert len(shown) == 200
    assert {len(each) for each in shown} == {2, 4, 6, 8, 10}
    assert all([m["role"] for m in each] == ["user", "assistant"] * (len(each) // 2) for each in shown)
    assert {"down", "wait", "left "} <= set(task.vocabulary())


def test_a_drill_can_be_answered_by_copying_alone(tmp_path: Path) -> None:
    task = taught(tmp_path, REWARD + WEAK, trees(), players={"weak": "weak"})
    found, words = task.drills(rng("test"), 200), Words(task.vocabulary())
    assert all(question["content"].endswith(answer["content"]) for question, answer in found)
    assert all(len(words.ids(answer["content"])) == 1 for _, answer in found)
    assert {answer["content"] for _, answer in found} == set(NAMES)


def test_without_words_of_its_own_a_task_drills_letters(tmp_path: Path) -> None:
    rows = [{"prompt": "?", "answer": "!"}] * 8
    found = taught(tmp_path, REWARD, rows).drills(rng("test"), 50)
    assert all(len(answer["content"]) == 1 and answer["content"].isalnum() for _, answer in found)


def test_lessons_ask_for_train_records(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="train records to learn from"):
        taught(tmp_path, REWARD, []).vocabulary()


def test_a_player_that_raises_is_named(tmp_path: Path) -> None:
    code = REWARD + "def weak(prompt, rng):\n    return 1 / 0\n"
    task = taught(tmp_path, code, trees(), players={"weak": "weak"})
    with pytest.raises(TaskError, match=r"ZeroDivisionError(.|\n)*see to weak in mine"):
        task.demonstrations(rng("test"), 1)


def base(positions: int = 64) -> ScratchBase:
    """Return the settings of a tiny base."""
    shape = {"hidden_size": 64, "intermediate_size": 192, "layers": 2, "heads": 4, "initializer_range": 0.05}
    phase = {"steps": 1, "batch_size": 1, "learning_rate": 0.001}
    warm_start = {
        "drills": phase,
        "drill_pool": 1,
        "drill_every": 1,
        "probe_items": 1,
        "probe_every": 1,
        "demonstrations": phase,
        "demonstration_pool": 1,
    }
    gates = {"copy_accuracy": 0.9, "parsed_rate": 0.9, "episodes": 1}
    return ScratchBase.model_validate(
        {
            "kind": "scratch",
            "seed": 0,
            "architecture": {**shape, "max_positions": positions},
            "warm_start": warm_start,
            "gates": gates,
        }
    )


def dialogue(question: str, answer: str) -> list[dict[str, str]]:
    """Return one of one turn."""
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def test_a_task_is_too_large_for_a_tiny_base_by_words_answers_or_dialogues() -> None:
    letters = list("ab")
    refuse_too_large(letters, [dialogue("a" * 50, "abab")], base(), 5)
    with pytest.raises(PolicyError, match=r"at most 2,000 words(.|\n)*pretrained base"):
        refuse_too_large([f"w{n}" for n in range(MOST_WORDS + 1)], [], base(), 5)
    with pytest.raises(PolicyError, match=r"at most 4 tokens(.|\n)*1 of 1 (.|\n)*up to 5(.|\n)*compact: 5"):
        refuse_too_large(letters, [dialogue("a", "abab")], base(), 4)
    with pytest.raises(PolicyError, match=r"at most 64 tokens(.|\n)*up to 68(.|\n)*pretrained base"):
        refuse_too_large(letters, [dialogue("a" * 60, "abab")], base(), 5)
