"""A merged model says what base and adapter say, or it is refused with the numbers, the bounds and a way
out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from assay.core.config.settings import ParitySettings
from assay.core.decoding import Decoding
from assay.core.errors import PackageError
from assay.rollout.policy.base.adapter_files import Weights, merge
from assay.rollout.policy.model import Policy
from assay.stages.packing.parity import MergeComparison, Side, refusal, rounded_up
from tests.policy.adapted import OPENINGS, adapted_base

pytestmark = pytest.mark.filterwarnings("ignore")
BOUNDS = ParitySettings(prompts=4, max_logit_difference=1e-4, min_greedy_agreement=0.99)
DECODING = Decoding(0.0, 12)


@pytest.fixture
def weights(tmp_path: Path) -> Weights:
    return adapted_base(tmp_path)


@pytest.fixture
def side(weights: Weights) -> Iterator[Side]:
    with Side(weights.policy(), OPENINGS, DECODING, batch_size=3) as recorded:
        yield recorded


def test_a_right_merge_is_recorded_with_what_was_compared(weights: Weights, side: Side) -> None:
    record, measured = side.parity(merge(weights), BOUNDS, base_was_4bit=False)
    assert (
        measured.n_agreed == measured.n_tokens == record.tokens
        and record.greedy_agreement == record.free_agreement == 1.0
    )
    assert record.prompts == len(OPENINGS)
    assert record.positions == record.tokens + sum(len(ids) for ids in OPENINGS)
    assert 0 < measured.difference <= record.logit_difference_at_most < 1e-4
    assert f"{record.logit_difference_at_most:.0e}" == f"{record.logit_difference_at_most:e}".replace(
        ".000000", ""
    )
    assert record.policy_digest == weights.policy().digest


def one_weight(model: Any) -> None:
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight[3, 5] += 0.5


def forgotten_layer(model: Any, weights: Weights) -> None:
    from assay.rollout.policy.model import load

    plain = load(weights.base, adapter=None, device="cpu", dtype="float32", quantization=None)
    model.model.layers[0].self_attn.v_proj.weight.data.copy_(
        plain.model.model.layers[0].self_attn.v_proj.weight
    )


def not_a_number(model: Any) -> None:
    with torch.no_grad():
        model.model.layers[0].mlp.up_proj.weight[0, 0] = float("nan")


@pytest.mark.parametrize("breaks", [one_weight, forgotten_layer, not_a_number])
def test_a_broken_merge_is_refused(weights: Weights, side: Side, breaks: Callable[..., None]) -> None:
    merged = merge(weights)
    breaks(merged.model, *([weights] if breaks is forgotten_layer else []))
    with pytest.raises(
        PackageError, match=r"expected a merged model that follows its adapter.*within 0.0001"
    ) as refused:
        side.parity(merged, BOUNDS, base_was_4bit=False)
    assert (
        "greedy tokens" in refused.value.found and f"{len(OPENINGS)} held-out prompts" in refused.value.where
    )
    assert "apart at" in refused.value.found and refused.value.fix


def test_wrong_scaling_is_refused(weights: Weights, side: Side) -> None:
    config = weights.adapter / "adapter_config.json"
    text = config.read_text()
    assert '"lora_alpha": 8' in text
    config.write_text(text.replace('"lora_alpha": 8', '"lora_alpha": 9'))
    with pytest.raises(PackageError, match="apart"):
        side.parity(merge(weights), BOUNDS, base_was_4bit=False)


def test_a_model_of_other_words_and_an_adapter_of_another_base_are_refused(
    weights: Weights, side: Side, tmp_path: Path
) -> None:
    other = adapted_base(tmp_path / "other", seed=6)
    mixed = Weights(other.base, weights.adapter, "cpu", "float32", None)
    with pytest.raises(PackageError):
        side.parity(merge(mixed), BOUNDS, base_was_4bit=False)
    larger = adapted_base(tmp_path / "larger", words=150)
    with pytest.raises(PackageError, match="inf apart"):
        side.parity(merge(larger), BOUNDS, base_was_4bit=False)


def test_tokens_alone_can_refuse_too(weights: Weights, side: Side) -> None:
    merged = merge(weights)
    model = merged.model
    with torch.no_grad():  # the word that is written most is made the least likely
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone() * -1)
    loose = ParitySettings(prompts=4, max_logit_difference=1e6, min_greedy_agreement=0.99)
    with pytest.raises(PackageError, match="greedy tokens"):
        side.parity(Policy(model, merged.tokenizer, merged.dialogue, "x"), loose, base_was_4bit=False)


def test_both_bounds_hold_to_the_very_number_and_nothing_holds_for_nan() -> None:
    def within(difference: float, agreed: int) -> bool:
        return MergeComparison(1, 10, 100, agreed, 1.0, difference).within(BOUNDS)

    assert within(1e-4, 99)
    assert not within(1.0001e-4, 100) and not within(0.0, 98) and not within(float("nan"), 100)
    assert "98 of 100" in refusal(MergeComparison(1, 10, 100, 98, 1.0, 0.0), BOUNDS).found


@pytest.mark.parametrize("value", [1e-9, 7.62939453125e-06, 0.0099, 0.01, 0.3, 1.0, 42.0])
def test_a_difference_is_rounded_up_and_never_by_more_than_a_digit(value: float) -> None:
    assert value <= rounded_up(value) <= 2 * value
