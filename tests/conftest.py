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


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --all."""
    parser.addoption("--all", action="store_true", help="also run what takes minutes: tests that are marked long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked long, unless all is asked for."""
    if config.getoption("--all"):
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Compute on one thread again, whatever the test before has set; before any fixture begins."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
