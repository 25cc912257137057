"""The alarms of a training: every signal of every step and validation goes in, every change of an alarm's level comes out."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

from assay.config.health import HealthSettings
from assay.records import Episode, HealthEvent, HealthRule
from assay.tasks.protocol import Task
from assay.training.ladder import Ladder, Reading, Rung, above
from assay.training.signals import Baselines, StepSignals, known, step_readings, top_share
from assay.training.validation_rules import ValidationRules

DIGEST_CHARS = 16  # of a text's sha256: enough to tell the texts of one window apart


class Monitor:
    """Watches one training. What it keeps is small and plain, so that a training taken up again raises the same events.

    Args:
        settings: The levels of all rules.
        task: Names the reward parts and their kinds.
    """

    def __init__(self, settings: HealthSettings, task: Task) -> None:
        self._settings, self._ladder, self._baselines = settings, Ladder(), Baselines({})
        self._window: list[dict[str, dict[str, int]]] = []
        self._validations = ValidationRules(settings.validation, task.parts, {})
        self.top_share: float | None = None  # of the last step; None where the window was not full

    @classmethod
    def restore(cls, settings: HealthSettings, task: Task, state: Mapping[str, Any]) -> Self:
        """Return the monitor that gave this state, under the same settings."""
        monitor = cls(settings, task)
        monitor._ladder = Ladder.restore(state["ladder"])
        monitor._baselines = Baselines(state["baselines"])
        monitor._window = [{item: dict(found) for item, found in texts.items()} for texts in state["window"]]
        monitor._validations = ValidationRules(settings.validation, task.parts, state["validations"])
        return monitor

    def state(self) -> dict[str, Any]:
        """Return all that is kept, as plain values that JSON can hold."""
        return {
            "ladder": self._ladder.state(),
            "baselines": self._baselines.state(),
            "window": [{item: dict(found) for item, found in texts.items()} for texts in self._window],
            "validations": self._validations.state(),
        }

    @property
    def unmeasured(self) -> tuple[HealthRule, ...]:
        """The rules for which nothing was measured so far: neither ill nor known to be well."""
        return self._ladder.unmeasured

    def step(self, signals: StepSignals) -> list[HealthEvent]:
        """Take one optimizer step in and return the alarms whose level it changes.

        A step that moved no weight because something was not finite is no evidence of anything else.
        """
        self.top_share = None
        if signals.skipped is not None:
            ids = signals.concerned.get("non_finite") or signals.item_ids
            return self.non_finite(signals.skipped, signals.step, ids, stop=False)
        healthy = Reading("non_finite", (None, Rung(False, 1, None, None, "all values are finite again"), None))
        readings = [healthy, *step_readings(signals, self._settings, self._baselines), *self._texts(signals)]
        reward = known(signals.reward)
        if reward is not None:
            self._validations.trained(reward)
        return self._ladder.climb(signals.step, readings)

    def validation(self, step: int, episodes: Sequence[Episode]) -> list[HealthEvent]:
        """Take the sampled episodes of one validation in and return the alarms whose level they change."""
        return self._ladder.climb(step, self._validations.readings(episodes))

    def lost_validation(self, step: int, lost: int, n: int, item_ids: Sequence[str]) -> list[HealthEvent]:
        """Take in that a validation lost so many of its n episodes: AMBER for one, since none of them may be left out."""
        what = f"{lost} of the {n} episodes of a validation were lost, so that it measured nothing and chooses no checkpoint"
        share, red = lost / n, self._settings.infrastructure.red
        rungs = (Rung(True, 1, share, 0.0, what), Rung(share > red, 1, share, red, what), None)
        return self._ladder.climb(step, [Reading("infrastructure", rungs, item_ids=item_ids)])

    def non_finite(self, what: str, step: int, item_ids: Sequence[str], *, stop: bool) -> list[HealthEvent]:
        """Take in that something (a loss, a gradient, ...) is not finite; `stop` says that the training ends by it."""
        rung = Rung(True, 1, None, None, f"{what} is not finite at step {step}")
        return self._ladder.climb(step, [Reading("non_finite", (None, rung, rung if stop else None), item_ids=item_ids)])

    def _texts(self, signals: StepSignals) -> list[Reading]:
        """Read how much of the last steps one and the same text answers; a window that is not full says nothing."""
        settings = self._settings
        found = {item: Counter(_digest(text) for text in texts) for item, texts in (signals.texts or {}).items() if texts}
        if found:
            self._window = [*self._window, {item: dict(counts) for item, counts in found.items()}][-settings.top_share_window :]
        if not found or len(self._window) < settings.top_share_window:
            return []
        self.top_share, items = top_share(self._window)
        return [self._shared(self.top_share, items)]

    def _shared(self, share: float, items: Sequence[str]) -> Reading:
        """Return what is read from the share of a full window that one text answers."""
        levels = self._settings.top_share
        what = f"the share of the last {self._settings.top_share_window} steps' items that one text answers"
        amber = above(what, share, levels.amber, levels.amber_for)
        return Reading("top_share", (amber, above(what, share, levels.red, levels.red_for), None), item_ids=items)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARS]
