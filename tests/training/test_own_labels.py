"""A classification of one's own into three labels, really trained: to answer with few labels is no
illness."""

from __future__ import annotations

import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from assay.core.config.reading import parse_params
from assay.core.config.settings import TinyArchitecture
from assay.core.errors import TrainingStopped
from assay.core.storage.json import read_jsonl
from assay.rollout.dataset.suite import choose
from assay.rollout.policy.base import tiny
from assay.rollout.policy.model import Policy
from assay.rollout.policy.renderer import Dialogue
from assay.training.checkpoints.store import Checkpoints
from assay.training.grpo import train
from assay.training.log.history import History, Watch
from assay.training.setup import Setup
from tests.training.healthy_setup import composed

LABELS = ("sad", "glad", "calm")
TELLING = {"sad": ("cried", "lost"), "glad": ("won", "sang"), "calm": ("sat", "tea")}
PLAIN = ("they", "he", "she", "then", "today", "and", "again", "home")
SCHEMA = {"type": "object", "required": ["mood"], "properties": {"mood": {"enum": list(LABELS)}}}
SAID = {label: json.dumps({"mood": label}, separators=(",", ":")) for label in LABELS}
HEAD = "which mood ?"


def write_rows(path: Path, n: int) -> None:
    """Write a file of records as somebody would bring it: a sentence and its mood."""
    chance, lines = np.random.default_rng(7), []
    for number in range(n):
        label = LABELS[int(chance.integers(3))]
        words = [*chance.choice(PLAIN, 3), *TELLING[label]]
        chance.shuffle(words)
        row = {
            "id": f"m{number}",
            "prompt": f"{HEAD} {number} " + " ".join(words),
            "schema": SCHEMA,
            "gold": {"mood": label},
        }
        lines.append(json.dumps(row) + "\n")
    path.write_text("".join(lines))


def policy_of(task: Any, rows: list[Any], chance: np.random.Generator, right: float) -> Policy:
    """Return a policy that answers in the task's form and is right so often."""
    items = [task.item(row) for row in rows]
    texts = [task.start(item, 0)[0][0]["content"] for item in items]
    said_of_all = texts[0][texts[0].index("\n") :]  # one token, so that a prompt is a seventh as long
    telling = (word for words in TELLING.values() for word in words)
    words = sorted({*"".join(texts), HEAD, said_of_all, *PLAIN, *telling, *SAID.values()})
    tokenizer = tiny.build_tokenizer(words)
    shape = TinyArchitecture(
        hidden_size=48, intermediate_size=96, layers=2, heads=2, max_positions=512, initializer_range=0.05
    )
    policy = Policy(tiny.build_model(shape, tokenizer, 5), tokenizer, Dialogue(tokenizer), "test")
    shown = []
    for text, row in zip(texts, rows, strict=True):
        for _ in range(4):
            label = row["gold"]["mood"] if chance.random() < right else LABELS[int(chance.integers(3))]
            dialogue = [{"role": "user", "content": text}, {"role": "assistant", "content": SAID[label]}]
            shown.append(policy.dialogue.whole(dialogue))
    phase = tiny.Phase(500, 16, 5e-3)
    tiny.imitate(
        policy,
        tiny.batches(shown, 16, chance),
        phase,
        every=1000,
        stop=lambda _: False,
        progress=lambda *_: None,
    )
    return policy


def trained(folder: Path, steps: int) -> tuple[History, str | None]:
    """Return a training on the file, and why it stopped."""
    values = json.loads(json.dumps(composed("tiny", "structured")))
    values["task"]["lessons"] = None
    values["health"]["top_share_window"] = 10
    values["distributed"]["processes"] = 1
    values["generation"]["evaluation_temperature"] = 1.0
    values["train"] |= {
        "lr_scheduler": "constant_with_warmup",
        "steps": steps,
        "items_per_step": 8,
        "group_size": 8,
        "micro_batch_size": 64,
        "learning_rate": 2e-3,
    }
    values["validation"] |= {"items": 32, "draws": 2, "interval": 20}
    values["base"] = {
        "kind": "pretrained",
        "model": "mine",
        "revision": None,
        "dtype": "float32",
        "quantization": None,
        "template": {},
    }
    params = parse_params(values)
    task = params.task.build(params.generation, shaping=False)
    write_rows(folder / "mine.jsonl", 240)
    rows = list(read_jsonl(folder / "mine.jsonl", fix=""))
    policy = policy_of(task, rows[:160], np.random.default_rng(3), 0.4)
    items = [task.item(row) for row in rows]
    suite = choose(items[160:], 32, split="validation", draws=2, seed=0)
    history, stopped = History(), None
    try:
        train(
            policy,
            Setup(task, task, items[:160], suite, params),
            checkpoints=Checkpoints(folder, "run", 2),
            start=None,
            history=history,
            watch=Watch(task),
            on_step=lambda _: None,
        )
    except TrainingStopped as error:
        stopped = str(error)
    return history, stopped


def success(history: History) -> list[float]:
    return [
        float(np.mean([each.success for each in validation.sampled])) for validation in history.validations
    ]


def levels(history: History) -> dict[str, set[str]]:
    rules = itertools.groupby(sorted(history.health, key=lambda e: e.rule), key=lambda e: e.rule)
    return {rule: {event.level for event in events} - {"GREEN"} for rule, events in rules}


def test_three_labels_are_learned_and_nothing_that_compares_answers_is_red() -> None:
    with tempfile.TemporaryDirectory() as folder:
        history, stopped = trained(Path(folder), 60)
    assert stopped is None and success(history)[-1] > 0.7 > 0.6 > success(history)[0]
    rang = levels(history)
    of_answers = ("top_share", "distinct", "entropy", "zero_variance", "field_collapse")
    assert not any("RED" in rang.get(rule, set()) for rule in of_answers), rang
