"""Every random number in assay is a function of labels, so that results depend on neither order nor batch
size."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

Label = str | int


def derive_seed(*labels: Label) -> int:
    """Derive a 63-bit seed from labels; equal labels give equal seeds, in any process and on any machine.

    Labels are length-prefixed and typed before hashing, so ("ab", "c") and ("a", "bc"), or 1 and "1", differ.

    >>> derive_seed("heldout", "item-1", 0) == derive_seed("heldout", "item-1", 0)
    True
    >>> derive_seed("ab", "c") == derive_seed("a", "bc")
    False
    """
    digest = hashlib.sha256()
    for label in labels:
        payload = (f"i{label}" if isinstance(label, int) else f"s{label}").encode()
        digest.update(len(payload).to_bytes(4, "big") + payload)
    return int.from_bytes(digest.digest()[:8], "big") >> 1


def rng(*labels: Label) -> np.random.Generator:
    """Return a NumPy generator seeded by the labels."""
    return np.random.default_rng(derive_seed(*labels))


# Made once: each would cost as much as what is done with it to a short array.
_GOLDEN, _11 = np.uint64(0x9E3779B97F4A7C15), np.uint64(11)
_30, _BY_30, _27, _BY_27, _31 = map(np.uint64, (30, 0xBF58476D1CE4E5B9, 27, 0x94D049BB133111EB, 31))


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    # Source: Steele, Lea, Flood (2014), "Fast splittable pseudorandom number generators": the splitmix64
    # finaliser.
    x = (x ^ (x >> _30)) * _BY_30
    x = (x ^ (x >> _27)) * _BY_27
    return x ^ (x >> _31)


def keyed_uniform(keys: NDArray[np.uint64], counters: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return uniforms in [0, 1), one for each (key, counter) pair; arrays broadcast, no state is kept.

    The same pair always gives the same number: noise can be looked up instead of drawn in sequence.

    >>> one = keyed_uniform(np.uint64([7]), np.uint64([3]))
    >>> two = keyed_uniform(np.uint64([7, 8]), np.uint64([3, 3]))
    >>> bool(one[0] == two[0])
    True
    """
    mixed = _mix(
        _mix(np.asarray(keys, np.uint64) + _GOLDEN) ^ (np.asarray(counters, np.uint64) * _GOLDEN + _GOLDEN)
    )
    return np.asarray(mixed >> _11, np.float64) * 2.0**-53
