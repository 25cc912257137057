"""Small tasks in a folder of their own, as projects that can be looked at."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from assay.core.config.composition import Selection, compose
from assay.core.config.settings import Params
from assay.pipeline.project import Project
from tests.house import ROOT

Row = dict[str, Any]
Rows = Callable[[np.random.Generator, int], Row]
SIZES = {"train": 300, "validation": 40, "heldout": 200}
HASTY = '''

def hasty(answer, rng, **_):
    """Say what is wrong more often than not."""
    return answer if rng.uniform() < 0.3 else f"{answer}{rng.integers(10)}"
'''


@dataclass(frozen=True)
class Made:
    """A task in a file.

    Attributes:
        name: What is the matter with it.
        code: Its task.py; a weak player `hasty` is added to a reward function that has none.
        check: That has to name it, or several any of which may; empty where it is sound.
        rows: Makes a record.
        task: Settings that are others.
        sizes: Records by split.
        all_rows: Changes the splits as a whole.
    """

    name: str
    code: str
    check: str = ""
    rows: Rows | None = None
    task: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=lambda: SIZES)
    all_rows: Callable[[dict[str, list[Row]]], None] | None = None

    def project(self, folder: Path) -> Project:
        """Write the task into a folder and return it as a project."""
        place = folder / "tasks" / "made"
        place.mkdir(parents=True)
        code, multi = self.code, "class " in self.code
        if not multi and "def hasty" not in code:
            code += HASTY
        (place / "task.py").write_text(code, encoding="utf-8")
        rng, seen = np.random.default_rng(len(self.name)), set[str]()
        splits: dict[str, list[Row]] = {}
        for split, size in self.sizes.items():
            splits[split] = []
            while len(splits[split]) < size:
                row = (self.rows or sums)(rng, len(splits[split]))
                key = json.dumps(row, sort_keys=True)
                if key not in seen:
                    seen.add(key)
                    splits[split].append({"id": f"{split}-{len(splits[split])}", **row})
        if self.all_rows is not None:
            self.all_rows(splits)
        data = folder / "data" / "made"
        data.mkdir(parents=True)
        for split, rows in splits.items():
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (data / f"{split}.jsonl").write_text(text, encoding="utf-8")
        values = copy.deepcopy(composed())
        task = {
            "name": "own",
            "code": "tasks/made",
            "entry": "task.py:Made" if multi else "task.py:reward",
            "success": {"compare": "environment"} if multi else {"compare": "exact", "with": "answer"},
            "players": {} if multi else {"hasty": "weak"},
            "max_new_tokens": {"compact": 32, "json": 32},
        }
        values["task"] = task | dict(self.task)
        values["dataset"] = values["dataset"] | {"root": "data/made", "cache": None}
        return Project(folder, Params.model_validate(values))


@cache
def composed() -> dict[str, Any]:
    """Return the settings that all are made from."""
    return dict(compose(ROOT, Selection("tiny", "words", 0)).values)


def sums(rng: np.random.Generator, n: int) -> Row:
    """Two numbers to be added."""
    a, b = (int(x) for x in rng.integers(100, 999, 2))
    return {"prompt": f"What is {a} + {b}?", "answer": str(a + b), "a": a, "b": b}


def choices(rng: np.random.Generator, n: int) -> Row:
    """A yes or no."""
    a, b = (int(x) for x in rng.integers(100, 999, 2))
    return {"prompt": f"Is {a} larger than {b}?", "answer": "yes" if a > b else "no"}


def words(rng: np.random.Generator, n: int) -> Row:
    """A word to be turned round."""
    word = "".join(rng.choice(list("abcdefghijklmnoprstuvwz"), 7))
    return {"prompt": f"Spell {word} backwards.", "answer": word[::-1], "word": word}


def lists(rng: np.random.Generator, n: int) -> Row:
    """Numbers to be sorted."""
    found = [int(x) for x in rng.integers(0, 99, 5)]
    return {"prompt": f"Sort {', '.join(map(str, found))}.", "answer": json.dumps(sorted(found))}


def number(rng: np.random.Generator, n: int) -> Row:
    """A hidden number, to be found by asking."""
    return {"target": int(rng.integers(1, 1_000_000)), "start": int(rng.integers(1, 1000))}
