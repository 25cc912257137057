"""What the measurements share: folders, options, what is said of the machine, and records as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks/results"
T = TypeVar("T")
LIBRARIES = ("torch", "trl", "transformers", "peft", "bitsandbytes")


def options(about: str | None) -> argparse.ArgumentParser:
    """Return a parser that shows a script's docstring as it is written."""
    return argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)


def machine() -> dict[str, Any]:
    """Return what a reader needs to know of where this was measured."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": 1,
        "python": platform.python_version(),
        "versions": {each: version(each) for each in LIBRARIES},
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def written(
    path: Path, record: Mapping[str, Any], *, indent: int = 2, sort_keys: bool = True
) -> dict[str, Any]:
    """Write a record as JSON, and return it in the order in which it stands there, as its page shows it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=indent, sort_keys=sort_keys, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def alone(work: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a process of its own, so that its memory is its own, and gone behind it."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as a table in Markdown, numbers with four digits; what a row lacks stays empty."""
    import pandas as pd

    def cell(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
        return "" if value is None else str(value)

    shown = [{name: cell(value) for name, value in row.items()} for row in rows]
    return pd.DataFrame(shown).fillna("").to_markdown(index=False, disable_numparse=True)


def page(path: Path, title: str, tables: Mapping[str, Sequence[Mapping[str, Any]]], about: str) -> None:
    """Write tables under headings as a page beside the record they are of."""
    parts = [f"# {title}", *(f"## {name}\n\n{table(rows)}" for name, rows in tables.items() if rows), about]
    path.with_suffix(".md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def told_of(machine: Mapping[str, Any]) -> str:
    """Return one sentence on where something was measured."""
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    return f"{machine['cpu']}, one thread, load {machine['load_at_start']} at the start; {versions}."


def holds(n: int) -> float:
    """Return the probability that the range of n independent values holds their true median."""
    return 1.0 - 2.0 / 2**n


def spread(values: Iterable[float]) -> dict[str, float]:
    """Return the median and the range of some values."""
    all_ = list(values)
    return {"median": statistics.median(all_), "low": min(all_), "high": max(all_)}


def turns(pairs: int, one: str = "stock", other: str = "ours") -> Iterator[tuple[int, str]]:
    """Yield the number of a pair and a side of it, in the order A B B A, so that a drift hits both alike."""
    for pair in range(pairs):
        for side in (one, other) if pair % 2 == 0 else (other, one):
            yield pair, side


def changed(params: Any, **sections: dict[str, Any]) -> Any:
    """Return settings with other values in some of their sections."""
    made = {name: getattr(params, name).model_copy(update=values) for name, values in sections.items()}
    return params.model_copy(update=made)
