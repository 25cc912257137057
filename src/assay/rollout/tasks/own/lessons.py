"""What teaches a base that is built from scratch: derived from train records and the weak player."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from assay.core.errors import ConfigError, EnvironmentFailure, EnvironmentLost, TaskError
from assay.core.seeds import rng
from assay.rollout.tasks.own.calls import Ask, Call, Failed
from assay.rollout.tasks.own.vocabulary import words_in
from assay.rollout.tasks.protocol import Item, Message, answer_key

if TYPE_CHECKING:
    from assay.rollout.tasks.own.task import OwnState, OwnTask

Asked = TypeVar("Asked")
Got = TypeVar("Got")

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
    for messages, _ in opened(task, task.train[:MOST_OPENINGS], rng("words", "openings")):
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
        EnvironmentLost: A call failed for good.
        TaskError: A player, or the task, failed.
    """
    done: list[list[Message]] = []
    for start in range(0, n, TOGETHER):
        places = rng.integers(len(task.train), size=min(TOGETHER, n - start)).tolist()
        names = [players[place] for place in rng.integers(len(players), size=len(places)).tolist()]
        live = [
            (name, *each)
            for name, each in zip(
                names, opened(task, [task.train[place] for place in places], rng), strict=True
            )
        ]
        while live:
            asks = [Ask(name, state.call, int(rng.integers(2**62))) for name, _, state in live]
            said = _insisted(asks, task.said)
            pairs = [(state, text) for (_, _, state), text in zip(live, said, strict=True)]
            steps = _insisted(pairs, lambda some: task.steps(*zip(*some, strict=True)))
            going = []
            for (name, dialogue, _), text, step in zip(live, said, steps, strict=True):
                dialogue = [*dialogue, {"role": "assistant", "content": text}]
                if step.observation is None:
                    done.append(dialogue)
                else:
                    going.append(
                        (name, [*dialogue, {"role": "user", "content": step.observation}], step.state)
                    )
            live = going
    return done


def opened(
    task: OwnTask, items: Sequence[Item], rng: np.random.Generator
) -> list[tuple[list[Message], OwnState]]:
    """Return how these items open, in worlds drawn anew."""
    drawn = list(zip(items, rng.integers(2**62, size=len(items)).tolist(), strict=True))
    return _insisted(drawn, lambda some: task.starts(*zip(*some, strict=True)))


def _insisted(
    asked: Sequence[Asked], call: Callable[[Sequence[Asked]], Sequence[Got | Failed | EnvironmentFailure]]
) -> list[Got]:
    """Return what a call gives for each, called again for what was lost.

    Raises:
        EnvironmentLost: Something was lost each time.
    """
    found: dict[int, Got] = {}
    lost, why = list(range(len(asked))), ""
    for _ in range(TRIES):
        if not lost:
            break
        for place, got in zip(lost, call([asked[place] for place in lost]), strict=True):
            if isinstance(got, Failed | EnvironmentFailure):
                why = got.reason if isinstance(got, Failed) else str(got)
            else:
                found[place] = got
        lost = [place for place in lost if place not in found]
    if lost:
        fix = "see to what the task needs, raise task.timeout_s, or pay what players of the task say"
        where = f"{_named(asked[lost[0]])}, {TRIES} tries"
        raise EnvironmentLost("an answer of the task", found=why, where=where, fix=fix)
    return [found[place] for place in range(len(asked))]


def _named(asked: Any) -> str:
    """Return of which record something was asked."""
    if isinstance(asked, Ask | Call):
        row = asked.call.row if isinstance(asked, Ask) else asked.row
        return f"record {row.get('id', '')}".rstrip()
    return f"record {asked[0].id}" if isinstance(asked, tuple) and isinstance(asked[0], Item) else "a record"


def _golds(task: OwnTask) -> list[str]:
    key = answer_key(task)
    found = [] if key is None else [key.solution(item) for item in task.train[:MOST_OPENINGS]]
    return [each for each in found if each is not None]


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
    places = rng.integers(len(golds), size=n).tolist()
    openings = opened(task, [task.train[place] for place in places], rng)
    for place, (messages, _) in zip(places, openings, strict=True):
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
    # Looked for plainly first: answers are many, and few of them are shown.
    return word in text and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


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
