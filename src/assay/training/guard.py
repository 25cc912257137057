"""The watch over NaN and Inf: what is poisoned is named in its step, and never reaches a weight or a
checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.core.config.health import HealthSettings
from assay.rollout.policy.processes import Processes

# As one follows from the other: what is NaN in one process is NaN in everybody's gradients.
CAUSES = ("log-probability", "reward", "loss", "gradient")


@dataclass(frozen=True, slots=True)
class Poison:
    """Something that is not finite: a loss, gradient, reward, log-probability or parameter."""

    what: str
    found: str
    item_ids: tuple[str, ...]


class Poisoned(Exception):
    """The step cannot be gone through with: the training stops, or goes back to a checkpoint."""

    def __init__(self, step: int, poison: Poison) -> None:
        self.step, self.poison = step, poison
        super().__init__(f"step {step}: {poison.what} is {poison.found}")


class Guard:
    """Notes what is not finite in a step and settles, before the optimizer moves, whether it may.

    Args:
        settings: What is to happen.
        processes: All of them skip a step that one of them has to.
        skipped: Steps that are not to move a weight, and why; grows.
    """

    def __init__(self, settings: HealthSettings, processes: Processes, skipped: Mapping[int, str]) -> None:
        self._settings, self._processes = settings, processes
        self.skipped = dict(skipped)
        # Items of the step just settled, where what was not finite is theirs
        self.concerned: tuple[str, ...] = ()
        self._noted: Poison | None = None

    def note(self, what: str, values: Sequence[float], item_ids: Sequence[str]) -> bool:
        """Look at values of this step, each of the item beside it, and return whether all are finite.

        One item for every value, or the items of the whole step where the values are not any item's.
        """
        bad = [place for place, value in enumerate(values) if not math.isfinite(value)]
        if bad and self._noted is None:
            each = len(item_ids) == len(values)
            items = {item_ids[place] for place in bad} if each else set(item_ids)
            self._noted = Poison(what, str(values[bad[0]]), tuple(sorted(items)))
        return not bad

    def settle(self, step: int) -> str | None:
        """Return why this step must not move a weight, None if it may. Every process has to call this.

        Raises:
            Poisoned: The step is poisoned, and not to be skipped.
        """
        noted = [poison for poison in self._processes.gather(self._noted) if poison is not None]
        noted.sort(key=lambda poison: CAUSES.index(poison.what))
        self._noted, self.concerned = None, noted[0].item_ids if noted else ()
        if step in self.skipped:
            return self.skipped[step]
        if not noted:
            return None
        if self._settings.on_non_finite != "skip" or len(self.skipped) >= self._settings.max_skipped:
            raise Poisoned(step, noted[0])
        self.skipped[step] = noted[0].what
        return noted[0].what

    def refuse(self, step: int, what: str, found: float, item_ids: Sequence[str]) -> None:
        """Give up a step whose weights have moved already: too late to skip it."""
        raise Poisoned(step, Poison(what, str(found), tuple(sorted(set(item_ids)))))
