"""A GGUF file as a folder that transformers reads, with what its loader loses or rounds put right.

Called in a process of its own (`convert`), whose path alone has the reader of GGUF files.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from assay.core.errors import PolicyError
from assay.rollout.policy.base.gguf_cache import CONVERTED, WHERE, Converted
from assay.rollout.policy.base.model_files import refuse_unreadable
from assay.rollout.policy.memory import available_memory

if TYPE_CHECKING:
    from assay.rollout.policy.model import Policy

# Of these values of tokenizer.ggml.pre digits stand alone, and the rest is split as by GPT-2; transformers
# forgets the digits. Source: llama.cpp, src/llama-vocab.cpp.
DIGITS_APART = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")
AS_GPT2 = ("gpt-2", "mpt", "olmo", "jais", "phi-2")  # what transformers takes where it knows no other
ANOTHER = "choose another file, or the model's own folder: base.model"
COMPARED = ("llama",)  # whose conversion was held to the weights of the file itself
# Without which transformers would make up a shape; a model made up may be a thousand times the file.
SHAPE = ("block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count")
FAR_MORE = 2  # times the numbers of the file; what is short by less is told by its names
PROBES = (
    "a  12",
    "\n\n12",
    "   7",
    "1234.5",
    "don't",
    "caf\u00e9 \u65e5\u672c",
    "<|im_end|>",
    " \t x\r\n",
    "\u00bd\u0663\u2167",
)
GIB = 2.0**30
BESIDE = 0.7 * GIB  # of a process that converts: the interpreter, torch and transformers


def look(gguf: Path) -> tuple[dict[str, Any], str | None]:
    """Return what a GGUF file says of itself, arrays as their length, and in what its weights cannot be
    vouched for by their name alone; None: in nothing.

    Raises:
        PolicyError: It cannot be read, is no language model of one file, or its tokenizer is one that
            transformers builds otherwise than it was; no weight is read for that.
    """
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS
    from transformers.integrations.gguf.reader import read_gguf_metadata
    from transformers.integrations.gguf.utils import is_gguf_arch_supported
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

    with _whole(gguf):
        known, _ = read_gguf_metadata(str(gguf))
    architecture = str(known["general.architecture"])
    model, pre = known.get("tokenizer.ggml.model"), known.get("tokenizer.ggml.pre")
    odd = [
        f"{key} = {known[key]!r}" if key in known else f"no {key}"
        for key in (f"{architecture}.{name}" for name in SHAPE if name in (_mapped(architecture) or ()))
        if not _is_count(known.get(key))
    ]
    for wrong, expected, found, fix in (
        (
            known.get("split.count", 1) not in (0, 1),
            "a model in one file",
            f"one of {known.get('split.count')}",
            "join them by llama-gguf-split --merge, and name the result",
        ),
        (
            known.get("general.type", "model") != "model",
            "a model",
            f"general.type {known.get('general.type')!r}",
            ANOTHER,
        ),
        (
            architecture not in GGUF_SUPPORTED_ARCHITECTURES and not is_gguf_arch_supported(architecture),
            "an architecture that transformers reads from GGUF",
            architecture,
            ANOTHER,
        ),
        (
            model == "gpt2" and pre not in (*DIGITS_APART, *AS_GPT2, *GGUF_PRE_TOKENIZER_SPLITS),
            "tokenizer.ggml.pre that is known here: with another one texts would become other tokens",
            repr(pre),
            ANOTHER,
        ),
        (
            not known.get("tokenizer.chat_template"),
            "a chat template in the file",
            "none",
            "use a file of an instruct model",
        ),
        (bool(odd), "the shape of the model as whole numbers from 1 on", "; ".join(odd), ANOTHER),
    ):
        if wrong:
            raise PolicyError(expected, found=found, where=gguf.name, fix=fix)
    unsure = [f"architecture {architecture}"] if architecture not in COMPARED else []
    unsure += [f"tokenizer {model}"] if model != "gpt2" else []
    return known, " and ".join(unsure) or None


def _mapped(architecture: str) -> Mapping[str, Any] | None:
    """Return which settings of an architecture transformers reads, None where it keeps no such list."""
    from transformers.integrations.ggml import GGUF_CONFIG_MAPPING

    found: Any = GGUF_CONFIG_MAPPING.get(architecture)
    return cast("Mapping[str, Any] | None", found)


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


@contextmanager
def _whole(gguf: Path) -> Iterator[None]:
    """Refuse a file that whoever reads it in the block trips over.

    Raises:
        PolicyError: Says how long the file is, and what was tripped over.
    """
    try:
        with refuse_unreadable("", where="", fix=""):
            yield
    except PolicyError as error:
        reason = error.found.replace(f"{gguf} ", "").rstrip(".")
        raise PolicyError(
            "a whole GGUF file",
            found=f"{gguf.stat().st_size:,} bytes that are cut short, damaged or something else ({reason})",
            where=gguf.name,
            fix="take the file again",
        ) from error


def convert(gguf: Path, folder: Path, reader: Path) -> Converted:
    """Write a GGUF file as a model folder, in float32, and return what it is.

    To be called in a fresh process: it changes where Python looks for packages.

    Args:
        gguf: The file.
        folder: Where to write; is there, and empty.
        reader: The wheel that reads tensors of a GGUF file.

    Raises:
        PolicyError: The file is damaged, or does not become the model that it describes.
    """
    sys.path.insert(0, str(reader))
    os.environ |= {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    speech = cast(Any, logging)
    speech.set_verbosity_error()
    speech.disable_progress_bar()
    known, unsure = look(gguf)
    tensors = _tensors(gguf)
    numbers = sum(elements for _, _, elements in tensors)
    layers = known.get(f"{known['general.architecture']}.block_count")
    if _is_count(layers) and layers > len(tensors):
        expected = f"a tensor at least for each of {layers:,} layers"
        raise PolicyError(expected, found=str(len(tensors)), where=gguf.name, fix=ANOTHER)
    refuse_too_little(numbers, folder)
    named: dict[str, Any] = {"gguf_file": gguf.name, "local_files_only": True, "trust_remote_code": False}
    with refuse_unreadable("a GGUF file that transformers reads", where=gguf.name, fix=ANOTHER):
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **named)
        if known.get("tokenizer.ggml.pre") in DIGITS_APART and known["tokenizer.ggml.model"] == "gpt2":
            _set_digits_apart(tokenizer)
        _refuse_far_more(gguf, AutoConfig.from_pretrained(gguf.parent, **named), numbers)
        # What does not fit is told by `_refuse_losses`, by name
        loaded, told = cast(Any, AutoModelForCausalLM).from_pretrained(
            gguf.parent, dtype=torch.float32, output_loading_info=True, ignore_mismatched_sizes=True, **named
        )
    _refuse_losses(gguf, known, loaded, told, numbers)
    tokenizer.model_max_length = loaded.config.max_position_embeddings
    _save(loaded, folder)
    tokenizer.save_pretrained(folder)
    _rewrite_config(folder / "config.json")
    del loaded
    made = _played(folder, gguf)
    for text in PROBES:
        if made.tokenizer(text)["input_ids"] != tokenizer(text)["input_ids"]:
            raise PolicyError(
                "a tokenizer that is the same once it is saved",
                found=ascii(text),
                where=gguf.name,
                fix=ANOTHER,
            )
    notes = (
        ()
        if unsure is None
        else (
            f"{gguf.name}: {unsure} was not compared with its makers' own files; transformers' word is taken",
        )
    )
    found = Converted(
        digest=made.digest,
        name=_text(known.get("general.name")),
        licence=_text(known.get("general.license")),
        weights=precision_of(tensors),
        parameters=sum(each.numel() for each in made.model.parameters()),
        notes=notes,
    )
    (folder / CONVERTED).write_text(json.dumps(found.model_dump(mode="json")), encoding="utf-8")
    return found


def _played(folder: Path, gguf: Path) -> Policy:
    """Return what was made, loaded as a stage loads it.

    Raises:
        PolicyError: It is not to be played: numbers that are none, a template that cannot be served, tokens
            without a row.
    """
    from assay.rollout.policy.base.whole_model import refuse_odd_numbers, weight_files
    from assay.rollout.policy.model import load

    try:
        for file in weight_files(folder):
            refuse_odd_numbers(file)
        return load(folder, adapter=None, device="cpu", dtype="float32", quantization=None)
    except PolicyError as error:
        raise PolicyError(error.expected, found=error.found, where=gguf.name, fix=ANOTHER) from None


def _refuse_far_more(gguf: Path, config: Any, numbers: int) -> None:
    """Refuse settings of a model for which the file is much too small, before memory is taken for it.

    Raises:
        PolicyError: Says how many numbers there are and how many there should be.
    """
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        outline = cast(Any, AutoModelForCausalLM).from_config(config, trust_remote_code=False)
    if (asked := sum(each.numel() for each in outline.parameters())) > FAR_MORE * numbers:
        expected = f"{asked:,} numbers, as the settings in the file ask for"
        raise PolicyError(expected, found=f"{numbers:,}", where=gguf.name, fix=ANOTHER)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _tensors(gguf: Path) -> list[tuple[str, str, int]]:
    """Return name, type and size of each tensor of a file; one that is cut short is refused."""
    from gguf import GGUFReader  # type: ignore[import-not-found,unused-ignore]

    with _whole(gguf):
        tensors = GGUFReader(gguf).tensors
        return [(each.name, each.tensor_type.name, int(each.n_elements)) for each in tensors]


def precision_of(tensors: list[tuple[str, str, int]]) -> str:
    """Return in words in what most weights of a file are kept.

    >>> precision_of([("a", "Q4_1", 64), ("b", "F32", 8)]), precision_of([("a", "F16", 8)])
    ('4-bit (Q4_1), dequantised', '16-bit (F16)')
    """
    sizes = Counter[str]()
    for _, kind, elements in tensors:
        sizes[kind] += elements
    kind = max(sorted(sizes), key=lambda each: sizes[each])
    bits = re.search(r"\d+", kind)
    said = f"{bits.group()}-bit ({kind})" if bits else kind
    return said if kind in ("F64", "F32", "F16", "BF16") else f"{said}, dequantised"


def refuse_too_little(numbers: int, folder: Path, free: int | None = None, memory: int | None = None) -> None:
    """Refuse a conversion for which there is no room, before it is begun.

    Args:
        numbers: Weights of the model.
        folder: On the disk that is written to.
        free: Bytes there; None: as the system says.
        memory: Bytes of memory to be had; None: as the system says.

    Raises:
        PolicyError: It would not fit; says what is needed and what there is.
    """
    free = shutil.disk_usage(folder).free if free is None else free
    memory = available_memory() if memory is None else memory
    disk, held = 4.0 * numbers, 8.0 * numbers + BESIDE
    for needed, there, what, fix in (
        (
            disk,
            free,
            f"on the disk of {folder.parent.parent}",
            "make room, or set XDG_CACHE_HOME to another disk",
        ),
        (held, memory, "of memory", "end other programs, or convert it on a machine with more"),
    ):
        if there is not None and there < needed:
            raise PolicyError(
                f"{needed / GIB:.2g} GiB {what}, for {numbers:,} weights in float32",
                found=f"{there / GIB:.2g} GiB",
                where=WHERE,
                fix=fix,
            )


def _set_digits_apart(tokenizer: Any) -> None:
    from tokenizers import pre_tokenizers

    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )


def _refuse_losses(
    gguf: Path, known: Mapping[str, Any], model: Any, told: Mapping[str, Any], numbers: int
) -> None:
    """Refuse a model that is not all that the file says: transformers passes over what it has no name for,
    and fills what it misses with random numbers.

    Raises:
        PolicyError: Says what is lost.
    """
    lost = [f"no {name} in the file" for name in sorted(told["missing_keys"])]
    lost += [
        f"{name} of shape {list(there)}, where the settings ask for {list(asked)}"
        for name, there, asked in sorted(told["mismatched_keys"])
    ]
    held = sum(each.numel() for each in model.parameters())
    if held != numbers:
        lost.append(f"{numbers:,} numbers in the file, {held:,} in the model")
    lost += [f"{key} = {value}" for key, value in _unread(known, model.config)]
    if lost:
        expected = "a file of which every weight and setting becomes part of the model"
        raise PolicyError(expected, found="; ".join(lost[:4]), where=gguf.name, fix=ANOTHER)


def _unread(known: Mapping[str, Any], config: Any) -> Iterator[tuple[str, Any]]:
    """Yield the settings of an architecture that transformers does not read, unless they say what holds
    anyway."""
    architecture = str(known["general.architecture"])
    if (read := _mapped(architecture)) is None:
        return
    head = getattr(config, "head_dim", None)
    anyway = {
        "attention.key_length": head,
        "attention.value_length": head,
        "rope.dimension_count": head,
        "rope.scaling.type": "none",
        "expert_count": 0,
        "expert_used_count": 0,
        "attention.causal": True,
        "vocab_size": config.vocab_size,
    }
    for key, value in sorted(known.items()):
        name = key.removeprefix(f"{architecture}.")
        if name == key or (name in read and read[name] is not None):
            continue
        if name not in anyway or anyway[name] != value:
            yield key, value


def _save(loaded: Any, folder: Path) -> None:
    """Save a model that was loaded from GGUF, which refuses to save itself, as the plain model it is."""
    import torch

    config = type(loaded.config).from_dict(
        {key: value for key, value in loaded.config.to_dict().items() if key != "quantization_config"}
    )
    with torch.device("meta"):
        plain = type(loaded)(config)
    plain.load_state_dict(loaded.state_dict(), assign=True)
    plain.tie_weights()
    plain.generation_config = loaded.generation_config
    plain.save_pretrained(folder)


def _rewrite_config(path: Path) -> None:
    """Write the numbers of a configuration as they were meant: a file keeps them in 32 bits."""
    told = json.loads(path.read_text(encoding="utf-8"))
    told.pop("_name_or_path", None)
    path.write_text(json.dumps(_as_meant(told), indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _as_meant(value: Any) -> Any:
    """Return a value with every float of 32 bits as the shortest decimal that is this float.

    >>> _as_meant({"eps": 9.999999747378752e-06, "range": 0.02, "theta": [1e5]})
    {'eps': 1e-05, 'range': 0.02, 'theta': [100000.0]}
    """
    import numpy as np

    if isinstance(value, dict):
        return {key: _as_meant(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_as_meant(each) for each in value]
    if isinstance(value, float) and math.isfinite(value) and float(np.float32(value)) == value:
        return float(str(np.float32(value)))
    return value
