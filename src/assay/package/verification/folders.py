"""V3, the folders: no name that has no place in a package, and in models/ no setting but those that assay
writes.

What lies beside weights decides as much as they do: `auto_map` loads code, `use_rslora` multiplies the
adapter, a penalty in generation_config.json changes what is written, a word in tokenizer.json what is read.
All of it follows from the settings of the run, so each value is compared with the one that follows, and what
is not known is refused unless it is off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from assay.core.config.settings import Params, PretrainedBase, ScratchBase
from assay.core.storage.files import read_text
from assay.core.storage.json import loads
from assay.package.verification.checks import LookResult
from assay.package.verification.unpacked import FIX, Unpacked
from assay.rollout.dataset.external import whole_of
from assay.rollout.policy.base.model_files import maps_code
from assay.rollout.policy.base.words import ASSISTANT, CHAT_TEMPLATE, END, PAD, UNKNOWN, USER, Words
from assay.stages.package import strangers_in
from assay.stages.packing.layout import ADAPTER, BASE

_VERSION = re.compile(r"\d+\.\d+[\w.+-]*")
_FREE = object()  # a version: any, since it decides nothing
# What transformers puts around a text once it has read one: nothing.
_NOTHING_AROUND = {
    "type": "TemplateProcessing",
    "single": [{"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {},
}


def names_allowed(package: Unpacked) -> LookResult:
    """Check that every file of the package has a place in one, and none of it is hidden or can run code when
    it is loaded."""
    wrong = list(strangers_in(package.project, package.names))
    return LookResult(f"{len(package.names)} files, each one that a package of these settings holds", wrong)


def model_settings(package: Unpacked) -> LookResult:
    """Check every value of the JSON files in models/ against what the settings of the run give."""
    params, adapter = package.project.params, f"{ADAPTER}/adapter_config.json"
    found = {} if whole_of(package.told) else _read(package, adapter)
    if whole_of(package.told):
        wrong, said = [], "the whole model that was brought is not in here; every setting"
    elif package.elsewhere:  # what was brought is held to its sha256, and every LoRA has settings of its own
        wrong = [f"{adapter}, auto_map: names code, which a package never holds"] if maps_code(found) else []
        said = f"no code in {adapter}, which is what was brought; every setting"
    else:
        wrong = list(_odd(adapter, found, adapter_expected(params)))
        wrong += _targets(adapter, found.get("target_modules"), params)
        said = f"every setting of {adapter}"
    if isinstance(params.base, ScratchBase):
        for name, expected in base_expected(params.base, package.words).items():
            told = _read(package, f"{BASE}/{name}")
            if told.get("post_processor") == _NOTHING_AROUND:
                del told["post_processor"]
            wrong += _odd(f"{BASE}/{name}", told, expected)
        template = f"{BASE}/chat_template.jinja"
        if read_text(package.root / template, fix=FIX) != CHAT_TEMPLATE:
            wrong.append(f"{template}: not the template of assay's tiny base")
        said += f"{'' if package.elsewhere else ' and'} of {BASE}, its words and its chat template"
    return LookResult(f"{said} follows from params.yaml; none names code", wrong)


def adapter_expected(params: Params) -> dict[str, Any]:
    """Return adapter_config.json as a training of these settings writes it, but for what is off and for
    target_modules."""
    lora = params.train.lora
    expected = {
        "base_model_name_or_path": BASE,
        "bias": "none",
        "inference_mode": True,
        "init_lora_weights": True,
        "r": lora.r,
        "lora_alpha": lora.alpha,
        "lora_dropout": lora.dropout,
        "megatron_core": "megatron.core",
        "peft_type": "LORA",
        "peft_version": _FREE,
        "qalora_group_size": 16,
        "task_type": "CAUSAL_LM",
        "target_modules": _FREE,
    }
    # peft sets it itself for the transposed layers of GPT-2 and its like, and corrects it where it is wrong.
    return expected | ({"fan_in_fan_out": _FREE} if isinstance(params.base, PretrainedBase) else {})


def base_expected(base: ScratchBase, words: Words) -> dict[str, dict[str, Any]]:
    """Return the JSON files of a base that was built here, but for what is off.

    Source: transformers 5, Qwen3Config with its defaults, as `policy/base/tiny.py` builds it.
    """
    shape = base.architecture
    ends = {
        "eos_token_id": words.eos_id,
        "pad_token_id": words.vocabulary[PAD],
        "transformers_version": _FREE,
    }
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "attention_dropout": 0.0,
        "dtype": "float32",
        "model_type": "qwen3",
        "head_dim": shape.hidden_size // shape.heads,
        "hidden_act": "silu",
        "hidden_size": shape.hidden_size,
        "initializer_range": shape.initializer_range,
        "intermediate_size": shape.intermediate_size,
        "layer_types": ["full_attention"] * shape.layers,
        "max_position_embeddings": shape.max_positions,
        "max_window_layers": 28,
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": shape.heads,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
        "use_cache": True,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
        "vocab_size": len(words.vocabulary),
        **ends,
    }
    tokenizer = {
        "backend": "tokenizers",
        "eos_token": END,
        "extra_special_tokens": [USER, ASSISTANT],
        "pad_token": PAD,
        "model_max_length": int(1e30),
        "padding_side": "left",
        "tokenizer_class": "TokenizersBackend",
    } | ({"unk_token": UNKNOWN} if base.bpe_vocabulary is None else {})
    return {
        "config.json": config,
        "generation_config.json": {"_from_model_config": True, "use_cache": True, **ends},
        "tokenizer_config.json": tokenizer,
        "tokenizer.json": words.tokenizer_json(),
    }


def _read(package: Unpacked, name: str) -> dict[str, Any]:
    value = loads(read_text(package.root / name, fix=FIX), where=name, fix=FIX)
    return value if isinstance(value, dict) else {"": value}


def _odd(name: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[str]:
    """Yield in what settings differ from those that follow; one that is not named may only be off."""
    if maps_code(found):
        yield f"{name}, auto_map: names code, which a package never holds"
    shown = partial(json.dumps, sort_keys=True, ensure_ascii=False)
    for key in sorted({*found, *expected}):
        value, due = found.get(key), expected.get(key)
        if due is _FREE:
            if key.endswith("_version") and not (isinstance(value, str) and _VERSION.fullmatch(value)):
                yield f"{name}, {key}: {shown(value)[:60]} is no version"
        elif key not in expected:
            if value not in (None, {}, []) and value is not False:
                yield f"{name}, {key}: {shown(value)[:60]}, and no run of assay sets it"
        elif shown(value) != shown(due):
            yield f"{name}, {key}: {shown(value)[:60]}, expected {shown(due)[:60]}"


def _targets(name: str, found: Any, params: Params) -> Iterator[str]:
    """Yield what is wrong with the modules an adapter names: plain names, and those the settings ask for."""
    asked = params.train.lora.target_modules
    if not (isinstance(found, list) and found and all(isinstance(each, str) for each in found)):
        yield f"{name}, target_modules: no list of names"
    elif found != sorted(set(found)):
        yield f"{name}, target_modules: not each once, in order"
    elif isinstance(asked, list):
        for each in found:
            if not any(each == one or each.endswith(f".{one}") or one.endswith(f".{each}") for one in asked):
                yield f"{name}, target_modules: {each[:60]} is not among train.lora.target_modules"
