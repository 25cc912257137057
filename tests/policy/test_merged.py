"""Base and adapter become one plain model: from any precision, in equal bytes, and logits outlast the model
they are of."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from assay.core.decoding import Decoding
from assay.core.errors import PolicyError
from assay.rollout.policy.base.adapter_files import Weights, greedy, logits_of, merge, write_model
from assay.rollout.policy.digests import digest_folder
from assay.rollout.policy.model import load
from assay.stages.packing import parity
from assay.stages.packing.parity import Side
from tests.policy.adapted import OPENINGS, adapted_base

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(
    ("dtype", "quantization", "bound"),
    [("float32", None, 1e-5), ("bfloat16", None, 0.1), ("float32", "nf4", 1e-5), ("bfloat16", "nf4", 0.1)],
)
def test_the_merged_model_read_back_says_what_base_and_adapter_say(
    tmp_path: Path, dtype: str, quantization: str | None, bound: float
) -> None:
    weights = adapted_base(tmp_path, dtype=dtype, quantization=quantization)
    with Side(weights.policy(), OPENINGS, Decoding(0.0, 12), batch_size=2) as side:
        write_model(merge(weights), tmp_path / "out", base=weights.base)
        again = load(tmp_path / "out", adapter=None, device="cpu", dtype=dtype, quantization=None)
        found = side.against(again)
    assert found.difference < bound and found.agreement > 0.9
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert "quantization_config" not in config and config["dtype"] == dtype
    assert all("lora" not in name for name, _ in again.model.named_modules())


def test_the_adapter_is_what_makes_the_difference(tmp_path: Path) -> None:
    weights = adapted_base(tmp_path)
    plain = load(weights.base, adapter=None, device="cpu", dtype="float32", quantization=None)
    with Side(weights.policy(), OPENINGS, Decoding(0.0, 12), batch_size=2) as side:
        assert side.against(plain).difference > 0.1


def test_equal_weights_are_equal_bytes_without_a_path_of_this_machine(tmp_path: Path) -> None:
    weights = adapted_base(tmp_path)
    for name in ("one", "two"):
        write_model(merge(weights), tmp_path / name, base=weights.base)
    assert digest_folder(tmp_path / "one") == digest_folder(tmp_path / "two")
    for path in (tmp_path / "one").iterdir():
        content = path.read_bytes()
        assert str(tmp_path).encode() not in content, path.name
        if path.name.startswith("tokenizer"):
            assert content == (weights.base / path.name).read_bytes()
        assert path.stat().st_mode & 0o777 == 0o644


def test_greedy_completions_do_not_depend_on_the_batch(tmp_path: Path) -> None:
    policy = adapted_base(tmp_path).policy()
    one = greedy(policy, OPENINGS, Decoding(0.0, 12), batch_size=1)
    assert one == greedy(policy, OPENINGS, Decoding(0.0, 12), batch_size=4) and all(one)
    ids = OPENINGS[0] + one[0]
    logits = logits_of(policy, ids)
    assert logits.shape == (len(ids), len(policy.tokenizer))
    assert logits[len(OPENINGS[0]) - 1 : -1].argmax(-1).tolist() == one[0]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("in_memory", [10**9, 16])
def test_logits_come_back_bit_by_bit_from_memory_and_from_disk(
    tmp_path: Path, in_memory: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parity, "IN_MEMORY_BYTES", in_memory)
    policy = replace(adapted_base(tmp_path), dtype=dtype).policy()
    with Side(policy, OPENINGS, Decoding(0.0, 12), batch_size=2) as side:
        for _ in range(2):
            found = side.against(policy)
            assert found.difference == 0.0 and found.n_agreed == found.n_tokens > 0
        side._logits.seek(0)
        for opening, completion in zip(OPENINGS, side._completions, strict=True):
            logits = logits_of(policy, opening + completion).view(torch.uint8)
            assert torch.equal(torch.from_numpy(np.load(side._logits)), logits)


def test_an_adapter_that_does_not_fit_or_is_not_there_is_refused(tmp_path: Path) -> None:
    weights = adapted_base(tmp_path)
    with pytest.raises(PolicyError):
        merge(Weights(weights.base, tmp_path / "nothing", "cpu", "float32", None))
    config = weights.adapter / "adapter_config.json"
    config.write_text(config.read_text().replace('"r": 4', '"r": 3'))
    with pytest.raises(PolicyError, match="an adapter that merges"):
        merge(weights)
