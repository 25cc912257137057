"""Each preset's model in its true shape with random weights and few layers, and a training of two steps with
it on a CPU."""

from __future__ import annotations

import atexit
import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from bitsandbytes.nn import Linear4bit
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from assay.core.config.composition import Selection, compose
from assay.core.config.reading import parse_params
from assay.pipeline.inputs import decoding_of
from assay.pipeline.policies import ADAPTER, open_policy
from assay.pipeline.project import Project
from assay.rollout.evaluation.measure import measure
from assay.rollout.evaluation.rollout import Pace
from assay.rollout.policy.model import Policy
from assay.rollout.tasks.protocol import Item
from assay.stages import base, fingerprint
from assay.training.adapter import save_adapter
from assay.training.checkpoints.store import Checkpoints
from assay.training.grpo import train
from assay.training.log.history import History, Watch
from assay.training.setup import Setup
from tests.house import ROOT
from tests.own_data import keep_first

CONFIGS = Path(__file__).parent / "configs"
TASKS = ("structured", "collider")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a preset's base is made of here: a file in trl's chat_templates, its special tokens, how many
    layers are built."""

    template: str  # of trl's chat_templates, or the text itself
    special: dict[str, str]
    extra: tuple[str, ...]
    layers: int = 1


_QWEN = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
_SMOL = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>"}
_QWEN3 = Shape("qwen3", _QWEN, ("<|im_start|>", "<think>", "</think>"))
# As published, but for the words of the system's message and for tools.
_SMOL2 = Shape(
    "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM.<|im_end|>\n{% endif %}"
    "{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    _SMOL,
    (),
)
_MISTRAL = Shape(
    "{{ bos_token }}{% for m in messages %}"
    "{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + '[/INST]' }}"
    "{% else %}{{ ' ' + m['content'] + eos_token }}{% endif %}{% endfor %}",
    {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"},
    ("[INST]", "[/INST]"),
)
_PHI4 = Shape(
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}",
    {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"},
    ("<|user|>", "<|assistant|>", "<|end|>"),
)
SHAPES = {
    "4090_qwen3": Shape("qwen3_instruct_2507", _QWEN, ("<|im_start|>",)),
    "4090_qwen3_8b": _QWEN3,
    "4090_mistral": _MISTRAL,
    "4090_llama3": Shape(
        "llama3_1",
        {
            "bos_token": "<|begin_of_text|>",
            "eos_token": "<|eot_id|>",
            "pad_token": "<|finetune_right_pad_id|>",
        },
        ("<|start_header_id|>", "<|end_header_id|>"),
    ),
    # Two layers, since they take turns: one with a sliding window, one without.
    "4090_gemma2": Shape(
        "gemma",
        {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>"},
        ("<start_of_turn>", "<end_of_turn>"),
        2,
    ),
    "4090_phi4_mini": _PHI4,
    "h100_qwen3": _QWEN3,
    **{
        f"{machine}_{name}": shape
        for machine in ("cpu", "8gb")
        for name, shape in (
            ("smollm2_135m", _SMOL2),
            ("smollm2_360m", _SMOL2),
            ("qwen25", Shape("qwen2_5", _QWEN, ("<|im_start|>",))),
            ("qwen3", _QWEN3),
        )
    },
    "12gb_qwen3": _QWEN3,
}


PAGE = ROOT / "docs/presets.md"


@cache
def listed() -> Mapping[str, str]:
    """Return the files that docs/presets.md has to copy: name, and text as one writes it."""
    entry = re.compile(r"^# (\w+(?:-\w+)?)(?:: .*)?\n((?:.+\n)+?)(?=\n|```)", re.MULTILINE)
    blocks = "".join(re.findall(r"^```text\n(?:.*\n)*?```", PAGE.read_text(), re.MULTILINE))
    return {name: f"# @package _global_\n{text}" for name, text in entry.findall(blocks)}


def copy_listed(root: Path) -> None:
    """Write the files that the page has to copy into a project: presets, and one for a task alone."""
    for name, text in listed().items():
        (root / "configs" / ("both" if "-" in name else "grpo") / f"{name}.yaml").write_text(text)


@cache
def _with_listed() -> Path:
    """Return the root of configs/ with the page's presets copied into it."""
    root = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    shutil.copytree(ROOT / "configs", root / "configs")
    copy_listed(root)
    return root


@cache
def values_of(preset: str, task: str) -> Mapping[str, Any]:
    """Return the settings that a preset, shipped or of the page, makes with a task, which nobody may write
    in: composed once for all tests."""
    return compose(_with_listed(), Selection(preset, task, 0)).values


def config_of(preset: str) -> Any:
    """Return the published configuration of a preset's model, as transformers reads it."""
    model = values_of(preset, "structured")["base"]["model"]
    published = json.loads((CONFIGS / f"{model.split('/')[1]}.json").read_text())
    published.pop("auto_map", None)  # of code that is in transformers
    return AutoConfig.for_model(**published)


def tokenizer_of(shape: Shape, texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """Return a byte-level tokenizer learned from texts, with a model's real chat template.

    Its tokens run over whole sentences that the prompts of a task have in common: a prompt of 1,300 letters
    is some thirty tokens, and a pass on a CPU is short.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [*shape.special.values(), *shape.extra]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=2048, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast: PreTrainedTokenizerFast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        extra_special_tokens=list(shape.extra),
        padding_side="left",
        **shape.special,
    )
    named = shape.template.isidentifier()
    of_trl = files("trl").joinpath("chat_templates", f"{shape.template}.jinja")
    fast.chat_template = of_trl.read_text() if named else shape.template
    return fast


def write_base(folder: Path, preset: str, texts: Sequence[str], *, uncut: bool) -> None:
    """Write a model folder: few layers, random weights in bfloat16, all else as published, or where not
    `uncut` with fewer hidden and inner units and words; heads, their widths, positions, caps and windows are
    as published in both.
    """
    shape, config = SHAPES[preset], config_of(preset)
    tokenizer = tokenizer_of(shape, texts)
    config.num_hidden_layers = shape.layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[: shape.layers]
    if not uncut:
        config.head_dim = (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        config.hidden_size, config.intermediate_size = config.hidden_size // 8, config.intermediate_size // 16
        if config.model_type == "phi3":  # LongRoPE's factors are held against hidden units by head
            config.num_attention_heads, config.num_key_value_heads = 3, 1
        config.vocab_size = len(tokenizer)
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        setattr(config, name, getattr(tokenizer, name))
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def project_of(root: Path, model: Path, preset: str, task: str) -> Project:
    """Return a project with a preset on a CPU, made tiny in counts and lengths and in nothing else."""
    values = json.loads(json.dumps(values_of(preset, task)))
    values |= {"device": "cpu", "threads": 1}
    values["distributed"] |= {"backend": "gloo"}
    values["base"] |= {"model": str(model), "revision": None}
    values["dataset"]["cache"] = None
    values["task"]["max_new_tokens"] = {"compact": 3, "json": 3}
    values["task"] |= {"max_turns": 2} if task == "collider" else {}
    values["generation"]["batch_size"] = 4
    values["evaluation"] |= {"items": 2, "draws": 2}
    values["validation"] |= {"items": 2, "draws": 1, "interval": 2}
    values["train"] |= {
        "steps": 2,
        "items_per_step": 2,
        "group_size": 2,
        "micro_batch_size": 4,
        "kl_probe_episodes": 2,
        "warmup_steps": 0,
    }
    values["claim"]["checkpoint_rule"] = "last"
    return Project(root, parse_params(values))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a training of two steps left.

    The modules with an adapter, the matrices of it that did not move, the 4-bit modules; the
    log-probabilities of one text by the policy as it was trained, and the same as it was loaded again, which
    have to be equal; held-out episodes played.
    """

    adapted: list[str]
    unmoved: list[str]
    four_bit: list[str]
    trained: torch.Tensor
    reloaded: torch.Tensor
    episodes: int


def two_steps(root: Path, preset: str, *, uncut: bool) -> Iterator[Outcome]:
    """Train with a preset on each task in turn, and yield what came of it."""
    projects = [project_of(root / task, root / "model", preset, task) for task in TASKS]
    texts: list[str] = []
    for project in projects:
        data = project.params.dataset.root
        shutil.copytree(ROOT / data, project.root / data)
        if not uncut:
            keep_first(project.root / data, 64)
        fingerprint.run(project)
        texts += [text for text, _ in shortest(project, 64)]
    write_base(root / "model", preset, texts, uncut=uncut)
    for project in projects:
        base.run(project)
        yield _trained(project)


def shortest(project: Project, n: int) -> list[tuple[str, Item]]:
    """Return the n training items with the shortest prompts, each with its prompt."""
    judged = project.task()
    return sorted(
        ((judged.start(each, 0)[0][0]["content"], each) for each in project.items("train")),
        key=lambda p: len(p[0]),
    )[:n]


def _trained(project: Project) -> Outcome:
    """Train, save, load again and evaluate by the code of the stages; the second of a group is paid, so that
    weights move."""
    params, judged, ((text, item), (_, other)) = project.params, project.task(), shortest(project, 2)
    policy = open_policy(project.params, project.root / "models/base")
    trained = train(
        policy,
        Setup(
            project.task(shaping=True),
            judged,
            [item, other],
            project.inputs("validation").validation,
            params,
            credit=lambda step, item_id, member: float(member),
        ),
        checkpoints=Checkpoints(project.root / "checkpoints", "run", 2),
        start=None,
        history=History(),
        watch=Watch(judged),
        on_step=lambda _: None,
    )
    ids = policy.dialogue.prompt([{"role": "user", "content": text}])
    before = logprobs(policy, ids)
    adapted = sorted(name for name, module in policy.model.named_modules() if hasattr(module, "lora_A"))
    unmoved = sorted(
        name for name, tensor in trained.adapter.items() if "lora_B" in name and not tensor.any()
    )
    four_bit = sorted(name for name, module in policy.model.named_modules() if is_nf4(module))
    save_adapter(project.root / ADAPTER, trained)
    del policy
    again = open_policy(project.params, project.root / "models/base", project.root / ADAPTER)
    episodes = measure(
        again, judged, project.inputs("heldout").heldout.plays(), decoding_of(project.params), pace=Pace(4)
    )
    return Outcome(adapted, unmoved, four_bit, before, logprobs(again, ids), len(episodes))


def is_nf4(module: torch.nn.Module) -> bool:
    """Return whether a layer is 4-bit NormalFloat, its scales quantised once more, and computes in
    bfloat16."""
    if type(module) is not Linear4bit:
        return False
    state = module.weight.quant_state
    return state.quant_type == "nf4" and state.nested and module.compute_dtype == torch.bfloat16


def logprobs(policy: Policy, ids: list[int]) -> torch.Tensor:
    """Return the log-probability of each token but the first, by one plain pass of the model as it stands."""
    model = policy.model.get_base_model() if hasattr(policy.model, "get_base_model") else policy.model
    model.eval()
    with torch.no_grad():
        logits = type(model).forward(model, input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()
    return torch.log_softmax(logits, -1)[:-1].gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
