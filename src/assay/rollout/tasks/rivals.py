"""The rivals of a claim: players without training that what was trained has to beat, named in the plan before
training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from assay.core.config.rivals import RivalSettings
from assay.rollout.tasks.protocol import Baseline, Item, Message, RivalKind, Task, answer_key, schematic

CONSTANT, FEW_SHOT, BEST_OF_N, CONSTRAINED = "constant", "few_shot", "best_of_n", "constrained"
OF_THE_BASE = (FEW_SHOT, BEST_OF_N, CONSTRAINED)
MORE_SFT = "more_sft"  # the base after further supervised fine-tuning
IN_PRE_EVAL = (*OF_THE_BASE, MORE_SFT)
GREEDY = "greedy"  # the base again, which every run plays without chance anyway


def rivals_of(task: Task, asked: RivalSettings) -> dict[str, RivalKind]:
    """Return every rival that a claim on a task is to name, with its kind.

    Constrained decoding is for answers that have a schema, and a constant answer for tasks with an answer
    key.
    """
    found: dict[str, RivalKind] = dict(task.rivals)
    if answer_key(task) is not None:
        found[CONSTANT] = "trivial"
    wanted = {
        FEW_SHOT: asked.few_shot > 0 and (answer_key(task) is not None or shown_by(task) is not None),
        BEST_OF_N: asked.best_of_n > 0,
        CONSTRAINED: asked.constrained and schematic(task) is not None,
    }
    found |= {name: "instead of training" for name in (*OF_THE_BASE, GREEDY) if wanted.get(name, True)}
    return found | ({MORE_SFT: "trained otherwise"} if asked.more_sft else {})


def players_of(task: Task, train: Sequence[Item]) -> dict[str, Baseline]:
    """Return the scripted players of a task by name, its rivals and others, and the constant one that the
    train items give."""
    key = answer_key(task)
    return dict(task.baselines()) | ({} if key is None else {CONSTANT: Constant(task, train)})


class Constant:
    """Gives the answer that is right most often in train where the same form of answer is asked for; where
    train never asks for that form, the commonest of all.

    Args:
        task: One with an answer key.
        train: Its train items; of two answers that are right equally often the earlier one is given.
    """

    def __init__(self, task: Task, train: Sequence[Item]) -> None:
        key = answer_key(task)
        assert key is not None, "a constant answer is one that is known to be right somewhere"
        self._shape = key.shape
        said: dict[str, Counter[str]] = {}
        for item in train:
            if (solution := key.solution(item)) is not None:
                said.setdefault(key.shape(item), Counter())[solution] += 1
        self._commonest = {shape: counts.most_common(1)[0][0] for shape, counts in said.items()}
        # A copy, since adding to one of the counters would add to its shape
        everywhere = sum(said.values(), Counter[str]())
        self._else = everywhere.most_common(1)[0][0] if everywhere else ""

    def __call__(self, item: Item, state: Any, rng: np.random.Generator) -> str:
        """Return the answer."""
        return self._commonest.get(self._shape(item), self._else)


def shown_by(task: Task) -> str | None:
    """Return which scripted rival's play is shown as an example where nobody knows what is right: the
    strongest; None if there is none."""
    return next(
        (name for name in reversed(list(task.baselines())) if task.rivals.get(name) == "scripted"), None
    )


def worked_example(task: Task, item: Item, world_seed: int, rng: np.random.Generator) -> list[Message] | None:
    """Return a whole dialogue on an item: its right answer, or the play of the strongest scripted rival; None
    where there is neither."""
    key, name = answer_key(task), shown_by(task)
    messages, state = task.start(item, world_seed)
    player: Mapping[str, Baseline] = task.baselines()
    dialogue = list(messages)
    solution = None if key is None else key.solution(item)
    if solution is None and (key is not None or name is None):
        return None
    while True:
        said = solution if solution is not None else player[str(name)](item, state, rng)
        step = task.step(state, said)
        dialogue.append({"role": "assistant", "content": said})
        if step.ending is not None:
            return dialogue
        dialogue.append({"role": "user", "content": str(step.observation)})
        state = step.state
