"""What makes a computation repeat bit by bit on one machine: switches that are set, and then looked at."""

from __future__ import annotations

import os

import torch

from assay.core.config.places import setting
from assay.core.errors import ConfigError

# cuBLAS repeats itself only with a fixed workspace, and reads this when CUDA is first used.
# Source: NVIDIA cuBLAS library documentation, "Results reproducibility".
CUBLAS_VARIABLE, CUBLAS_WORKSPACES = "CUBLAS_WORKSPACE_CONFIG", (":4096:8", ":16:8")


def pin(threads: int, *, deterministic: bool, device: str) -> None:
    """Fix the number of CPU threads and, where asked, every deterministic switch of this process; then verify
    them.

    Raises:
        ConfigError: A switch does not hold; names it.
    """
    torch.set_num_threads(threads)
    if deterministic and os.environ.get(CUBLAS_VARIABLE) not in CUBLAS_WORKSPACES:
        os.environ[CUBLAS_VARIABLE] = CUBLAS_WORKSPACES[0]
    torch.use_deterministic_algorithms(deterministic)
    # Torch would then fill all new memory with NaN, to show who reads it before writing: an aid in finding
    # faults, no part of repeating oneself, and 29 % of a tiny model's step.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.deterministic = deterministic
    torch.backends.cudnn.benchmark = False
    if deterministic:
        # TF32 would repeat itself too, but rounds differently from one GPU generation to the next.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    _verify(threads, deterministic, device)


def gpu_name(device: str) -> str | None:
    """Return what the GPU is called that this process computes on; None on a CPU, and where there is none."""
    return torch.cuda.get_device_name() if device == "cuda" and torch.cuda.is_available() else None


def _verify(threads: int, deterministic: bool, device: str) -> None:
    held = {"threads": torch.get_num_threads() == threads}
    if deterministic:
        held |= {
            "torch.use_deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
            "torch.backends.cudnn.deterministic": torch.backends.cudnn.deterministic,
            "torch.backends.cudnn.benchmark off": not torch.backends.cudnn.benchmark,
            CUBLAS_VARIABLE: os.environ.get(CUBLAS_VARIABLE) in CUBLAS_WORKSPACES,
        }
        held["a matrix product that repeats itself"] = _repeats(device)
    for name, holds in held.items():
        if not holds:
            raise ConfigError(
                f"{name} to hold (deterministic: {str(deterministic).lower()}, threads: {threads})",
                found="that it does not on this machine",
                where=setting("deterministic"),
                fix=(
                    "unset what sets it otherwise, or set deterministic: false in your preset: runs then"
                    " differ in last bits"
                ),
            )


def _repeats(device: str) -> bool:
    """Return whether a product with its gradient gives the same bits twice; reads no generator that training
    draws from."""
    left = torch.arange(96.0 * 96, device=device).reshape(96, 96).sin().requires_grad_()
    runs: list[list[torch.Tensor]] = []
    for _ in range(2):
        product = left @ left.T
        (gradient,) = torch.autograd.grad(product.square().sum(), left)
        runs.append([product.detach(), gradient])
    return all(torch.equal(one, other) for one, other in zip(*runs, strict=True))
