"""How long a step takes: its parts timed with the model's true width and few layers, and a straight line to
all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from assay.checks.doctor.forecast.rehearsal import Lengths, Rehearsal, build, with_layers
from assay.checks.findings import Deadline, TooSlow
from assay.core.config.settings import Params
from assay.rollout.policy.engine.engine import Reader
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
# How many times as deep the second model is as the first at most. Beside a large vocabulary one layer is
# little: Qwen2.5-0.5B's KL read 0.75 s with one layer, 1.06 with two (so 7.8 with 24), and 0.71 with five.
DEEPER = 5


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds of one optimizer step in which every completion goes to its limit; an environment's own are not
    in it.

    Attributes:
        play: Reading prompts, writing, and reading what is told in between.
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

    Layers take equal time where they are of equal kind, so the few are once and up to DEEPER times the least
    number that has each kind in its share, as deep as there is time for. Both are timed in turns, since a
    machine is faster in one minute than in the next, and their difference would have that many times over.

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
    least = period if 2 * period < layers else layers

    def timed(depth: int) -> _Timed:
        return _Timed(build(with_layers(config, depth), params, device), params, lengths, device, clock)

    both, times = [timed(least)], 0.0
    rows = both[0].affordable(deadline, 1 if least == layers else 3)
    begun = deadline.left
    both[0].parts(rows)  # does not count, for it allocates
    if least < layers:
        affordable = int((deadline.left / (begun - deadline.left) - TIMES) / (TIMES + 1))
        deeper = max(2, min(DEEPER, affordable, (layers - 1) // least))
        both.append(timed(deeper * least))
        both[1].parts(rows)
        times = (layers / least - 1) / (deeper - 1)  # how often what lies between the two comes in all layers
    found = np.array([[each.parts(rows) for each in both] for _ in range(TIMES)])
    del both
    if device == "cuda":
        torch.cuda.empty_cache()
    parts, between = np.median(found[:, 0], axis=0), np.median(found[:, -1] - found[:, 0], axis=0)
    play, learn, settle, look = (parts + times * np.maximum(0.0, between)).tolist()
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
        self._optimizer = torch.optim.AdamW(self._step.adapter, lr=0.0, weight_decay=0.0)

    def affordable(self, deadline: Deadline, shares: int) -> int:
        """Return the episodes of a micro-batch that may be learned from within the time.

        Args:
            deadline: By which to be done.
            shares: How often this depth fits into all that has to be timed.

        Raises:
            TooSlow: There is no time for one, or not for playing.
        """
        lengths, micro = self._lengths, self._params.train.micro_batch_size
        n = min(SAMPLE, lengths.prompt)
        brief = Rehearsal(self._model, self._params, Lengths(n, 1, 1, 0))

        def read() -> None:
            with brief.play(1, 1):
                pass

        read()  # allocates
        reading = self._seconds(read) / n
        different = -(-self._rows // self._params.train.group_size)
        playing = reading * (different * lengths.prompt + self._rows * (lengths.reply + 4 * STEPS * TIMES))
        left = deadline.left / shares - TIMES * playing
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
        learn = self._seconds(lambda: self._step.learn(rows, checkpointing=again)) * self._episodes / rows
        settle = self._settle()
        looked = min(train.kl_probe_episodes, rows)
        look = self._seconds(lambda: self._look(looked)) * train.kl_probe_episodes / looked
        look /= train.kl_probe_every
        return self._play(), learn, settle, look

    def _play(self) -> float:
        step, lengths, waves = self._step, self._lengths, -(-self._episodes // self._rows)
        rows, different = self._rows, -(-self._rows // self._params.train.group_size)

        readers: list[Reader] = []
        with ExitStack() as stack:
            opened = step.play(rows, different)
            seconds = self._seconds(lambda: readers.append(stack.enter_context(opened)))
            (reader,) = readers
            reader.cache.reserve(rows, lengths.whole)
            ends = [
                self._seconds(lambda at=at: step.write(reader, rows, at, STEPS)) / STEPS  # type: ignore[misc]
                for at in (lengths.prompt, max(lengths.prompt, lengths.whole - STEPS))
            ]
            seconds += lengths.turns * max(0, lengths.new - 1) * sum(ends) / 2
            if lengths.turns > 1:
                middle = (lengths.prompt + lengths.whole) // 2 - lengths.reply
                seconds += (lengths.turns - 1) * self._seconds(
                    lambda: step.read_reply(reader, rows, max(1, middle))
                )
        return seconds * waves

    def _settle(self) -> float:
        adapter, optimizer = self._step.adapter, self._optimizer

        def settled() -> None:
            tensors_digest((str(place), p.grad) for place, p in enumerate(adapter))
            torch.nn.utils.clip_grad_norm_(adapter, 1.0)
            optimizer.step()
            tensors_digest((str(place), p) for place, p in enumerate(adapter))

        return self._seconds(settled)

    def _look(self, episodes: int) -> None:
        hidden = self._step.look(episodes)
        self._step.compare(hidden)

    def _seconds(self, done: Callable[[], Any]) -> float:
        begun = self._clock()
        done()
        if self._device == "cuda":
            torch.cuda.synchronize()
        return self._clock() - begun
