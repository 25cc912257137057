"""Data sets of reasoning-gym: questions frozen as records, answers scored by the package.

`python -m assay.rollout.tasks.own.adapters.reasoning_gym NAME --config JSON data/NAME` freezes them: its
items follow from seed + place, so seeds of splits lie far apart; no question is drawn twice. A record holds
the item as `entry`, by which the package scores.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from assay.core.config.base import Settings
from assay.core.console import complain, say
from assay.core.errors import AssayError, ConfigError, DataError
from assay.rollout.tasks.own.adapters import home_of, imported
from assay.rollout.tasks.own.adapters.freeze import TRIES, distinct, through_json, write_splits
from assay.rollout.tasks.own.api import Environment, Generated, Told
from assay.rollout.tasks.own.loading import options_of
from assay.rollout.tasks.own.settings import OwnTask

WHERE = "assay.adapters:reasoning_gym"
APART = 10_000_000  # seeds of two splits
SPLITS = {"train": 2048, "validation": 256, "heldout": 512}


class Options(Settings):
    """What task.options say of a data set of reasoning-gym."""

    dataset: str = Field(description="its name", examples=["rotate_matrix"])
    config: dict[str, Any] = Field(default={}, description="parameters that are not its defaults")


def environments(settings: OwnTask, root: str) -> Callable[[], Environment]:
    """Return what makes an environment of one question.

    Raises:
        ConfigError: reasoning-gym is not installed, knows no such data set, or the options are refused.
    """
    options: Options = options_of(Options, settings, WHERE)
    made, home = _made(options, seed=0, size=1), home_of(settings, root)
    return lambda: Question(options, made, home)


def _made(options: Options, *, seed: int, size: int) -> Any:
    package = imported("reasoning_gym", extra="reasoning-gym", package="reasoning-gym==0.1.25")
    try:
        return package.create_dataset(options.dataset, seed=seed, size=size, **options.config)
    except (ValueError, TypeError, AssertionError) as error:
        fix = "task.options: a name and parameters that reasoning_gym.create_dataset takes"
        found = f"{options.dataset}: {error}"
        raise ConfigError(
            "a data set of reasoning-gym", found=found, where="task.options", fix=fix
        ) from error


class Question(Generated, Environment):
    """One question of a data set.

    Args:
        asked: Which data set that is.
        dataset: Scores an answer.
        home: Module in which players stand.
    """

    def __init__(self, asked: Options, dataset: Any, home: str | None) -> None:
        self.options, self._dataset, self.home = asked, dataset, home

    def generate(
        self, rows: Sequence[Mapping[str, Any]], rng: np.random.Generator, n: int
    ) -> list[dict[str, Any]]:
        """Return questions of the same data set, frozen."""
        return records(self.options, n, int(rng.integers(2**31)), set())

    def reset(self, row: Mapping[str, Any], seed: int) -> str:
        """Return the record's question."""
        if "entry" not in row:
            raise TypeError(f"the record lacks entry; freeze records by python -m {__name__}")
        self._entry = row["entry"]
        prompt: str = row["prompt"]
        return prompt

    def step(self, completion: str) -> Told:
        """Score the answer, without the white space around it."""
        return Told(None, float(self._dataset.score_answer(completion.strip(), self._entry)))


def records(options: Options, n: int, seed: int, known: set[str]) -> list[dict[str, Any]]:
    """Return n records of questions that are not known yet.

    Raises:
        DataError: So many cannot be had, an item is no JSON, or its own answer does not score 1 when the item
            was read from a file.
    """
    dataset = _made(options, seed=seed, size=TRIES * n)

    def drawn() -> Iterator[dict[str, Any]]:
        for place in range(TRIES * n):
            yield _record(dataset, dataset[place], f"{options.dataset}, seed {seed}, item {place}")

    return distinct(drawn(), known, n, options.dataset)


def _record(dataset: Any, item: Mapping[str, Any], where: str) -> dict[str, Any]:
    entry = through_json(dict(item), where)
    row = {"prompt": entry["question"], "entry": entry}
    gold = entry.get("answer")
    if gold is None:
        return row
    if not isinstance(gold, str):
        raise DataError(
            "an answer that is a text", found=repr(gold)[:80], where=where, fix="another data set"
        )
    before, after = (float(dataset.score_answer(gold, each)) for each in (item, entry))
    if after != 1.0:
        found = f"{after:g}" + ("" if after == before else f", and {before:g} before it was written as JSON")
        fix = "another data set or --config: with this one a right answer is not paid as one"
        raise DataError("a score of 1 for the item's own answer", found=found, where=where, fix=fix)
    return row | {"answer": gold}


def main(arguments: list[str] | None = None) -> int:
    """Freeze a data set; returns the exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m {__name__}", description=__doc__.split("\n")[0])
    parser.add_argument("dataset")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--config", type=json.loads, default={}, metavar="JSON")
    parser.add_argument("--seed", type=int, default=0)
    for split, size in SPLITS.items():
        parser.add_argument(f"--{split}", type=int, default=size)
    asked = parser.parse_args(arguments)
    try:
        options, known = Options(dataset=asked.dataset, config=asked.config), set[str]()
        splits = {
            split: records(options, getattr(asked, split), asked.seed + place * APART, known)
            for place, split in enumerate(SPLITS)
        }
        write_splits(asked.folder, splits)
    except AssayError as error:
        complain(str(error))
        return 2
    say(f"{asked.folder}: {', '.join(f'{split} {len(rows)}' for split, rows in splits.items())}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
