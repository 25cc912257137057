"""Write the tables of docs/speed.md from the records of what was measured.

./run python benchmarks/speed_page.py
"""

from __future__ import annotations

import json
import statistics
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, ROOT, told_of

PAGE = ROOT / "docs/speed.md"
# Names of speed_cpu's parts, and what they are called.
PARTS = {
    "collider_step_ratio": "GRPO step, collider",
    "structured_step_ratio": "GRPO step, structured task",
    "evaluation_ratio": "evaluation",
    "collider_both_step_ratio": "GRPO step, collider, two cores",
    "structured_both_step_ratio": "GRPO step, structured task, two cores",
    "evaluation_both_ratio": "evaluation, two cores",
    "collider_json_step_ratio": "GRPO step on the JSON surface",
    "evaluation_json_ratio": "evaluation on the JSON surface",
}
KINDS = {"copies": "text that copies its prompt", "random": "random text"}
WHOLE = {"7 M, shared": 12, "29 M, shared": 12, "29 M, apart": 1.5}


def _record(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _with(head: Sequence[str], rows: Sequence[Sequence[str]], said: str) -> str:
    return f"{_table(head, rows)}\n\n{textwrap.fill(said, 110, break_on_hyphens=False)}"


def _ranged(found: Mapping[str, float]) -> str:
    digits = 1 if found["median"] >= 2 else 2
    median, low, high = (f"{found[name]:.{digits}f}" for name in ("median", "low", "high"))
    return f"{median} ({low} to {high})"


def beside_stock() -> str:
    """Return the ratios of speed_cpu with goals: by processor seconds, on two cores by the clock."""
    record = _record("speed_cpu")
    rows = []
    for key, name in PARTS.items():
        if key not in record:
            continue
        found = record[key]
        # Of several cores the time that passes is what counts.
        clock = "wall" if "both" in key else "cpu"
        each = sorted(pair[clock] for pair in found["pairs"])
        ratio = _ranged({"median": statistics.median(each), "low": each[0], "high": each[-1]})
        goal = found["goal"]
        rows.append([name, ratio, "none" if goal is None else f"{goal:g}", str(found["n"])])
    head = ["measured with the tiny policy", "times faster", "goal", "n"]
    return _with(head, rows, told_of(record["machine"]))


def whole_step() -> str:
    """Return the ratios of whole_step."""
    record = _record("whole_step")
    rows = [
        [
            case,
            *(_ranged(found["ratios"][part]) for part in ("playing", "learning", "step")),
            f"{WHOLE[case]:g}",
            f"{found['ratios']['peak_mib']['median']:.1f}",
            ", ".join(f"{found[f'ours_{part}_over_floor']:.1f}" for part in ("playing", "learning")),
            str(found["n"]),
        ]
        for case, found in ((case, record["cases"][case]) for case in WHOLE if case in record["cases"])
    ]
    head = [
        "model",
        "playing",
        "learning",
        "step",
        "goal",
        "peak memory, stock / ours",
        "playing, learning / floor",
        "n",
    ]
    return _with(head, rows, told_of(record["machine"]))


def learning() -> str:
    """Return the seconds and peaks of learning_pass."""
    record = _record("learning_pass")
    rows = []
    for case, found in record["cases"].items():
        sides = [found.get(side) for side in ("alone", "flat")]
        if any(isinstance(side, dict) for side in sides):
            told = [f"{s['seconds']:.1f} s, {s['peak_mib']:,.0f} MiB" if s else "not run" for s in sides]
            rows.append([case, *told, str(found["n"])])
    shares = [
        f"{found['share_of_a_step']['kl']:.1%} of a step at {case.split(',')[0]} (n = {found['n']})"
        for case, found in record["cases"].items()
        if "share_of_a_step" in found
    ]
    said = f"The KL every five steps, on 16 texts of one prompt: {'; '.join(shares)}."
    head = ["model", "rows alone", "flat", "n"]
    return _with(head, rows, f"{said} {told_of(record['machine'])}")


def drafts() -> str:
    """Return what drafts gain."""
    record = _record("drafts")
    by_case = {tuple(case.rsplit(", ", 1)): found for case, found in record["cases"].items()}
    sizes = sorted({int(rows) for _, rows in by_case})

    def cell(kind: str, size: int) -> str:
        found = by_case.get((kind, str(size)))
        return _ranged(found["gain"]) if found else "not run"

    rows = [
        [KINDS[kind], *(cell(kind, size) for size in sizes)]
        for kind in dict.fromkeys(kind for kind, _ in by_case)
    ]
    n = {found["n"] for found in by_case.values()}
    head = ["times faster with four guesses", *(f"{size} rows" if size > 1 else "1 row" for size in sizes)]
    return _with(head, rows, f"n = {', '.join(map(str, sorted(n)))} pairs. {told_of(record['machine'])}")


TABLES: dict[str, Callable[[], str]] = {
    "speed_cpu": beside_stock,
    "whole_step": whole_step,
    "learning_pass": learning,
    "drafts": drafts,
}


def filled(text: str) -> str:
    """Return a page with its tables as the records have them now."""
    for name, make in TABLES.items():
        begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise SystemExit(f"{PAGE.name}: expected {begin.strip()} and {end.strip()}, found neither or one")
        text = f"{before}{begin}{make()}{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
