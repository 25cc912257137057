"""Real misconfigurations of a training that is otherwise healthy, each with the finding that has to name
it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from assay.core.config.settings import PretrainedBase
from assay.core.errors import AssayError
from assay.policy.model import Policy
from assay.policy.renderer import Dialogue
from assay.tasks.settings.structured import StructuredTask
from assay.tools.doctor import Finding
from assay.tools.doctor.findings import error_finding
from tests.training import faulty_tasks as tasks
from tests.training.healthy_setup import Setup, composed, healthy, healthy_policy, settings, with_settings


def playing(task: type[tasks.Letters]) -> Callable[[Setup], Setup]:
    return lambda setup: replace(setup, task=task())


# Tokenizers and templates that fail


def with_template(template: str) -> Callable[[Setup], Setup]:
    def inject(setup: Setup) -> Setup:
        tokenizer = setup.policy.tokenizer
        tokenizer.chat_template = template
        return replace(setup, policy=replace(setup.policy, dialogue=Dialogue(tokenizer)))

    return inject


def both(*injections: Callable[[Setup], Setup]) -> Callable[[Setup], Setup]:
    def inject(setup: Setup) -> Setup:
        for each in injections:
            setup = each(setup)
        return setup

    return inject


_HEAD = "{% for message in messages %}{{ '<|' + message['role'] + '|>' }}"
_PROMPT = "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
NO_PROMPT = _HEAD + "{{ message['content'] + '<|end|>' }}{% endfor %}"
NO_END = _HEAD + "{{ message['content'] }}{% endfor %}" + _PROMPT
SHORTENS_HISTORY = (
    _HEAD + "{{ message['content'] if loop.last or message['role'] == 'user' else message['content'][:2] }}{{"
    " '<|end|>' }}{% endfor %}" + _PROMPT
)
LAST_THREE = SHORTENS_HISTORY.replace("in messages", "in messages[-3:]").replace("[:2]", "")
LAST_ONE = NO_PROMPT.replace("in messages", "in messages[-1:]") + _PROMPT
STRIPS_REASONING = (
    _HEAD + "{{ message['content'] if loop.last else message['content'].split('</think>')[-1].strip() }}{{"
    " '<|end|>' }}{% endfor %}" + _PROMPT + "{# <think> #}"
)
NO_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    + (NO_PROMPT + _PROMPT)
)
SKIPS_SYSTEM = NO_PROMPT.replace("in messages %}", "in messages if message['role'] != 'system' %}") + _PROMPT


def no_end(setup: Setup) -> Setup:
    tokenizer = setup.policy.tokenizer
    tokenizer.eos_token = None
    return replace(setup, policy=replace(setup.policy, dialogue=Dialogue(tokenizer)))


def no_padding(setup: Setup) -> Setup:
    setup.policy.tokenizer.pad_token = None
    return setup


def other_generation_config(setup: Setup) -> Setup:
    setup.policy.model.generation_config.eos_token_id = [0]
    return setup


def more_words(setup: Setup) -> Setup:
    setup.policy.tokenizer.add_tokens(["zz"])
    return setup


def other_words(setup: Setup) -> Setup:
    return replace(setup, policy=healthy_policy([chr(code) for code in range(ord("q"), ord("z"))]))


# Weights that fail


def nan_weight(setup: Setup) -> Setup:
    with torch.no_grad():
        setup.policy.model.model.layers[0].mlp.up_proj.weight[3, 4] = float("nan")
    return setup


def dead_attention(setup: Setup) -> Setup:
    with torch.no_grad():
        setup.policy.model.model.layers[0].self_attn.o_proj.weight.zero_()
    return setup


def with_policy(**changes: Any) -> Callable[[Setup], Setup]:
    return lambda setup: replace(setup, policy=healthy_policy(**changes))


def absolute_positions(setup: Setup) -> Setup:
    """Put a GPT-2 in the policy's place, whose positions count from the left end of the padding."""
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = setup.policy.tokenizer
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        config = GPT2Config(
            vocab_size=len(tokenizer),
            n_positions=512,
            n_embd=32,
            n_layer=1,
            n_head=2,
            initializer_range=0.3,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
        )
        model = GPT2LMHeadModel(config)
    return replace(setup, policy=Policy(model, tokenizer, setup.policy.dialogue, "gpt2"))


def sliding_window(setup: Setup) -> Setup:
    """Put a Mistral in the policy's place whose window is shorter than an episode; no fault, and once it was
    one."""
    from transformers import MistralConfig, MistralForCausalLM

    tokenizer = setup.policy.tokenizer
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        config = MistralConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=512,
            sliding_window=8,
            initializer_range=0.3,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
        model = MistralForCausalLM(config)
    return replace(setup, policy=Policy(model, tokenizer, setup.policy.dialogue, "mistral"))


# Data that fail


def shared_items(setup: Setup) -> Setup:
    return replace(
        setup, validation=replace(setup.validation, items=(*setup.validation.items[1:], setup.items[0]))
    )


def shared_clusters(setup: Setup) -> Setup:
    near = replace(setup.items[0], id="another")
    return replace(setup, validation=replace(setup.validation, items=(*setup.validation.items[1:], near)))


def repeated_items(setup: Setup) -> Setup:
    return replace(setup, items=[*setup.items, setup.items[0]])


def fewer_validation_items(setup: Setup) -> Setup:
    return replace(setup, validation=replace(setup.validation, items=setup.validation.items[:5]))


PRETRAINED = PretrainedBase(
    kind="pretrained", model="mine", revision=None, dtype="float32", quantization=None, template={}
)


def structured(**changes: Any) -> Callable[[Setup], Setup]:
    def inject(setup: Setup) -> Setup:
        values = json.loads(json.dumps(composed("tiny", "structured")["task"]))
        values["max_new_tokens"]["compact"] = 48
        return with_settings(setup, task=StructuredTask.model_validate(values | changes))

    return inject


@dataclass(frozen=True)
class Fault:
    """One misconfiguration: what it is, which check has to name it at which level, and which setting or file
    to blame."""

    name: str
    inject: Callable[[Setup], Setup]
    check: str
    level: str
    blamed: str

    def named_by(self, findings: Sequence[Finding]) -> Finding | None:
        """Return the finding that names this fault as it should, None if none does."""
        for finding in findings:
            if (finding.check, finding.level) == (
                self.check,
                self.level,
            ) and self.blamed in f"{finding.where} {finding.fix}":
                return finding
        return None

    def examined(self) -> list[Finding]:
        """Inject the fault into a healthy set-up and examine it; a policy that cannot even be opened is a
        finding too."""
        try:
            setup = self.inject(healthy())
        except AssayError as error:
            return [error_finding("base", error)]
        return setup.examined()


FAULTS: tuple[Fault, ...] = (
    # settings
    Fault(
        "a learning rate that diverges",
        settings(train__learning_rate=0.5),
        "learning rate",
        "fault",
        "train.learning_rate",
    ),
    Fault(
        "a learning rate of nothing",
        settings(train__learning_rate=1e-9),
        "learning rate",
        "fault",
        "train.learning_rate",
    ),
    Fault(
        "a tiny model's rate for a pretrained one",
        settings(base=PRETRAINED, train__learning_rate=5e-3),
        "learning rate",
        "warning",
        "train.learning_rate",
    ),
    Fault(
        "an unused warm-up",
        settings(train__lr_scheduler="constant"),
        "warm-up",
        "warning",
        "constant_with_warmup",
    ),
    Fault(
        "a warm-up longer than the training",
        settings(train__warmup_steps=100),
        "warm-up",
        "warning",
        "train.warmup_steps",
    ),
    Fault("one step, in the warm-up", settings(train__steps=1), "warm-up", "fault", "train.warmup_steps"),
    Fault(
        "groups of two",
        settings(train__group_size=2, train__micro_batch_size=8),
        "group size",
        "warning",
        "train.group_size",
    ),
    Fault(
        "gradients that are never clipped",
        settings(train__max_grad_norm=1e6),
        "gradient clipping",
        "warning",
        "train.max_grad_norm",
    ),
    Fault(
        "gradients clipped to nothing",
        settings(train__max_grad_norm=1e-6),
        "gradient clipping",
        "warning",
        "train.max_grad_norm",
    ),
    Fault(
        "a clip range upside down",
        settings(train__epsilon_high=0.1),
        "clip range",
        "warning",
        "train.epsilon_high",
    ),
    Fault(
        "a KL term that outweighs the reward", settings(train__beta=5.0), "KL weight", "warning", "train.beta"
    ),
    Fault(
        "a LoRA scale of 256", settings(train__lora__alpha=1024), "LoRA scale", "warning", "train.lora.alpha"
    ),
    Fault(
        "a rank above the module's",
        settings(train__lora__r=48, train__lora__alpha=96),
        "LoRA rank",
        "warning",
        "train.lora.r",
    ),
    Fault(
        "LoRA dropout", settings(train__lora__dropout=0.1), "LoRA dropout", "warning", "train.lora.dropout"
    ),
    Fault("more threads than cores", settings(threads=256), "threads", "warning", "threads:"),
    Fault(
        "nccl without a GPU",
        settings(distributed__processes=2, distributed__backend="nccl"),
        "processes",
        "fault",
        "distributed.backend",
    ),
    Fault(
        "groups torn between processes",
        settings(distributed__processes=3),
        "processes",
        "fault",
        "train.items_per_step",
    ),
    Fault("a discount that nothing reads", settings(task__gamma=0.9), "shaping", "warning", "task.gamma"),
    Fault(
        "a shaping that moves the optimum",
        settings(task__gamma=0.9, task__shaping=0.1),
        "shaping",
        "warning",
        "task.gamma",
    ),
    Fault(
        "a ban on terms that nobody lists",
        structured(reject_blocklisted=True),
        "blocklist",
        "warning",
        "task.blocklist",
    ),
    Fault(
        "a validation that comes too late",
        settings(validation__interval=100),
        "validation interval",
        "warning",
        "validation.interval",
    ),
    Fault(
        "a checkpoint that comes too late",
        settings(checkpoint__every=100),
        "checkpoints",
        "warning",
        "checkpoint.every",
    ),
    Fault(
        "a baseline longer than the training",
        settings(health__baseline_steps=60),
        "alarm baseline",
        "warning",
        "health.baseline_steps",
    ),
    Fault(
        "4-bit weights on a CPU",
        settings(base=PRETRAINED.model_copy(update={"quantization": "nf4"})),
        "precision",
        "warning",
        "base.quantization",
    ),
    Fault(
        "checkpoints for a bigger disk", settings(checkpoint__keep=10**10), "disk", "fault", "checkpoint.keep"
    ),
    # data
    Fault(
        "more items a step than there are",
        settings(train__items_per_step=64),
        "items a step",
        "warning",
        "train.items_per_step",
    ),
    Fault("fifty epochs", settings(train__steps=500), "epochs", "warning", "train.steps"),
    Fault(
        "a KL probe larger than the data",
        settings(train__kl_probe_episodes=64),
        "KL probe",
        "fault",
        "train.kl_probe_episodes",
    ),
    Fault(
        "items of validation that are trained on",
        shared_items,
        "validation kept apart",
        "fault",
        "validation.suite",
    ),
    Fault(
        "prompts of validation that are trained on",
        shared_clusters,
        "validation kept apart",
        "fault",
        "validation.suite",
    ),
    Fault("an item twice in the data", repeated_items, "training items", "warning", "train.jsonl"),
    Fault(
        "a validation suite smaller than asked for",
        fewer_validation_items,
        "validation items",
        "warning",
        "validation.items",
    ),
    # task
    Fault("a reward that is NaN", playing(tasks.NanReward), "reward numbers", "fault", "reward parts"),
    Fault(
        "a reward that is infinite", playing(tasks.InfiniteReward), "reward numbers", "fault", "reward parts"
    ),
    Fault(
        "a reward that is always the same",
        playing(tasks.ConstantReward),
        "reward spread",
        "fault",
        "task.weights",
    ),
    Fault("a reward that is never earned", playing(tasks.NeverPaid), "reward spread", "fault", "items"),
    Fault(
        "a reward for failing", playing(tasks.PaidBackwards), "reward and success", "fault", "task.weights"
    ),
    Fault(
        "the worst player is paid best", playing(tasks.PaysTheFloor), "reward order", "fault", "task.weights"
    ),
    Fault(
        "rewards of a million, unscaled",
        both(playing(tasks.HugeReward), settings(train__scale_rewards="none")),
        "reward size",
        "warning",
        "train.scale_rewards",
    ),
    Fault(
        "a reward part that nobody declared",
        playing(tasks.UndeclaredPart),
        "reward parts",
        "fault",
        "task's parts",
    ),
    Fault("a grader that never says yes", playing(tasks.ForgottenRule), "grader", "fault", "judge"),
    Fault("nothing left to learn", playing(tasks.AllSucceed), "room to learn", "warning", "items"),
    Fault("a verdict that cannot be recorded", playing(tasks.NumpyVerdict), "records", "fault", "judge"),
    Fault("a metric that is NaN", playing(tasks.NanMetric), "records", "fault", "judge"),
    Fault("a parser that raises", playing(tasks.ParsesWithoutNet), "task code", "fault", "step"),
    Fault("a world of global chance", playing(tasks.GlobalChance), "repetition", "fault", "world_seed"),
    Fault("a world of fresh chance", playing(tasks.FreshChance), "repetition", "fault", "world_seed"),
    Fault("an opening that changes", playing(tasks.RestlessOpening), "repetition", "fault", "world_seed"),
    Fault(
        "a state that is changed in place",
        playing(tasks.ChangesItsState),
        "repetition",
        "fault",
        "copy what a step changes",
    ),
    Fault("episodes that never end", playing(tasks.NeverEnds), "endings", "fault", "task.max_turns"),
    Fault(
        "an environment that crashes",
        playing(tasks.CrashingEnvironment),
        "environment",
        "fault",
        "health.max_lost_share",
    ),
    Fault("completions that never parse", playing(tasks.Unparsable), "parsing", "fault", "base"),
    # text
    Fault("no end of sequence", no_end, "base", "fault", "eos_token"),
    Fault(
        "a template that ends no answer",
        with_template(NO_END),
        "end of sequence",
        "warning",
        "chat_template.jinja",
    ),
    Fault("no padding", no_padding, "padding", "warning", "pad_token"),
    Fault(
        "a generation config of another model",
        other_generation_config,
        "generation config",
        "warning",
        "generation_config.json",
    ),
    Fault(
        "a template without a generation prompt",
        with_template(NO_PROMPT),
        "base",
        "fault",
        "add_generation_prompt",
    ),
    Fault(
        "a template that shortens history",
        with_template(SHORTENS_HISTORY),
        "conversation",
        "fault",
        "chat_template.jinja",
    ),
    Fault(
        "a template that keeps three messages",
        with_template(LAST_THREE),
        "conversation",
        "fault",
        "chat_template.jinja",
    ),
    Fault("a template that drops messages", with_template(LAST_ONE), "base", "fault", "multi-turn"),
    Fault(
        "a template that strips reasoning", with_template(STRIPS_REASONING), "history", "warning", "template"
    ),
    Fault(
        "a base that thinks aloud, and no room",
        with_template(STRIPS_REASONING),
        "reasoning",
        "warning",
        "task.max_new_tokens.compact",
    ),
    Fault(
        "a template that refuses the system role",
        both(playing(tasks.SystemMessage), with_template(NO_SYSTEM)),
        "opening",
        "fault",
        "roles system",
    ),
    Fault(
        "a template that drops the system role",
        both(playing(tasks.SystemMessage), with_template(SKIPS_SYSTEM)),
        "opening",
        "fault",
        "roles system",
    ),
    Fault("a tokenizer of another task", other_words, "vocabulary", "fault", "base"),
    Fault("answers that cannot be written", other_words, "writing", "fault", "base"),
    Fault(
        "completions too short for an answer",
        settings(task__max_new_tokens={"compact": 4, "json": 4}),
        "completion limit",
        "fault",
        "task.max_new_tokens.compact",
    ),
    Fault(
        "completions that are mostly cut off",
        settings(task__max_new_tokens={"compact": 8, "json": 8}),
        "truncation",
        "warning",
        "task.max_new_tokens.compact",
    ),
    Fault("prompts longer than the context", with_policy(positions=32), "context", "fault", "max_positions"),
    Fault(
        "prompts longer than the task allows",
        playing(tasks.ShortPrompts),
        "prompts",
        "fault",
        "task.max_prompt_tokens",
    ),
    Fault("prompts that are cut", playing(tasks.CutPrompts), "prompts", "warning", "task.max_prompt_tokens"),
    # sampling
    Fault(
        "a temperature near greedy",
        settings(generation__temperature=0.001),
        "variety",
        "fault",
        "generation.temperature",
    ),
    Fault(
        "a low temperature",
        settings(generation__temperature=0.1),
        "temperature",
        "warning",
        "generation.temperature",
    ),
    Fault(
        "a temperature of noise",
        settings(generation__temperature=5.0),
        "temperature",
        "warning",
        "generation.temperature",
    ),
    # weights
    Fault("a weight that is NaN", nan_weight, "base weights", "fault", "base.model"),
    Fault("tokens beyond the embedding", more_words, "embedding rows", "fault", "tokenizer"),
    Fault(
        "modules that the base does not have",
        settings(train__lora__target_modules=["q_proj", "v_prj"]),
        "LoRA targets",
        "fault",
        "all-linear",
    ),
    Fault(
        "an adapter on the output layer",
        settings(train__lora__target_modules=["q_proj", "lm_head"]),
        "LoRA targets",
        "fault",
        "train.lora.target_modules",
    ),
    Fault(
        "an adapter on a whole block",
        settings(train__lora__target_modules=["q_proj", "mlp"]),
        "LoRA targets",
        "fault",
        "train.lora.target_modules",
    ),
    Fault("modules that get no gradient", dead_attention, "gradients", "fault", "train.lora.target_modules"),
    Fault("dropout in the base", with_policy(attention_dropout=0.5), "log-probabilities", "fault", "dropout"),
    Fault(
        "positions that padding shifts",
        absolute_positions,
        "log-probabilities",
        "fault",
        "relative positions",
    ),
)
