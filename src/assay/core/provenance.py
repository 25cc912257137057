"""Who ran what, on what, and when: git, packages, device and clock, behind an allow-list."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import resource
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PACKAGES = (
    "torch",
    "transformers",
    "trl",
    "peft",
    "bitsandbytes",
    "accelerate",
    "datasets",
    "tokenizers",
    "safetensors",
    "numpy",
    "scipy",
    "pandas",
    "matplotlib",
    "pydantic",
    "dvc",
    "hydra-core",
)
# Exact names only: a prefix would let a secret slip in.
ENVIRONMENT = (
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "PYTHONHASHSEED",
    "CUBLAS_WORKSPACE_CONFIG",
    "DVC_EXP_NAME",
)
# By these, libraries share sums out otherwise or choose other instructions; exact names only, as above.
ARITHMETIC = (
    "OMP_NUM_THREADS",
    "OMP_DYNAMIC",
    "MKL_NUM_THREADS",
    "MKL_DYNAMIC",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "OPENBLAS_NUM_THREADS",
    "OPENBLAS_CORETYPE",
    "GOTO_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "ATEN_CPU_CAPABILITY",
    "DNNL_MAX_CPU_ISA",
    "ONEDNN_MAX_CPU_ISA",
    "NPY_DISABLE_CPU_FEATURES",
    "NPY_ENABLE_CPU_FEATURES",
    "GLIBC_TUNABLES",
    "NVIDIA_TF32_OVERRIDE",
)
# Instructions of a processor by which libraries choose how to add up: x86 and ARM.
_WIDTHS = ("avx", "amx", "fma", "f16c", "sse4", "asimd", "sve", "sme", "bf16", "i8mm")
# Settings of a W&B run that keep to itself what it would tell of this machine: host, user, command line,
# program, git remote, installed packages, hardware, terminal.
WANDB_QUIET: dict[str, Any] = {
    "silent": True,
    "console": "off",
    "host": "",
    "username": "",
    "email": "",
    "program": "assay",
    "disable_git": True,
    "disable_code": True,
    "save_code": False,
    "disable_job_creation": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_disable_machine_info": True,
    "x_save_requirements": False,
}


def packages() -> dict[str, str | None]:
    """Return the installed version of each package that can change a number; None where it is not
    installed."""
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def git_state(root: Path) -> dict[str, Any]:
    """Return commit and whether code, data or settings differ from it; None for both outside a git checkout.

    What a run itself writes (evidence/, dvc.lock) is not looked at: it always differs while a stage runs.
    """

    status = _git(
        root, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!evidence", ":!dvc.lock"
    )
    return {"commit": _git(root, "rev-parse", "HEAD"), "modified": None if status is None else bool(status)}


def remotes(root: Path) -> list[str] | None:
    """Return where git's remotes lie, as host/path, sorted; None outside a git checkout.

    Scheme, user, password, port, query and fragment stay out, and so does what a remote is called here. A
    folder of this machine is `local`; an address whose host cannot be told from a password for certain is
    `unclear`.
    """
    if _git(root, "rev-parse", "--git-dir") is None:
        return None
    listed = _git(root, "config", "--get-regexp", r"^remote\..*\.(url|pushurl)$") or ""
    return sorted({host_and_path(line.partition(" ")[2]) for line in listed.split("\n") if line})


def committed_text(root: Path, name: str) -> str | None:
    """Return a text file below a folder as the last commit has it; None where there is none."""
    return _git(root, "show", f"HEAD:./{name}")


def is_from_git(root: Path, name: str) -> bool:
    """Return whether a file below a folder is as git put it there: a version that git holds, of whatever
    commit, branch or stash; or missing, as in the last commit."""
    if (root / name).is_file():
        found = _git(root, "hash-object", "--", name)
        return found is not None and _git(root, "cat-file", "-e", found) is not None
    return _git(root, "rev-parse", "HEAD") is not None and committed_text(root, name) is None


def host_and_path(address: str) -> str:
    """Return host/path of a git address, `local` for a folder, `unclear` where parts cannot be told apart.

    >>> [host_and_path(each)
    ... for each in ("git@host.org:team/code.git", "https://me@host.org:443/team/code?x#y", "../code")]
    ['host.org/team/code.git', 'host.org/team/code', 'local']
    """
    address = address.strip()
    scheme, sign, rest = address.partition("://")
    if not sign:
        before, colon, path = address.partition(":")
        if not colon or "/" in before or "\\" in address or len(before) < 2:  # C:/code
            return "local"
        rest = f"{before}/{path.lstrip('/')}"
    elif scheme.lower() == "file":
        return "local"
    # A password may hold the very signs that end it: what stands before the last @ is never taken for a host.
    authority, _, path = rest.partition("/")
    host = re.sub(r":\d*$", "", authority.rpartition("@")[2])
    path = re.split(r"[?#]", path)[0].strip("/")
    plain = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.\-]*|\[[0-9A-Fa-f:.]+\]", host) and re.fullmatch(
        r"[\w.~+/-]*", path
    )
    if not plain or "@" in rest.removeprefix(authority):
        return "unclear"
    return f"{host.lower()}/{path}" if path else host.lower()


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def hardware() -> dict[str, Any]:
    """Return processor, cores, Python and operating system; host and user names stay out."""
    model = None
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = [line for line in info.read_text().split("\n") if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else None
    return {
        "processor": model or platform.processor() or None,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def arithmetic() -> dict[str, str]:
    """Return what decides the last bits of a sum on this processor: its model, its instructions, and the
    flags that are set."""
    info, told = Path("/proc/cpuinfo"), dict[str, str]()
    for line in info.read_text().split("\n") if info.is_file() else ():
        name, _, value = line.partition(":")
        told.setdefault(name.strip(), value.strip())
    parts = [told[name] for name in ("model name", "CPU implementer", "CPU part") if name in told]
    widths = {
        each for each in (told.get("flags") or told.get("Features") or "").split() if each.startswith(_WIDTHS)
    }
    found = {
        "processor": " ".join(parts) or platform.processor() or platform.machine(),
        "instructions": " ".join(sorted(widths)) or "not known",
    }
    return found | {name: os.environ[name] for name in ARITHMETIC if name in os.environ}


def peak_ram_bytes() -> int:
    """Return the most memory that this process has ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def environment() -> dict[str, str]:
    """Return the allow-listed environment variables that are set."""
    return {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
