"""V3, the tokens: every prompt and every completion of a package, read by the words of its base without a
model.

A prompt's digest is that of all token ids before a completion. With the base's own words each follows from
the task's opening, what was written and what was answered; so do the counts of tokens and whether a
completion was cut.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from assay.core.config.settings import ScratchBase
from assay.core.counting import counted
from assay.core.records import Episode
from assay.dataset.suite import Play, Suite
from assay.evaluation.trajectory import open_item
from assay.policy.base.words import Words
from assay.verify.checks import SHOWN, Seen
from assay.verify.unpacked import Unpacked


def tokens_counted(package: Unpacked) -> Seen:
    """Read every episode by the base's words: prompts, numbers of tokens, and which completions were cut."""
    if not isinstance(package.project.params.base, ScratchBase):
        said = (
            f"prompts and numbers of tokens: the tokenizer of {package.base.get('model')} is not in the"
            " package"
        )
        return Seen(f"{said}; V4 with --base DIR counts what it plays again", unchecked=True)
    reader, n, turns, wrong = _Reader(package), 0, 0, list[str]()
    for name, suite, episodes in _told(package):
        for play, episode in zip(suite.plays(), episodes, strict=False):
            n, turns = n + 1, turns + len(episode.turns)
            wrong += [
                f"{name}, item {episode.item_id}, draw {episode.draw}: {fault}"
                for fault in reader.faults(play, episode)
            ]
            if len(wrong) > SHOWN:
                return Seen("", wrong)
    said = (
        f"{counted(turns, 'completions')} of {counted(n, 'episodes')} have the tokens that are stored of"
        " them, "
    )
    return Seen(f"{said}and follow the prompts whose digests are stored", wrong)


def _told(package: Unpacked) -> Iterator[tuple[str, Suite, Sequence[Episode]]]:
    for name in package.arms:
        yield f"{name}.jsonl", package.suite_of(name), package.episodes(name)
    single = replace(package.validation, draws=1)
    for step, sampled, greedy in package.validations:
        yield f"validation.jsonl, step {step}, sampled", package.validation, sampled
        yield f"validation.jsonl, step {step}, greedy", single, greedy


class _Reader:
    """Reads episodes as the tokenizer of the package's base does; openings are kept, since all draws of an
    item share one."""

    def __init__(self, package: Unpacked) -> None:
        self._task, self._words = package.task, Words(package.task.vocabulary())
        self._opened: dict[tuple[str, int], tuple[list[int], int]] = {}

    def faults(self, play: Play, episode: Episode) -> Iterator[str]:
        """Yield the first thing in which an episode is not what its words make it, or nothing."""
        ids, cut = self._opening(play)
        if cut != episode.prompt_chars_cut:
            yield f"prompt_chars_cut {episode.prompt_chars_cut}; {cut} do not fit"
            return
        for number, turn in enumerate(episode.turns, start=1):
            if _digest(ids) != turn.prompt_digest:
                yield f"turn {number} was written after another prompt than its task and its words make"
                return
            ends = [] if turn.truncated else [self._words.eos_id]
            written = turn.n_tokens - len(ends)
            follows = episode.turns[number].prompt_digest if number < len(episode.turns) else None
            readings: Iterator[Sequence[int]] = (
                self._words.readings(turn.completion, written) if written >= 0 else iter(())
            )
            if follows is None:
                found = next(readings, None)
            else:
                read = ([*ids, *each, *ends] for each in readings)
                told = str(turn.observation)
                ahead = ([*each, *self._words.reply(told, last_id=each[-1])] for each in read if each)
                found = next((each for each in ahead if _digest(each) == follows), None)
            if found is None:
                end = "cut at the limit" if turn.truncated else "and an end"
                behind = "" if follows is None else ", and the next prompt behind them"
                yield (
                    f"turn {number}: {turn.n_tokens} tokens, {end}{behind}, cannot be {turn.completion!r:.60}"
                )
                return
            ids = list(found)

    def _opening(self, play: Play) -> tuple[list[int], int]:
        key = (play.item.id, play.world_seed)
        if key not in self._opened:
            opening = open_item(self._task, self._words, play.item, play.world_seed)
            self._opened[key] = (opening.prompt_ids, opening.chars_cut)
        return self._opened[key]


def _digest(ids: Sequence[int]) -> str:
    return hashlib.sha256(np.asarray(ids, np.int64).tobytes()).hexdigest()[:16]
