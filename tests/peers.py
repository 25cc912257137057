"""Tools of others, whose own logs and servers tests use where they are installed; none is among assay's pins.

`ASSAY_PEERS` names a Python that has them and what assay is pinned to, as .ci/run makes one from
.ci/peers.txt.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from functools import cache

PEER = os.environ.get("ASSAY_PEERS", sys.executable)


@cache
def has(package: str) -> bool:
    """Return whether a package is installed there."""
    if sys.executable == PEER:
        return importlib.util.find_spec(package) is not None
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    return subprocess.run([PEER, "-c", code], capture_output=True, check=False).returncode == 0
