"""A number and what there are so many of, in words."""

from __future__ import annotations


def counted(n: int, plural: str) -> str:
    """Return a number with its noun, given in the plural.

    >>> counted(1, "prompt groups"), counted(0, "items"), counted(1, "policies")
    ('1 prompt group', '0 items', '1 policy')
    """
    one = f"{plural.removesuffix('ies')}y" if plural.endswith("ies") else plural.removesuffix("s")
    return f"{n} {one if n == 1 else plural}"


def plural_of(word: str) -> str:
    """Return the plural of a word, such as the name of a column.

    >>> plural_of("family"), plural_of("house"), plural_of("records")
    ('families', 'houses', 'records')
    """
    if word.endswith("s"):
        return word
    return f"{word[:-1]}ies" if word.endswith("y") and word[-2:-1] not in "aeiou" else f"{word}s"
