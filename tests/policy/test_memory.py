"""Memory that was freed is kept for what is allocated next, and what may still be taken is what the system
leaves a process."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from assay.rollout.policy.memory import available_memory, memory_limit

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


MEMINFO = {"proc/meminfo": "MemTotal: 4000 kB\nMemAvailable: 2000 kB\n"}
V2 = {"proc/self/cgroup": "0::/a/b\n"}
SYSTEMS: dict[str, tuple[dict[str, str], int | None, int | None]] = {
    "nothing is told": ({}, None, None),
    "no limit": (
        MEMINFO | {"sys/fs/cgroup/memory.max": "max", "sys/fs/cgroup/memory.current": "9"},
        2048000,
        None,
    ),
    "of a container": (
        MEMINFO | {"sys/fs/cgroup/memory.max": "900000", "sys/fs/cgroup/memory.current": "100000"},
        800000,
        900000,
    ),
    "files that are kept in memory count as free": (
        {
            "sys/fs/cgroup/memory.max": "900000",
            "sys/fs/cgroup/memory.current": "850000",
            "sys/fs/cgroup/memory.stat": "anon 50000\ninactive_file 800000\n",
        },
        850000,
        900000,
    ),
    "of a group above": (
        V2 | {"sys/fs/cgroup/a/memory.max": "500", "sys/fs/cgroup/a/memory.current": "100"},
        400,
        500,
    ),
    "of the first version": (
        {
            "proc/self/cgroup": "5:memory:/job\n",
            "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "700",
            "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "300",
        },
        400,
        700,
    ),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_a_process_may_take_is_the_least_that_the_system_says(tmp_path: Path, name: str) -> None:
    files, free, limit = SYSTEMS[name]
    for place, content in files.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(content)
    assert available_memory(tmp_path) == free
    whole = memory_limit(Path("/nowhere"))
    assert memory_limit(tmp_path) == (whole if limit is None else limit)
