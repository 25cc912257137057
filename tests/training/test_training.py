"""A training is a function of base, items, settings and seed, and publishes nothing poisoned."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from assay.core.config.reading import parse_params
from assay.core.config.settings import Params, TinyArchitecture
from assay.core.decoding import Decoding
from assay.core.errors import TaskError, TrainingError
from assay.core.storage.yaml import read_yaml
from assay.rollout.dataset.suite import Play, Suite, choose
from assay.rollout.evaluation.rollout import Rollout, play, play_baseline
from assay.rollout.policy.base import tiny
from assay.rollout.policy.engine import engine
from assay.rollout.policy.model import Policy
from assay.rollout.policy.renderer import Dialogue
from assay.training import flat, recipe, rollouts
from assay.training.adapter import TrainedAdapter, save_adapter
from assay.training.checkpoints.store import Checkpoints
from assay.training.grpo import train
from assay.training.log.history import History, Validation, Watch, component_row
from assay.training.recipe import chosen_step, item_order
from assay.training.setup import Setup
from assay_tasks.collider import Collider, ColliderSettings, generate
from tests.house import ROOT
from tests.training.toy_task import Letters, items

TASK = Letters()
ITEMS = items(12)


def params(*, every: int = 2, **changes: Any) -> Params:
    raw = read_yaml(ROOT / "params.yaml", fix="")
    raw["distributed"]["processes"] = 1
    raw["train"] |= {
        "steps": 2,
        "items_per_step": 2,
        "group_size": 4,
        "micro_batch_size": 8,
        "kl_probe_episodes": 2,
        "kl_probe_every": 1,
        "learning_rate": 0.01,
        "warmup_steps": 0,
        # Dropout draws from torch's global generator while training: what validation does to it would show.
        "lora": raw["train"]["lora"] | {"dropout": 0.2},
    } | changes
    raw["validation"] |= {"items": 2, "draws": 1, "interval": every}
    return parse_params(raw)


def fresh_policy() -> Policy:
    tokenizer = tiny.build_tokenizer(TASK.vocabulary())
    shape = TinyArchitecture(
        hidden_size=32, intermediate_size=64, layers=1, heads=2, max_positions=256, initializer_range=0.05
    )
    return Policy(tiny.build_model(shape, tokenizer, 5), tokenizer, Dialogue(tokenizer), "test")


def validation() -> Suite:
    return choose(ITEMS, 2, split="validation", draws=1, seed=0)


def run(settings: Params, task: Letters = TASK, watch: Watch | None = None) -> tuple[TrainedAdapter, History]:
    history = History()
    with tempfile.TemporaryDirectory() as folder:
        trained = train(
            fresh_policy(),
            Setup(task, task, ITEMS, validation(), settings),
            checkpoints=Checkpoints(Path(folder), "run", 2),
            start=None,
            history=history,
            watch=watch or Watch(task),
            on_step=lambda _: None,
        )
    return trained, history


def with_last_checkpoint(settings: Params) -> Params:
    return settings.model_copy(
        update={"claim": settings.claim.model_copy(update={"checkpoint_rule": "last"})}
    )


Run = tuple[TrainedAdapter, History]


@pytest.fixture(scope="module")
def seldom() -> Run:
    """A training with these settings, for all tests that only look at it or hold another one against it."""
    with mock.patch.object(engine, "guessed", side_effect=engine.guessed) as guessed:
        found = run(with_last_checkpoint(params()))
    assert not guessed.called, "nobody asked for drafts"
    return found


@pytest.fixture(scope="module")
def often() -> Run:
    """The same with a validation after every step."""
    return run(with_last_checkpoint(params(every=1)))


@pytest.fixture(scope="module")
def watched() -> tuple[Watch, History]:
    """A training of a task with an alarm that rings and a limit that cuts prompts."""
    task = Letters(alarms={"early": 0.0}, max_prompt_tokens=6)
    watch = Watch(task)
    _, history = run(params(), task, watch)
    return watch, history


def equal(one: TrainedAdapter, other: TrainedAdapter) -> bool:
    return all(torch.equal(one.adapter[name], other.adapter[name]) for name in one.adapter)


def test_the_same_seed_twice_gives_the_same_adapter_and_logs(seldom: Run) -> None:
    one, first = seldom
    other, second = run(with_last_checkpoint(params()))
    assert equal(one, other)
    assert first.training_log == second.training_log
    assert first.train_log == second.train_log
    assert one.adapter_config == other.adapter_config
    moved = [t for name, t in one.adapter.items() if "lora_B" in name and t.abs().sum() > 0]
    assert moved, "two steps at this rate must have changed the adapter"


def test_a_policy_that_plays_by_lean_learns_by_layers_of_ours_too_and_each_time_the_same() -> None:
    plain = params()
    lora = plain.train.lora.model_copy(update={"dropout": 0.0})
    plain = with_last_checkpoint(
        plain.model_copy(update={"train": plain.train.model_copy(update={"lora": lora})})
    )
    plain, lean = (
        plain.model_copy(update={"generation": plain.generation.model_copy(update={"backend": backend})})
        for backend in ("cached", "lean")
    )
    with mock.patch.object(flat, "Layers", side_effect=flat.Layers) as layers:
        cached, first = run(plain)
        assert not layers.called
        one, second = run(lean)
        assert layers.call_count >= 2  # both steps, and the KL's texts
    other, third = run(lean)
    assert equal(one, other) and second.train_log == third.train_log
    assert first.train_log[0]["digests"]["rewards"] == second.train_log[0]["digests"]["rewards"]
    for name, expected in cached.adapter.items():
        assert (one.adapter[name] - expected).norm() <= 1e-2 * expected.norm(), name


def test_rollouts_and_validations_are_drafted_where_that_is_asked_for(seldom: Run) -> None:
    assert seldom[1].validations  # in which nothing was drafted, see there
    generation = params().generation.model_copy(update={"backend": "lean", "drafts": 3})
    with mock.patch.object(engine, "guessed", side_effect=engine.guessed) as guessed:
        run(with_last_checkpoint(params().model_copy(update={"generation": generation})))
        assert guessed.called


def test_validating_more_often_does_not_change_training(often: Run, seldom: Run) -> None:
    assert len(often[1].validations) > len(seldom[1].validations)
    assert equal(often[0], seldom[0])


def test_the_temperature_of_evaluations_is_that_of_validations_and_of_no_rollout(seldom: Run) -> None:
    settings = with_last_checkpoint(params())
    assert settings.generation.evaluation_temperature == 0.7
    same = settings.generation.model_copy(update={"evaluation_temperature": None})
    assert same.measured_at == same.temperature == 1.0
    cooler, first = seldom
    warmer, second = run(settings.model_copy(update={"generation": same}))
    assert equal(cooler, warmer)
    assert [v.greedy for v in first.validations] == [v.greedy for v in second.validations]
    assert [v.sampled for v in first.validations] != [v.sampled for v in second.validations]


@pytest.mark.parametrize("greedy_pass", ["left out", "draws random numbers"])
def test_the_greedy_pass_does_not_change_training(
    monkeypatch: pytest.MonkeyPatch, often: Run, greedy_pass: str
) -> None:
    whole, first = often
    passes = []

    def tampered(
        policy: Policy, task: Letters, plays: list[Play], decoding: Decoding, **rest: Any
    ) -> list[Rollout]:
        if decoding.temperature == 0.0:
            passes.append(len(plays))
            if greedy_pass == "left out":
                return []
            torch.rand(7)
        return play(policy, task, plays, decoding, **rest)

    monkeypatch.setattr(rollouts, "attempt", tampered)
    changed, second = run(with_last_checkpoint(params(every=1)))
    assert passes == [2, 2, 2]
    assert equal(whole, changed)
    assert first.training_log == second.training_log
    assert [v.sampled for v in first.validations] == [v.sampled for v in second.validations]


def test_a_validation_holds_all_draws_and_one_greedy_pass_over_the_same_items(seldom: Run) -> None:
    _, history = seldom
    for _, sampled, greedy in history.validations:
        assert (
            [e.item_id for e in greedy] == [e.item_id for e in sampled] == [i.id for i in validation().items]
        )
        assert {e.draw for e in greedy} == {0}
    first = history.validations[0]
    assert [e.seed for e in first.sampled] == [e.seed for e in first.greedy]
    assert [e.turns for e in first.sampled] != [e.turns for e in first.greedy]


def test_an_alarm_is_kept_with_its_first_step_its_number_and_its_worst(
    watched: tuple[Watch, History],
) -> None:
    watch, history = watched
    rates = [row["early_rate"] for row in history.reward_components]
    batches = next(fact for fact in watch.facts() if fact.source == "batch")
    assert batches.first_step == 1 and batches.times == 2
    assert batches.worst.rate == max(rates) and batches.worst_step == 1 + rates.index(max(rates))
    assert (batches.worst.flag, batches.worst.threshold, batches.worst.n) == ("early", 0.0, 8)
    assert {fact.source for fact in watch.facts()} <= {"batch", "validation", "greedy validation"}
    assert len({(fact.source, fact.worst.flag) for fact in watch.facts()}) == len(watch.facts())


def test_prompts_are_cut_in_training_and_validation_alike(watched: tuple[Watch, History]) -> None:
    watch, history = watched
    assert set(watch.cuts) == watch.items and set(watch.cuts.values()) == {1}
    for _, sampled, greedy in history.validations:
        assert {e.prompt_chars_cut for e in [*sampled, *greedy]} == {1}


def test_a_prompt_that_is_too_long_is_refused_before_the_first_step() -> None:
    with pytest.raises(TaskError, match="at most 3 tokens"):
        run(params(), Letters(max_prompt_tokens=3))


def test_the_log_has_the_promised_columns_and_a_kl_even_without_a_kl_term(seldom: Run) -> None:
    _, history = seldom
    assert list(history.training_log[0]) == [
        "step",
        "epoch",
        "loss",
        "reward",
        "reward_std",
        "kl",
        "grad_norm",
        "learning_rate",
    ]
    assert [row["step"] for row in history.training_log] == [1, 2]
    assert all(row["kl"] >= 0 for row in history.training_log)
    assert [step for step, _, _ in history.validations] == [0, 2]
    assert "wall_time_s" in history.observed[0]
    assert not any("time" in name for row in history.train_log for name in row)


def test_a_kl_measured_seldom_is_missing_elsewhere_and_moves_no_weight() -> None:
    always, every = run(params(steps=3))
    seldom, second = run(params(steps=3, kl_probe_every=2))
    measured = [row["kl"] for row in every.training_log]
    assert [row["kl"] for row in second.training_log] == [None, *measured[1:]]  # the last one is measured too
    assert None not in measured
    for row in second.train_log:
        assert row["kl_probe"] == row["signals"]["kl"] == second.training_log[row["step"] - 1]["kl"]
    assert [row["digests"] for row in every.train_log] == [row["digests"] for row in second.train_log]
    assert all(torch.equal(tensor, seldom.adapter[name]) for name, tensor in always.adapter.items())


def test_an_adapter_names_no_path_of_this_machine(tmp_path: Path, seldom: Run) -> None:
    trained, _ = seldom
    save_adapter(tmp_path / "adapter", trained)
    config = json.loads((tmp_path / "adapter/adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "models/base"
    assert config["target_modules"] == sorted(config["target_modules"])


def test_an_adapter_with_a_nan_is_never_written(tmp_path: Path) -> None:
    poisoned = TrainedAdapter(1, {"w": torch.tensor([1.0, float("nan")])}, {})
    with pytest.raises(TrainingError, match="finite"):
        save_adapter(tmp_path / "adapter", poisoned)
    assert not (tmp_path / "adapter").exists()


def test_the_order_of_items_is_one_permutation_an_epoch() -> None:
    order = item_order(ITEMS, 24, seed=0)
    assert sorted(i.id for i in order[:12]) == sorted(i.id for i in order[12:]) == sorted(i.id for i in ITEMS)
    assert order[:12] != order[12:]
    assert item_order(ITEMS, 24, seed=0) == order
    assert item_order(ITEMS, 24, seed=1) != order


def test_the_checkpoint_rule_takes_the_best_validation_reward_and_the_earlier_on_a_tie(seldom: Run) -> None:
    _, history = seldom
    episode = history.validations[0][1][0]
    better = episode.model_copy(update={"reward": episode.reward + 1})
    worse = Validation(0, [episode], [better])
    tie = [worse, Validation(5, [better], [episode]), Validation(10, [better], [better])]
    assert chosen_step(tie, "best_validation_reward") == 5
    assert chosen_step([Validation(0, [better], [better]), Validation(5, [episode], [episode])], "last") == 5


def test_a_checkpoint_rule_that_goes_back_to_weights_that_are_gone_is_refused(
    monkeypatch: pytest.MonkeyPatch, seldom: Run
) -> None:
    _, history = seldom
    episode = history.validations[0][1][0]
    seen = [Validation(step, [episode], [episode]) for step in (0, 5, 10)]
    assert not recipe.is_newest_chosen(seen, "best_validation_reward")
    assert recipe.is_newest_chosen(seen, "last")
    monkeypatch.setattr(recipe, "chosen_step", lambda found, rule: found[max(len(found) - 2, 0)].step)
    with pytest.raises(NotImplementedError, match="with step 10 it goes back to step 5"):
        recipe.is_newest_chosen(seen, "last but one")


def test_a_rate_whose_question_never_arose_is_missing_not_zero(seldom: Run) -> None:
    _, history = seldom
    episode = history.validations[0][1][0]
    nobody = episode.model_copy(update={"flags": dict.fromkeys(TASK.flags)})
    row = component_row(1, [nobody], TASK)
    assert row["early_rate"] is None


def test_the_components_of_the_collider_have_the_promised_columns() -> None:
    task = Collider(ColliderSettings(surface="compact", max_turns=3, shaping=0.0, gamma=1.0))
    suite = choose(
        [task.item(row) for row in generate("train", 3, max_turns=8, labels=("columns",))],
        3,
        split="train",
        draws=1,
        seed=0,
    )
    episodes = play_baseline(task, task.baselines()["random"], suite.plays(), "random")
    assert list(component_row(1, episodes, task))[:13] == [
        "step",
        "n",
        "mean_cumulative",
        "mean_terminal",
        "mean_step_shaping",
        "mean_format",
        "discovered_rate",
        "mass_correct_rate",
        "channel_correct_rate",
        "spin_correct_rate",
        "false_claim_rate",
        "parsed_rate",
        "mean_n_steps",
    ], "parts and flags stand in the order in which the task names them"
