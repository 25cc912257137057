"""What we rely on in TRL's private parts; trl is pinned exactly, and this says why."""

from __future__ import annotations

import inspect

import pytest

trl = pytest.importorskip("trl")


def test_rows_pass_through_the_method_we_listen_at() -> None:
    source = inspect.getsource(trl.GRPOTrainer._generate_and_score_completions)
    assert "inputs: list[dict" in source
    assert 'prompts = [x["prompt"] for x in inputs]' in source


def test_the_rollout_function_may_mask_what_the_environment_said() -> None:
    assert 'extra_fields.pop("env_mask", None)' in inspect.getsource(trl.GRPOTrainer._generate)


def test_further_rollout_fields_reach_the_reward_function() -> None:
    source = inspect.getsource(trl.GRPOTrainer._generate_and_score_completions)
    assert "inp[key] = values[i]" in source


def test_the_training_step_has_the_signature_we_override() -> None:
    names = list(inspect.signature(trl.GRPOTrainer.training_step).parameters)
    assert names == ["self", "model", "inputs", "num_items_in_batch"]
