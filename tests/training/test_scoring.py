"""Scoring only what counts gives TRL's own numbers: log-probabilities, entropies, losses and gradients."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import Linear as Lora
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GraniteConfig,
    GraniteForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from trl.trainer import utils as trl_utils
from trl.trainer.utils import add_fused_lm_head

from assay.training import logprobs
from assay.training import logprobs as scoring
from assay.training.grpo import Attempt
from assay.training.kl import Divergence, Text
from assay.training.logprobs import Work, install, logits_of, longest_first, passes, regrouped
from assay.training.trainer import Trainer
from tests.training.test_training import params, run

TEMPERATURE = 0.7


SHAPE: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "max_position_embeddings": 128,
}


def qwen() -> Any:
    return Qwen3ForCausalLM(Qwen3Config(**SHAPE))


def granite() -> Any:  # divides its logits
    return GraniteForCausalLM(GraniteConfig(**SHAPE, logits_scaling=3.0))


def gemma() -> Any:  # caps its logits, and looks back eight tokens in every second layer
    return Gemma2ForCausalLM(Gemma2Config(**SHAPE, sliding_window=8, final_logit_softcapping=2.0))


def gpt2() -> Any:  # learned positions
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    )


@pytest.fixture(autouse=True)
def passes_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let models this small take several passes, as large ones do."""
    monkeypatch.setitem(logprobs.PASS_COST, "cpu", 1e4)


def with_lora(build: Any) -> Any:
    """Return the model with TRL's head, ours not yet, and an adapter that is not the identity."""
    torch.manual_seed(0)
    base = build()
    add_fused_lm_head(base, temperature=TEMPERATURE, outputs=("log_probs", "entropy"))
    model = get_peft_model(
        base, LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    )
    return model.train()


def rows(
    *, prompts: list[list[int]], completions: list[int]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return ids, attention and counted for prompts with these (group, length) and completions of these
    lengths."""
    generator = torch.Generator().manual_seed(1)
    texts = [
        torch.randint(1, 50, (length,), generator=generator) for length in {g: n for g, n in prompts}.values()
    ]
    p, t = max(n for _, n in prompts), max(completions)
    ids = torch.zeros(len(prompts), p + t, dtype=torch.long)
    attention = torch.zeros(len(prompts), p + t, dtype=torch.long)
    counted = torch.zeros(len(prompts), t, dtype=torch.bool)
    for row, ((group, n), written) in enumerate(zip(prompts, completions, strict=True)):
        ids[row, p - n : p] = texts[group]
        ids[row, p : p + written] = torch.randint(1, 50, (written,), generator=generator)
        attention[row, p - n : p + written] = 1
        counted[row, :written] = torch.rand(written, generator=generator) < 0.6
    return ids, attention, counted


EQUAL = rows(prompts=[[0, 30]] * 4 + [[1, 30]] * 4, completions=[5, 1, 9, 4, 7, 7, 2, 3])
UNEQUAL = rows(prompts=[[0, 30]] * 4 + [[1, 21]] * 4, completions=[5, 1, 9, 4, 7, 7, 2, 3])
LONG = rows(prompts=[[0, 3]] * 2 + [[1, 5]], completions=[60, 2, 33])
ONE = rows(prompts=[[0, 4]], completions=[6])


def both(
    model: Any, case: tuple[torch.Tensor, ...]
) -> list[tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]]:
    """Return log-probabilities, entropies and gradients, by TRL and by us."""
    ids, attention, counted = case
    t = counted.shape[1]
    labels = ids.masked_fill(attention == 0, -100)
    labels[:, :-t] = -100
    outcomes = []
    for arguments in ({"labels": labels, "fused_lm_head": True}, {"counted": counted, "most": 64}):
        out = model(input_ids=ids, attention_mask=attention, **arguments)
        logps, entropy = (x[:, -t:] * counted for x in (out.log_probs, out.entropy))
        outcomes.append((logps.detach(), entropy.detach(), gradients(model, logps, entropy)))
    return outcomes


def gradients(model: Any, logps: torch.Tensor, entropy: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the gradients of a sum in which every place has another weight."""
    weights = torch.linspace(-1, 1, logps.numel()).view_as(logps)
    model.zero_grad()
    (logps * weights + 0.1 * entropy * weights).sum().backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.requires_grad}


def exact(build: Any, case: tuple[torch.Tensor, ...]) -> dict[str, torch.Tensor]:
    """Return the gradients in double precision, each row read alone and plainly by transformers."""
    ids, attention, counted = case
    plain, t, found = with_lora(build).double(), counted.shape[1], []
    for row, real, count in zip(ids, attention.bool(), counted, strict=True):
        logits = torch.log_softmax(
            plain(input_ids=row[real][None], use_cache=False).logits[0] / TEMPERATURE, -1
        )
        behind = real[-t:]
        n = int(behind.sum())
        before = logits[len(logits) - n - 1 : len(logits) - 1]
        logps, entropy = before.gather(1, row[-t:][behind][:, None])[:, 0], -(before.exp() * before).sum(-1)
        found.append([torch.nn.functional.pad(x, (0, t - n)) * count for x in (logps, entropy)])
    return gradients(plain, *(torch.stack(column) for column in zip(*found, strict=True)))


@pytest.mark.parametrize(
    ("build", "case"),
    [
        (qwen, EQUAL),
        (qwen, UNEQUAL),
        (qwen, LONG),
        (qwen, ONE),
        (granite, UNEQUAL),
        (gemma, UNEQUAL),
        (gemma, LONG),
        (gpt2, EQUAL),
    ],
)
@pytest.mark.parametrize("checkpointing", [False, True])
def test_every_kind_of_model_gives_the_numbers_that_trl_gives(
    build: Any, case: Any, checkpointing: bool
) -> None:
    model = with_lora(build)
    base = model.get_base_model()
    if checkpointing:
        base.gradient_checkpointing_enable({"use_reentrant": False})
    assert install(base)
    (logps, entropy, _), (our_logps, our_entropy, ours) = both(model, case)
    assert logps.abs().sum() > 1
    torch.testing.assert_close(our_logps, logps, rtol=1e-5, atol=2e-6)
    torch.testing.assert_close(our_entropy, entropy, rtol=1e-5, atol=2e-6)
    for name, gradient in exact(build, case).items():
        assert (ours[name] - gradient).norm() <= 1e-4 * gradient.norm() + 1e-6, name  # float32


@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_small_adapter_is_added_to_its_weights_unless_passes_are_made_again_on_the_way_back(
    checkpointing: bool,
) -> None:
    model = with_lora(qwen)
    base = model.get_base_model()
    if checkpointing:
        base.gradient_checkpointing_enable({"use_reentrant": False})
    install(base)
    with mock.patch.object(Lora, "forward", autospec=True, side_effect=Lora.forward) as forward:
        ids, attention, counted = EQUAL
        model(input_ids=ids, attention_mask=attention, counted=counted, most=64)
    assert forward.called is checkpointing


def test_rows_of_which_nothing_counts_are_not_read_and_give_gradients_of_zero_if_there_are_no_others() -> (
    None
):
    model = with_lora(qwen)
    install(model.get_base_model())
    ids, attention, counted = (x.clone() for x in UNEQUAL)
    counted[:] = False
    out = model(input_ids=ids, attention_mask=attention, counted=counted, most=64)
    assert not out.log_probs.any() and not out.entropy.any()
    out.log_probs.sum().backward()
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters() if p.requires_grad)


def test_a_small_vocabulary_leaves_the_tiles_of_a_larger_one_as_they_were() -> None:
    models = [
        with_lora(lambda words=words: Qwen3ForCausalLM(Qwen3Config(**SHAPE | {"vocab_size": words})))
        for words in (50, 70)
    ]
    for model in models:
        install(model.get_base_model())
    ids, attention, counted = ONE
    for model, width in zip([*models, models[0]], (50, 70, 50), strict=True):
        model(input_ids=ids, attention_mask=attention, counted=counted, most=1)
        assert width == trl_utils._CHUNKED_LOGPROB_CHUNK_SIZE


def test_the_head_alone_makes_of_hidden_states_what_the_model_makes() -> None:
    for build in (qwen, granite, gemma, gpt2):
        model = with_lora(build).eval().get_base_model()
        ids = torch.arange(1, 9)[None]
        with torch.no_grad():
            hidden = model.base_model(input_ids=ids).last_hidden_state[0]
            torch.testing.assert_close(logits_of(model, hidden), model(ids).logits[0])


def test_passes_are_cheapest_among_all_ways_to_cut() -> None:
    work = Work(token=3.0, pair=0.5, begin=90.0)
    lengths = [9, 2, 0, 9, 5, 1, 8]
    assert longest_first(lengths) == [0, 3, 6, 4, 1, 5]
    widths = [lengths[row] for row in longest_first(lengths)]

    def cost(cuts: list[int]) -> float:
        parts = [widths[a:b] for a, b in zip([0, *cuts], [*cuts, len(widths)], strict=True)]
        return sum(work.begin + len(p) * p[0] * (work.token + work.pair * p[0]) for p in parts)

    every = [
        [i + 1 for i in range(len(widths) - 1) if bits >> i & 1] for bits in range(2 ** (len(widths) - 1))
    ]
    found, chosen = passes(lengths, work, 64)
    assert found == pytest.approx(min(map(cost, every)))
    assert 1 < len(chosen) < len(widths)
    assert max(len(p) for p in passes(lengths, work, 2)[1]) == 2


def test_dealing_a_step_anew_keeps_every_row_whole_and_groups_together() -> None:
    prompt = torch.tensor([[1], [2], [1], [2], [2], [1]])
    mask = torch.tensor([[1, 0, 0], [1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]])
    whole = {"prompt_ids": prompt, "prompt_mask": torch.ones_like(prompt), "completion_mask": mask}
    whole |= {"advantages": torch.arange(6.0)}
    total = {"num_items_in_batch": torch.tensor(12)}
    halves = [{name: x[start : start + 3] for name, x in whole.items()} | total for start in (0, 3)]
    dealt = regrouped(halves)
    assert [half["advantages"].tolist() for half in dealt] == [[5.0, 2.0, 0.0], [1.0, 4.0, 3.0]]
    assert [half["prompt_ids"].unique().tolist() for half in dealt] == [[1], [2]]
    assert torch.equal(torch.cat([h["completion_mask"] for h in dealt]), mask[[5, 2, 0, 1, 4, 3]])
    assert all(half["num_items_in_batch"] == 12 for half in dealt)


Noted = list[tuple[float, list[torch.Tensor]]]


def losses(stock: bool, **changes: Any) -> tuple[Noted, dict[str, Any]]:
    """Train, by TRL's scoring or by ours; return loss and gradients after each micro-batch, and the last row
    of the log."""
    noted: Noted = []
    original = Trainer.training_step

    def step(self: Any, model: Any, inputs: Any, *rest: Any) -> torch.Tensor:
        if stock:
            self._narrow = False
        loss = original(self, model, inputs, *rest)
        noted.append((float(loss), [p.grad.clone() for p in model.parameters() if p.grad is not None]))
        return loss

    settings = params(**changes)
    lora = settings.train.lora.model_copy(update={"dropout": 0.0})
    settings = settings.model_copy(update={"train": settings.train.model_copy(update={"lora": lora})})
    with mock.patch.object(Trainer, "training_step", step):
        _, history = run(settings)
    return noted, history.train_log[-1]


@pytest.mark.parametrize(
    "changes",
    [
        {"loss_type": "dapo", "beta": 0.1},
        {"loss_type": "grpo", "micro_batch_size": 4},
        {"loss_type": "bnpo", "micro_batch_size": 4},
    ],
)
def test_a_training_has_the_losses_gradients_and_logs_of_trl(changes: dict[str, Any]) -> None:
    (by_trl, log), (by_us, our_log) = losses(True, **changes), losses(False, **changes)
    assert len(by_trl) == len(by_us) > 1
    for (loss, gradients), (our_loss, our_gradients) in zip(by_trl, by_us, strict=True):
        assert our_loss == pytest.approx(loss, rel=1e-4, abs=1e-6)
        for one, other in zip(gradients, our_gradients, strict=True):
            assert (one - other).norm() <= 1e-3 * one.norm() + 1e-6
    for name in ("entropy", "clip_ratio/region_mean", "grad_norm", "loss", "kl"):
        assert our_log.get(name) == (
            None if log.get(name) is None else pytest.approx(log[name], rel=1e-3, abs=1e-5)
        ), name


def test_a_fresh_adapter_has_moved_by_exactly_nothing_and_the_base_is_read_once() -> None:
    calls, found = [], []
    original, kl = scoring.hidden_states, Attempt._kl

    def counting(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        return original(*arguments, **named)

    def before(self: Attempt, step: int) -> float | None:
        calls.clear()
        twice = [kl(self, step), kl(self, step)]
        found.append((twice, len(calls)))
        return twice[0]

    with mock.patch("assay.training.kl.hidden_states", counting), mock.patch.object(Attempt, "_kl", before):
        _, history = run(params(learning_rate=1e-30))
    assert [calls for _, calls in found] == [3, 2]
    assert history.training_log[0]["kl"] == 0.0


def test_the_divergence_is_that_of_whole_logits() -> None:
    model = with_lora(gemma)
    policy: Any = mock.Mock(model=model, pad_id=0)
    texts = [Text([1, 2, 3], [4, 5, 6, 7], [1, 0, 1, 1]), Text([8], [9, 10], [1, 1])]
    total, n = 0.0, 0
    with torch.no_grad():
        for text in texts:
            ids = torch.tensor([text.prompt_ids + text.completion_ids])
            places = [len(text.prompt_ids) - 1 + i for i, own in enumerate(text.mask) if own]
            log_p = torch.log_softmax(model.eval()(ids).logits[0, places] / 0.7, -1)
            with model.disable_adapter():
                log_q = torch.log_softmax(model(ids).logits[0, places] / 0.7, -1)
            total, n = total + float((log_p.exp() * (log_p - log_q)).sum()), n + len(places)
    with mock.patch("assay.training.kl.TILE", 100):  # two tokens at a time
        measured = Divergence(policy, texts, temperature=0.7, batch_size=8)()
    assert measured == pytest.approx(total / n, rel=1e-4)
    assert measured > 1e-4
    assert Divergence(policy, [], temperature=1.0, batch_size=8)() == 0.0
