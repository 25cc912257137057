"""What teaches a base that is built from scratch: derived from train records and the weak player."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assay.core.errors import ConfigError, EnvironmentFailure, TaskError
from assay.core.seeds import derive_seed, rng
from assay.tasks.own.calls import Ask, Failed
from assay.tasks.own.vocabulary import words_in
from assay.tasks.protocol import Item, Message, Step

if TYPE_CHECKING:
    from assay.tasks.own.task import OwnState, OwnTask

MOST_OPENINGS = 4000  # read for words
PLAYED = 256  # episodes of each player, read for words
TOGETHER = 64  # episodes side by side
TRIES = 3  # of an environment that is lost
GUESSED_RIGHT = 1 / 3  # of what is imitated where there is no weak player
SHOWN = (2, 8)  # words of a drill
ASKED = "? "


@dataclass(frozen=True, slots=True)
class Texts:
    """What train records ask and players say, and the words of which it is made."""

    openings: Sequence[str]
    completions: Sequence[str]
    words: Sequence[str]
    pointable: Sequence[str]  # words that are shown, and said by players if enough are


def texts_of(task: OwnTask) -> Texts:
    """Return what train records ask and players say.

    Raises:
        TaskError: There are no train records.
    """
    if not task.train:
        fix = "call learn_from with the train records"
        raise TaskError("train records to learn from", found="none", where=task.settings.code, fix=fix)
    openings, told, said = [], [], []
    for item in task.train[:MOST_OPENINGS]:
        messages, _ = _opened(task, item, derive_seed("words", item.id))
        openings += [message["content"] for message in messages]
    players = [name for name, kind in task.settings.players.items() if kind != "trivial"]
    for name in players:
        for dialogue in played(task, [name], rng("words", name), min(PLAYED, len(task.train))):
            told += [each["content"] for each in dialogue if each["role"] != "assistant"]
            said += [each["content"] for each in dialogue if each["role"] == "assistant"]
    said += _golds(task)
    prompts = openings if task.settings.max_turns == 1 else [*openings, *told]
    words = words_in(prompts, said)
    return Texts(openings, said, words, _pointable(words, openings, said))


def vocabulary(task: OwnTask) -> Sequence[str]:
    """Return the words of a tokenizer built from scratch."""
    return task.texts().words


def demonstrations(task: OwnTask, rng: np.random.Generator, n: int) -> Sequence[Sequence[Message]]:
    """Return whole dialogues of weak players on train records; without such a player, answers that are right
    a third of the time and else another record's, one that its prompt shows if there is one.

    Raises:
        ConfigError: There is neither a weak player nor an answer.
    """
    weak = [name for name, kind in task.settings.players.items() if kind == "weak"]
    return played(task, weak, rng, n) if weak else _guesses(task, rng, n)


def played(task: OwnTask, players: Sequence[str], rng: np.random.Generator, n: int) -> list[list[Message]]:
    """Return whole dialogues of these players on train records, each of one of them.

    Raises:
        EnvironmentFailure: More episodes were lost than played.
        TaskError: A player, or the task, failed.
    """
    found: list[list[Message]] = []
    tried = 0
    while len(found) < n:
        tried += TOGETHER
        if tried > 2 * n + 2 * TOGETHER:
            raise EnvironmentFailure(f"of {tried} episodes {tried - len(found)} were lost")
        found += _played_together(task, players, rng, min(TOGETHER, n - len(found)))
    return found


def _played_together(
    task: OwnTask, players: Sequence[str], rng: np.random.Generator, n: int
) -> list[list[Message]]:
    done: list[list[Message]] = []
    live: list[tuple[str, list[Message], OwnState]] = []
    for _ in range(n):
        item = task.train[int(rng.integers(len(task.train)))]
        name = players[int(rng.integers(len(players)))]
        live.append((name, *_opened(task, item, int(rng.integers(2**62)))))
    while live:
        asks = [Ask(name, state.call, int(rng.integers(2**62))) for name, _, state in live]
        said = task.said(asks)
        heard = [(one, text) for one, text in zip(live, said, strict=True) if not isinstance(text, Failed)]
        texts = [text for _, text in heard]
        steps = task.steps([state for (_, _, state), _ in heard], texts)
        live = []
        for ((name, dialogue, _), text), step in zip(heard, steps, strict=True):
            if not isinstance(step, Step):
                continue
            dialogue = [*dialogue, {"role": "assistant", "content": text}]
            if step.observation is None:
                done.append(dialogue)
            else:
                live.append((name, [*dialogue, {"role": "user", "content": step.observation}], step.state))
    return done


def _opened(task: OwnTask, item: Item, seed: int) -> tuple[list[Message], OwnState]:
    for _ in range(TRIES - 1):
        try:
            return task.start(item, seed)
        except EnvironmentFailure:
            continue
    return task.start(item, seed)


def _golds(task: OwnTask) -> list[str]:
    column = task.settings.answer_column
    return [] if column is None else [str(item.hidden[column]) for item in task.train[:MOST_OPENINGS]]


def _guesses(task: OwnTask, rng: np.random.Generator, n: int) -> list[list[Message]]:
    golds = _golds(task)
    if not golds or task.settings.max_turns > 1:
        raise ConfigError(
            "a player of kind weak, whom a base that is built from scratch imitates",
            found=", ".join(f"{name}: {kind}" for name, kind in task.settings.players.items())
            or "no players",
            where="task.players",
            fix="task.players: {weak: weak} and a function or method weak that is usually wrong, or choose a"
            " pretrained base: ./run assay config use grpo=pretrained",
        )
    known = sorted(set(golds))
    dialogues = []
    for _ in range(n):
        place = int(rng.integers(len(golds)))
        messages, _ = _opened(task, task.train[place], int(rng.integers(2**62)))
        right, shown = golds[place], messages[-1]["content"]
        others = [gold for gold in known if gold != right and stands_in(gold, shown)] or known
        guess = right if rng.uniform() < GUESSED_RIGHT else others[int(rng.integers(len(others)))]
        dialogues.append([*messages, {"role": "assistant", "content": guess}])
    return dialogues


def stands_in(word: str, text: str) -> bool:
    """Return whether a text shows a word, by itself.

    >>> stands_in("fern", "*fern dust"), stands_in("fern", "ferns")
    (True, False)
    """
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def drills(task: OwnTask, rng: np.random.Generator, n: int) -> Sequence[Sequence[Message]]:
    """Return questions that show words and then name one, which is the answer: how to copy, not what."""
    texts = task.texts()
    return [_drill(texts, rng) for _ in range(n)]


def _drill(texts: Texts, rng: np.random.Generator) -> list[Message]:
    pool = texts.pointable
    n = int(rng.integers(SHOWN[0], min(SHOWN[1], len(pool)) + 1))
    shown = [pool[place] for place in rng.permutation(len(pool))[:n]]
    answer = pool[int(rng.integers(len(pool)))]
    question = f"{' '.join(shown)}{ASKED}{answer}"
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def _pointable(words: Sequence[str], openings: Sequence[str], completions: Sequence[str]) -> list[str]:
    """Return the words that drills show: what openings show and players say, or only show, or letters."""
    whole = re.compile("|".join(re.escape(word) for word in words))  # the longest come first
    shown = {word for text in openings for word in whole.findall(text) if word.isalnum()}
    said = {word for text in completions for word in whole.findall(text)}
    for found in (shown & said, shown):
        if len(found) >= SHOWN[1]:
            return sorted(found)
    return [word for word in words if len(word) == 1 and word.isalnum()]
