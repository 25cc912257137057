"""Run a model without its weights: every operation finds out shapes and bytes, and none is computed.

Whole numbers and truth values stay real, because they decide what is done (which rows go together, what a
mask hides); floating-point tensors are torch's fake ones, which have a shape, a type and a place, and no
content. So the true model runs at its true size on any machine in seconds, and a meter counts the bytes that
would be alive.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from assay.tools.doctor.deadline import Deadline, TooSlow

BLOCK = 512  # bytes; torch's allocator for CUDA rounds up to as many
_COUNTING = (torch.ops.aten.arange.default, torch.ops.aten.arange.start, torch.ops.aten.arange.start_step)


class Meter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of all tensors that are alive and were made while it was at work, and their peak.

    It sees each operation's results, not what a kernel needs for itself in between. torch's own MemTracker
    counts in the same way and asks for hooks in every module, of which the learning pass has some twice.

    >>> with Meter() as meter:
    ...     kept = torch.zeros(256)
    ...     gone = (kept + 1.0).sum()
    >>> meter.now, meter.peak
    (1536, 2560)
    """

    def __init__(self, deadline: Deadline | None = None) -> None:
        """Begin with nothing; at a deadline the next operation raises TooSlow."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._deadline = deadline
        self.now = self.peak = 0
        self._alive: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Do as ever, and look at what comes out."""
        if self._deadline is not None and self._deadline.left == 0.0:
            raise TooSlow("there was no time left to weigh it")
        out = func(*args, **(kwargs or {}))
        for each in tree_leaves(out):
            if isinstance(each, torch.Tensor):
                self._look(each)
        return out

    def _look(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._alive:
            return
        size = -(-storage.nbytes() // BLOCK) * BLOCK
        self._alive[key] = size
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._gone, key)

    def _gone(self, key: int) -> None:
        self.now -= self._alive.pop(key, 0)

    def above(self) -> int:
        """Forget the peak so far; return what is alive, for a later difference."""
        self.peak = self.now
        return self.now


class _Numbers(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Lets whole numbers and truth values be computed for real."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        dtype = kwargs.get("dtype")
        if given:
            real = not any(isinstance(each, FakeTensor) or each.is_floating_point() for each in given)
            real = real and (dtype is None or not dtype.is_floating_point)
        else:
            real = func in _COUNTING if dtype is None else not dtype.is_floating_point
        if not real:
            return func(*args, **kwargs)
        with _disable_current_modes():
            return func(*args, **kwargs)


@contextmanager
def weightless(deadline: Deadline | None = None) -> Iterator[Meter]:
    """Make tensors of floating-point numbers fake within the block, and count what would be alive of them.

    Raises:
        TooSlow: The deadline came, in the midst of whatever there was to do.
    """
    meter = Meter(deadline)
    numbers = _Numbers()  # type: ignore[no-untyped-call]
    with FakeTensorMode(allow_non_fake_inputs=True), numbers, meter:
        yield meter
