"""V3, the adapter: the weights that the chain of the training names, moved as far as its learning rates could
move them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.core.config.settings import ScratchBase
from assay.core.counting import counted
from assay.package.layout import ADAPTER
from assay.verify.checks import Seen
from assay.verify.content.training import learning_rates
from assay.verify.content.weights import Tensor, read_safetensors
from assay.verify.unpacked import Unpacked

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


def adapter_learned(package: Unpacked) -> Seen:
    """Check that the adapter is that of the chosen step of the chain, adds something, and no more than it can
    have learned."""
    tensors, step, rows = (
        read_safetensors(package.root / WEIGHTS, WEIGHTS),
        package.trained.chosen_step,
        package.log,
    )
    wrong = [
        f"{WEIGHTS}, {name}: {tensor.kind}, expected F32"
        for name, tensor in tensors.items()
        if tensor.kind != "F32"
    ]
    if wrong:
        return Seen("", wrong)
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
    return Seen(said, wrong)


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
