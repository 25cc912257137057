"""Rows that share a prompt, read flat, have the numbers of rows read alone, in memory of what differs."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from assay.checks.doctor.forecast.memory import Meter
from assay.rollout.policy.model import evaluating
from assay.training import flat, flat_attention
from assay.training.flat import Shared, packs, reads_flat, shared_openings
from assay.training.flat_pack import Pack, Rule, Stretch
from assay.training.kl import Divergence, Text, openings
from assay.training.logprobs import hidden_states, logits_of
from tests.policy.architectures import NAMES, PAD, VOCABULARY, build

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")

# Prompts by length, the prompt of each row, and what follows it: nothing is even, one row is alone.
PROMPTS, OF_ROW, BEHIND = (20, 13, 9), (0, 0, 0, 1, 1, 2), (11, 4, 1, 7, 9, 5)
WIDE, LONG = max(PROMPTS), max(BEHIND)


def rows() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return ids, attention and counted [6, W], prompts padded on the left as TRL does."""
    generator = torch.Generator().manual_seed(0)
    texts = [torch.randint(3, VOCABULARY, (n,), generator=generator) for n in PROMPTS]
    ids = torch.full((len(OF_ROW), WIDE + LONG), PAD)
    attention, counted = torch.zeros_like(ids), torch.zeros_like(ids, dtype=torch.bool)
    for row, (prompt, n) in enumerate(zip(OF_ROW, BEHIND, strict=True)):
        ids[row, WIDE - PROMPTS[prompt] : WIDE] = texts[prompt]
        ids[row, WIDE : WIDE + n] = torch.randint(3, VOCABULARY, (n,), generator=generator)
        attention[row, WIDE - PROMPTS[prompt] : WIDE + n] = 1
        counted[row, WIDE : WIDE + n] = torch.rand(n, generator=generator) < 0.7
    counted[2, WIDE] = True  # decided by its prompt alone
    return ids, attention, counted


def with_lora(model: Any, *, checkpointing: bool = False) -> Any:
    """Return the model with an adapter that is not the identity, learning, and without dropout."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    lora = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        adapted: Any = get_peft_model(model, lora).train()
    with torch.no_grad():
        for parameter in adapted.parameters():
            if parameter.ndim > 1:
                parameter *= 0.5
    if checkpointing:
        adapted.gradient_checkpointing_enable({"use_reentrant": False})
        adapted.enable_input_require_grads()
    return adapted


def gradients(model: Any, logprobs_: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the gradients of a sum in which every place has another weight."""
    model.zero_grad()
    (logprobs_ * torch.linspace(-1, 1, logprobs_.numel()).view_as(logprobs_)).sum().backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def alone(model: Any) -> torch.Tensor:
    """Return log-probabilities [6, W] of what counts, each row read alone and plainly by transformers."""
    ids, attention, counted = rows()
    found = []
    for row, real, counts in zip(ids, attention.bool(), counted, strict=True):
        logits = torch.log_softmax(model(input_ids=row[real][None], use_cache=False).logits[0], -1)
        behind = real.nonzero()[1:, 0]
        told = logits[:-1].gather(1, row[behind][:, None])[:, 0]
        found.append(torch.zeros(len(row)).index_put((behind,), told) * counts)
    return torch.stack(found)


def read(model: Any, *, most: int = 64) -> torch.Tensor:
    """Return the same by the learning pass."""
    ids, attention, counted = rows()
    base = model.get_base_model()
    hidden, places = hidden_states(base, ids, attention, counted, most=most, prompt_width=WIDE)
    told = torch.log_softmax(logits_of(base, hidden), -1)
    mine = told.gather(1, ids.flatten()[places][:, None])[:, 0]
    return torch.zeros(ids.numel()).index_copy(0, places, mine).view_as(ids)


@pytest.fixture
def anything_is_read_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let prompts this short be read flat."""
    monkeypatch.setattr(flat, "LEAST_SHARED", 1)


@pytest.mark.usefixtures("anything_is_read_flat")
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_every_family_has_the_numbers_of_rows_alone(name: str, checkpointing: bool) -> None:
    model = with_lora(build(name))
    plain = alone(model)
    expected = gradients(model, plain)
    model = with_lora(build(name), checkpointing=checkpointing)
    with mock.patch.object(flat, "_flat_states", side_effect=flat._flat_states) as passes:
        found = read(model, most=64 if checkpointing else 2)
    assert passes.call_count == (1 if checkpointing else 2)
    assert plain.abs().sum() > 10
    torch.testing.assert_close(found, plain, rtol=0, atol=5e-6)
    mine = gradients(model, found)
    assert mine.keys() == expected.keys()
    for each, gradient in expected.items():
        assert (mine[each] - gradient).norm() <= 1e-5 * gradient.norm(), each


def densely(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pack: Pack, rule: Rule, sinks: torch.Tensor | None
) -> torch.Tensor:
    """Return attention [N, H, D] by one mask over all tokens of a pack."""
    n = q.shape[1]
    of_prompt, row, position = torch.zeros(3, n, dtype=torch.long)
    for which, stretch in enumerate(pack.stretches):
        own = torch.as_tensor(stretch.positions)
        of_prompt[stretch.read.start : stretch.own.stop] = which
        position[stretch.read], position[stretch.own] = torch.arange(stretch.prompt), stretch.prompt + own
        row[stretch.own] = (own == 0).cumsum(0)
    back = position[:, None] - position
    sees = (of_prompt[:, None] == of_prompt) & ((row == 0) | (row[:, None] == row)) & (back >= 0)
    scores = q @ k.repeat_interleave(len(q) // len(k), 0).mT * rule.scale
    if rule.softcap is not None:
        scores = torch.tanh(scores / rule.softcap) * rule.softcap
    scores = scores.masked_fill(~(sees if rule.window is None else sees & (back < rule.window)), -torch.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks[:, None, None].expand(-1, n, 1)], -1)
    shares = torch.softmax(scores, -1)[..., :n]
    return (shares @ v.repeat_interleave(len(q) // len(v), 0)).transpose(0, 1)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("window", [None, 1, 4, 9, 12])
@pytest.mark.parametrize(("softcap", "with_sinks"), [(None, False), (1.5, False), (None, True)])
def test_attention_to_a_pack_is_that_of_one_mask_with_its_gradients(
    fused: bool, window: int | None, softcap: float | None, with_sinks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not fused:  # as on other devices, in tiles of a few queries
        monkeypatch.setattr(flat_attention, "_fused", lambda *_: False)
    monkeypatch.setitem(flat_attention.TILE, "cpu", 64)
    here, generator = torch.device("cpu"), torch.Generator().manual_seed(0)
    pack = Pack([Stretch(0, 7, [3, 5, 1], here), Stretch(16, 0, [6], here), Stretch(22, 4, [2, 2], here)])
    shapes = (4, 30, 8), (2, 30, 8), (2, 30, 8), (30, 4, 8)
    *given, above = (torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes)
    sinks = torch.randn(4, generator=generator, dtype=torch.float64) if with_sinks else None
    rule, found = Rule(0.6, softcap, window), []
    for attend in (densely, flat_attention._Flat.apply):
        mine = [x.clone().requires_grad_() for x in given]
        out = attend(*mine, pack, rule, sinks)
        found.append([out, *torch.autograd.grad(out, mine, above)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-11, atol=1e-12)


@pytest.mark.usefixtures("anything_is_read_flat")
@pytest.mark.parametrize("why", ["interface", "dropout", "layers"])
def test_a_model_that_cannot_be_read_flat_says_so_once_and_is_read_as_ever(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = with_lora(build("qwen3"))
    base = model.get_base_model()
    with mock.patch.object(flat, "reads_flat", return_value=False):
        usual = read(model)
    if why == "interface":
        monkeypatch.setattr(type(base), "_supports_attention_backend", False)
    elif why == "dropout":
        for layer in base.model.layers:
            layer.self_attn.attention_dropout = 0.5
        monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", without_dropout())
    else:
        monkeypatch.setattr(flat, "_windows", lambda model: [None] * 3)
    with mock.patch.object(flat, "complain") as complain:
        assert torch.equal(read(model), usual) and torch.equal(read(model), usual)
    ((line,),) = (call.args for call in complain.call_args_list)
    assert line.startswith("Qwen3ForCausalLM has ") and line.endswith("are not read flat")


def without_dropout() -> Any:
    """Return torch's attention, deaf to dropout, so that numbers can be compared."""
    usual = torch.nn.functional.scaled_dot_product_attention

    def attend(*arguments: Any, dropout_p: float = 0.0, **named: Any) -> torch.Tensor:
        return usual(*arguments, **named)

    return attend


@pytest.mark.parametrize("name", ["qwen3", "gemma2"])
def test_without_a_pack_a_model_computes_bit_by_bit_what_it_did(name: str) -> None:
    model = build(name)
    ids, attention, _ = rows()
    with torch.no_grad():
        before = model(input_ids=ids, attention_mask=attention).logits
        usual = model.config._attn_implementation
        flat_attention.attends_flat(model.config)
        assert model.config._attn_implementation == flat_attention.FLAT + usual
        assert model.config._attn_implementation in ALL_ATTENTION_FUNCTIONS
        assert torch.equal(model(input_ids=ids, attention_mask=attention).logits, before)
    assert "_attn_implementation" not in model.config.to_dict()


def group(prompt: int, n: int, own: int) -> list[Shared]:
    return [Shared(prompt, tuple(range(n)), (own,) * n)]


def test_two_rows_have_to_share_enough_of_a_prompt() -> None:
    model = build("mistral")
    assert reads_flat(model, group(64, 2, 1))
    assert not reads_flat(model, group(63, 8, 1))
    assert not reads_flat(model, [Shared(0, (row,), (2000,)) for row in range(8)])


def test_rows_of_equal_openings_go_together_and_no_sequence_is_longer_than_so_many_rows() -> None:
    shared = shared_openings([(1, 2), (1, 2), (3,), (1, 2), (4,)], [5, 2, 4, 9, 0])
    assert shared == [Shared(2, (0, 1, 3), (3, 0, 7)), Shared(0, (2,), (4,))]
    assert packs(shared, 8) == [shared]
    assert packs(shared, 1) == [[Shared(2, (0, 1), (3, 0))], [Shared(2, (3,), (7,))], [Shared(0, (2,), (4,))]]
    lengths = [5, 2, 9, 4]
    for most in range(1, 5):
        for pack in packs(shared, most):
            assert sum(each.prompt + sum(each.widths) for each in pack) <= most * max(lengths)


def peak(rows_: int, prompt: int, own: int, *, flatly: bool, checkpointing: bool) -> int:
    """Return the peak of live bytes in one forward and backward pass over rows of one prompt."""
    config = Qwen3Config(
        vocab_size=50,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
    )
    model = with_lora(Qwen3ForCausalLM(config), checkpointing=checkpointing)
    ids = torch.ones(rows_, prompt + own, dtype=torch.long)
    counted = torch.arange(prompt + own).expand(rows_, -1) >= prompt
    with Meter() as meter, mock.patch.object(flat, "reads_flat", return_value=flatly):
        hidden, _ = hidden_states(
            model.get_base_model(),
            ids,
            torch.ones_like(ids),
            counted,
            most=rows_,
            prompt_width=prompt if flatly else None,
        )
        hidden.square().sum().backward()
    return meter.peak


@pytest.mark.parametrize("checkpointing", [False, True])
def test_memory_grows_with_the_tokens_that_differ(checkpointing: bool) -> None:
    n, prompt, own = 16, 512, 32

    def flat_peak(rows_: int) -> int:
        return peak(rows_, prompt, own, flatly=True, checkpointing=checkpointing)

    once = flat_peak(n)
    assert peak(n, prompt, own, flatly=False, checkpointing=checkpointing) > 3 * once
    a_token = once / (prompt + n * own)
    assert flat_peak(2 * n) - once < 2 * n * own * a_token


@pytest.mark.usefixtures("anything_is_read_flat")
def test_the_divergence_reads_what_its_texts_begin_with_once() -> None:
    model = with_lora(build("llama")).eval()
    policy: Any = mock.Mock(model=model, pad_id=PAD)
    texts = [Text([3, 4, 5, 6, 7, own], [8, 9, own], [1, 0, 1]) for own in (10, 11, 12)]
    assert openings([text.prompt_ids for text in texts]) == [5, 5, 5]
    with mock.patch.object(flat, "reads_flat", return_value=False):
        expected = Divergence(policy, texts, temperature=1.0, batch_size=8)()
    with mock.patch.object(flat, "_flat_states", side_effect=flat._flat_states) as passes:
        measured = Divergence(policy, texts, temperature=1.0, batch_size=8)()
    assert passes.call_count == 2  # the base, and the policy
    assert measured == pytest.approx(expected, rel=1e-5) and measured > 1e-4
    with evaluating(model):
        assert not model.training
