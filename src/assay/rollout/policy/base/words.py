"""The tiny base's tokenizer as a list of words: all that is needed to read its tokens without the library
that wrote them.

`tiny.py` builds the real tokenizer from the same words, so that who checks a package knows what its
tokenizer.json must hold, and can count the tokens of a completion and take the digest of a prompt. No torch,
and nothing of the package is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

PAD, UNKNOWN, END, USER, ASSISTANT = "<|pad|>", "<|unk|>", "<|end|>", "<|user|>", "<|assistant|>"
SPECIAL = (PAD, UNKNOWN, END, USER, ASSISTANT)

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{%"
    " endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
MOST_READINGS = 4096  # ways to cut one completion into words that are tried


def ordered(words: Sequence[str]) -> list[str]:
    """Return every word once, in the order of their numbers; those of SPECIAL stand before them."""
    return sorted(set(words))


def pattern_of(words: Sequence[str]) -> str:
    """Return the expression that cuts a text into words, the longest match first.

    >>> pattern_of(["a", "ab", "+"])
    'ab|\\\\+|a'
    """
    longest_first = sorted(ordered(words), key=lambda word: (-len(word), word))
    return "|".join(re.escape(word) for word in longest_first) or "(?!)"  # without words nothing is one


class Words:
    """Reads and counts tokens as the tokenizer of a tiny base does, and renders its chat template.

    Args:
        words: Every word of the task's vocabulary.
    """

    def __init__(self, words: Sequence[str]) -> None:
        known = ordered(words)
        self.vocabulary = {token: number for number, token in enumerate([*SPECIAL, *known])}
        self.pattern = pattern_of(known)
        self._special = re.compile("|".join(re.escape(each) for each in SPECIAL))
        self._word = re.compile(self.pattern)
        # A text that is made of words, and of marks that a policy may write and that end nothing.
        marks = "|".join(re.escape(each) for each in SPECIAL if each != END)
        self._own = re.compile(f"(?:{marks}|{self.pattern})*")
        self._longest = max(len(token) for token in self.vocabulary)
        self.eos_id = self.vocabulary[END]
        self.end_ids = (self.eos_id,)
        self._ids_of = lru_cache(65536)(self._read)

    def ids(self, text: str) -> list[int]:
        """Return the token ids of a text as the tokenizer cuts it.

        >>> Words(["a", "ab", "c"]).ids("abca?<|end|>")
        [6, 7, 5, 1, 2]
        """
        return list(self._ids_of(text))

    def _read(self, text: str) -> tuple[int, ...]:
        found: list[int] = []
        at = 0
        for mark in [*self._special.finditer(text), None]:
            part = text[at : len(text) if mark is None else mark.start()]
            behind = 0
            for word in self._word.finditer(part):
                if word.start() > behind:  # what no word is made of is one unknown token
                    found.append(self.vocabulary[UNKNOWN])
                found.append(self.vocabulary[word.group()])
                behind = word.end()
            if behind < len(part):
                found.append(self.vocabulary[UNKNOWN])
            if mark is not None:
                found.append(self.vocabulary[mark.group()])
                at = mark.end()
        return tuple(found)

    def can_write(self, text: str) -> bool:
        """Return whether the words, and marks that end nothing, give a text."""
        return self._own.fullmatch(text) is not None

    def keeps(self, text: str) -> bool:
        """Return whether a stored text says all that was written."""
        return True

    def readings(self, text: str, n: int) -> Iterator[tuple[int, ...]]:
        """Yield the ways in which n tokens that a policy wrote can give a text, at most MOST_READINGS of
        them.

        A policy may write a word in pieces, which the tokenizer would never do; the tokenizer's own cut comes
        first. The end of a completion is in none of them: it would have ended it.

        >>> list(Words(["a", "ab", "b"]).readings("ab", 2)), list(Words(["a", "ab", "b"]).readings("ab", 1))
        ([(5, 7)], [(6,)])
        """
        own = self._ids_of(text)
        if len(own) == n and self.can_write(text):
            yield own
        for reading in islice(self._cuts(text, n), MOST_READINGS):
            if reading != own:
                yield reading

    def _cuts(self, text: str, n: int) -> Iterator[tuple[int, ...]]:
        """Yield every cut of a text into n tokens; from behind it is known which places can be reached in how
        many."""
        reach = self._reachable(text, n)
        todo: list[tuple[int, tuple[int, ...]]] = [(0, ())]
        while todo:
            at, taken = todo.pop()
            left = n - len(taken)
            if at == len(text):
                yield taken
                continue
            for stop, token in self._from(text, at):
                if left and reach[stop] >> (left - 1) & 1:
                    todo.append((stop, (*taken, token)))

    def _reachable(self, text: str, most: int) -> list[int]:
        """Return for each place of a text in how many tokens, at most so many, its end can be reached: a bit
        a number."""
        reach, mask = [0] * len(text) + [1], (1 << (most + 1)) - 1
        for at in range(len(text) - 1, -1, -1):
            for stop, _ in self._from(text, at):
                reach[at] |= reach[stop] << 1 & mask
        return reach

    def _from(self, text: str, at: int) -> Iterator[tuple[int, int]]:
        """Yield where each token that a policy may write here ends, and its number."""
        for stop in range(at + 1, min(len(text), at + self._longest) + 1):
            token = self.vocabulary.get(text[at:stop])
            if token is not None and token != self.eos_id:
                yield stop, token

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Return the token ids of a prompt, as `Dialogue.prompt`."""
        said = "".join(f"<|{message['role']}|>{message['content']}{END}" for message in messages)
        return self.ids(f"{said}{ASSISTANT}")

    def reply(self, observation: str, *, last_id: int) -> list[int]:
        """Return the token ids between a completion and the next one, as `Dialogue.reply`."""
        ids = self.ids(f"{END}{USER}{observation}{END}{ASSISTANT}")
        return ids[1:] if last_id == self.eos_id else ids

    def tokenizer_json(self) -> dict[str, Any]:
        """Return what the library writes of this tokenizer, as plain values, but for what is null."""
        sides = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        split = {"type": "Split", "pattern": {"Regex": self.pattern}, "behavior": "Isolated", "invert": False}
        return {
            "version": "1.0",
            "added_tokens": [
                {"id": number, "content": token, **sides} for number, token in enumerate(SPECIAL)
            ],
            "pre_tokenizer": split,
            "decoder": {"type": "Fuse"},
            "model": {"type": "WordLevel", "vocab": self.vocabulary, "unk_token": UNKNOWN},
        }
