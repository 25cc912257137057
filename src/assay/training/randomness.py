"""Random generators of the process, put back after somebody else has drawn from them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def untouched() -> Iterator[None]:
    """Put the global generators of Python, NumPy and torch (CPU and every CUDA device) back as they were."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
