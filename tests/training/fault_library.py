"""Real misconfigurations of a training that is otherwise healthy, each with the finding that has to name
it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from assay.checks.findings import Finding, error_finding
from assay.core.config.settings import PretrainedBase
from assay.core.errors import AssayError
from assay.rollout.policy.model import Policy
from assay.rollout.policy.renderer import Dialogue
from assay_tasks.structured.settings import StructuredTask
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


def other_config(setup: Setup) -> Setup:
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


def fewer_items(setup: Setup) -> Setup:
    return replace(setup, validation=replace(setup.validation, items=setup.validation.items[:5]))


PRETRAINED = PretrainedBase(
    kind="pretrained", model="mine", revision=None, dtype="float32", quantization=None, template={}
)


TINY_RATE = settings(base=PRETRAINED, train__learning_rate=5e-3)
NCCL = settings(distributed__processes=2, distributed__backend="nccl")
FOUR_BIT = settings(base=PRETRAINED.model_copy(update={"quantization": "nf4"}))
MANY_CHECKPOINTS = settings(checkpoint__keep=10**10)
HUGE_REWARDS = both(playing(tasks.HugeReward), settings(train__scale_rewards="none"))
THINKS_ALOUD = with_template(STRIPS_REASONING)
REFUSES_SYSTEM = both(playing(tasks.SystemMessage), with_template(NO_SYSTEM))
DROPS_SYSTEM = both(playing(tasks.SystemMessage), with_template(SKIPS_SYSTEM))
FOUR_TOKENS = settings(task__max_new_tokens={"compact": 4, "json": 4})
EIGHT_TOKENS = settings(task__max_new_tokens={"compact": 8, "json": 8})
MISSPELT = settings(train__lora__target_modules=["q_proj", "v_prj"])
ON_THE_HEAD = settings(train__lora__target_modules=["q_proj", "lm_head"])


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


# What is wrong | level and check of the finding | what it blames (it: the setting) | the function above that
# Puts it in, and with what: settings, a class of faulty_tasks, or a template above.
TABLE = """
a learning rate that diverges | fault, learning rate | it | settings train.learning_rate=0.5
a learning rate of nothing | fault, learning rate | it | settings train.learning_rate=1e-09
an unused warm-up | warning, warm-up | constant_with_warmup | settings train.lr_scheduler='constant'
a warm-up longer than the training | warning, warm-up | it | settings train.warmup_steps=100
one step, in the warm-up | fault, warm-up | train.warmup_steps | settings train.steps=1
groups of two | warning, group size | it | settings train.group_size=2, train.micro_batch_size=8
gradients that are never clipped | warning, gradient clipping | it | settings train.max_grad_norm=1000000.0
gradients clipped to nothing | warning, gradient clipping | it | settings train.max_grad_norm=1e-06
a clip range upside down | warning, clip range | it | settings train.epsilon_high=0.1
a KL term that outweighs the reward | warning, KL weight | it | settings train.beta=5.0
a LoRA scale of 256 | warning, LoRA scale | it | settings train.lora.alpha=1024
a rank above the module's | warning, LoRA rank | it | settings train.lora.r=48, train.lora.alpha=96
LoRA dropout | warning, LoRA dropout | it | settings train.lora.dropout=0.1
more threads than cores | warning, threads | threads: | settings threads=256
groups torn between processes | fault, processes | train.items_per_step | settings distributed.processes=3
a discount that nothing reads | warning, shaping | it | settings task.gamma=0.9
a shaping that moves the optimum | warning, shaping | it | settings task.gamma=0.9, task.shaping=0.1
a ban on terms that nobody lists | warning, blocklist | task.blocklist | structured reject_blocklisted=True
a validation that comes too late | warning, validation interval | it | settings validation.interval=100
a checkpoint that comes too late | warning, checkpoints | it | settings checkpoint.every=100
a baseline longer than the training | warning, alarm baseline | it | settings health.baseline_steps=60
more items a step than there are | warning, items a step | it | settings train.items_per_step=64
fifty epochs | warning, epochs | it | settings train.steps=500
a KL probe larger than the data | fault, KL probe | it | settings train.kl_probe_episodes=64
items of validation that are trained on | fault, validation kept apart | validation.suite | shared_items
prompts of validation that are trained on | fault, validation kept apart | validation.suite | shared_clusters
an item twice in the data | warning, training items | train.jsonl | repeated_items
a reward that is NaN | fault, reward numbers | reward parts | playing NanReward
a reward that is infinite | fault, reward numbers | reward parts | playing InfiniteReward
a reward that is always the same | fault, reward spread | task.weights | playing ConstantReward
a reward that is never earned | fault, reward spread | items | playing NeverPaid
a reward for failing | fault, reward and success | task.weights | playing PaidBackwards
the worst player is paid best | fault, reward order | task.weights | playing PaysTheFloor
a reward part that nobody declared | fault, reward parts | task's parts | playing UndeclaredPart
a grader that never says yes | fault, grader | judge | playing ForgottenRule
nothing left to learn | warning, room to learn | items | playing AllSucceed
a verdict that cannot be recorded | fault, records | judge | playing NumpyVerdict
a metric that is NaN | fault, records | judge | playing NanMetric
a parser that raises | fault, task code | step | playing ParsesWithoutNet
a world of global chance | fault, repetition | world_seed | playing GlobalChance
a world of fresh chance | fault, repetition | world_seed | playing FreshChance
a prompt that changes | fault, repetition | world_seed | playing RestlessOpening
a state that is changed in place | fault, repetition | copy what a step changes | playing ChangesItsState
episodes that never end | fault, endings | task.max_turns | playing NeverEnds
an environment that crashes | fault, environment | health.max_lost_share | playing CrashingEnvironment
completions that never parse | fault, parsing | base | playing Unparsable
no end of sequence | fault, base | eos_token | no_end
a template that ends no answer | warning, end of sequence | chat_template.jinja | with_template NO_END
no padding | warning, padding | pad_token | no_padding
a template without a generation prompt | fault, base | add_generation_prompt | with_template NO_PROMPT
a template that shortens history | fault, conversation | chat_template.jinja | with_template SHORTENS_HISTORY
a template that keeps three messages | fault, conversation | chat_template.jinja | with_template LAST_THREE
a template that drops messages | fault, base | multi-turn | with_template LAST_ONE
a template that strips reasoning | warning, history | template | with_template STRIPS_REASONING
a tokenizer of another task | fault, vocabulary | base | other_words
answers that cannot be written | fault, writing | base | other_words
prompts longer than the context | fault, context | max_positions | with_policy positions=32
prompts longer than the task allows | fault, prompts | task.max_prompt_tokens | playing ShortPrompts
prompts that are cut | warning, prompts | task.max_prompt_tokens | playing CutPrompts
a temperature near greedy | fault, variety | it | settings generation.temperature=0.001
a low temperature | warning, temperature | it | settings generation.temperature=0.1
a temperature of noise | warning, temperature | it | settings generation.temperature=5.0
a weight that is NaN | fault, base weights | base.model | nan_weight
tokens beyond the embedding | fault, embedding rows | tokenizer | more_words
an adapter on a whole block | fault, LoRA targets | it | settings train.lora.target_modules=['q_proj', 'mlp']
modules that get no gradient | fault, gradients | train.lora.target_modules | dead_attention
dropout in the base | fault, log-probabilities | dropout | with_policy attention_dropout=0.5
positions that padding shifts | fault, log-probabilities | relative positions | absolute_positions
a tiny model's rate for a pretrained one | warning, learning rate | train.learning_rate | TINY_RATE
nccl without a GPU | fault, processes | distributed.backend | NCCL
4-bit weights on a CPU | warning, precision | base.quantization | FOUR_BIT
checkpoints for a bigger disk | fault, disk | checkpoint.keep | MANY_CHECKPOINTS
a validation suite smaller than asked for | warning, validation items | validation.items | fewer_items
rewards of a million, unscaled | warning, reward size | train.scale_rewards | HUGE_REWARDS
a generation config of another model | warning, generation config | generation_config.json | other_config
a base that thinks aloud, and no room | warning, reasoning | task.max_new_tokens.compact | THINKS_ALOUD
a template that refuses the system role | fault, first messages | roles system | REFUSES_SYSTEM
a template that drops the system role | fault, first messages | roles system | DROPS_SYSTEM
completions too short for an answer | fault, completion limit | task.max_new_tokens.compact | FOUR_TOKENS
completions that are mostly cut off | warning, truncation | task.max_new_tokens.compact | EIGHT_TOKENS
modules that the base does not have | fault, LoRA targets | all-linear | MISSPELT
an adapter on the output layer | fault, LoRA targets | train.lora.target_modules | ON_THE_HEAD
"""


def _of_row(row: str) -> Fault:
    name, found, blamed, how = row.split(" | ")
    (level, check), (put, _, rest) = found.split(", "), how.partition(" ")
    inject = globals()[put]
    if put == "playing":
        inject = playing(getattr(tasks, rest))
    elif put == "with_template":
        inject = with_template(globals()[rest])
    elif rest:
        given = dict(re.findall(r"([a-z_.]+)=(.+?)(?:, (?=[a-z])|$)", rest))
        inject = inject(**{key.replace(".", "__"): ast.literal_eval(value) for key, value in given.items()})
        blamed = next(iter(given)) if blamed == "it" else blamed
    return Fault(name, inject, check, level, blamed)


FAULTS: tuple[Fault, ...] = tuple(map(_of_row, TABLE.strip().splitlines()))
