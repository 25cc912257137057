"""Memory that was freed is kept for what is allocated next."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

FILL_AND_FREE = """
import ctypes
import resource
from assay.rollout.policy.memory import keep_freed_memory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

def faults():
    begun = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for size in (4, 8, 16, 24, 4, 30):  # MiB
        block = libc.malloc(size * 2**20)
        ctypes.memset(block, 1, size * 2**20)
        libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - begun

faults()
before = faults()
keep_freed_memory()
faults()
print(before, faults())
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="glibc alone has mallopt"
)
def test_what_was_freed_is_not_handed_back_to_the_system_and_taken_anew() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILL_AND_FREE], check=True, capture_output=True, text=True, timeout=60
    )
    before, after = map(int, done.stdout.split())
    assert before > 1_000
    assert after < before / 10
