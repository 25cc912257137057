"""How many bytes a training takes at its peak, and how many rows fit: rehearsed at its true size, without
weights."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from assay.checks.doctor.forecast.rehearsal import Lengths, Rehearsal, build
from assay.checks.findings import Deadline, TooSlow
from assay.core.config.settings import Params
from assay.rollout.policy.engine.kv_cache import STEP

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


@dataclass(frozen=True, slots=True)
class MemoryForecast:
    """Bytes that a training takes on its device, by what takes them; all but the last four stay over the
    whole training.

    Attributes:
        base: Weights of the base, quantised where the settings say so.
        adapter: LoRA's weights, the copy of them that a training begins from, and two moments, all float32.
        probe: The base's hidden states on the texts that the KL is measured on.
        gradient: Of the adapter, float32; there while it learns.
        cache: Keys and values of the conversations held at once, at their longest; a part of `play`.
        play: At most, while episodes are played.
        learn: At most, in a pass that learns from a micro-batch, without the gradient.
        look: At most, while the KL is measured.
    """

    base: int
    adapter: int
    probe: int
    gradient: int
    cache: int
    play: int
    learn: int
    look: int

    @property
    def stays(self) -> int:
        """Bytes that are there all the time."""
        return self.base + self.adapter + self.probe

    @property
    def peak(self) -> int:
        """Bytes at the worst moment."""
        return self.stays + max(self.play, self.gradient + self.learn, self.look)


def rows_at_once(params: Params) -> int:
    """Return the conversations that are held at once, at most."""
    train, validation = params.train, params.validation
    episodes = train.items_per_step * train.group_size // params.distributed.processes
    return min(params.generation.batch_size, max(episodes, validation.items * validation.draws))


class Scales:
    """A training's model without weights, and what its parts weigh; made by `scales`."""

    def __init__(self, meter: Meter, config: Any, params: Params, lengths: Lengths) -> None:
        self._meter, self._params, self._lengths = meter, params, lengths
        self._step = Rehearsal(build(config, params, "cpu"), params, lengths)
        gc.collect()
        self._adapter = sum(p.nbytes for p in self._step.adapter)
        self._base = meter.now - self._adapter
        copies = 3 + (params.train.beta > 0)  # the one it begins from, two moments, TRL's reference
        self._kept = [torch.zeros_like(p) for p in self._step.adapter for _ in range(copies)]

    def memory(self) -> MemoryForecast:
        """Return what all of it takes."""
        train = self._params.train
        probe: list[torch.Tensor] = []

        def looked() -> None:
            probe.append(self._step.look(train.kl_probe_episodes))
            self._step.compare(probe[0], tiles=1)

        look = self._above(looked)
        play, cache = self.play(rows_at_once(self._params))
        adapter = self._adapter + sum(each.nbytes for each in self._kept)
        learn = self.learn(train.micro_batch_size)
        return MemoryForecast(self._base, adapter, probe[0].nbytes, self._adapter, cache, play, learn, look)

    def play(self, rows: int) -> tuple[int, int]:
        """Return the bytes of so many conversations at their longest, and what of them are keys and
        values."""
        step, lengths, cache = self._step, self._lengths, 0

        def played() -> None:
            nonlocal cache
            with step.play(rows, rows) as reader:
                reader.cache.reserve(rows, max(lengths.prompt, lengths.whole - STEP))
                if lengths.turns > 1:
                    step.read_reply(reader, rows, lengths.whole - lengths.new - lengths.reply - 1)
                step.write(reader, rows, lengths.whole - 1, 1)
                cache = sum(each.nbytes for pair in reader.cache._stored.values() for each in pair)

        return self._above(played), cache

    def learn(self, rows: int, *, checkpointing: bool | None = None) -> int:
        """Return the bytes of a pass that learns from so many episodes, without the gradient; checkpointing
        as set if None."""
        train = self._params.train
        again = train.gradient_checkpointing if checkpointing is None else checkpointing
        episodes = train.items_per_step * train.group_size // self._params.distributed.processes

        def learned() -> None:
            if episodes > rows:  # from the second micro-batch on, the gradients of those before are there
                for parameter in self._step.adapter:
                    parameter.grad = torch.zeros_like(parameter)
            self._step.learn(rows, checkpointing=again)

        above = self._above(learned)
        for parameter in self._step.adapter:
            parameter.grad = None
        return max(0, above - self._adapter)

    def _above(self, done: Callable[[], None]) -> int:
        gc.collect()
        before = self._meter.above()
        done()
        return self._meter.peak - before


@contextmanager
def scales(
    config: Any, params: Params, lengths: Lengths, deadline: Deadline | None = None
) -> Iterator[Scales]:
    """Give the scales on which a training of these settings can be weighed, for episodes of these lengths at
    most.

    Args:
        config: Of the base.
        params: Settings; on which device, does not matter.
        lengths: Of the longest episode; shorter ones take less.
        deadline: By which to be done; None: it takes what it takes, some 15 s for 36 layers.

    Raises:
        TooSlow: The deadline came. Nothing more can be weighed.
        ConfigError: There is nothing that LoRA's targets name.
        PolicyError: The engine cannot serve the model.
    """
    with weightless(deadline) as meter:
        yield Scales(meter, config, params, lengths)


def most(weigh: Callable[[int], int], room: int, sizes: Sequence[int]) -> int | None:
    """Return the largest of ascending sizes that weighs no more than there is room for; None if none does.

    Weight is taken to be a straight line between two sizes, which is checked on the scales.

    >>> most(lambda rows: 5 + 2 * rows, 12, [1, 2, 4, 8]), most(lambda rows: 5 + 2 * rows, 6, [1, 2])
    (2, None)
    """
    low, high = 0, len(sizes) - 1
    least, largest = weigh(sizes[low]), weigh(sizes[high])
    if least > room:
        return None
    while high > low and largest > room:
        line = sizes[low] + (room - least) * (sizes[high] - sizes[low]) / max(1, largest - least)
        between = [k for k in range(low, high) if sizes[k] <= line]
        middle = max(low + 1, between[-1]) if high - low > 1 else low
        if middle == low:
            return sizes[low]
        weight = weigh(sizes[middle])
        low, least, high, largest = (
            (middle, weight, high, largest) if weight <= room else (low, least, middle, weight)
        )
    return sizes[high]
