"""How long a step takes: its parts timed with the model's true width and few layers, and a straight line to
all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from assay.core.config.settings import Params
from assay.tools.doctor.findings import TooSlow
from assay.tools.doctor.forecast.rehearsal import Lengths, Rehearsal, build, with_layers
from assay.tools.findings import Deadline
from assay.training.adapter import tensors_digest

Clock = Callable[[], float]
STEPS, TIMES = (
    8,
    3,
)  # tokens written to see how long one takes; times each part is taken, of which the median counts
SAMPLE, LEARNING = (
    128,
    5.0,
)  # tokens that are read first; seconds of a pass that learns against one that reads


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds of one optimizer step in which every completion goes to its limit; an environment's own are not
    in it.

    Attributes:
        play: Reading openings, writing, and reading what is told in between.
        learn: Forward and backward passes.
        settle: Clipping, the optimizer, and the digests of gradients and weights.
        look: Measuring the KL; the mean over steps, most of which do not.
        rows: Episodes of the micro-batch that was timed; fewer than a whole one where that took too long.
    """

    play: float
    learn: float
    settle: float
    look: float
    rows: int

    @property
    def step(self) -> float:
        """Seconds of the whole step."""
        return self.play + self.learn + self.settle + self.look


def pace(
    config: Any,
    params: Params,
    lengths: Lengths,
    device: str,
    deadline: Deadline,
    clock: Clock = time.perf_counter,
) -> Pace:
    """Time the parts of a step with few layers of a model, and return what all layers would take.

    Layers take equal time where they are of equal kind, so the few are once and twice the least number that
    has each kind in its share.

    Args:
        config: Of the base.
        params: Settings.
        lengths: Of an episode.
        device: Which does it, "cpu" or "cuda".
        deadline: By which to be done.
        clock: Gives seconds.

    Raises:
        TooSlow: There is no time for it.
    """
    text = config.get_text_config(decoder=True)
    layers, period = int(text.num_hidden_layers), _period(getattr(text, "layer_types", None))
    depths = [period, 2 * period] if 2 * period < layers else [layers]
    found, rows = [], params.train.micro_batch_size
    for depth in depths:
        timed = _Timed(build(with_layers(config, depth), params, device), params, lengths, device, clock)
        if depth == depths[0]:
            rows = timed.affordable(deadline, len(depths))
        found.append(timed.parts(rows))
        del timed
        if device == "cuda":
            torch.cuda.empty_cache()
    if len(found) == 1:
        play, learn, settle, look = found[0]
        return Pace(play, learn, settle, look, rows)
    few, more = np.array(found)
    play, learn, settle, look = (few + np.maximum(0.0, more - few) * (layers - period) / period).tolist()
    return Pace(play, learn, settle, look, rows)


def _period(kinds: Any) -> int:
    """Return after how many layers their kinds begin anew.

    >>> _period(["sliding", "full"] * 4), _period(["full"] * 3), _period(None)
    (2, 1, 1)
    """
    kinds = list(kinds or [])
    return next(
        (n for n in range(1, len(kinds) + 1) if all(a == b for a, b in zip(kinds, kinds[n:], strict=False))),
        1,
    )


class _Timed:
    def __init__(self, model: Any, params: Params, lengths: Lengths, device: str, clock: Clock) -> None:
        self._step, self._params, self._lengths, self._device = (
            Rehearsal(model, params, lengths),
            params,
            lengths,
            device,
        )
        self._clock, self._model = clock, model
        train = params.train
        self._episodes = train.items_per_step * train.group_size // params.distributed.processes
        self._rows = min(params.generation.batch_size, self._episodes)

    def affordable(self, deadline: Deadline, depths: int) -> int:
        """Return the episodes of a micro-batch that may be learned from within the time.

        Raises:
            TooSlow: There is no time for one, or not for playing.
        """
        lengths, micro = self._lengths, self._params.train.micro_batch_size
        n = min(SAMPLE, lengths.prompt)
        brief = Rehearsal(self._model, self._params, Lengths(n, 1, 1, 0))

        def read() -> None:
            with brief.played(1, 1):
                pass

        reading = self._seconds(read) / n
        different = -(-self._rows // self._params.train.group_size)
        playing = reading * (different * lengths.prompt + self._rows * (lengths.reply + 4 * STEPS * TIMES))
        # Both depths, the second twice as deep.
        left = deadline.left / (1 if depths == 1 else 3) - TIMES * playing
        one = LEARNING * reading * lengths.whole
        if left < 2 * one:
            raise TooSlow(
                f"one episode of {lengths.whole} tokens takes some {one + playing:.0f} s, with"
                f" {deadline.left:.0f} s left"
            )
        return min(micro, max(1, int(left / ((TIMES + 2) * one))))

    def parts(self, rows: int) -> tuple[float, float, float, float]:
        """Return the seconds of playing, learning from micro-batches timed with so many episodes, settling,
        and looking."""
        train = self._params.train
        again = train.gradient_checkpointing
        learn = self._seconds(lambda: self._step.learned(rows, checkpointing=again)) * self._episodes / rows
        settle = self._settle()
        looked = min(train.kl_probe_episodes, rows)
        look = self._seconds(lambda: self._look(looked)) * train.kl_probe_episodes / looked
        look /= train.kl_probe_every
        return self._play(), learn, settle, look

    def _play(self) -> float:
        step, lengths, waves = self._step, self._lengths, -(-self._episodes // self._rows)
        rows, different = self._rows, -(-self._rows // self._params.train.group_size)

        def opened() -> None:
            with step.played(rows, different):
                pass

        seconds = self._seconds(opened)
        with step.played(rows, different) as reader:
            reader.cache.reserve(rows, lengths.whole)
            ends = [
                self._seconds(lambda at=at: step.written(reader, rows, at, STEPS)) / STEPS  # type: ignore[misc]
                for at in (lengths.prompt, max(lengths.prompt, lengths.whole - STEPS))
            ]
            seconds += lengths.turns * max(0, lengths.new - 1) * sum(ends) / 2
            if lengths.turns > 1:
                middle = (lengths.prompt + lengths.whole) // 2 - lengths.reply
                seconds += (lengths.turns - 1) * self._seconds(
                    lambda: step.told(reader, rows, max(1, middle))
                )
        return seconds * waves

    def _settle(self) -> float:
        adapter = self._step.adapter
        optimizer = torch.optim.AdamW(adapter, lr=0.0, weight_decay=0.0)

        def settled() -> None:
            tensors_digest((str(place), p.grad) for place, p in enumerate(adapter))
            torch.nn.utils.clip_grad_norm_(adapter, 1.0)
            optimizer.step()
            tensors_digest((str(place), p) for place, p in enumerate(adapter))

        return self._seconds(settled)

    def _look(self, episodes: int) -> None:
        hidden = self._step.looked(episodes)
        self._step.compared(hidden)

    def _seconds(self, done: Callable[[], Any]) -> float:
        """Return the median of some times, after one that does not count, for it allocates."""
        taken = []
        for _ in range(TIMES + 1):
            begun = self._clock()
            done()
            if self._device == "cuda":
                torch.cuda.synchronize()
            taken.append(self._clock() - begun)
        return float(np.median(taken[1:]))
