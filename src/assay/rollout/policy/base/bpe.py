"""A byte-level BPE tokenizer as its merges: all that is needed to read a tiny base's tokens without the
library that learned them.

`tiny.py` learns it from the lessons of the task. Who checks a package takes the merges from tokenizer.json,
and everything else in that file, and every token, follows from them. No torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from assay.core.config.settings import ScratchBase
from assay.core.errors import RecordError
from assay.core.storage.files import read_text
from assay.core.storage.json import loads
from assay.rollout.policy.base.words import END, SPECIAL, Words

Merge = tuple[str, str]

# Merges run across words, so that what never varies, instructions and the frame of an object, comes to a few
# tokens. Only numbers stand alone, in pairs of digits: each pair is met often enough to learn to copy it,
# however rare the number is.
NUMBERS = r"\.?[0-9]{1,2}"
# One character for each byte, in the order of their tokens. Source: GPT-2, bytes_to_unicode.
_SHOWN = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN = [byte for byte in range(256) if byte not in _SHOWN]
_CHARACTER = {byte: chr(byte) for byte in _SHOWN} | {byte: chr(256 + n) for n, byte in enumerate(_HIDDEN)}
ALPHABET = sorted(_CHARACTER.values())
LOST = "\ufffd"  # stands where bytes that are no text were decoded


class Merged(Words):
    """Reads and counts tokens as a learned tokenizer does.

    Args:
        merges: Pairs of tokens that become one, the first learned first.
    """

    def __init__(self, merges: Sequence[Merge]) -> None:
        super().__init__(())
        tokens = dict.fromkeys([*SPECIAL, *ALPHABET, *(one + other for one, other in merges)])
        self.vocabulary = {token: number for number, token in enumerate(tokens)}
        self._merges = list(merges)
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._number = re.compile(f"({NUMBERS})")
        self._longest = max(len(token) for token in self.vocabulary)
        self._piece = lru_cache(65536)(self._merged)

    def _read(self, text: str) -> tuple[int, ...]:
        found: list[int] = []
        for part in re.split(f"({self._special.pattern})", text):
            if part in SPECIAL:
                found.append(self.vocabulary[part])
                continue
            for piece in self._number.split(part):
                found += self._piece(piece)
        return tuple(found)

    def _merged(self, piece: str) -> tuple[int, ...]:
        parts = list(_bytes_of(piece))
        while len(parts) > 1:
            pairs = list(pairwise(parts))
            first = min(pairs, key=lambda pair: self._ranks.get(pair, len(self._ranks)))
            if first not in self._ranks:
                break
            at = pairs.index(first)
            joined: list[str] = parts[:at]
            while at < len(parts):
                whole = tuple(parts[at : at + 2]) == first
                joined.append("".join(first) if whole else parts[at])
                at += 2 if whole else 1
            parts = joined
        return tuple(self.vocabulary[part] for part in parts)

    def can_write(self, text: str) -> bool:
        """Return whether tokens that end nothing give a text, cut as the tokenizer cuts it."""
        return END not in text

    def keeps(self, text: str) -> bool:
        """Return whether a stored text says all that was written: tokens need not end where a character
        does."""
        return LOST not in text

    def _cuts(self, text: str, n: int) -> Iterator[tuple[int, ...]]:
        yield from super()._cuts(_bytes_of(text), n)

    def tokenizer_json(self) -> dict[str, Any]:
        """Return what the library writes of this tokenizer, as plain values, but for what is null or off."""
        plain = super().tokenizer_json()
        split = {"type": "Split", "pattern": {"Regex": NUMBERS}, "behavior": "Isolated", "invert": False}
        level = {"type": "ByteLevel", "trim_offsets": True}
        return plain | {
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [split, {**level, "add_prefix_space": False, "use_regex": False}],
            },
            "decoder": {**level, "add_prefix_space": True, "use_regex": True},
            "model": {
                "type": "BPE",
                **dict.fromkeys(("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix")),
                **dict.fromkeys(("fuse_unk", "byte_fallback", "ignore_merges"), False),
                "vocab": self.vocabulary,
                "merges": [list(pair) for pair in self._merges],
            },
        }


def _bytes_of(text: str) -> str:
    """Return a text as one character for each of its bytes.

    >>> _bytes_of("a é")
    'aĠÃ©'
    """
    return "".join(_CHARACTER[byte] for byte in text.encode(errors="replace"))


def read_merges(folder: Path, most: int, *, fix: str) -> list[Merge]:
    """Return the merges of a tokenizer that was learned, of at most so many tokens.

    Raises:
        RecordError: tokenizer.json holds something else.
    """
    path = folder / "tokenizer.json"
    told = loads(read_text(path, fix=fix), where=str(path), fix=fix)
    try:
        merges = [(one, other) for one, other in told["model"]["merges"]]
    except (KeyError, TypeError, ValueError):
        merges = []
    room = most - len(SPECIAL) - len(ALPHABET)
    known = set(ALPHABET)
    for one, other in merges:
        if not isinstance(one, str) or not isinstance(other, str) or not {one, other} <= known:
            raise RecordError(
                "merges of tokens that are known before",
                found=f"{one!r:.40}, {other!r:.40}",
                where=str(path),
                fix=fix,
            )
        known.add(one + other)
    if not 0 < len(merges) <= room:
        found = str(len(merges))
        raise RecordError(f"1 to {room} merges", found=found, where=str(path), fix=fix)
    return merges


def words_of(base: ScratchBase, words: Sequence[str], folder: Path, *, fix: str) -> Words:
    """Return how the tokenizer of a base that was built here reads: by the task's words, or by the merges
    that lie in its folder.

    Raises:
        RecordError: They cannot be read.
    """
    if base.bpe_vocabulary is None:
        return Words(words)
    return Merged(read_merges(folder, base.bpe_vocabulary, fix=fix))
