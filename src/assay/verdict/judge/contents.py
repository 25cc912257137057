"""What an item asks and what is right, as digests that white space and the spelling of numbers do not change;
and which items are one piece of work, or share a passage.

A content is four digests joined by dots: of the question, of the target, of the question's wording, and of a
passage that other items have too; each is "" where there is none.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Prints = NDArray[np.uint64]
MOST_READ = 2000  # characters of a text that is looked at for a list or a record
WINDOW, FEWEST = 20, 20  # words that are one print of a passage, and prints that make one: 39 words in a row
MOST_PRINTS, FOLLOWED = 128, 4  # of a question the smallest ones; items by which each is followed
_BASE = np.uint64(0x9E3779B97F4A7C15)
_SAME_WORDS = {"True": "true", "False": "false", "None": "null"}
_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
# Marks of a sentence; those of arithmetic and of code mean something, and so does a point between digits.
_MARKS = re.compile(r"[;:!?\"'\u2018\u2019\u201c\u201d\u2026\u00bf\u00a1]|[.,](?!\d)|(?<!\d)[.,]")


class Content(NamedTuple):
    """The digests of a content."""

    question: str = ""
    target: str = ""
    wording: str = ""
    passage: str = ""

    def __str__(self) -> str:
        return ".".join(self) if any(self) else ""


def parts_of(content: str) -> Content:
    """Return the digests of a content as a row holds it.

    Raises:
        ValueError: It is none.
    """
    return Content(*content.split(".", 3)) if content else Content()


def identity_of(content: str) -> str:
    """Return what tells an item from others: question and target; "" where neither is known."""
    return ".".join(parts_of(content)[:2]) if content else ""


def question_of(content: str) -> str:
    """Return the question of a content; "" where it is not known."""
    return parts_of(content).question


def differ(one: str, other: str) -> bool:
    """Return whether two contents ask something else, or differ in what is right, where both say it.

    >>> a, b, c = (str(content_of("Who?\\n", each)) for each in ("42", "42.0", ""))
    >>> differ(a, b), differ(a, c), differ(a, str(content_of("When?", "42")))
    (False, False, True)
    """
    pairs = zip(parts_of(one)[:2], parts_of(other)[:2], strict=True)
    return any(first and second and first != second for first, second in pairs)


def content_of(question: str, target: str, wording: str = "") -> Content:
    """Return the content of an item; `wording` is the question as text, where it is something else."""
    return Content(
        short_digest(spelled(question)),
        short_digest(spelled(target)),
        short_digest(_worded(wording or question)),
    )


def short_digest(text: str) -> str:
    """Return 16 hex digits of a text's sha256; "" for no text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16] if text else ""


def trimmed(text: str) -> str:
    """Return a text without white space at its ends, its lines ended and its letters composed in one way."""
    text = text if text.isascii() else unicodedata.normalize("NFC", text)
    return text.replace("\r\n", "\n").strip()


def text_of(value: Any) -> str:
    """Return what identifies a value: a text as it is, anything else as JSON with sorted keys; "" for
    None."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def target_of(value: Any) -> str:
    """Return a target as text: of a list with one value that value."""
    return text_of(value[0] if isinstance(value, list | tuple) and len(value) == 1 else value)


def spelled(text: str) -> str:
    """Return a text as it is compared: runs of white space as one blank, a number as its shortest.

    >>> [spelled(each) for each in (" a\\r\\n b ", "['a']", "42.0", "4.20e1", "007", "True")]
    ['a b', 'a', '42', '42', '007', 'true']
    """
    plain = " ".join(trimmed(text).split())
    if len(plain) < 40 and _NUMBER.fullmatch(plain):
        return f"{float(plain):.15g}" if len(plain.lstrip("+-")) <= 15 else plain
    if plain[:1] in ("[", "{") and len(plain) < MOST_READ:  # as JSON has it, or as Python writes it
        for read in (json.loads, ast.literal_eval):
            try:
                return _SAME_WORDS.get(told := target_of(read(plain)), told)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
    return _SAME_WORDS.get(plain, plain)


def _worded(text: str) -> str:
    """Return a text without case and marks of sentences.

    >>> _worded("What is  2*3.5, please?") == _worded("what is 2*3.5 please")
    True
    """
    text = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(_MARKS.sub(" ", text.casefold()).split())


def prints_of(text: str) -> Prints:
    """Return digests of the runs of `WINDOW` words in a text, the smallest of many, sorted."""
    words = _worded(text).split()
    n = len(words) - WINDOW + 1
    if n < FEWEST:
        return np.zeros(0, np.uint64)
    codes = np.array([zlib.crc32(word.encode("utf-8", "surrogatepass")) for word in words], np.uint64)
    found = np.zeros(n, np.uint64)
    for k in range(WINDOW):  # wraps around on purpose
        found = found * _BASE + codes[k : k + n]
    found ^= found >> np.uint64(31)
    return np.unique(found * _BASE)[:MOST_PRINTS]


def passages(prints: Mapping[str, Prints]) -> dict[str, str]:
    """Return by question the passage that it shares with others: half of what one of them asks, and 39 words
    at least; nothing for questions that share none.

    What more than half of the questions have is their template. Each is compared with the first that had what
    it has, in the order of their digests, so that names and order of items have no part in it.
    """
    known = {name: prints[name] for name in sorted(prints) if len(prints[name])}
    if len(known) < 2:
        return {}
    values, counts = np.unique(np.concatenate([*known.values()]), return_counts=True)
    template, alone = values[counts > len(prints) / 2], values[counts == 1]
    index, sizes, home = dict[int, list[str]](), dict[str, int](), dict[str, str]()
    for name, found in known.items():
        own = np.setdiff1d(found, template, assume_unique=True)
        shared = np.setdiff1d(own, alone, assume_unique=True).tolist()
        sizes[name] = len(own)
        met = Counter(first for each in shared for first in index.get(each, ()))
        best = max(met.items(), key=lambda pair: (pair[1], pair[0]), default=("", 0))
        enough = best[1] >= max(FEWEST, min(sizes[name], sizes.get(best[0], 0)) / 2)
        home[name] = home[best[0]] if enough else name
        for each in shared if not enough else ():
            first = index.setdefault(each, [])
            first += [name] if len(first) < FOLLOWED else []
    several = {first for first, n in Counter(home.values()).items() if n > 1}
    return {name: first for name, first in home.items() if first in several}
