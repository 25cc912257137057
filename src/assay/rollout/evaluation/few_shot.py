"""Examples in the prompt: dialogues on train items before the prompt of a held-out one, as many as fit. No
torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from assay.core.seeds import derive_seed, rng
from assay.rollout.dataset.suite import Suite
from assay.rollout.evaluation.replay import play_baseline
from assay.rollout.evaluation.trajectory import Opens, open_item
from assay.rollout.tasks.protocol import Item, Message, Task, answer_key
from assay.rollout.tasks.rivals import worked_example

LOOKED_AT = 16  # items on which scripted players show how long an episode may get
MARGIN = 1.25


class Shown:
    """A task as another `Task`, every prompt of which stands behind dialogues on train items.

    Those of items that ask for the same form of answer are taken first, and stand last.

    Args:
        task: What is played; it grades as it always does.
        train: Its train items.
        k: Dialogues in a prompt, fewer where train has fewer.
        seed: Which ones hangs on it, and on nothing else.
    """

    max_prompt_tokens: int | None

    def __init__(self, task: Task, train: Sequence[Item], k: int, seed: int) -> None:
        self._task, self._k, self._seed, self._key = task, k, seed, answer_key(task)
        self._train = [train[place] for place in rng("few_shot", seed).permutation(len(train))]
        self._chosen: dict[str, list[list[Message]]] = {}
        self.max_prompt_tokens = task.max_prompt_tokens

    def __getattr__(self, name: str) -> Any:
        """Return what the task itself has."""
        return getattr(self._task, name)

    def start(self, item: Item, world_seed: int) -> tuple[list[Message], Any]:
        """Open an episode as the task does, behind the examples; a system's message stays the first."""
        messages, state = self._task.start(item, world_seed)
        first = next((n for n, message in enumerate(messages) if message["role"] != "system"), len(messages))
        shown = [message for example in self.examples(item) for message in example]
        told = [message for message in shown if message["role"] != "system"]
        return [*messages[:first], *told, *messages[first:]], state

    def examples(self, item: Item) -> list[list[Message]]:
        """Return the dialogues that an item's prompt stands behind."""
        shape = "" if self._key is None else self._key.shape(item)
        if shape not in self._chosen:
            self._chosen[shape] = self._choose(shape)
        return self._chosen[shape]

    def _choose(self, shape: str) -> list[list[Message]]:
        key, found = self._key, list[list[Message]]()
        alike = [item for item in self._train if key is None or key.shape(item) == shape]
        known = {id(item) for item in alike}
        for item in [*alike, *(other for other in self._train if id(other) not in known)]:
            if len(found) == self._k:
                break
            seed = derive_seed("few_shot", self._seed, item.id)
            example = worked_example(self._task, item, seed, rng("few_shot", seed))
            if example is not None:
                found.append(example)
        return found[::-1]


def few_shot(
    task: Task,
    train: Sequence[Item],
    suite: Suite,
    k: int,
    *,
    dialogue: Opens,
    positions: int | None,
    max_new_tokens: int,
) -> tuple[Task, int]:
    """Return the task behind as many examples as fit, and how many those are; 0 where not even one does.

    Args:
        task: What is played.
        train: Its train items.
        suite: What is played of it.
        k: Most examples.
        dialogue: Renders and tokenises.
        positions: Tokens that the model can read and write in one conversation; None: any number.
        max_new_tokens: Of one completion.
    """
    room = 0 if positions is None else _room(task, suite, dialogue, max_new_tokens)
    for n in range(k, 0, -1):
        shown = Shown(task, train, n, suite.seed)
        there = min((len(shown.examples(item)) for item in suite.items), default=0)
        if there == 0:
            return task, 0
        fitting = cast(Task, shown)
        worlds = {play.item.id: play for play in suite.plays()}.values()
        prompts = [
            (fitting.start(p.item, p.world_seed)[0], task.start(p.item, p.world_seed)[0]) for p in worlds
        ]
        longer = max(len(dialogue.prompt(ours)) - len(dialogue.prompt(plain)) for ours, plain in prompts)
        if task.max_prompt_tokens is not None:
            shown.max_prompt_tokens = task.max_prompt_tokens + longer
        if positions is None:
            return fitting, there
        longest = max(len(open_item(fitting, dialogue, p.item, p.world_seed).prompt_ids) for p in worlds)
        if longest + room <= positions:
            return fitting, there
    return task, 0


def _room(task: Task, suite: Suite, dialogue: Opens, max_new_tokens: int) -> int:
    """Return how many tokens may come behind a prompt, by what scripted players are told there."""
    plays = [play for play in suite.plays() if play.draw == 0][:LOOKED_AT]
    turns, told = 1, {""}
    for name in task.rivals:
        for episode in play_baseline(task, task.baselines()[name], plays, name):
            turns = max(turns, len(episode.turns))
            told |= {turn.observation for turn in episode.turns if turn.observation is not None}
    # What stands around an observation is as long as around a message of a prompt
    replies = max(len(dialogue.prompt([{"role": "user", "content": text}])) for text in told)
    return turns * max_new_tokens + int(MARGIN * (turns - 1) * replies)
