"""How much memory a process may take, and what becomes of what it has freed."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

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


def memory_limit(root: Path = Path("/")) -> int | None:
    """Return how many bytes of memory a process can ever have: what the machine has, or less where a control
    group or a limit of the process says so; None where the system does not say."""
    found = [limit for limit, _ in _groups(root)]
    if (most := resource.getrlimit(resource.RLIMIT_AS)[0]) != resource.RLIM_INFINITY:
        found.append(most)
    if "SC_PHYS_PAGES" in os.sysconf_names:
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(found, default=None)


def available_memory(root: Path = Path("/")) -> int | None:
    """Return how many bytes of memory a process may still take; None where the system does not say.

    Files that the system keeps in memory count as free: it lets go of them.
    """
    found = [limit - used for limit, used in _groups(root)]
    found += [
        int(line.split()[1]) * 1024 for line in _lines(root / "proc/meminfo") if "MemAvailable:" in line
    ]
    if (most := resource.getrlimit(resource.RLIMIT_AS)[0]) != resource.RLIM_INFINITY:
        taken = next(iter(_lines(root / "proc/self/statm")), "0").split()[0]
        found.append(most - int(taken) * os.sysconf("SC_PAGE_SIZE"))
    return min(found, default=None)


def _groups(root: Path) -> Iterator[tuple[int, int]]:
    """Yield limit and use of each control group that this process is in and that has a limit.

    Source: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
    """
    top = root / "sys/fs/cgroup"
    own = [
        line.split(":", 2)[2].strip("/") for line in _lines(root / "proc/self/cgroup") if line.count(":") > 1
    ]
    for names, place in (
        (("memory.max", "memory.current"), top),
        (("memory.limit_in_bytes", "memory.usage_in_bytes"), top / "memory"),
    ):
        folders = {place, *(folder for name in own for folder in [place / name, *(place / name).parents])}
        for folder in sorted(each for each in folders if each.is_relative_to(place)):
            most, used = ("".join(_lines(folder / name)).strip() for name in names)
            if most.isdecimal() and used.isdecimal():
                kept = sum(
                    int(line.split()[1])
                    for line in _lines(folder / "memory.stat")
                    if line.split()[0] == "inactive_file"
                )
                yield int(most), int(used) - kept


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
