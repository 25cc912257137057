"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

# No curves are drawn beside the trainings of tests, except where a test asks for it.
os.environ.setdefault("ASSAY_REDRAW_SECONDS", "0")


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Compute on one thread: in models as small as those of tests several only wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
