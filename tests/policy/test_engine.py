"""The rollout engine against a plain forward pass, and against itself under other packings."""

from __future__ import annotations

import pytest
import torch

from assay.core.config.settings import TinyArchitecture
from assay.core.decoding import Decoding
from assay.policy.base import tiny
from assay.policy.engine.engine import Session
from assay.policy.model import Policy, evaluating
from assay.policy.renderer import Dialogue

WORDS = ["a", "b", "c", "d", "e", "f", " "]
SHAPE = TinyArchitecture(
    hidden_size=32, intermediate_size=64, layers=2, heads=4, max_positions=256, initializer_range=0.3
)


@pytest.fixture(scope="module")
def policy() -> Policy:
    tokenizer = tiny.build_tokenizer(WORDS)
    model = tiny.build_model(SHAPE, tokenizer, seed=1)
    return Policy(model, tokenizer, Dialogue(tokenizer), "test")


OPENINGS = ["a b", "a b", "c", "d e f a b c d e f", "a b"]
OBSERVATIONS = ["e", "f a", "b b b", "c", "d"]


def two_turns(
    policy: Policy, rows: list[int], decoding: Decoding
) -> dict[int, list[tuple[list[int], list[float]]]]:
    """Play two turns with the chosen rows in one batch: by row, ids and log-probs of each completion."""
    dialogue = policy.dialogue
    with evaluating(policy.model):
        session = Session(
            policy.model,
            [dialogue.opening([{"role": "user", "content": OPENINGS[row]}]) for row in rows],
            [1000 + row for row in rows],
            decoding,
            end_ids=dialogue.end_ids,
            pad_id=policy.pad_id,
        )
        first = session.complete()
        replies = [
            dialogue.reply(OBSERVATIONS[row], last_id=done.ids[-1])
            for row, done in zip(rows, first, strict=True)
        ]
        session.tell([done.ids[-1] for done in first], replies)
        second = session.complete()
    return {
        row: [(one.ids, one.logprobs), (two.ids, two.logprobs)]
        for row, one, two in zip(rows, first, second, strict=True)
    }


def test_what_a_row_samples_does_not_depend_on_the_batch_it_is_in(policy: Policy) -> None:
    decoding = Decoding(1.0, 6)
    together = two_turns(policy, [0, 1, 2, 3, 4], decoding)
    for row in range(5):
        alone = two_turns(policy, [row], decoding)
        assert [ids for ids, _ in alone[row]] == [ids for ids, _ in together[row]]
    reversed_order = two_turns(policy, [4, 3, 2, 1, 0], decoding)
    assert {row: [ids for ids, _ in turns] for row, turns in reversed_order.items()} == {
        row: [ids for ids, _ in turns] for row, turns in together.items()
    }


def test_equal_openings_with_different_seeds_sample_differently(policy: Policy) -> None:
    played = two_turns(policy, [0, 1, 4], Decoding(1.0, 8))
    assert len({tuple(turns[0][0]) for turns in played.values()}) > 1


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probabilities_captured_while_sampling_equal_a_full_forward_pass(
    policy: Policy, temperature: float
) -> None:
    dialogue = policy.dialogue
    for row, turns in two_turns(policy, [0, 2, 3], Decoding(temperature, 6)).items():
        ids = dialogue.opening([{"role": "user", "content": OPENINGS[row]}])
        for place, (written, captured) in enumerate(turns):
            start = len(ids)
            ids = ids + written
            with torch.no_grad():
                logits = policy.model(input_ids=torch.tensor([ids])).logits[0].float() / temperature
            expected = torch.log_softmax(logits, -1)[start - 1 : -1].gather(
                1, torch.tensor(written)[:, None]
            )[:, 0]
            assert torch.allclose(expected, torch.tensor(captured), atol=2e-5)
            if place == 0:
                ids = ids + dialogue.reply(OBSERVATIONS[row], last_id=written[-1])


def test_greedy_completions_equal_those_of_transformers_generate(policy: Policy) -> None:
    dialogue = policy.dialogue
    opening = dialogue.opening([{"role": "user", "content": "d e f"}])
    with evaluating(policy.model):
        session = Session(
            policy.model, [opening], [0], Decoding(0.0, 12), end_ids=dialogue.end_ids, pad_id=policy.pad_id
        )
        ours = session.complete()[0].ids
        theirs = policy.model.generate(
            torch.tensor([opening]),
            attention_mask=torch.ones(1, len(opening), dtype=torch.long),
            max_new_tokens=12,
            do_sample=False,
        )[0, len(opening) :].tolist()
    assert ours == theirs


def test_a_conversation_is_assembled_in_play_as_it_was_taught(policy: Policy) -> None:
    dialogue = policy.dialogue
    messages = [
        {"role": "user", "content": "a b"},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"},
        {"role": "assistant", "content": "e f"},
    ]
    ids, mask = dialogue.whole(messages)
    text = policy.tokenizer.apply_chat_template(messages, tokenize=False)
    assert policy.tokenizer.decode(ids) == text
    written = policy.tokenizer.decode([i for i, own in zip(ids, mask, strict=True) if own])
    assert written == "c<|end|>e f<|end|>"


def test_tokens_joined_give_the_text_back(policy: Policy) -> None:
    text = "abc def a b"
    assert policy.tokenizer.decode(policy.tokenizer(text, add_special_tokens=False)["input_ids"]) == text
