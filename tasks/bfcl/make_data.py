"""Write the records of the task `bfcl` from an installed bfcl-eval: `python tasks/bfcl/make_data.py`."""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from task import paid, solution

from assay.checks.own_data.splits import split_of_groups
from assay.core.console import say
from assay.rollout import Item
from assay.rollout.dataset.clusters import united
from assay.rollout.tasks.own.adapters.freeze import write_splits

FOLDER = Path(__file__).resolve().parents[2] / "data/bfcl"
ONE, SEVERAL = ("simple_python", "live_simple"), ("multiple",)  # functions that are offered
LONGEST = {"simple_python": 1000, "live_simple": 1000, "multiple": 2000}  # characters of a prompt
FRACTIONS = (0.6, 0.1, 0.3)
SIMILARITY = 0.6  # dataset.near_duplicates of the preset


def installed() -> Path:
    """Return the data folder of bfcl-eval, without importing it, which needs much else.

    Raises:
        SystemExit: It is not there.
    """
    found = importlib.util.find_spec("bfcl_eval")
    if found is None or found.origin is None:
        raise SystemExit("bfcl_eval: not found. Fix: what docs/public-tasks.md says, PYTHONPATH among it")
    return Path(found.origin).parent / "data"


def rows_of(data: Path, name: str) -> list[dict[str, Any]]:
    """Return the records of one category."""
    asked, right = (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for path in (data / f"BFCL_v4_{name}.json", data / f"possible_answer/BFCL_v4_{name}.json")
    )
    golds = {row["id"]: row["ground_truth"] for row in right}
    return [record(row, golds[row["id"]], name) for row in asked]


def record(row: Mapping[str, Any], golds: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return a row as the task reads it; `family` is the function to call."""
    (gold,) = golds
    question = "\n".join(message["content"].strip() for message in row["question"][0])
    offered = "\n".join(described(each) for each in row["function"])
    return {
        "id": row["id"],
        "family": next(iter(gold)),
        "category": name,
        "prompt": f"Answer with one call of a function.\n\n{offered}\n\n{question}",
        "function": row["function"],
        "ground_truth": gold,
    }


def described(function: Mapping[str, Any]) -> str:
    """Return what a prompt says of a function."""
    schema = function["parameters"]
    lines = [f"{function['name']}: {folded(function['description'])}"]
    for key, asked in schema["properties"].items():
        kind = asked["type"] + (f" of {asked['items']['type']}" if "items" in asked else "")
        kind += f", one of {json.dumps(asked['enum'], ensure_ascii=False)}" if "enum" in asked else ""
        kind += "" if key in schema["required"] else ", optional"
        lines.append(f"  {key} ({kind}): {folded(asked.get('description', ''))}")
    return "\n".join(lines)


def folded(text: str) -> str:
    """Return a text on one line, so that the question is what stands behind the last empty one."""
    return " ".join(text.split())


def usable(data: Path, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the records with a short prompt and an answer that is right, and tell of the others."""
    found = []
    for name in names:
        rows = rows_of(data, name)
        short = [row for row in rows if len(row["prompt"]) <= LONGEST[name]]
        right = [row for row in short if paid(solution(row), row["function"], row["ground_truth"])["right"]]
        say(
            f"{name}: {len(right)} of {len(rows)} records; {len(rows) - len(short)} prompts are longer than"
            f" {LONGEST[name]} characters, {len(short) - len(right)} answers are not right by themselves"
        )
        found += right
    return found


def make_splits(data: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the records by split: no function, and no near-duplicate, is in two."""
    rows = usable(data, ONE)
    items = [Item(row["id"], row["family"], {}, row["prompt"], None, row=row) for row in rows]
    homes = [item.cluster for item in united(items, SIMILARITY)]
    chosen = split_of_groups(Counter(homes), FRACTIONS, seed=0)
    splits: dict[str, list[dict[str, Any]]] = {"train": [], "validation": [], "heldout": []}
    for row, home in zip(rows, homes, strict=True):
        splits[chosen[home]].append(row)
    shown = {row["family"] for split in ("train", "validation") for row in splits[split]}
    return splits | {"multiple": [row for row in usable(data, SEVERAL) if row["family"] not in shown]}


def main() -> None:
    """Write all files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, help="its folder data; default: of the package that is installed"
    )
    splits = make_splits(parser.parse_args().data or installed())
    write_splits(FOLDER, splits)
    told = (
        f"{split} {len(rows)} of {len({row['family'] for row in rows})} functions"
        for split, rows in splits.items()
    )
    say(f"{FOLDER}: {', '.join(told)}")


if __name__ == "__main__":
    main()
