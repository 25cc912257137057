"""Drafts: the lean engine writes the same tokens with guesses as without, and in fewer passes where they are
right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
import torch

from assay.core.decoding import Completion, Decoding
from assay.core.errors import ConfigError
from assay.rollout.policy.backends.select import converse
from assay.rollout.policy.engine import lean_prompts, lean_reader
from assay.rollout.policy.engine.engine import Session
from assay.rollout.policy.model import Policy, evaluating, playing
from tests.policy import test_lean
from tests.policy.architectures import END, PAD, VOCABULARY, build
from tests.policy.test_engine import policy as tiny_policy
from tests.policy.test_lean import NEVER, SHARED, Odd
from tests.policy.test_sessions import ALL, OPENINGS, played

model, prompts, told = test_lean.model, test_lean.prompts, test_lean.told
policy = tiny_policy
NEW = 20


def lean(temperature: float, drafts: int) -> Decoding:
    return Decoding(temperature, NEW, "lean", drafts=drafts)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return how many passes there were since the last call."""
    forward, seen = lean_reader.forward, list[int]()

    def counted(*given: Any) -> torch.Tensor:
        seen.append(1)
        return forward(*given)

    def since() -> int:
        n = len(seen)
        seen.clear()
        return n

    monkeypatch.setattr(lean_reader, "forward", counted)
    return since


def same(one: Sequence[Completion], other: Sequence[Completion]) -> bool:
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a.logprobs, b.logprobs, rtol=0, atol=2e-5)
    return [a.ids for a in one] == [b.ids for b in other]


@pytest.mark.parametrize("temperature", [0.0, 1.0, pytest.param(0.7, marks=pytest.mark.long)])
def test_tokens_and_ends_are_those_without_drafts(
    model: Any, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = (END, 7, 11, 23)  # so that some rows end early and leave the others
    # Played once: without drafts nothing depends on the company or on who holds the prompt (test_lean.py).
    plain = played(model, ALL, lean(temperature, 0), ends=ends)
    assert len({len(one.ids) for row in plain.values() for one in row}) > 1  # type: ignore[attr-defined]
    for least, (drafts, at_once) in product(SHARED.values(), [(1, 3), (1, 99), (8, 3), (8, 99)]):
        monkeypatch.setattr(lean_prompts, "LEAST_SAVED", least)
        found = played(model, ALL, lean(temperature, drafts), ends=ends, at_once=at_once)
        assert all(same(found[row], plain[row]) for row in ALL)  # type: ignore[arg-type]


def successor(*, sure: float) -> Any:
    """Return a model of which each token but the first three is mostly followed by the next one."""
    model = build("llama")
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.lm_head.weight.zero_()
        vectors = model.model.embed_tokens.weight
        vectors /= vectors.norm(dim=1, keepdim=True).clamp(min=1e-6)  # of padding it is 0
        for token in range(3, VOCABULARY):
            model.lm_head.weight[3 + (token - 2) % (VOCABULARY - 3)] = sure * vectors[token]
    return model


def written(model: Any, openings: Sequence[Sequence[int]], decoding: Decoding, **more: Any) -> Any:
    with evaluating(model):
        given = {"end_ids": NEVER, "pad_id": PAD} | more
        return Session(model, openings, range(len(openings)), decoding, **given).complete()


COPIED = [list(range(3, VOCABULARY)), [9, 10, 11, 12], list(range(3, VOCABULARY)) * 2]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("drafts", [1, 3, 8])
def test_a_model_that_copies_its_prompt_takes_fewer_passes(
    drafts: int, temperature: float, prompts: str, passes: Callable[[], int]
) -> None:
    model = successor(sure=4.0)
    for openings in (COPIED[:1], COPIED[::2], COPIED):
        plain = written(model, openings, lean(temperature, 0))
        before = passes()
        assert same(written(model, openings, lean(temperature, drafts)), plain)
        taken = passes()
        if openings is not COPIED:  # what copies nothing is waited for
            read = before - (NEW - 1)
            # Where the prompt is begun anew, nothing like it has been read, and nothing is guessed twice
            assert taken - read <= 2 + -(-NEW // (drafts + 1))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_guesses_that_are_always_wrong_save_nothing_and_change_nothing(
    temperature: float, prompts: str, passes: Callable[[], int]
) -> None:
    # Each pair of neighbours is followed by another token in the prompt than in the model
    decoys = [[*(token for k in range(3, 38) for token in (k, k + 1, 1)), 3], [5, 6, 7, 3, 6, 7]]
    plain, before = written(successor(sure=9.0), decoys[:1], lean(temperature, 0)), passes()
    for drafts in (1, 3, 8):
        assert same(written(successor(sure=9.0), decoys[:1], lean(temperature, drafts)), plain)
        assert passes() == before
    assert same(
        written(successor(sure=9.0), decoys, lean(temperature, 8)),
        written(successor(sure=9.0), decoys, lean(temperature, 0)),
    )


@pytest.mark.parametrize("end", [4, 5, 6, 7, 8, 9, 10])
def test_a_right_guess_behind_an_end_is_not_taken(end: int, prompts: str) -> None:
    openings = [list(range(3, VOCABULARY)), [*range(3, VOCABULARY), 3]]
    for drafts in (1, 3, 8):
        one, other = written(successor(sure=50.0), openings, lean(1.0, drafts), end_ids=[end])
        assert one.ids == list(range(3, end + 1)) and other.ids == list(range(4, end + 1))


@pytest.mark.parametrize("shared", SHARED.values(), ids=SHARED)
def test_where_a_row_is_bound_nothing_is_guessed(
    shared: int, passes: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lean_prompts, "LEAST_SAVED", shared)
    bounds = [Odd() if row % 2 else None for row in ALL]
    plain = written(build("qwen3"), OPENINGS, lean(1.0, 0), bounds=bounds)
    before = passes()
    assert written(build("qwen3"), OPENINGS, lean(1.0, 8), bounds=bounds) == plain
    assert passes() == before


def test_a_model_that_plays_as_cached_does_is_not_drafted_which_is_told(told: list[str]) -> None:
    model = build("phi")
    assert played(model, ALL, Decoding(1.0, 6, "lean", drafts=8)) == played(model, ALL, Decoding(1.0, 6))
    assert len(told) == 1 and told[0].endswith("plays as cached does, without drafts")


@pytest.mark.parametrize("backend", ["cached", "transformers"])
def test_other_engines_refuse_drafts(policy: Policy, backend: Any) -> None:
    with playing(policy.model), pytest.raises(ConfigError, match=f"found backend {backend}"):
        converse(policy, [[5, 6]], [1], Decoding(1.0, 4, backend, drafts=3))


@pytest.mark.parametrize("backend", ["cached", "lean", "transformers"])
def test_cuda_graphs_are_refused_where_nothing_could_replay_them(policy: Policy, backend: Any) -> None:
    with playing(policy.model), pytest.raises(ConfigError, match="cuda_graphs"):
        converse(policy, [[5, 6]], [1], Decoding(1.0, 4, backend, cuda_graphs=True))
