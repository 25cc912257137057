"""A number and what there are so many of, in words."""

from __future__ import annotations


def counted(n: int, plural: str) -> str:
    """Return a number with its noun, given in the plural.

    >>> counted(1, "prompt groups"), counted(0, "items"), counted(1, "policies")
    ('1 prompt group', '0 items', '1 policy')
    """
    one = f"{plural.removesuffix('ies')}y" if plural.endswith("ies") else plural.removesuffix("s")
    return f"{n} {one if n == 1 else plural}"
