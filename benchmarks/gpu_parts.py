"""What the checks on a GPU share: their options, parts that are tried one after the other, and the result."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import torch

from assay.core.provenance import packages

RESULTS = Path(__file__).parent / "results"
NO_DEVICE, FAILED = 2, 1
LIBRARIES = ("torch", "trl", "transformers", "peft", "bitsandbytes")
Part = Callable[[Path, str, bool], dict[str, Any]]  # of a folder, the device, and whether models are tiny


def options(about: str | None, parts: Collection[str]) -> argparse.ArgumentParser:
    """Return the parser of what both checks are asked with."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="tiny models in the place of large ones")
    parser.add_argument("--parts", nargs="+", choices=tuple(parts), default=tuple(parts))
    parser.add_argument("--out", type=Path, help="instead of results/<check>_<device>.json")
    return parser


def lacks_device(check: str, device: str) -> bool:
    """Return whether there is no such device, and say so."""
    lacking = device == "cuda" and not torch.cuda.is_available()
    if lacking:
        print(f"{check}: torch sees no CUDA device here, so nothing was tried", file=sys.stderr)
    return lacking


def try_parts(check: str, parts: Mapping[str, Part], chosen: argparse.Namespace) -> int:
    """Try every part, say how it went, write the result, and return the exit code."""
    cuda = chosen.device == "cuda"
    name = torch.cuda.get_device_name(0) if cuda else f"cpu {platform.machine()}"
    found: dict[str, dict[str, Any]] = {}
    for part in chosen.parts:
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=f"assay-{part}-") as folder:
            try:
                found[part] = parts[part](Path(folder), chosen.device, chosen.tiny)
            except (RuntimeError, OSError, ValueError, KeyError, AssertionError) as error:
                found[part] = {"ok": False, "why": f"{type(error).__name__}: {error}"}
        found[part]["seconds"] = round(time.monotonic() - begun, 1)
        print(f"{part}: {found[part]}", file=sys.stderr, flush=True)
    ok = all(each["ok"] is not False for each in found.values())
    versions = {"python": platform.python_version(), **{each: packages()[each] for each in LIBRARIES}}
    result = {"device": name, "ok": ok, "tiny": chosen.tiny, "parts": found, "versions": versions}
    result |= {"devices": torch.cuda.device_count() if cuda else os.cpu_count(), "cuda": torch.version.cuda}
    slug = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    out = chosen.out or RESULTS / f"{check}_{slug}.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(result, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if ok else FAILED
