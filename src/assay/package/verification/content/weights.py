"""V3, the model: base and adapter are those pinned and trained, finite, and moved as far as they could."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.core.config.settings import PretrainedBase, ScratchBase
from assay.core.config.training import ExternalTraining
from assay.core.counting import counted
from assay.core.errors import RecordError
from assay.core.storage.files import read_bytes, read_text
from assay.core.storage.json import loads, parse_strict
from assay.package.verification.checks import LookResult
from assay.package.verification.content.training import learning_rates
from assay.package.verification.unpacked import FIX, Unpacked
from assay.rollout.dataset.external import ExternalFacts, whole_of
from assay.rollout.policy.digests import adapted_digest, digest_folder, listing_digest
from assay.stages.packing.layout import ADAPTER, ADAPTER_FILES, BASE, CODE_CARRIERS

SUFFIX = ".safetensors"
MAX_HEADER = 100_000_000
_SIZES = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U64": 8,
    "U32": 4,
    "U16": 2,
    "U8": 1,
    "BOOL": 1,
}
# Bits that are all set in NaN and Inf and in no finite number.
_EXPONENTS = {
    "F64": ("<u8", 0x7FF << 52),
    "F32": ("<u4", 0xFF << 23),
    "F16": ("<u2", 0x1F << 10),
    "BF16": ("<u2", 0xFF << 7),
}


class Tensor(NamedTuple):
    """One array of a file: its type, shape and bytes."""

    kind: str
    shape: tuple[int, ...]
    content: memoryview


def read_safetensors(path: Path, name: str) -> dict[str, Tensor]:
    """Return the arrays of a file that is, to the last byte, a header and the arrays it lists one after the
    other.

    Raises:
        RecordError: It is anything else; says what.
    """
    content = read_bytes(path, fix=FIX)

    def refuse(expected: str, found: str) -> RecordError:
        return RecordError(expected, found=found, where=name, fix=FIX)

    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(MAX_HEADER, len(content) - 8):
        raise refuse("a header that fits into the file", f"{length} bytes of it in {len(content)}")
    try:
        header = parse_strict(content[8 : 8 + length].decode(), max_chars=MAX_HEADER, max_depth=4)
    except ValueError as error:
        raise refuse("a header of strict JSON", str(error)) from None
    if not isinstance(header, dict):
        raise refuse("a mapping of arrays", type(header).__name__)
    body, tensors, end = memoryview(content)[8 + length :], dict[str, Tensor](), 0
    if (told := header.pop("__metadata__", {})) not in ({}, {"format": "pt"}):
        raise refuse("the one note that says the format", repr(told)[:80])
    try:
        listed = sorted(header.items(), key=lambda item: item[1]["data_offsets"])
        for key, entry in listed:
            (start, stop), shape, kind = entry["data_offsets"], tuple(entry["shape"]), entry["dtype"]
            known = set(entry) == {"data_offsets", "shape", "dtype"} and kind in _SIZES
            if not known or any(type(n) is not int or n < 0 for n in shape):
                raise refuse("a known type and a shape", f"{kind}, {shape} of {key}")
            if start != end or stop - start != math.prod(shape) * _SIZES[kind] or stop > len(body):
                raise refuse(
                    "arrays one after the other, as long as their shapes say", f"{key} at {start} to {stop}"
                )
            tensors[key], end = Tensor(kind, shape, body[start:stop]), stop
    except (AttributeError, KeyError, TypeError, ValueError):
        raise refuse("type, shape and place of each array", "something else") from None
    if end != len(body):
        raise refuse("nothing behind the arrays", f"{len(body) - end} bytes")
    return tensors


def weights_sane(package: Unpacked) -> LookResult:
    """Check that all weights are finite, that base and adapter fit settings and each other, and that none is
    a pickle."""
    wrong, n, arrays = list(_code_carriers(package)), 0, dict[str, dict[str, Tensor]]()
    for name in sorted(each for each in package.names if each.endswith(SUFFIX)):
        tensors = read_safetensors(package.root / name, name)
        folder = name.rsplit("/", 1)[0]
        arrays.setdefault(folder, {}).update(tensors)
        for key, tensor in tensors.items():
            n += math.prod(tensor.shape)
            if not _is_finite(tensor):
                wrong.append(f"{name}, {key}: NaN or Inf")
    whole = whole_of(package.told)
    wrong += [] if whole else _misfits(package, arrays)
    wrong += _other_shapes(package, arrays)
    parameters = package.base.get("parameters")
    if isinstance(package.project.params.base, ScratchBase):
        found = sum(math.prod(tensor.shape) for tensor in arrays.get(BASE, {}).values())
        if parameters != found:
            wrong.append(f"base.json, parameters: {parameters}; {BASE} holds {found}")
    fits = "the whole model that was brought is not in here" if whole else "the adapter fits its base"
    said = f"{n:,} numbers, all finite; {fits}; no pickle"
    return LookResult(said, wrong)


def digests_hold(package: Unpacked) -> LookResult:
    """Compare the digests of base and adapter with those that were pinned and trained."""
    pinned, trained, wrong = package.base.get("digest"), package.told, []
    scratch = not isinstance(package.project.params.base, PretrainedBase)
    if pinned != trained.base_digest:
        wrong.append("base.json and train.json name different bases")
    if scratch and (found := digest_folder(package.root / BASE)) != pinned:
        wrong.append(f"{BASE}: digest {found[:16]}, and {str(pinned)[:16]} in base.json")
    if (whole := whole_of(trained)) is not None:
        brought = package.project.params.external
        found = brought.sha256 if brought else ""  # the digest of the model, which is not in here
    else:
        found = adapted_digest(trained.base_digest, package.root / ADAPTER)
    if found != trained.policy_digest:
        wrong.append(
            f"{ADAPTER} on its base: digest {found[:16]}, and {trained.policy_digest[:16]} in train.json"
        )
    said = f"the adapter on its base has the digest that the training published, {found[:16]}"
    if whole:
        said = f"the policy is the whole model of train.sha256, {found[:16]}, which is not in the package"
    return LookResult(
        said if scratch else f"{said}; the pretrained base {package.base.get('model')} is not in the package",
        wrong,
    )


def _code_carriers(package: Unpacked) -> Iterator[str]:
    for name in sorted(package.names):
        with (package.root / name).open("rb") as stream:
            start = stream.read(4)
        pickled = start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
        zipped = start == b"PK\x03\x04" and name.startswith("models/")
        if name.lower().endswith(CODE_CARRIERS) or pickled or zipped:
            yield f"{name}: a format that can run code when it is loaded"


def _is_finite(tensor: Tensor) -> bool:
    if tensor.kind not in _EXPONENTS:
        return True
    kind, bits = _EXPONENTS[tensor.kind]
    array = np.frombuffer(tensor.content, kind)
    return not bool(np.any((array & array.dtype.type(bits)) == bits))


def base_shapes(base: ScratchBase, n_words: int) -> dict[str, tuple[int, ...]]:
    """Return name and shape of every array of a base that was built here; its first one serves as its last as
    well."""
    shape = base.architecture
    wide, inner, head = shape.hidden_size, shape.intermediate_size, shape.hidden_size // shape.heads
    found: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (n_words, wide),
        "model.norm.weight": (wide,),
    }
    for layer in range(shape.layers):
        at = f"model.layers.{layer}"
        found |= {f"{at}.{name}_layernorm.weight": (wide,) for name in ("input", "post_attention")}
        found |= {f"{at}.self_attn.{name}_norm.weight": (head,) for name in "qk"}
        found |= {f"{at}.self_attn.{name}_proj.weight": (wide, wide) for name in "qkvo"}
        found |= {f"{at}.mlp.{name}_proj.weight": (inner, wide) for name in ("gate", "up")}
        found[f"{at}.mlp.down_proj.weight"] = (wide, inner)
    return found


def _other_shapes(package: Unpacked, arrays: Mapping[str, Mapping[str, Tensor]]) -> Iterator[str]:
    """Yield in what a base that was built here, and the modules its adapter stands on, are not those of the
    settings."""
    params = package.project.params
    if not isinstance(params.base, ScratchBase):
        return
    expected = base_shapes(params.base, len(package.words.vocabulary))
    found = {name: tensor.shape for name, tensor in arrays.get(BASE, {}).items()}
    for name in sorted({*found, *expected}):
        if found.get(name) != expected.get(name):
            yield f"{BASE}, {name}: {found.get(name)}, and the settings make {expected.get(name)}"
    yield from (
        f"{BASE}, {name}: {tensor.kind}"
        for name, tensor in arrays.get(BASE, {}).items()
        if tensor.kind != "F32"
    )
    if package.elsewhere:
        return
    asked = params.train.lora.target_modules
    linear = {name.removesuffix(".weight") for name in expected if name.endswith("_proj.weight")}
    due = (
        linear
        if asked == "all-linear"
        else {name for name in linear if name.endswith(tuple(f".{each}" for each in asked))}
    )
    stand = {_module(name) for name in arrays.get(ADAPTER, {})}
    for module in sorted(stand ^ due):
        yield (
            f"{ADAPTER}, {module}:"
            f" {'adapted, and no setting asks for it' if module in stand else 'not adapted'}"
        )


def _module(name: str) -> str:
    return name.removeprefix("base_model.model.").rsplit(".lora_", 1)[0]


def _misfits(package: Unpacked, arrays: Mapping[str, Mapping[str, Tensor]]) -> Iterator[str]:
    """Yield in what the adapter does not fit what its configuration says, or the base."""
    where = f"{ADAPTER}/adapter_config.json"
    config: Any = loads(read_text(package.root / where, fix=FIX), where=where, fix=FIX)
    due: dict[str, object] = {"peft_type": "LORA"}
    if not package.elsewhere:
        lora = package.project.params.train.lora
        due |= {"base_model_name_or_path": BASE, "r": lora.r, "lora_alpha": lora.alpha}
    for key, expected in due.items():
        if config.get(key) != expected:
            yield f"{where}, {key}: {json.dumps(config.get(key))[:80]}, expected {json.dumps(expected)}"
    base = {key.removesuffix(".weight"): tensor.shape for key, tensor in arrays.get(BASE, {}).items()}
    adapter = arrays.get(ADAPTER, {})
    if not adapter:
        yield f"{ADAPTER}: no weights"
    modules = {_module(key) for key in adapter}
    for module in sorted(modules):
        a, b = (adapter.get(f"base_model.model.{module}.lora_{side}.weight") for side in "AB")
        if a is None or b is None:
            yield f"{ADAPTER}, {module}: not an A and a B"
        elif base and (
            module not in base or (b.shape[:1] + a.shape[1:]) != base[module] or a.shape[:1] != b.shape[1:]
        ):
            yield f"{ADAPTER}, {module}: {b.shape} times {a.shape} does not fit the base"


WEIGHTS = f"{ADAPTER}/adapter_model.safetensors"
# AdamW with betas 0.9 and 0.999 and no weight decay moves a number by at most 0.1 / sqrt(0.001) learning
# rates in a step. Source: Kingma and Ba (2015), Adam, arXiv 1412.6980, section 2.1.
STEP, SLACK = 0.1 / 0.001**0.5, 1.05
NOTHING = 1e-12  # of a product against its factors, in squares: beyond what 32 bits can tell from 0


def weights_digest(tensors: Mapping[str, Tensor]) -> str:
    """Return the digest of an adapter's weights as each row of the log has it, where peft calls the adapter
    "default"."""
    digest = hashlib.sha256()
    named = {f"{name.removesuffix('.weight')}.default.weight": tensor for name, tensor in tensors.items()}
    for name, tensor in sorted(named.items()):
        digest.update(f"{name}\0torch.float32\0{tensor.shape}\n".encode())
        digest.update(tensor.content)
    return digest.hexdigest()


def adapter_learned(package: Unpacked) -> LookResult:
    """Check that the adapter is that of the chosen step of the chain, adds something, and no more than it can
    have learned."""
    brought, whole = package.project.params.external, whole_of(package.told)
    tensors = {} if whole else read_safetensors(package.root / WEIGHTS, WEIGHTS)
    if isinstance(brought, ExternalTraining):
        return _as_brought(package, brought, tensors)
    step, rows = package.trained.chosen_step, package.log
    wrong = [
        f"{WEIGHTS}, {name}: {tensor.kind}, expected F32"
        for name, tensor in tensors.items()
        if tensor.kind != "F32"
    ]
    if wrong:
        return LookResult("", wrong)
    found = weights_digest(tensors)
    named = rows[step - 1]["digests"]["weights"] if 0 < step <= len(rows) else None
    if step and found != named:
        wrong.append(
            f"{WEIGHTS}: digest {found[:16]}; the chosen step {step} of train_log.jsonl made"
            f" {str(named)[:16]}"
        )
    wrong += [f"{WEIGHTS}, {fault}" for fault in _moved(package, tensors, step)]
    said = (
        f"{counted(len(tensors), 'tensors')} with the digest that step {step} of the chain names, within"
        " reach of its rates"
    )
    if not step:
        said = f"{counted(len(tensors), 'tensors')} of an adapter that adds nothing, since step 0 was chosen"
    return LookResult(said, wrong)


def _as_brought(package: Unpacked, brought: ExternalTraining, tensors: Mapping[str, Tensor]) -> LookResult:
    """Check that an adapter that was trained elsewhere is the one that the settings name; what it can have
    learned nobody knows."""
    wrong, told = list[str](), package.told
    whole = whole_of(told)
    names = () if whole else ADAPTER_FILES
    contents = {name: read_bytes(package.root / ADAPTER / name, fix=FIX) for name in names}
    if not whole and (found := listing_digest(contents)) != brought.sha256:
        wrong.append(f"{ADAPTER}: sha256 {found[:16]}; train.sha256 of params.yaml is {brought.sha256[:16]}")
    if not isinstance(told, ExternalFacts) or (told.sha256, told.how) != (brought.sha256, brought.how):
        wrong.append("train.json: not of what params.yaml names")
    said = f"{counted(len(tensors), 'tensors')} of an adapter with the sha256 that params.yaml names"
    if whole:
        said = (
            "a whole model by the sha256 that params.yaml names, not in the package; --policy DIR looks at it"
        )
    return LookResult(f"{said}; trained elsewhere, so what it can have learned is not known", wrong)


def _moved(package: Unpacked, tensors: Mapping[str, Tensor], step: int) -> Iterator[str]:
    """Yield what of an adapter did not move, or moved further than the steps up to the chosen one can have
    moved it."""
    rates = learning_rates(package.project.params.train)[:step]
    far = STEP * SLACK * sum(rates)
    learned = any(rate > 0 and _pulled(row) for rate, row in zip(rates, package.log, strict=False))
    dense = isinstance(package.project.params.base, ScratchBase)  # else an expert may never have been asked
    a_side = {
        name.removesuffix(".lora_A.weight"): name for name in tensors if name.endswith(".lora_A.weight")
    }
    silent, n = [], 0
    for module, name in sorted(a_side.items()):
        a, b = (_array(tensors[each]) for each in (name, f"{module}.lora_B.weight"))
        n += 1
        if not a.any():
            yield f"{module}: A is 0 throughout, and no adapter of assay begins so"
        for side, array, start in (("A", a, a.shape[1] ** -0.5), ("B", b, 0.0)):
            largest = float(np.abs(array).max(initial=0.0))
            if largest > start + far + 1e-6 * start:
                yield (
                    f"{module}: {side} reaches {largest:.3g}; {step} steps at these rates reach"
                    f" {start + far:.3g} at most"
                )
        if not _adds(a, b):
            silent.append(module)
    if step == 0 and len(silent) < n:
        yield f"{n - len(silent)} of {n} modules add something, and at step 0, which was chosen, none can"
    elif learned and (len(silent) == n or (dense and silent)):
        yield (
            f"{silent[0]}: adds nothing to its base, as {len(silent)} of {n} modules, though gradients pulled"
            " at it"
        )


def _pulled(row: Mapping[str, Any]) -> bool:
    norm = row.get("grad_norm")
    return row.get("skipped") is None and isinstance(norm, float) and norm > 0


def _array(tensor: Tensor) -> NDArray[np.float64]:
    return np.frombuffer(tensor.content, "<f4").reshape(tensor.shape).astype(np.float64)


def _adds(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    """Return whether B times A is not 0; its squares sum to the trace of (B'B)(AA'), which needs no large
    product.

    >>> _adds(np.ones((1, 3)), np.zeros((2, 1))), _adds(np.ones((1, 3)), np.ones((2, 1)))
    (False, True)
    >>> _adds(np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([[1.0, -1.0]]))
    False
    """
    product = float(((b.T @ b) * (a @ a.T)).sum())
    return product > NOTHING * float((b * b).sum()) * float((a * a).sum())
