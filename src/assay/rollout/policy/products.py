"""Which library multiplies float32 matrices on a processor: the default one, or oneDNN where it is faster and
as exact."""

from __future__ import annotations

from typing import Any

import torch

from assay.core.provenance import arithmetic

# Numbers in a hidden state from which oneDNN pays: below it builds a kernel for each new shape for nothing.
# A model of 128 trained in 1.5 times the processor seconds, 135 M parameters (576) in fewer.
NARROWEST = 512
# How much larger its relative error (root mean square) may be than that of the default library: 1.6 to 2.1
# measured. A processor that computes in bfloat16 instead has 10,000 times.
WORST_ERROR = 4.0


def chosen_products() -> str:
    """Return which library multiplies the float32 matrices of this process: "oneDNN" or "default"."""
    return "oneDNN" if torch.get_float32_matmul_precision() == "medium" else "default"


def choose_products(model: Any, device: torch.device) -> None:
    """Set which library this process multiplies float32 matrices with from now on.

    It hangs on the processor and the model alone, so that two runs on one machine are equal: oneDNN for wide
    float32 models on AMD processors with AVX-512, where the default library is slow, and only if a product is
    as exact as the default one's.
    """
    if device.type != "cpu":
        return
    kind, wide = arithmetic(), getattr(model.config, "hidden_size", 0) >= NARROWEST
    pays = wide and "AMD" in kind["processor"] and "avx512f" in kind["instructions"].split()
    exact = pays and next(model.parameters()).dtype == torch.float32 and _is_exact()
    torch.set_float32_matmul_precision("medium" if exact else "highest")


def _is_exact() -> bool:
    """Return whether products of oneDNN are float32 products; reads no generator that training draws from."""
    drawn, errors = torch.Generator().manual_seed(0), dict[str, float]()
    left, right = (torch.randn(shape, generator=drawn) for shape in ((64, 576), (576, 1536)))
    exact = left.double() @ right.double()
    for name in ("highest", "medium"):
        torch.set_float32_matmul_precision(name)
        errors[name] = float((left @ right - exact).square().mean())
    return errors["medium"] <= WORST_ERROR**2 * errors["highest"]
