"""Drafts by prompt look-up (`generation.drafts`): a guess of what a row writes next is what stood behind the
same tokens before.

Source: Leviathan et al. 2023, Fast Inference from Transformers via Speculative Decoding. Here nothing is
accepted by chance: the number that decides a token hangs on the row's seed and the place alone, so a guess is
right if it is the token that is drawn there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

# How many last tokens are looked up, in this order.
GRAMS = (3, 2)


def text_of(ids: Iterable[int]) -> str:
    """Return tokens as characters, which Python finds fast and appends to."""
    return "".join(map(chr, ids))


def guessed(text: str, most: int) -> list[int]:
    """Return at most so many tokens that may come next: those behind the latest earlier place of the last
    ones, over and over where that place reaches the end.

    >>> guessed(text_of([5, 6, 7, 8, 9, 5, 6, 7]), 2), guessed(text_of([4, 5, 4, 5]), 3)
    ([8, 9], [4, 5, 4])
    >>> guessed(text_of([5, 6, 7]), 2)
    []
    """
    for n in GRAMS if most > 0 else ():
        place = text.rfind(text[-n:], 0, -1)
        if place >= 0:
            behind = text[place + n : place + n + most]
            return [ord(token) for token in (behind * most)[:most]]
    return []


def blocks_of(texts: Sequence[str], guesses: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return what is read of each row: its last token, its guesses, and any token where others guess more.

    >>> blocks_of([text_of([5, 6]), text_of([7])], [[8, 9], []])
    [[6, 8, 9], [7, 0, 0]]
    """
    most = max(map(len, guesses))
    return [
        [ord(text[-1]), *found, *[0] * (most - len(found))]
        for text, found in zip(texts, guesses, strict=True)
    ]


def taken(drawn: Sequence[int], guesses: Sequence[int], ends: Collection[int]) -> int:
    """Return how many of the tokens drawn in one pass stand: up to the first that is another one than was
    guessed, or that ends the row.

    >>> taken([5, 6, 7], [5, 9], [2]), taken([5, 6, 7], [5, 6], [2]), taken([5, 2, 7], [5, 2], [2])
    (2, 3, 2)
    """
    n = 0
    while n < len(guesses) and drawn[n] == guesses[n] and drawn[n] not in ends:
        n += 1
    return n + 1
