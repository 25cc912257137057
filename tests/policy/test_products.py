"""Which library multiplies float32 matrices, and that it is as exact as the default one."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch

from assay.rollout.policy import products
from assay.rollout.policy.products import choose_products, chosen_products

AMD = {"processor": "AMD EPYC", "instructions": "avx2 avx512f"}
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def model(width: int, dtype: torch.dtype = torch.float32) -> SimpleNamespace:
    weight = torch.nn.Parameter(torch.zeros(2, 2, dtype=dtype))
    return SimpleNamespace(config=SimpleNamespace(hidden_size=width), parameters=lambda: iter([weight]))


@pytest.mark.parametrize(
    ("processor", "width", "dtype", "exact", "expected"),
    [
        (AMD, 576, torch.float32, True, "oneDNN"),
        (AMD, 128, torch.float32, True, "default"),
        (AMD, 576, torch.bfloat16, True, "default"),
        (AMD, 576, torch.float32, False, "default"),
        (AMD | {"instructions": "avx2"}, 576, torch.float32, True, "default"),
        (AMD | {"processor": "Intel Xeon"}, 576, torch.float32, True, "default"),
    ],
)
def test_onednn_multiplies_where_it_pays_and_is_exact_and_nowhere_else(
    processor: dict[str, str],
    width: int,
    dtype: torch.dtype,
    exact: bool,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(products, "arithmetic", lambda: processor)
    monkeypatch.setattr(products, "_is_exact", lambda: exact)
    torch.set_float32_matmul_precision("medium")  # of a model that was loaded before
    choose_products(model(width, dtype), CPU)
    assert chosen_products() == expected


def test_a_product_as_rough_as_bfloat16_is_found_and_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = torch.random.get_rng_state()
    rough = {"medium": torch.bfloat16, "highest": torch.float32}
    product = torch.Tensor.__matmul__

    def rounded(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        dtype = left.dtype if left.dtype == torch.float64 else rough[torch.get_float32_matmul_precision()]
        return product(left.to(dtype), right.to(dtype)).to(left.dtype)

    monkeypatch.setattr(torch.Tensor, "__matmul__", rounded)
    assert not products._is_exact()
    rough["medium"] = torch.float32
    assert products._is_exact()
    assert torch.equal(torch.random.get_rng_state(), drawn)


def test_a_product_of_this_machine_is_as_exact_as_the_default_one_wherever_another_is_chosen() -> None:
    choose_products(model(576), CPU)
    drawn = torch.Generator().manual_seed(1)
    left, right = (torch.randn(shape, generator=drawn) for shape in ((33, 1536), (1536, 576)))
    error = (left @ right - left.double() @ right.double()).square().mean().sqrt()
    assert float(error) / 1536**0.5 < 2e-6
