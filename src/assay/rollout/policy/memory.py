"""What becomes of memory that was freed."""

from __future__ import annotations

import ctypes
import sys

# Numbers of glibc's mallopt, and the most that it takes for the second.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _LARGEST = -1, -3, 2**25


def keep_freed_memory() -> None:
    """Let this process keep memory that was freed for what it allocates next, where glibc manages it.

    Otherwise each large tensor is made of new pages, which the system has to clear first: an elementwise step
    of learning then takes up to ten times as long. The peak is what it was.

    Source: mallopt(3), M_TRIM_THRESHOLD and M_MMAP_THRESHOLD.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_MMAP_THRESHOLD, _LARGEST)
