"""An adapter that was trained with other tokens than the base has is not played on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.core.errors import PolicyError
from assay.pipeline import external
from assay.rollout.policy.base import tiny
from tests.small_policy import LETTERS


def words(folder: Path, change: Callable[[dict[str, int]], object] = bool) -> Path:
    """Write a tokenizer of letters, its vocabulary changed."""
    tiny.build_tokenizer(LETTERS).save_pretrained(folder)
    file = folder / "tokenizer.json"
    told = json.loads(file.read_text())
    change(told["model"]["vocab"])
    file.write_text(json.dumps(told))
    return folder


@pytest.mark.parametrize(
    ("change", "refused", "told"),
    [
        (bool, False, False),
        (lambda vocab: vocab.update({"[PAD]": 10_000}), False, True),
        (lambda vocab: vocab.pop("z"), True, False),
        (lambda vocab: vocab.update(a=vocab["b"], b=vocab["a"]), True, False),
    ],
)
def test_words_of_the_base_are_the_same_tokens_beside_an_adapter(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[dict[str, int]], object],
    refused: bool,
    told: bool,
) -> None:
    said: list[str] = []
    monkeypatch.setattr(external, "complain", said.append)
    base, adapter = words(tmp_path / "base"), words(tmp_path / "adapter", change)
    if refused:
        with pytest.raises(PolicyError, match="words as the same tokens"):
            external.refuse_other_words(adapter, base, "kept/adapter")
    else:
        external.refuse_other_words(adapter, base, "kept/adapter")
    assert bool(said) == told
    (adapter / "tokenizer.json").unlink()
    external.refuse_other_words(adapter, base, "kept/adapter")
