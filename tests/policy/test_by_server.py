"""A vLLM server as the engine, against a strict stand-in of its API that plays by our own engine; never
against vLLM."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from assay.core.decoding import Decoding
from assay.core.errors import ConfigError, PolicyError
from assay.core.seeds import derive_seed
from assay.policy.backends import by_server, by_vllm
from assay.policy.backends.select import converse
from assay.policy.base import tiny
from assay.policy.base.adapter_files import Weights
from assay.policy.model import Policy, load, playing
from assay.training.adapter import TrainedAdapter
from assay.training.checkpoints.store import Checkpoints
from assay.training.grpo import train
from assay.training.log.history import History, Watch
from tests.policy.adapted import OPENINGS, SHAPE, adapted_base
from tests.policy.vllm_stand_in import StandIn, serving
from tests.training import test_training as toy

# transformers 5.23 renames gradient_checkpointing; peft 0.21 still asks for the old name.
pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"
)
SERVED, OWN = Decoding(0.8, 6, backend="vllm_server"), Decoding(0.8, 6)
SEEDS = [11, 12, 13, 14]


@pytest.fixture
def weights(tmp_path: Path) -> Weights:
    return adapted_base(tmp_path)


@pytest.fixture
def server(weights: Weights, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    stand_in = StandIn(weights.base)
    with serving(stand_in) as url:
        monkeypatch.setenv(by_server.ADDRESS, url)
        # Nobody listens there: a request that took it would fail.
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(by_server, "_SERVERS", {})
        yield stand_in


def own(policy: Policy, texts: list[list[int]], seeds: list[int], decoding: Decoding = OWN) -> list[Any]:
    """Return what our engine writes with the seeds that a server is sent."""
    keyed = [derive_seed("vllm", seed, len(text)) for text, seed in zip(texts, seeds, strict=True)]
    with playing(policy.model):
        return converse(policy, texts, keyed, decoding).complete()


def refused(policy: Policy) -> str:
    with pytest.raises(PolicyError) as told:
        converse(policy, OPENINGS[:2], SEEDS[:2], SERVED).complete()
    return str(told.value)


def test_turns_go_by_token_ids_and_come_back_as_our_own_engine_writes_them(
    server: StandIn, weights: Weights
) -> None:
    policy = weights.policy()
    talk = converse(policy, OPENINGS, SEEDS, SERVED)
    first = talk.complete()
    expected = own(policy, OPENINGS, SEEDS)
    assert [one.ids for one in first] == [one.ids for one in expected]
    for one, other in zip(first, expected, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    talk.keep([2, 0])
    talk.tell([first[2].ids[-1], first[0].ids[-1]], [[30, 31], [32]])
    talk.admit([[7, 8]], [15])
    texts = [[*OPENINGS[2], *first[2].ids, 30, 31], [*OPENINGS[0], *first[0].ids, 32], [7, 8]]
    assert [one.ids for one in talk.complete()] == [one.ids for one in own(policy, texts, [13, 11, 15])]
    sent = [body for path, body in server.asked if path == "/v1/completions"]
    assert len({body["seed"] for body in sent}) == len(sent) == 7
    assert all(body["stop_token_ids"] == list(policy.dialogue.end_ids) for body in sent)


def test_the_base_is_asked_for_by_its_name_and_the_greedy_adapter_by_its_content(
    server: StandIn, weights: Weights
) -> None:
    greedy, served = Decoding(0.0, 6), Decoding(0.0, 6, backend="vllm_server")
    plain = load(weights.base, adapter=None, device="cpu", dtype="float32", quantization=None)
    adapted = weights.policy()
    written = {}
    for policy in (plain, adapted):
        found = [one.ids for one in converse(policy, OPENINGS, SEEDS, served).complete()]
        assert found == [one.ids for one in own(policy, OPENINGS, SEEDS, greedy)]
        written[server.asked[-1][1]["model"]] = found
    assert set(written) == {"base", *server.adapters} and len(server.adapters) == 1
    assert written.pop("base") not in written.values()


def test_an_adapter_is_loaded_once_whoever_asks_and_the_one_before_it_goes(
    server: StandIn, weights: Weights
) -> None:
    policy, neighbour = weights.policy(), weights.policy()
    for each in (policy, policy, neighbour):
        converse(each, OPENINGS[:1], [1], SERVED).complete()
    assert [path for path, _ in server.asked].count("/v1/load_lora_adapter") == 1
    (before,) = server.adapters
    with torch.no_grad():
        next(p for name, p in policy.model.named_parameters() if "lora_B" in name).add_(1.0)
    found = converse(policy, OPENINGS, SEEDS, SERVED).complete()
    assert [one.ids for one in found] == [one.ids for one in own(policy, OPENINGS, SEEDS)]
    (after,) = server.adapters
    assert after != before


def test_folders_of_adapters_do_not_pile_up(weights: Weights) -> None:
    policy, writer = weights.policy(), by_vllm.Handover()
    changed = next(p for name, p in policy.model.named_parameters() if "lora_B" in name)
    written = []
    for _ in range(4):
        with torch.no_grad():
            changed.add_(1.0)
        written.append(writer.folder(policy.model, str(writer.name(policy.model))))
    assert [folder.is_dir() for folder in written] == [False, False, True, True]
    adapted = load(weights.base, adapter=written[-1], device="cpu", dtype="float32", quantization=None)
    assert by_vllm.Handover().name(adapted.model) == written[-1].name


def test_two_processes_that_come_at_once_share_what_one_of_them_loaded(
    server: StandIn, weights: Weights
) -> None:
    # Both have seen that it is missing before one of them loads it.
    url = os.environ[by_server.ADDRESS]
    policy, meet = weights.policy(), threading.Barrier(2)
    name = by_server.Handover().name(policy.model)
    faults: list[Exception] = []

    def load_it() -> None:
        each = by_server.VllmServer(url)
        meet.wait()
        try:
            each.load(str(name), policy.model)
        except Exception as error:  # noqa: BLE001
            faults.append(error)

    threads = [threading.Thread(target=load_it) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults and set(server.adapters) == {name}
    assert [path for path, _ in server.asked].count("/v1/load_lora_adapter") == 2


def test_an_adapter_that_the_server_has_evicted_is_no_hindrance(server: StandIn, weights: Weights) -> None:
    policy = weights.policy()
    converse(policy, OPENINGS[:1], [1], SERVED).complete()
    server.held = None
    with torch.no_grad():
        next(p for name, p in policy.model.named_parameters() if "lora_B" in name).add_(1.0)
    found = converse(policy, OPENINGS, SEEDS, SERVED).complete()
    assert [one.ids for one in found] == [one.ids for one in own(policy, OPENINGS, SEEDS)]


def test_what_is_missing_is_said_with_the_command_that_starts_it(
    server: StandIn, weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = weights.policy()
    command = f"vllm serve {weights.base.resolve()}"
    server.root = "somebody/else"
    assert command in (said := refused(policy)) and "somebody/else" in said
    server.root, server.max_lora_rank = str(weights.base), 1
    assert "greater than max_lora_rank 1" in (said := refused(policy)) and "--max-lora-rank 8" in said
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        monkeypatch.setenv(by_server.ADDRESS, f"http://127.0.0.1:{nobody.getsockname()[1]}")
        assert command in (said := refused(policy)) and "refused" in said
    for url in ("localhost:8000", "http://localhost:99999", "http://[::1", "http://me:hush@localhost:8000"):
        monkeypatch.setenv(by_server.ADDRESS, url)
        with pytest.raises(ConfigError, match="ASSAY_VLLM_URL") as caught:
            converse(policy, OPENINGS, SEEDS, SERVED)
        assert "hush" not in str(caught.value)


def changed(**fields: Any) -> Any:
    """Return what changes a completion's choice, None taking a field away."""

    def spoil(path: str, status: int, content: Any) -> tuple[int, Any]:
        if path == "/v1/completions":
            choice = content["choices"][0] | fields
            content["choices"] = [{name: value for name, value in choice.items() if value is not None}]
        return status, content

    return spoil


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda path, status, content: (status, None if path == "/v1/completions" else content),
            "an answer of a vLLM server",
        ),
        (
            lambda path, status, content: (status, "<html>" if path == "/v1/completions" else content),
            "vLLM 0.30",
        ),
        (lambda path, status, content: (401, {"error": "Unauthorized"}), "VLLM_API_KEY"),
        (changed(token_ids=None), "token_ids"),
        (changed(prompt_token_ids=[1, 2]), "behind others"),
        (
            changed(token_ids=[5, 6], finish_reason="stop", logprobs={"token_logprobs": [-1.0, -1.0]}),
            "an end by one of",
        ),
        (
            changed(token_ids=[5, 6], finish_reason="length", logprobs={"token_logprobs": [-1.0]}),
            "behind others",
        ),
        (
            changed(token_ids=[5, 6], finish_reason="length", logprobs={"token_logprobs": [-1.0, -1.0]}),
            "--max-model-len",
        ),
        (changed(finish_reason="abort"), "finish_reason"),
    ],
    ids=[
        "hangs up",
        "no JSON",
        "no key",
        "no ids",
        "another prompt",
        "an end of its own",
        "a gap",
        "cut short",
        "aborted",
    ],
)
def test_an_answer_that_is_not_what_was_asked_ends_in_one_message(
    server: StandIn, weights: Weights, spoil: Any, said: str
) -> None:
    server.spoil = spoil
    message = refused(weights.policy())
    assert said in message and "last checkpoint" in message


def test_a_server_that_says_nothing_is_waited_for_only_so_long(
    server: StandIn, weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_server, "ANSWER_S", 0.2)
    go_on = threading.Event()
    server.spoil = lambda path, status, content: (go_on.wait(5.0), (status, content))[1]
    try:
        assert "timed out" in refused(weights.policy())
    finally:
        go_on.set()


def trained(base: Path, backend: str) -> tuple[TrainedAdapter, History]:
    """Train for two steps, with validations, by a backend."""
    # No dropout: its noise is torch's, which the stand-in stirs as it loads a model in this very process.
    lora = toy.params().train.lora.model_dump() | {"dropout": 0.0}
    settings = toy.with_last_checkpoint(toy.params(lora=lora))
    generation = settings.generation.model_copy(update={"backend": backend})
    settings, history = settings.model_copy(update={"generation": generation}), History()
    policy = load(base, adapter=None, device="cpu", dtype="float32", quantization=None)
    with tempfile.TemporaryDirectory() as folder:
        found = train(
            policy,
            toy.TASK,
            toy.TASK,
            toy.ITEMS,
            toy.validation(),
            settings,
            checkpoints=Checkpoints(Path(folder), "run", 2),
            start=None,
            history=history,
            watch=Watch(toy.TASK),
            on_step=lambda _: None,
        )
    return found, history


def test_a_training_by_the_server_is_the_one_by_our_engine_where_the_seeds_are_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tokenizer = tiny.build_tokenizer(toy.TASK.vocabulary())
    base = tmp_path / "base"
    tiny.build_model(
        SHAPE.model_copy(update={"layers": 1, "max_positions": 256}), tokenizer, 5
    ).save_pretrained(base)
    tokenizer.save_pretrained(base)
    stand_in = StandIn(base, max_lora_rank=16)
    monkeypatch.setattr(by_server, "_SERVERS", {})
    monkeypatch.setattr(by_vllm, "derive_seed", lambda _, seed, length: seed)
    with serving(stand_in) as url:
        monkeypatch.setenv(by_server.ADDRESS, url)
        served, by_it = trained(base, "vllm_server")
    alone, by_us = trained(base, "cached")
    rewards = [[row["reward"] for row in one.training_log] for one in (by_it, by_us)]
    assert rewards[0] == rewards[1] and len(rewards[0]) == 2
    assert [row.step for row in by_it.validations] == [row.step for row in by_us.validations]
    for name, tensor in served.adapter.items():
        torch.testing.assert_close(tensor, alone.adapter[name], rtol=0, atol=1e-6)
    # What is published names no folder of this machine.
    assert served.adapter_config == alone.adapter_config
    loaded = [body["lora_name"] for path, body in stand_in.asked if path == "/v1/load_lora_adapter"]
    # The fresh one, and what each of two steps made of it; no base, and none that is not the newest.
    assert len(loaded) == len(set(loaded)) == 3
    used = [body["model"] for path, body in stand_in.asked if path == "/v1/completions"]
    assert list(dict.fromkeys(used)) == loaded
