"""What the measurements on a GPU share: their options, parts that are tried one after the other, and the
result."""

from __future__ import annotations

import argparse
import gc
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from benchmarks.common import RESULTS, machine, written
from benchmarks.common import options as parser_of

NO_DEVICE, FAILED = 2, 1
Part = Callable[[Path, str, bool], dict[str, Any]]  # of a folder, the device, and whether models are tiny


def options(about: str | None, parts: Collection[str]) -> argparse.ArgumentParser:
    """Return the parser of what all of them are asked with."""
    parser = parser_of(about)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="tiny models in the place of large ones")
    parser.add_argument("--parts", nargs="+", choices=tuple(parts), help="default: all that the result lacks")
    parser.add_argument("--out", type=Path, help="instead of results/<check>_<device>.json")
    return parser


def lacks_device(check: str, device: str) -> bool:
    """Return whether there is no such device, and say so."""
    lacking = device == "cuda" and not torch.cuda.is_available()
    if lacking:
        print(f"{check}: torch sees no CUDA device here, so nothing was tried", file=sys.stderr)
    return lacking


def try_parts(check: str, parts: Mapping[str, Part], chosen: argparse.Namespace) -> int:
    """Try every part that is asked for, write the result after each, and return the exit code.

    A part is well (`ok`), not so, or could not be tried (None).
    """
    cuda = chosen.device == "cuda"
    name = torch.cuda.get_device_name(0) if cuda else f"cpu {machine()['cpu']}"
    slug = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    out = chosen.out or RESULTS / f"{check}_{slug}.json"
    versions = machine()["versions"] | {"cuda": torch.version.cuda}
    result: dict[str, Any] = {"device": name, "tiny": chosen.tiny, "versions": versions, "parts": {}}
    known = json.loads(out.read_text(encoding="utf-8")) if out.is_file() else {}
    if all(known.get(key) == result[key] for key in ("device", "tiny", "versions")):
        result["parts"] = known["parts"]
    found: dict[str, dict[str, Any]] = result["parts"]
    for part in chosen.parts or [part for part in parts if part not in found]:
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=f"assay-{part}-") as folder:
            try:
                found[part] = parts[part](Path(folder), chosen.device, chosen.tiny)
            except (RuntimeError, OSError, ValueError, KeyError, AssertionError, ImportError) as error:
                found[part] = {"ok": False, "why": f"{type(error).__name__}: {error}"[:2000]}
        found[part]["seconds"] = round(time.monotonic() - begun, 1)
        print(f"{part}: {found[part]}", file=sys.stderr, flush=True)
        result["ok"] = all(each["ok"] is not False for each in found.values())
        written(out, result)
        gc.collect()
        if cuda:
            torch.cuda.empty_cache()
    return 0 if all(each["ok"] is not False for each in found.values()) else FAILED
