"""How often the host looks at what a device has computed, for each look waits for it; and by which kernels.
Counted on CPU tensors, where a look is the same call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from assay.core.decoding import Decoding
from assay.rollout.policy.engine import engine, lean_prompts
from assay.rollout.policy.engine.engine import Session
from assay.rollout.policy.model import evaluating
from assay.training import flat
from tests.policy.architectures import PAD, VOCABULARY, build
from tests.training.test_flat import read, with_lora

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
NEVER = [VOCABULARY + 1]  # no row ends, so that all are as long
EVERY, NEW = 4, 24
OPENINGS = [[5, 6, 7], [5, 6, 7], [8] * 11, [9, 10, 11, 12, 13]]
LOOKS = {
    "__bool__",
    "__float__",
    "__index__",
    "__int__",
    "cpu",
    "item",
    "masked_select",
    "nonzero",
    "numpy",
    "tolist",
    "unique",
}


class Looks(TorchFunctionMode):
    """Count the calls that need a tensor's numbers on the host."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = Counter[str]()

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name == "__getitem__" and _has_mask(args[1]):
            name = "nonzero"
        if name in LOOKS:
            self.seen[name] += 1
        return func(*args, **(kwargs or {}))


def _has_mask(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, torch.Tensor) and part.dtype == torch.bool for part in parts)


class Kernels(TorchDispatchMode):
    """Count the operations that reach a device, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = Counter[str]()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.seen[str(func).split(".")[1]] += 1
        return func(*args, **(kwargs or {}))


@pytest.fixture
def looked_at_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at a CPU's tokens as seldom as at a GPU's."""
    monkeypatch.setitem(engine.LOOK_EVERY, "cpu", EVERY)


def completing(backend: Any, new: int) -> Callable[[], None]:
    model = build("qwen3")
    with evaluating(model):
        session = Session(
            model, OPENINGS, range(len(OPENINGS)), Decoding(1.0, new, backend), end_ids=NEVER, pad_id=PAD
        )

    def complete() -> None:
        with evaluating(model):
            assert [len(one.ids) for one in session.complete()] == [new] * len(OPENINGS)

    return complete


@pytest.mark.parametrize("backend", ["cached", "lean"])
@pytest.mark.parametrize("saved", [0, 10**6])
@pytest.mark.usefixtures("looked_at_seldom")
def test_while_rows_write_the_host_looks_once_every_few_tokens(
    backend: str, saved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lean_prompts, "LEAST_SAVED", saved)  # prompts that are shared, or none
    found = {}
    for new in (NEW, 2 * NEW):
        complete = completing(backend, new)
        with Looks() as looks:
            complete()
        found[new] = looks.seen
    more = found[2 * NEW] - found[NEW]
    assert found[NEW]["cpu"] > 0
    assert sum(n for name, n in more.items() if name != "numpy") == 2 * NEW // EVERY, (
        "the tokens, and their log-probabilities"
    )
    assert more["numpy"] <= more["cpu"]


@pytest.mark.parametrize("backend", ["cached", "lean"])
@pytest.mark.usefixtures("looked_at_seldom")
def test_while_rows_write_no_attention_is_taken_apart(backend: str) -> None:
    complete = completing(backend, NEW)
    with Kernels() as kernels:
        complete()
    assert not [name for name in kernels.seen if "attention_math" in name]
    # A layer and token; `lean` has it for what is shared, and two products for a row's own single query
    fused = sum(n for name, n in kernels.seen.items() if "scaled_dot_product_flash" in name)
    assert fused >= 2 * (NEW - 1)


def test_while_a_policy_learns_the_host_looks_as_often_whatever_the_number_of_layers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flat, "LEAST_SHARED", 1)
    found = []
    for n in (2, 6):
        base = build("qwen3")
        base.model.layers.extend([base.model.layers[k % 2] for k in range(2, n)])
        base.config.num_hidden_layers, base.config.layer_types = n, ["full_attention"] * n
        model = with_lora(base)
        with Looks() as reading:
            scores = read(model)
        with Looks() as backward:
            scores.sum().backward()
        assert not backward.seen
        found.append(reading.seen)
    assert found[0] == found[1] and 0 < sum(found[0].values()) <= 12
