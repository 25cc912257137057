"""A reward that assay takes runs in a plain GRPOTrainer: each form it may have, parts by name."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from assay.rollout.tasks.own.for_trl import as_trl
from assay.rollout.tasks.own.loading import NoReward, RewardFunction
from assay.rollout.tasks.own.task import own_task
from tests.pages import text_of
from tests.tasks.own.test_lessons import settings

ANSWER = ["plum", "reed", "plum", "reed"]
SAID = ["plum", "plum", "x", "reed"]


def plain(completions: list[str], answer: list[str], **kwargs: Any) -> list[float]:
    """Pay for what is right."""
    return [float(c == a) for c, a in zip(completions, answer, strict=True)]


def as_dicts(completions: list[str], answer: list[str]) -> list[dict[str, float]]:
    """Pay by parts, each completion's together; takes no more than it names."""
    return [
        {"right": float(c == a), "short": 0.5 * (len(c) < 5)}
        for c, a in zip(completions, answer, strict=True)
    ]


def as_lists(completions: list[str], answer: list[str], **kwargs: Any) -> dict[str, Any]:
    """Pay by parts, each part's together."""
    right = np.array([c == a for c, a in zip(completions, answer, strict=True)])
    return {"right": right, "short": [0.5 * (len(c) < 5) for c in completions]}


def lost(completions: list[str], answer: list[str], **kwargs: Any) -> list[Any]:
    """Not know of one completion, and of a part of another."""
    return [None if c == "x" else {"right": 1.0, "short": None if c == "reed" else 0.5} for c in completions]


async def later(completions: list[str], answer: list[str], **kwargs: Any) -> list[dict[str, float]]:
    """Pay after a while."""
    await asyncio.sleep(0)
    return as_dicts(completions, answer)


def by_rank(completions: list[str], answer: list[str], **kwargs: Any) -> list[float]:
    """Pay by the place in the batch, which one completion alone does not have."""
    return [sum(other < c for other in completions) / len(completions) for c in completions]


def optional(completions: list[str], options: Any, **kwargs: Any) -> list[float]:
    """Pay what the options say."""
    return [options.pay for _ in completions]


class Judge:
    """A coroutine that is called on an instance."""

    async def __call__(self, completions: list[str], answer: list[str], **kwargs: Any) -> list[float]:
        """Pay for what is right."""
        return plain(completions, answer)


BOTH = [1.5, 0.5, 0.5, 1.5]
MEANS = {"parts/right": 0.5, "parts/short": 0.5}
FORMS: dict[str, tuple[Callable[..., Any], list[Any], dict[str, float]]] = {
    "numbers": (plain, [1.0, 0.0, 0.0, 1.0], {}),
    "dicts": (as_dicts, BOTH, MEANS),
    "lists by part": (as_lists, BOTH, MEANS),
    "None": (lost, [1.5, 1.5, None, None], {"parts/right": 1.0, "parts/short": 0.5}),
    "a coroutine": (later, BOTH, MEANS),
    "a coroutine of a class": (Judge(), [1.0, 0.0, 0.0, 1.0], {}),
    "a partial": (functools.partial(plain), [1.0, 0.0, 0.0, 1.0], {}),
    "an array": (lambda completions, **kwargs: np.ones(len(completions)), [1.0] * 4, {}),
    "the group": (by_rank, [0.0, 0.0, 0.75, 0.5], {}),
}


@pytest.mark.parametrize("name", FORMS)
def test_rewards_are_sums_of_parts_and_parts_are_logged_by_name(name: str) -> None:
    reward, sums, means = FORMS[name]
    logged: dict[str, float] = {}
    given = {
        "prompts": ["?"] * 4,
        "completion_ids": [[1]] * 4,
        "trainer_state": None,
        "log_metric": logged.__setitem__,
    }
    found = as_trl(reward)(completions=SAID, answer=ANSWER, **given)
    assert (asyncio.run(found) if asyncio.iscoroutine(found) else found) == sums
    assert logged == pytest.approx(means)


@pytest.mark.parametrize("name", [name for name in FORMS if name != "the group"])
def test_what_trl_is_given_is_what_assay_pays(name: str) -> None:
    reward, sums, _ = FORMS[name]
    for said, answer, paid in zip(SAID, ANSWER, sums, strict=True):
        environment = RewardFunction(reward, None)
        environment.reset({"prompt": "?", "answer": answer}, 0)
        if paid is None:
            with pytest.raises(NoReward):
                environment.step(said)
            continue
        parts: Any = environment.step(said).parts
        assert (parts if isinstance(parts, float) else sum(parts.values())) == paid


def test_options_and_what_is_cut_off_are_those_of_the_task(tmp_path: Path) -> None:
    assert as_trl(optional, options=SimpleNamespace(pay=0.25))(completions=["a"], prompts=["?"]) == [0.25]
    thought = [f"<think>?</think>{text}" for text in SAID]
    assert as_trl(plain)(completions=thought, answer=ANSWER) == [0.0] * 4
    assert as_trl(plain, cut=["think"])(completions=thought, answer=ANSWER) == [1.0, 0.0, 0.0, 1.0]
    called = [
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    ]
    said = as_trl(lambda completions: [len(each[0]["content"]) for each in completions], cut=["tool_call"])
    assert said(completions=[called, [{"role": "assistant"}]], prompts=["?", "?"])[0] > 0
    (tmp_path / "mine").mkdir()
    code = "def reward(completions, answer):\n    return [float(completions == answer)]\n"
    (tmp_path / "mine/task.py").write_text(code)
    task = own_task(settings(cut=["think"], players={}), str(tmp_path))
    state = task.start(task.item({"id": "r", "prompt": "?", "answer": "plum"}), 0)[1]
    assert task.step(state, thought[0]).parts == {"reward": 1.0}


def test_what_is_no_reward_is_named() -> None:
    with pytest.raises(TypeError, match="right is no list with a number for each of 4 completions"):
        as_trl(lambda completions, **kwargs: {"right": [1.0]})(completions=SAID)
    with pytest.raises(TypeError, match="right is str, not a number"):
        as_trl(lambda completions, **kwargs: [{"right": "yes"}] * 4)(completions=SAID)


def spoken(reward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reward of conversations: each completion is a list with one message."""

    def talked(completions: list[Any], **kwargs: Any) -> Any:
        return reward([completion[0]["content"] for completion in completions], **kwargs)

    return talked


@pytest.mark.long
@pytest.mark.filterwarnings("default")  # of TRL and what it stands on
def test_every_form_trains_in_a_plain_trainer(tmp_path: Path) -> None:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer  # type: ignore[attr-defined]

    from assay.core.config.settings import TinyArchitecture
    from assay.rollout.policy.base import tiny

    tokenizer = tiny.build_tokenizer(["plum", "reed", "which"])
    shape = TinyArchitecture(
        hidden_size=16, intermediate_size=32, layers=1, heads=1, max_positions=64, initializer_range=0.02
    )
    talk = [{"role": "user", "content": "which"}]
    cases = {
        **{name: (form[0], "which") for name, form in FORMS.items()},
        "conversations": (spoken(as_lists), talk),
    }
    (line,) = [line for line in text_of("docs/own-task.md").splitlines() if "GRPOTrainer(model" in line]
    for name, (reward, prompt) in cases.items():
        names: dict[str, Any] = {
            "GRPOTrainer": functools.partial(GRPOTrainer, processing_class=tokenizer),
            "as_trl": as_trl,
            "reward": reward,
            "model": tiny.build_model(shape, tokenizer, 0),
            "records": Dataset.from_list([{"prompt": prompt, "answer": word} for word in ANSWER]),
            "arguments": GRPOConfig(
                output_dir=str(tmp_path),
                per_device_train_batch_size=8,
                num_generations=4,
                max_completion_length=2,
                max_steps=1,
                logging_steps=1,
                report_to=[],
                use_cpu=True,
                disable_tqdm=True,
                save_strategy="no",
                bf16=False,
            ),
        }
        exec(line, names)
        trainer = names["trainer"]
        trainer.train()
        (told,) = [each for each in trainer.state.log_history if "reward" in each]
        parts = {key: value for key, value in told.items() if key.startswith("parts/")}
        wanted = {} if name != "conversations" and not FORMS[name][2] else {"parts/right", "parts/short"}
        assert set(parts) == set(wanted), name
        if name not in ("None", "the group") and parts:
            assert told["reward"] == pytest.approx(sum(parts.values()), abs=1e-5), name
