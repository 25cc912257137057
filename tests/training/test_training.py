"""A training is a function of base, items, settings and seed, and publishes nothing poisoned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from assay.config import Params, TinyArchitecture, parse_params
from assay.errors import TrainingError
from assay.evaluation.rollout import play_baseline
from assay.evaluation.suite import Suite, choose
from assay.policy import tiny
from assay.policy.dialogue import Dialogue
from assay.policy.model import Policy
from assay.storage.yaml import read_yaml
from assay.tasks.collider import Collider, ColliderSettings, generate
from assay.training.grpo import Trained, chosen_step, item_order, save_adapter, train
from assay.training.history import History, component_row
from tests.house import ROOT
from tests.training.toy_task import Letters, items

TASK = Letters()
ITEMS = items(12)

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")


def params(*, every: int = 2, **changes: Any) -> Params:
    raw = read_yaml(ROOT / "params.yaml", fix="")
    raw["train"] |= {
        "steps": 2, "items_per_step": 2, "group_size": 4, "micro_batch_size": 8, "kl_probe_episodes": 2,
        "learning_rate": 0.01, "warmup_steps": 0,
        # Dropout draws from torch's global generator while training: what validation does to it would show.
        "lora": raw["train"]["lora"] | {"dropout": 0.2},
    } | changes  # fmt: skip
    raw["validation"] |= {"items": 2, "draws": 1, "every": every}
    return parse_params(raw)


def fresh_policy() -> Policy:
    tokenizer = tiny.build_tokenizer(TASK.vocabulary())
    shape = TinyArchitecture(
        hidden_size=32, intermediate_size=64, layers=1, heads=2, max_positions=256, initializer_range=0.05
    )
    return Policy(tiny.build_model(shape, tokenizer, 5), tokenizer, Dialogue(tokenizer), "test")


def validation() -> Suite:
    return choose(ITEMS, 2, split="validation", draws=1, seed=0)


def run(settings: Params) -> tuple[Trained, History]:
    history = History()
    trained = train(
        fresh_policy(), TASK, TASK, ITEMS, validation(), settings, history=history, on_step=lambda _: None
    )
    return trained, history


def equal(one: Trained, other: Trained) -> bool:
    return all(torch.equal(one.adapter[name], other.adapter[name]) for name in one.adapter)


def test_the_same_seed_twice_gives_the_same_adapter_and_logs() -> None:
    settings = params()
    settings = settings.model_copy(update={"claim": settings.claim.model_copy(update={"checkpoint_rule": "last"})})
    one, first = run(settings)
    other, second = run(settings)
    assert equal(one, other)
    assert first.training_log == second.training_log
    assert first.train_log == second.train_log
    assert one.adapter_config == other.adapter_config
    moved = [t for name, t in one.adapter.items() if "lora_B" in name and t.abs().sum() > 0]
    assert moved, "two steps at this rate must have changed the adapter"


def test_validating_more_often_does_not_change_training() -> None:
    settings = params(every=1)
    last = {"claim": settings.claim.model_copy(update={"checkpoint_rule": "last"})}
    often, _ = run(settings.model_copy(update=last))
    seldom, _ = run(params(every=2).model_copy(update=last))
    assert equal(often, seldom)


def test_the_log_has_the_promised_columns_and_a_kl_even_without_a_kl_term() -> None:
    _, history = run(params())
    assert list(history.training_log[0]) == [
        "step", "epoch", "loss", "reward", "reward_std", "kl", "grad_norm", "learning_rate",
    ]  # fmt: skip
    assert [row["step"] for row in history.training_log] == [1, 2]
    assert all(row["kl"] >= 0 for row in history.training_log)
    assert [step for step, _ in history.validations] == [0, 2]
    assert "wall_time_s" in history.observed[0]
    assert not any("time" in name for row in history.train_log for name in row)


def test_an_adapter_names_no_path_of_this_machine(tmp_path: Path) -> None:
    trained, _ = run(params())
    save_adapter(tmp_path / "adapter", trained)
    config = json.loads((tmp_path / "adapter/adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "models/base"
    assert config["target_modules"] == sorted(config["target_modules"])


def test_an_adapter_with_a_nan_is_never_written(tmp_path: Path) -> None:
    poisoned = Trained(1, {"w": torch.tensor([1.0, float("nan")])}, {})
    with pytest.raises(TrainingError, match="finite"):
        save_adapter(tmp_path / "adapter", poisoned)
    assert not (tmp_path / "adapter").exists()


def test_the_order_of_items_is_one_permutation_an_epoch() -> None:
    order = item_order(ITEMS, 24, seed=0)
    assert sorted(i.id for i in order[:12]) == sorted(i.id for i in order[12:]) == sorted(i.id for i in ITEMS)
    assert order[:12] != order[12:]
    assert item_order(ITEMS, 24, seed=0) == order
    assert item_order(ITEMS, 24, seed=1) != order


def test_the_checkpoint_rule_takes_the_best_validation_reward_and_the_earlier_on_a_tie() -> None:
    _, history = run(params())
    episode = history.validations[0][1][0]
    better = episode.model_copy(update={"reward": episode.reward + 1})
    assert chosen_step([(0, [episode]), (5, [better]), (10, [better])], "best_validation_reward") == 5
    assert chosen_step([(0, [better]), (5, [episode])], "last") == 5


def test_a_rate_whose_question_never_arose_is_missing_not_zero() -> None:
    _, history = run(params())
    episode = history.validations[0][1][0]
    nobody = episode.model_copy(update={"flags": dict.fromkeys(TASK.flags)})
    row = component_row(1, [nobody], TASK)
    assert row["early_rate"] is None


def test_the_components_of_the_collider_have_the_promised_columns() -> None:
    task = Collider(ColliderSettings(surface="compact", max_turns=3, shaping=0.0, gamma=1.0))
    suite = choose(
        [task.item(row) for row in generate("train", 3, max_turns=8, labels=("columns",))],
        3, split="train", draws=1, seed=0,
    )  # fmt: skip
    episodes = play_baseline(task, task.baselines()["random"], suite.plays(), "random")
    assert list(component_row(1, episodes, task))[:11] == [
        "step", "n", "mean_cumulative", "mean_terminal", "mean_step_shaping", "discovered_rate", "mass_correct_rate",
        "channel_correct_rate", "spin_correct_rate", "parsed_rate", "mean_n_steps",
    ]  # fmt: skip
