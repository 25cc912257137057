"""The lean way to play against the cached one, a plain forward pass, and itself in other company."""

from __future__ import annotations

import random
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from assay.core.decoding import Decoding
from assay.core.errors import ConfigError
from assay.rollout.policy.backends import select
from assay.rollout.policy.backends.select import converse
from assay.rollout.policy.base import tiny
from assay.rollout.policy.engine import engine, lean_forward, lean_prompts
from assay.rollout.policy.engine.choice import Bits
from assay.rollout.policy.engine.context import windows_of
from assay.rollout.policy.engine.engine import Session, reader_of
from assay.rollout.policy.engine.kv_cache import STEP
from assay.rollout.policy.engine.lean_reader import LeanReader
from assay.rollout.policy.engine.lean_weights import weights_of
from assay.rollout.policy.model import Policy, evaluating, load, playing
from assay.rollout.policy.renderer import Dialogue
from assay.training import flat
from assay.training.adapter import TrainedAdapter
from assay.training.checkpoints.store import Checkpoints
from assay.training.grpo import train
from assay.training.log.history import History, Watch
from assay.training.setup import Setup
from tests.policy.adapted import SHAPE
from tests.policy.architectures import END, PAD, build, logprobs_of
from tests.policy.test_engine import policy as tiny_policy
from tests.policy.test_sessions import ALL, OPENINGS, REPLIES, adapted, ids_of, played
from tests.small_policy import LETTERS, small_policy
from tests.training import test_training as toy

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]
SERVED = [
    "qwen3",
    "qwen3 tied",
    "qwen3 with sliding layers",
    "qwen2",
    "llama",
    "llama with biases and a scaled rope",
    "mistral",
    "gemma2",
]
OTHERS = ["phi", "gpt-oss", "gpt2"]
CACHED, LEAN = Decoding(1.0, 20), Decoding(1.0, 20, "lean")
NEVER = [-1]  # no token ends a completion: twelve of twenty tokens are compared
SHARED = {"shared": 0, "apart": 10**6}  # whether prompts of any length are, or none
policy = tiny_policy


@pytest.fixture(params=SERVED)
def model(request: pytest.FixtureRequest) -> Any:
    return build(request.param)


@pytest.fixture(params=SHARED)
def prompts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(lean_prompts, "LEAST_SAVED", SHARED[request.param])
    return str(request.param)


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is complained of."""
    said: list[str] = []
    monkeypatch.setattr(engine, "complain", said.append)
    monkeypatch.setattr(engine, "_told", set())
    return said


@pytest.mark.parametrize("drafts", [0, 8])
def test_log_probabilities_are_those_of_a_plain_pass_over_the_finished_conversation(
    model: Any, prompts: str, drafts: int, told: list[str]
) -> None:
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(0.5 if weights.dim() == 2 else 1.0)  # sharp models repeat no plain pass themselves
    for row, turns in played(model, ALL, replace(LEAN, drafts=drafts), ends=NEVER).items():
        ids, places, captured = list(OPENINGS[row]), list[int](), list[float]()
        for turn, one in enumerate(turns):
            places += range(len(ids) - 1, len(ids) - 1 + len(one.ids))  # type: ignore[attr-defined]
            captured += one.logprobs  # type: ignore[attr-defined]
            ids += one.ids + REPLIES[row][turn]  # type: ignore[attr-defined]
        expected = logprobs_of(model, ids)[places]
        assert float((expected - torch.tensor(captured)).abs().max()) < 5e-6
    assert told == []


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_tokens_are_those_of_the_cached_engine(
    model: Any, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = ids_of(played(model, ALL, Decoding(temperature, 20), ends=NEVER))
    assert sum(len(ids) for told in cached.values() for ids in told) == 240
    for least in SHARED.values():
        monkeypatch.setattr(lean_prompts, "LEAST_SAVED", least)
        assert ids_of(played(model, ALL, Decoding(temperature, 20, "lean"), ends=NEVER)) == cached


def test_what_is_sampled_does_not_depend_on_who_is_held_together(model: Any, prompts: str) -> None:
    alone = {row: ids_of(played(model, [row], LEAN))[row] for row in ALL}
    assert len({str(each) for each in alone.values()}) > 3
    shuffled = list(ALL)
    random.Random(1).shuffle(shuffled)
    for rows, at_once in ((shuffled, 1), (shuffled, 3), (list(ALL)[::-1], 4), (list(ALL), 64)):
        assert ids_of(played(model, rows, LEAN, at_once=at_once)) == alone


class Odd:
    """Bounds a row to odd tokens."""

    def begin(self) -> None:
        """Begin another completion."""

    def fill(self, bits: Bits) -> None:
        """Take the even tokens."""
        bits &= np.int32(-0x55555556)

    def take(self, token: int) -> None:
        """Go on."""


@pytest.mark.parametrize("shared", SHARED.values(), ids=SHARED)
def test_bounds_hold(shared: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lean_prompts, "LEAST_SAVED", shared)
    model, said = build("qwen3"), []
    for decoding in (CACHED, LEAN):
        bounds = [Odd() if row % 2 else None for row in ALL]
        with evaluating(model):
            session = Session(model, OPENINGS, list(ALL), decoding, end_ids=NEVER, pad_id=PAD, bounds=bounds)
            said.append([one.ids for one in session.complete()])
    assert said[0] == said[1]
    assert all(token % 2 for row in ALL if row % 2 for token in said[1][row])
    assert any(token % 2 == 0 for row in ALL if not row % 2 for token in said[1][row])


def test_an_adapter_is_played_as_it_is_at_the_time(told: list[str]) -> None:
    model = adapted(build("qwen3"))
    first = played(model, ALL, LEAN, merged=True)
    assert ids_of(first) == ids_of(played(model, ALL, CACHED, merged=True))
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "lora_B" in name:
                weights.mul_(-1.0)
    second = played(model, ALL, LEAN, merged=True)
    assert ids_of(first) != ids_of(second) == ids_of(played(model, ALL, CACHED, merged=True))
    with model.disable_adapter():
        assert ids_of(played(model, ALL, LEAN)) == ids_of(played(build("qwen3"), ALL, CACHED))
    assert told == []


def trained(base: Path, backend: str) -> tuple[TrainedAdapter, History]:
    """Train for two steps, with validations, by a backend."""
    lora = toy.params().train.lora.model_dump() | {"dropout": 0.0}
    settings = toy.with_last_checkpoint(toy.params(lora=lora))
    generation = settings.generation.model_copy(update={"backend": backend})
    settings, history = settings.model_copy(update={"generation": generation}), History()
    policy = load(base, adapter=None, device="cpu", dtype="float32", quantization=None)
    with tempfile.TemporaryDirectory() as folder:
        found = train(
            policy,
            Setup(toy.TASK, toy.TASK, toy.ITEMS, toy.validation(), settings),
            checkpoints=Checkpoints(Path(folder), "run", 2),
            start=None,
            history=history,
            watch=Watch(toy.TASK),
            on_step=lambda _: None,
        )
    return found, history


@pytest.mark.parametrize("least_shared", [1, 10**6], ids=["learned flat", "learned alone"])
def test_a_training_plays_by_the_lean_engine_what_it_plays_by_the_cached_one(
    tmp_path: Path, told: list[str], least_shared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flat, "LEAST_SHARED", least_shared)
    tokenizer = tiny.build_tokenizer(toy.TASK.vocabulary())
    shape = SHAPE.model_copy(update={"layers": 1, "max_positions": 256})
    tiny.build_model(shape, tokenizer, 5).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    (cached, one), (lean, other) = trained(tmp_path, "cached"), trained(tmp_path, "lean")
    rewards = [[row["reward"] for row in history.training_log] for history in (one, other)]
    assert rewards[0] == rewards[1] and len(rewards[0]) == 2
    for name, tensor in lean.adapter.items():
        torch.testing.assert_close(tensor, cached.adapter[name], rtol=0, atol=5e-6)
    assert told == []


def hooked() -> Any:
    model = build("llama")
    model.model.layers[1].mlp.register_forward_hook(lambda module, given, found: 2 * found)
    return model


def replaced() -> Any:
    model = build("llama")
    model.model.layers[1].mlp.forward = lambda x: 2 * x
    return model


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        *((lambda name=name: build(name), "a model of class") for name in OTHERS),
        (lambda: build("qwen3").to(torch.bfloat16), "weights of torch.bfloat16"),
        (lambda: adapted(build("qwen3")), "a Linear that is not one product"),
        (hooked, "something around a LlamaMLP"),
        (replaced, "something around a LlamaMLP"),
    ],
)
def test_what_is_not_known_exactly_plays_as_cached_does_and_is_told_once(
    made: Any, reason: str, told: list[str]
) -> None:
    model = made()
    few = Decoding(1.0, 6, "lean")
    assert played(model, ALL, few) == played(model, ALL, Decoding(1.0, 6))
    assert played(model, ALL, few, at_once=2)
    assert len(told) == 1 and reason in told[0]


@pytest.mark.parametrize(
    ("made", "backend", "plays"),
    [
        (lambda: build("qwen3"), "lean", "lean"),
        (hooked, "lean", "cached"),
        (lambda: build("qwen3"), "cached", "cached"),
        (lambda: build("qwen3"), "transformers", "transformers"),
    ],
)
def test_who_plays_is_said_once(
    made: Any, backend: Any, plays: str, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = list[str]()
    monkeypatch.setattr(select, "say", said.append)
    monkeypatch.setattr(select, "_told", set())
    policy = replace(small_policy(LETTERS), model=made())
    for _ in range(2):
        with evaluating(policy.model):
            converse(policy, [[5, 6]], [1], Decoding(1.0, 2, backend))
    assert said == [f"engine: {plays} plays"] and len(told) == (backend != plays)


def test_a_prompt_is_held_once_however_many_rows_share_it() -> None:
    model, prompt, new = build("qwen3"), [3 + k % 30 for k in range(40 * STEP)], 20
    with evaluating(model):
        session = Session(model, [prompt] * 16, range(16), LEAN, end_ids=NEVER, pad_id=PAD)
        session.complete()
        reader: Any = session._reader
    config = model.config
    of_one_token = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * 4
    held = reader._prompts.stored.nbytes + reader.cache.nbytes
    distinct = len(prompt) + 16 * new
    assert distinct * of_one_token <= held <= (len(prompt) + 16 * STEP) * of_one_token


def test_a_prompt_is_dropped_with_the_last_row_that_shares_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lean_prompts, "LEAST_SAVED", 0)
    model, prompts = build("qwen3"), [[5, 6, 7], [8] * 9, [5, 6, 7], [9] * 4]
    with evaluating(model):
        session = Session(model, prompts, range(4), LEAN, end_ids=NEVER, pad_id=PAD)
        reader: Any = session._reader
        held = [reader._prompts.stored.slots]
        for rows, new in (([1, 0, 2], [[9] * 4]), ([3], []), ([0], [[5, 6, 7], [9] * 4])):
            done = session.complete()
            session.keep(rows)
            session.tell([done[row].ids[-1] for row in rows], [[4]] * len(rows))
            session.admit(new, [7] * len(new))
            held.append(reader._prompts.stored.slots)
        session.complete()
    assert held == [3, 3, 1, 2]


def test_both_ways_to_attend_agree() -> None:
    weights = weights_of(build("llama"), windows_of(build("llama").config))
    torch.manual_seed(0)
    queries, keys, values = (torch.randn(3, 2, n, 8) for n in (5, 11, 11))
    mask = torch.zeros(3, 1, 5, 11)
    mask[1, :, :, 7:] = torch.finfo(torch.float32).min
    for hidden in (None, mask):
        one = lean_forward._by_kernel(weights, queries, keys, values, hidden)
        other = lean_forward._by_products(weights, queries, keys, values, hidden)
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_cuda_graphs_are_not_for_the_lean_engine(policy: Policy) -> None:
    decoding = Decoding(1.0, 4, "lean", cuda_graphs=True)
    with playing(policy.model), pytest.raises(ConfigError, match="found backend lean"):
        converse(policy, [[5, 6]], [1], decoding)


def test_a_policy_converses_by_the_lean_engine(policy: Policy) -> None:
    assert isinstance(policy.dialogue, Dialogue)
    with playing(policy.model):
        session: Any = converse(policy, [[5, 6]], [1], Decoding(1.0, 4, "lean"))
        assert isinstance(session._reader, LeanReader)
        assert not isinstance(reader_of(policy.model, END, Decoding(1.0, 4)), LeanReader)
