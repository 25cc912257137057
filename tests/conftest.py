"""What all tests share."""

from __future__ import annotations

import os
import sys

import pytest

# No curves are drawn beside the trainings of tests, except where a test asks for it.
os.environ.setdefault("ASSAY_REDRAW_SECONDS", "0")
# In models as small as those of tests several threads only wait for each other; set before torch is imported, and for the
# processes that tests start.
os.environ["OMP_NUM_THREADS"] = "1"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Compute on one thread again, whatever the test before has set; before any fixture begins."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
