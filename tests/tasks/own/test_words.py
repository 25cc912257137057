"""The smallest example of a task of one's own: its records, its reward, and the same file under plain TRL."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from assay.rollout.dataset.clusters import united
from assay.rollout.tasks.protocol import Item
from tests.house import ROOT

SPLITS = ("train", "validation", "heldout")


def module(name: str) -> ModuleType:
    """Return a file of the task, as anybody would import it."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tasks/words/{name}.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def rows(split: str) -> list[dict[str, Any]]:
    """Return the records of a split."""
    return [json.loads(line) for line in (ROOT / f"data/words/{split}.jsonl").read_text().splitlines()]


def test_its_records_are_made_by_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = module("make_data")
    monkeypatch.setattr(made, "FOLDER", tmp_path)
    made.main()
    for name in (*(f"{split}.jsonl" for split in SPLITS), "SHA256SUMS"):
        assert (tmp_path / name).read_bytes() == (ROOT / "data/words" / name).read_bytes()


def test_its_suites_are_of_many_clusters_and_share_no_question() -> None:
    held = [Item(row["id"], row["id"], {}, row["prompt"], row, row=row) for row in rows("heldout")]
    assert len({each.cluster for each in united(held, 0.6)}) >= 200
    shown = [frozenset(row["prompt"].replace("*", "").split()) for split in SPLITS for row in rows(split)]
    assert len(set(shown)) == len(shown)


def test_the_starred_word_earns_most_another_little_and_the_rest_nothing() -> None:
    prompt, answer = ["pick: plum *reed fern dust"] * 4, ["reed"] * 4
    said = ["reed\n", "fern", "", "reed fern"]
    assert module("task").reward(prompt, said, answer) == [1.0, 0.1, 0.0, 0.0]


def test_its_player_is_right_two_times_in_five_and_says_the_first_word_most_of_the_time_else() -> None:
    rng, hasty = np.random.default_rng(0), module("task").hasty
    said = Counter(hasty("pick: plum *reed fern dust", "reed", rng) for _ in range(4000))
    assert said["plum"] > said["reed"] > said["fern"]
    drawn = [hasty(row["prompt"], row["answer"], rng) == row["answer"] for row in rows("train")]
    assert 0.35 < np.mean(drawn) < 0.45


def test_it_imports_nothing_of_assay() -> None:
    assert "import" not in (ROOT / "tasks/words/task.py").read_text()


@pytest.mark.long
@pytest.mark.filterwarnings("default")  # of TRL and what it stands on
def test_the_same_file_trains_under_plain_trl(tmp_path: Path) -> None:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer  # type: ignore[attr-defined]

    from assay.core.config.settings import TinyArchitecture
    from assay.rollout.policy.base import tiny
    from assay.rollout.tasks.own.vocabulary import words_in

    records = rows("train")[:64]
    words = words_in([row["prompt"] for row in records], [row["answer"] for row in records])
    tokenizer = tiny.build_tokenizer(words)
    shape = TinyArchitecture(
        hidden_size=16, intermediate_size=32, layers=1, heads=1, max_positions=64, initializer_range=0.02
    )
    trainer = GRPOTrainer(
        tiny.build_model(shape, tokenizer, 0),
        module("task").reward,
        args=GRPOConfig(
            output_dir=str(tmp_path),
            per_device_train_batch_size=8,
            num_generations=4,
            max_completion_length=4,
            max_steps=2,
            logging_steps=1,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            save_strategy="no",
            bf16=False,
        ),
        train_dataset=Dataset.from_list(records),
        processing_class=tokenizer,
    )
    trainer.train()
    told = [each["reward"] for each in trainer.state.log_history if "reward" in each]
    assert len(told) == 2
    assert all(0 <= each <= 1 for each in told)
