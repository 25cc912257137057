"""What all tests share."""

from __future__ import annotations

import os

# No curves are drawn beside the trainings of tests, except where a test asks for it.
os.environ.setdefault("ASSAY_REDRAW_SECONDS", "0")
