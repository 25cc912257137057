"""Whether a text looks drawn at random, leaves a gap to fill, or is everybody's example."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import NamedTuple

_PLACEHOLDERS = re.compile(
    rb"(?i)(?:\$|%\(|%s|\{|<|\[|\*{3}|x{3}|\.{3}|\xe2\x80\xa6|your|change_?me|example|redacted|none\b"
    rb"|null\b|true\b|false\b|os\.environ|getenv|process\.env|secrets\.|env\.)"
)
_EXAMPLES = re.compile(rb"(?i)example|placeholder|dummy|your[_-]|redacted|x{6}|0{8}|1234567890")
# What examples have for a password; everybody's, so nobody's.
_NOBODYS = frozenset(
    b"password passwd passw0rd p@ssw0rd password1 password123 pass pwd secret s3cr3t token key apikey api_key"
    b" user username admin root test foobar changeme letmein qwerty 12345678 hunter2 mypassword mysecret"
    b" correct-horse-battery-staple correcthorsebatterystaple abc123".split()
)


class Hit(NamedTuple):
    """Where a text holds something: what it is, and from where to where in bytes."""

    kind: str
    start: int
    end: int


def is_gap(value: bytes) -> bool:
    """Return whether a value is to be filled in, or is looked up when the text is used."""
    return _PLACEHOLDERS.match(value) is not None


def is_example(value: bytes) -> bool:
    """Return whether a value is one that examples have.

    >>> [is_example(value) for value in (b"AKIA" + b"IOSFODNN7EXAMPLE", b"hunter2", b"Zq81xk")]
    [True, True, False]
    """
    return _EXAMPLES.search(value) is not None or value.lower() in _NOBODYS


def entropy(text: bytes) -> float:
    """Return the Shannon entropy of a text's own bytes, in bits per byte.

    >>> entropy(b"aaaa"), entropy(b"abab")
    (0.0, 1.0)
    """
    total = len(text)
    return abs(sum(n / total * math.log2(n / total) for n in Counter(text).values())) if total else 0.0


def looks_random(value: bytes) -> bool:
    """Return whether a value is more likely drawn at random than written: long, of several kinds of
    characters, uneven."""
    letters, digits = any(chr(c).isalpha() for c in value), any(48 <= c <= 57 for c in value)
    mixed = value != value.lower() and value != value.upper()
    return len(value) >= 12 and letters and (digits or (mixed and len(value) >= 20)) and entropy(value) >= 3.0


def is_drawn(value: bytes) -> bool:
    """Return whether a value can hardly be anything but drawn: letters of both cases and digits in turn,
    where names of classes have whole words.

    >>> [is_drawn(value) for value in (b"a8Xk02QpZr7LmN4tYv1C", b"Qwen3OmniMoeCode2WavModel", b"ab12" * 9)]
    [True, False, False]
    """
    words = len(re.findall(rb"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+", value))
    return (
        len(value) >= 16
        and value != value.lower()
        and value != value.upper()
        and len(value) < 3 * words
        and re.search(rb"\d", value) is not None
        and entropy(value) >= 3.5
    )
