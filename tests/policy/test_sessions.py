"""Every engine on several architectures: against stock `generate`, a plain forward pass, and itself in other
company."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, GPTNeoConfig, RwkvConfig

from assay.core.decoding import Completion, Decoding
from assay.core.errors import PolicyError
from assay.rollout.policy.backends.select import StockConversations as Stock
from assay.rollout.policy.engine.context import windows_of
from assay.rollout.policy.engine.cuda_graphs import arena_of
from assay.rollout.policy.engine.engine import Session
from assay.rollout.policy.engine.kv_cache import reserved_for
from assay.rollout.policy.model import evaluating, playing
from tests.policy.architectures import ALIKE, END, NAMES, PAD, build, logprobs_of

# transformers 5.23 renames gradient_checkpointing; peft 0.21 still asks for the old name.
pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
TURNS = 3
# Ragged, with copies, and longer than the window of a sliding layer.
OPENINGS = [[5, 6, 7], [5, 6, 7], [8] * 11, [9, 10, 11, 12, 13], [5, 6, 7], [14]]
REPLIES = [[[20 + turn] * (1 + (row + turn) % 4) for turn in range(TURNS)] for row in range(len(OPENINGS))]
SAMPLED, GREEDY = Decoding(1.0, 6), Decoding(0.0, 6)
Told = list[list[Completion]]


@pytest.fixture(params=NAMES)
def model(request: pytest.FixtureRequest) -> Any:
    return build(request.param)


def played(
    model: Any,
    rows: Sequence[int],
    decoding: Decoding,
    *,
    at_once: int = 99,
    kind: Any = Session,
    merged: bool = False,
    ends: Sequence[int] = (END,),
) -> dict[int, Told]:
    """Let rows of OPENINGS play three turns, some held at once; those that wait are admitted as others
    end."""
    waiting, talking, told = list(rows), list[int](), {row: list[Completion]() for row in rows}
    session: Any = None
    with playing(model) if merged else evaluating(model):
        while waiting or talking:
            new, waiting = waiting[: at_once - len(talking)], waiting[at_once - len(talking) :]
            openings, seeds = [OPENINGS[row] for row in new], [100 + row for row in new]
            if session is None:
                session = kind(model, openings, seeds, decoding, end_ids=ends, pad_id=PAD)
            else:
                session.admit(openings, seeds)
            talking += new
            done = session.complete()
            for row, completion in zip(talking, done, strict=True):
                told[row].append(completion)
            # Rows leave after one to three turns, so that places are freed in the middle.
            going = [place for place, row in enumerate(talking) if len(told[row]) < 1 + row % TURNS]
            session.keep(going)
            talking = [talking[place] for place in going]
            if talking:
                session.tell(
                    [told[row][-1].ids[-1] for row in talking],
                    [REPLIES[row][len(told[row]) - 1] for row in talking],
                )
    return told  # type: ignore[return-value]


def ids_of(told: dict[int, Any]) -> dict[int, list[list[int]]]:
    return {row: [one.ids for one in told[row]] for row in sorted(told)}


ALL = range(len(OPENINGS))


def test_greedy_completions_equal_those_of_transformers_generate_turn_by_turn(model: Any) -> None:
    assert ids_of(played(model, ALL, GREEDY)) == ids_of(played(model, ALL, GREEDY, kind=Stock))


@pytest.mark.parametrize(
    ("kind", "decoding"), [(Session, Decoding(0.7, 6)), (Session, GREEDY), (Stock, Decoding(0.7, 6))]
)
def test_log_probabilities_are_those_of_one_pass_over_the_finished_conversation(
    model: Any, decoding: Decoding, kind: Any
) -> None:
    for row, told in played(model, ALL, decoding, kind=kind).items():
        ids, places, captured = list(OPENINGS[row]), list[int](), list[float]()
        for turn, one in enumerate(told):  # type: ignore[assignment]
            places += range(len(ids) - 1, len(ids) - 1 + len(one.ids))
            captured += one.logprobs
            ids += one.ids + REPLIES[row][turn]
        expected = logprobs_of(model, ids, decoding.temperature or 1.0)[places]
        assert float((expected - torch.tensor(captured)).abs().max()) < 1e-4


@pytest.mark.parametrize(
    "wish", [{"repetition_penalty": 3.0}, {"min_p": 0.5}, {"suppress_tokens": list(range(10, 30))}]
)
def test_a_model_that_wishes_to_be_decoded_in_its_own_way_is_decoded_as_it_is_scored(
    wish: dict[str, Any],
) -> None:
    wishing, expected = build("qwen3"), build("qwen3")
    wishing.generation_config.update(**wish)
    for kind, decoding in ((Stock, SAMPLED), (Stock, GREEDY), (Session, SAMPLED)):
        assert played(wishing, ALL, decoding, kind=kind) == played(expected, ALL, decoding, kind=kind)
    assert all(getattr(wishing.generation_config, name) == value for name, value in wish.items())


def test_what_is_sampled_does_not_depend_on_who_is_held_together(model: Any) -> None:
    alone = {row: ids_of(played(model, [row], SAMPLED))[row] for row in ALL}
    assert len({str(each) for each in alone.values()}) > 3
    assert len({str(alone[row][0]) for row in (0, 1, 4)}) > 1, "equal openings are not answered all alike"
    shuffled = list(ALL)
    random.Random(1).shuffle(shuffled)
    for decoding in (SAMPLED, replace(SAMPLED, cuda_graphs=True)):
        for rows, at_once in ((shuffled, 1), (shuffled, 3), (list(ALL)[::-1], 4), (list(ALL), 64)):
            assert ids_of(played(model, rows, decoding, at_once=at_once)) == alone


@pytest.mark.parametrize("decoding", [SAMPLED, GREEDY])
def test_every_engine_ends_a_completion_at_whichever_of_several_ends_comes_first(
    model: Any, decoding: Decoding
) -> None:
    one_end = ids_of(played(model, ALL, decoding))
    frequent = Counter(
        i for told in one_end.values() for ids in told for i in ids[1:] if i != END
    ).most_common(2)
    ends = [END, *(token for token, _ in frequent)]
    both = ids_of(played(model, ALL, decoding, ends=ends))
    for row, told in both.items():
        first = one_end[row][0]
        assert told[0] == first[: next((n for n, i in enumerate(first, start=1) if i in ends), len(first))]
        assert not any(i in ends for ids in told for i in ids[:-1])
    assert {ids[-1] for told in both.values() for ids in told} & set(ends[1:])
    fixed = Decoding(decoding.temperature, decoding.max_new_tokens, cuda_graphs=True)
    assert ids_of(played(model, ALL, fixed, ends=ends[::-1])) == both
    if not decoding.temperature:
        assert ids_of(played(model, ALL, decoding, ends=ends, kind=Stock)) == both


def test_steps_of_fixed_shape_choose_what_the_others_choose(model: Any) -> None:
    fixed = played(model, ALL, Decoding(1.0, 6, cuda_graphs=True))
    free = played(model, ALL, SAMPLED)
    assert ids_of(fixed) == ids_of(free)
    for row in ALL:
        for one, other in zip(fixed[row], free[row], strict=True):
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)  # type: ignore[attr-defined]


def adapted(model: Any) -> Any:
    settings = LoraConfig(
        r=4, lora_alpha=8, init_lora_weights=False, target_modules=["q_proj", "v_proj", "down_proj"]
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return get_peft_model(model, settings)


def test_an_added_adapter_says_the_same_and_every_weight_comes_back_as_it_was() -> None:
    model = adapted(build("qwen3"))
    before = {name: (p.data_ptr(), p.detach().clone()) for name, p in model.named_parameters()}
    layers = [type(module) for module in model.modules()]
    plain, summed = played(model, ALL, SAMPLED), played(model, ALL, SAMPLED, merged=True)
    assert ids_of(plain) == ids_of(summed) != ids_of(played(build("qwen3"), ALL, SAMPLED))
    with pytest.raises(ZeroDivisionError), playing(model):
        names = [name for name, _ in model.named_parameters() if "lora" in name]
        assert names == [], "the adapters were not added"
        raise ZeroDivisionError
    assert [type(module) for module in model.modules()] == layers and model.training
    after = dict(model.named_parameters())
    assert list(after) == list(before)
    for name, (address, values) in before.items():
        assert after[name].data_ptr() == address and torch.equal(after[name].detach(), values)


@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning")
def test_an_adapter_added_to_a_head_that_is_tied_leaves_the_embedding_alone() -> None:
    settings = LoraConfig(r=4, init_lora_weights=False, target_modules=["lm_head", "q_proj"])
    model = get_peft_model(build("qwen3 tied"), settings).eval()
    ids = torch.arange(3, 12)[None]
    with torch.no_grad():
        before = model(ids).logits
    tied = model.get_input_embeddings().weight
    with playing(model):
        assert not any("lora" in name for name, _ in model.named_parameters()), "the adapters were not added"
        assert model.get_input_embeddings().weight is tied
        assert torch.allclose(model(ids).logits, before, atol=1e-4)
    assert model.get_base_model().lm_head.get_base_layer().weight is tied


def test_an_adapter_on_bfloat16_or_one_that_is_off_is_not_added() -> None:
    half = adapted(build("qwen3").to(torch.bfloat16))
    with playing(half):
        assert any("lora" in name for name, _ in half.named_parameters())
    off = adapted(build("qwen3"))
    with off.disable_adapter(), playing(off):
        assert any("lora" in name for name, _ in off.named_parameters())


def test_no_more_is_reserved_than_the_longest_conversation_needs() -> None:
    model = build("qwen3")
    with evaluating(model):
        session = Session(model, [[5] * 60, [6] * 3], [1, 2], Decoding(1.0, 40), end_ids=[END], pad_id=PAD)
        assert session.capacity == reserved_for(60)
        lengths = [60, 3]
        for _ in range(4):
            done = session.complete()
            lengths = [n + len(one.ids) for n, one in zip(lengths, done, strict=True)]
            assert session.capacity <= reserved_for(max(lengths))
            session.tell([one.ids[-1] for one in done], [[7, 8], [9]])
            lengths = [lengths[0] + 2, lengths[1] + 1]
            assert session.capacity <= reserved_for(max(lengths) + 1)


def test_another_batch_on_the_same_memory_ends_the_one_before() -> None:
    model, decoding = build("qwen3"), Decoding(1.0, 6, cuda_graphs=True)
    with evaluating(model):
        first = Session(model, OPENINGS, [0] * 6, decoding, end_ids=[END], pad_id=PAD)
        Session(model, OPENINGS, [0] * 6, decoding, end_ids=[END], pad_id=PAD)
        with pytest.raises(AssertionError, match="taken over"):
            first.complete()


def test_a_model_whose_state_is_more_than_keys_and_values_is_refused() -> None:
    settings = build("qwen3").config
    settings.layer_types = ["linear_attention", "full_attention"]
    with pytest.raises(PolicyError, match="linear_attention"):
        windows_of(settings)


@pytest.mark.parametrize("cuda_graphs", [False, True])
def test_a_conversation_that_longrope_would_turn_otherwise_is_refused_at_its_first_token_too_many(
    cuda_graphs: bool,
) -> None:
    model, ids = build("phi"), [3 + place % 30 for place in range(ALIKE - 7)]
    with evaluating(model):
        for written, long in ((8, True), (9, False)):  # the last of them is not read
            session = Session(
                model,
                [ids, ids[:5]],
                [0, 1],
                Decoding(0.0, written, cuda_graphs=cuda_graphs),
                end_ids=[-1],
                pad_id=PAD,
            )
            if long:
                told = session.complete()[0].ids
                theirs = model.generate(
                    torch.tensor([ids]),
                    attention_mask=torch.ones(1, len(ids)),
                    max_new_tokens=8,
                    do_sample=False,
                )
                assert told == theirs[0, len(ids) :].tolist()
                continue
            with pytest.raises(PolicyError, match=f"at most {ALIKE} tokens"):
                session.complete()
        with pytest.raises(PolicyError, match=f"found {ALIKE + 1} tokens"):
            Session(model, [[5] * (ALIKE + 1)], [0], GREEDY, end_ids=[END], pad_id=PAD)


def test_windows_and_states_that_do_not_follow_the_rows_are_refused_and_never_played_wrongly() -> None:
    ends = {"bos_token_id": None, "eos_token_id": END}
    neo = GPTNeoConfig(
        vocab_size=40,
        hidden_size=16,
        num_layers=2,
        num_heads=2,
        attention_types=[[["global", "local"], 1]],
        **ends,
    )
    state = RwkvConfig(vocab_size=40, hidden_size=16, attention_hidden_size=16, num_hidden_layers=2, **ends)
    with torch.random.fork_rng(devices=[]):
        models = [AutoModelForCausalLM.from_config(config) for config in (neo, state)]
    for model, kind in zip(models, ("global, local", "recurrent"), strict=True):
        with pytest.raises(PolicyError, match=kind):
            Session(model, [[5, 6]], [0], GREEDY, end_ids=[END], pad_id=PAD)


def test_steps_that_were_captured_with_an_adapter_are_not_replayed_without_it() -> None:
    model, decoding = adapted(build("qwen3")), Decoding(0.0, 6, cuda_graphs=True)
    arena = arena_of(model.get_base_model())
    played(model, ALL, decoding)
    assert arena.steps
    assert arena_of(model.get_base_model()).steps, "the same weights"
    with model.disable_adapter():
        assert not arena_of(model.get_base_model()).steps


def test_conversations_are_admitted_only_where_the_others_were_told_what_comes_next() -> None:
    model = build("qwen3")
    with evaluating(model):
        session = Session(model, [[5, 6], [7]], [1, 2], GREEDY, end_ids=[END], pad_id=PAD)
        session.complete()
        with pytest.raises(AssertionError, match="not told"):
            session.admit([[8]], [3])
