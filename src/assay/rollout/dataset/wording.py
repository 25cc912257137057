"""What a text or a record says, apart from how it is worded: by this records are compared with each other."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from assay.core.storage.json import digest

_WORD = re.compile(r"\w+")
# What is said for politeness, and asks for nothing.
_POLITE = re.compile(
    r"\b(?:please|pls|plz|kindly|thank you(?: (?:so|very) much)?(?: in advance)?|(?:many )?thanks(?: a lot)?"
    r"|thx|hello|hi|hey|greetings|dear|cheers|(?:(?:best|kind|warm) )?(?:regards|wishes)"
    r"|(?:could|can|would|will) you)\b"
)
# A number, a letter of a script that puts no spaces between words, or a word.
_UNSPACED = "\u2e80-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(rf"\d+(?:[.,]\d+)*|[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
DIGITS = 4  # significant digits by which numbers that are no whole ones are told apart
_WHOLE = 1e-6  # a number this near to a whole one, relative to it, is that one


def words_of(text: str) -> list[str]:
    r"""Return the words of a text as they are compared: compatible forms, no case, no punctuation.

    >>> words_of("\uff22ad, \u201cSTRASSE\u201d-2!")
    ['bad', 'strasse', '2']
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _WORD.findall(text.casefold())


def essential_words(text: str) -> list[str]:
    r"""Return the words that make a text another piece of work: no politeness, no invisible characters, and
    numbers by their value, to a few digits.

    >>> essential_words("Hi, could you ship 1,250.000000001 LAMPS to Os\u200blo, please? Thanks!")
    ['ship', '1250', 'lamps', 'to', 'oslo']
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = "".join(letter for letter in text if unicodedata.category(letter) != "Cf")
    text = text.casefold()
    found = _TOKEN.findall(_POLITE.sub(" ", text)) or _TOKEN.findall(text)
    return [_number(token) if token[0].isdigit() else token for token in found]


def _number(token: str) -> str:
    """Return a number as its value is written; what only looks like one (a date, a version) as it stands."""
    plain = token.replace(",", "") if _THOUSANDS.fullmatch(token) else token.replace(",", ".")
    if plain.count(".") > 1 or len(plain) > 300:
        return token
    return rounded(float(plain)) if "." in plain else plain


def rounded(value: float) -> str:
    """Return a number to a few significant digits, a whole one with all of its own.

    >>> rounded(481.91000001), rounded(1234567.000000001), rounded(1e-9)
    ('481.9', '1234567', '1e-09')
    """
    whole = abs(value) < 1e15 and value and abs(value - round(value)) <= _WHOLE * abs(value)
    return str(round(value)) if whole else f"{value:.{DIGITS}g}"


def essence(value: Any) -> Any:
    """Return a JSON value with its texts in essential words and its numbers to a few digits."""
    if isinstance(value, str):
        return " ".join(essential_words(value))
    if isinstance(value, Mapping):
        return {name: essence(part) for name, part in value.items()}
    if isinstance(value, Sequence):
        return [essence(part) for part in value]
    return value if value is None or isinstance(value, bool) else rounded(float(value))


# Where rows of data commonly say what is asked, what is right, and what they were made from.
TEXT_FIELDS = ("messages", "prompt", "context")
ANSWER_FIELDS = ("gold", "golds", "answer", "target", "label")
FEWEST_WORDS = 3  # of a text under another name, so that labels are none
FAMILY_FIELDS = ("family", "template_family", "template", "template_id", "cluster")


def texts_of(record: Mapping[str, Any]) -> list[str]:
    """Return the texts of a record's prompt, messages of a conversation one by one; of a task that names them
    otherwise, every text of several words that is no answer and no label.

    >>> texts_of({"id": "a b c", "question": "How many legs has a cat?", "answer": "It has four."})
    ['How many legs has a cat?']
    """
    found = [text for name in TEXT_FIELDS for text in _texts(record.get(name))]
    if found or record.get("truth") is not None:
        return found
    others = set(record) - {"id", *ANSWER_FIELDS, *FAMILY_FIELDS}
    texts = [record[name] for name in sorted(others) if isinstance(record[name], str)]
    return [text for text in texts if len(text.split()) >= FEWEST_WORDS]


def _texts(asked: Any) -> list[str]:
    said = (
        [part.get("content") for part in asked if isinstance(part, Mapping)]
        if isinstance(asked, list)
        else [asked]
    )
    return [text for text in said if isinstance(text, str)]


_NO_CONTENT = ("id", "schema_uri", "schema_path", *FAMILY_FIELDS)


def content_of(record: Mapping[str, Any]) -> str:
    """Return what a record asks as 32 hex digits: the words of its texts, or without any the world it was
    made from.

    Neither id nor family, labels, order of fields, politeness, case, punctuation and far digits make another.

    >>> first, second = {"id": "a", "prompt": "Who is 7?"}, {"id": "b", "prompt": "please: WHO is 7"}
    >>> content_of(first) == content_of(second)
    True
    """
    words, truth = essential_words(" ".join(texts_of(record))), record.get("truth")
    if words:
        return digest(words)[:32]
    rest = truth if isinstance(truth, Mapping) else {k: v for k, v in record.items() if k not in _NO_CONTENT}
    return digest(essence(rest))[:32]


def family_of(record: Mapping[str, Any]) -> str | None:
    """Return the family that a record says it belongs to, None if it says nothing of it."""
    for name in FAMILY_FIELDS:
        value = record.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool):
            return f"{name} {value}"
    return None
