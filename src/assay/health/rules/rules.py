"""The alarms of a training: every signal of every step and validation goes in, every change of an alarm's
level comes out."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Self

from assay.core.config.health import HealthSettings
from assay.core.records import Episode, HealthEvent, HealthRule, HonestFacts, HonestPlay
from assay.health.rules.alarm_levels import DECIMALS, Ladder, RuleReading, Rung
from assay.health.rules.commonest import Common, Honest, most_common, reading
from assay.health.rules.relative import (
    has_few_answers,
    honest_share,
    relative,
    unavoidable,
    with_form,
    with_kl,
)
from assay.health.rules.signals import Baselines, StepSignals, failures_left, known, step_readings
from assay.health.rules.validation_rules import ValidationRules
from assay.rollout.evaluation.alarms import MAX_FIELDS
from assay.rollout.tasks.protocol import FieldAnswer, Task

DIGEST_CHARS = 16  # of a text's sha256: enough to tell the texts of one window apart
FAILED, CUT = "failed before training", "truncated before training"
MIN_FIELD_ITEMS = 10  # of a window: a field of fewer is not judged
# Of each step: texts, which of them are right, and the same by field, as digests
Window = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Heard:
    """What the answers of the last steps have in common: of whole answers, and by field; and the items of the
    former."""

    top: Common | None = None
    fields: Mapping[str, Common] = field(default_factory=dict)
    # By field, None: of whole answers
    items: Mapping[str | None, Sequence[str]] = field(default_factory=dict)

    def logged(self) -> tuple[dict[str, float | None], dict[str, float]]:
        """Return all but the items as numbers for the log: of whole answers, and of fields."""
        top = self.top or Common(None, None, None)  # type: ignore[arg-type]  # nothing was measured
        whole = {"top_share": top.share, "top_share_right": top.right, "top_share_items": top.items}
        parts = {
            f"{place}.{name}": getattr(each, name)
            for place, each in self.fields.items()
            for name in Common._fields
        }
        return whole, parts

    @classmethod
    def of_log(cls, row: Mapping[str, Any]) -> Self:
        """Return what `logged` gave, from a row of train_log.jsonl."""
        whole, parts = row["signals"], row["window"]
        places = {name.rpartition(".")[0] for name in parts}
        fields = {
            place: Common(*(parts[f"{place}.{name}"] for name in Common._fields)) for place in sorted(places)
        }
        top = (whole["top_share"], whole["top_share_right"], whole["top_share_items"])
        return cls(None if top[0] is None else Common(*top), fields)


class Monitor:
    """Watches one training. What it keeps is small and plain, so that a training taken up again raises the
    same events.

    Args:
        settings: The levels of all rules.
        task: Names the reward parts and their kinds.
        honest: Knows right answers; None: nobody does.
        play: What an honest player shows; None: nobody knows.
    """

    def __init__(
        self,
        settings: HealthSettings,
        task: Task,
        honest: Honest | None = None,
        play: HonestPlay | None = None,
    ) -> None:
        self._settings, self._ladder, self._baselines = relative(settings, play), Ladder(), Baselines({})
        self.play = play
        self._window: Window = []
        self._successes: list[float] = []  # of the last steps
        self._steps_heard = 0
        self._validations = ValidationRules(settings.validation, task.parts, {})
        self.honest = honest
        self.heard = Heard()  # of the last step

    @classmethod
    def restore(
        cls, settings: HealthSettings, task: Task, state: Mapping[str, Any], honest: Honest | None = None
    ) -> Self:
        """Return the monitor that gave this state, under the same settings."""
        play = state["play"]
        monitor = cls(settings, task, honest, None if play is None else HonestPlay.model_validate(play))
        monitor._ladder = Ladder.restore(state["ladder"])
        monitor._baselines = Baselines(state["baselines"])
        monitor._window, monitor._successes = deepcopy(state["window"]), list(state["successes"])
        monitor._steps_heard = state["steps_heard"]
        monitor._validations = ValidationRules(settings.validation, task.parts, state["validations"])
        return monitor

    def state(self) -> dict[str, Any]:
        """Return all that is kept, as plain values that JSON can hold."""
        return {
            "ladder": self._ladder.state(),
            "baselines": self._baselines.state(),
            "window": deepcopy(self._window),
            "successes": list(self._successes),
            "steps_heard": self._steps_heard,
            "validations": self._validations.state(),
            "play": None if self.play is None else self.play.model_dump(mode="json"),
        }

    @property
    def unmeasured(self) -> tuple[HealthRule, ...]:
        """The rules for which nothing was measured so far: neither ill nor known to be well."""
        return self._ladder.unmeasured

    @property
    def facts(self) -> HonestFacts | None:
        """What an honest player shows, None where nobody knows."""
        return None if self.honest is None else self.honest.facts

    @property
    def few(self) -> int | None:
        """How many answers honest play gives, where it repeats them."""
        return self.play.answers if self.play is not None and has_few_answers(self.play) else None

    def step(self, signals: StepSignals) -> list[HealthEvent]:
        """Take one optimizer step in and return the alarms whose level it changes.

        A step that moved no weight because something was not finite is no evidence of anything else.
        """
        self.heard = Heard()
        if signals.skipped is not None:
            ids = signals.concerned.get("non_finite") or signals.item_ids
            return self.non_finite(signals.skipped, signals.step, ids, stop=False)
        healthy = RuleReading(
            "non_finite", (None, Rung(False, 1, None, None, "all values are finite again"), None)
        )
        self.heard = self._hear(signals)
        left, n = self._failures_left(signals), self._settings.baseline_steps
        # Looked up, not taken: each is taken in where it is judged
        first = [self._baselines.mean(name, n) for name in ("success", "length")]
        settings = with_kl(self._settings, self.play, *first)
        settings = with_form(settings, self._baselines.mean(FAILED, 1), self._baselines.mean(CUT, 1))
        rules = step_readings(signals, settings, self._baselines, left)
        readings = [healthy, *rules, *self._commonest(self.heard)]
        reward = known(signals.reward)
        if reward is not None:
            self._validations.trained(reward)
        return self._ladder.climb(signals.step, readings)

    def validation(self, step: int, episodes: Sequence[Episode]) -> list[HealthEvent]:
        """Take the sampled episodes of one validation in and return the alarms whose level they change; that
        before the first step says what the base could do."""
        turns = [turn for episode in episodes for turn in episode.turns]
        if step == 0 and turns:
            self._baselines.take(FAILED, sum(turn.outcome == "failed" for turn in turns) / len(turns), 1)
            self._baselines.take(CUT, sum(turn.truncated for turn in turns) / len(turns), 1)
        return self._ladder.climb(step, self._validations.readings(episodes))

    def lost_validation(self, step: int, lost: int, n: int, item_ids: Sequence[str]) -> list[HealthEvent]:
        """Take in that a validation lost so many of its n episodes: AMBER for one, since none of them may be
        left out."""
        what = (
            f"{lost} of the {n} episodes of a validation were lost, so that it measured nothing and chooses"
            " no checkpoint"
        )
        share, red = lost / n, self._settings.infrastructure.red
        rungs = (Rung(True, 1, share, 0.0, what), Rung(share > red, 1, share, red, what), None)
        return self._ladder.climb(step, [RuleReading("infrastructure", rungs, item_ids=item_ids)])

    def non_finite(self, what: str, step: int, item_ids: Sequence[str], *, stop: bool) -> list[HealthEvent]:
        """Take in that something (a loss, a gradient, ...) is not finite; `stop` says that the training ends
        by it."""
        rung = Rung(True, 1, None, None, f"{what} is not finite at step {step}")
        return self._ladder.climb(
            step, [RuleReading("non_finite", (None, rung, rung if stop else None), item_ids=item_ids)]
        )

    def _failures_left(self, signals: StepSignals) -> float:
        """Return which share of the first steps' failures the last steps still show; all where success is not
        measured."""
        success = known(signals.success)
        if success is None:
            return 1.0
        self._successes = [*self._successes, success][-self._settings.baseline_steps :]
        first = self._baselines.take("success", success, self._settings.baseline_steps)
        if first is None:
            return 1.0
        never = unavoidable(self.play)
        return failures_left(first + never, math.fsum(self._successes) / len(self._successes) + never)

    def _hear(self, signals: StepSignals) -> Heard:
        """Take the answers of a step in, and return what those of the last steps have in common."""
        found = {item: texts for item, texts in (signals.texts or {}).items() if texts}
        if not found:
            return Heard()
        right = (
            None if signals.right is None else {item: _digests(signals.right.get(item, ())) for item in found}
        )
        step = {"texts": {item: _counts(texts) for item, texts in found.items()}, "right": right}
        step["fields"] = {place: _field(items) for place, items in signals.fields.items()}
        self._window = [*self._window, step][-self._settings.top_share_window :]
        top, items = _over(self._window)
        if top.right is None:
            top = top._replace(right=honest_share(self.play))
        places = {place for each in self._window for place in each["fields"]}
        heard = {
            place: _over([each["fields"][place] for each in self._window if place in each["fields"]])
            for place in places
        }
        kept = sorted(heard, key=lambda place: (-heard[place][0].items, place))[:MAX_FIELDS]
        fields = {place: heard[place][0] for place in sorted(kept)}
        return Heard(top, fields, {None: items} | {place: heard[place][1] for place in kept})

    def _commonest(self, heard: Heard) -> list[RuleReading]:
        """Read how much of the last steps one and the same answer answers; a window that is not full says
        nothing."""
        settings, found = self._settings, list[RuleReading]()
        if heard.top is None:
            return found
        self._steps_heard += 1
        full = self._steps_heard >= settings.top_share_window
        steps = f"the last {settings.top_share_window} steps' items"
        start = self._start("top_share", heard.top)
        played = None if self.play is None else self.play.levels.get("top_share")
        if full and (played is None or played.amber is not None):
            what = f"the share of {steps} that one text answers"
            ids, by = heard.items.get(None, ()), "right for" if played is None else "honest play gives it to"
            found.append(reading("top_share", heard.top, start, settings.top_share, what, ids, by=by))
        told = []
        for place, common in heard.fields.items():
            start = self._start(f"field {place}", common)
            if full and common.items >= MIN_FIELD_ITEMS:
                what = f"the share of {steps} in which {place} says one and the same, or nothing,"
                items = heard.items.get(place, ())
                told.append(
                    reading("field_collapse", common, start, settings.field_collapse, what, items, field=True)
                )
        return [*found, max(told, key=_severity)] if told else found

    def _start(self, name: str, common: Common) -> float | None:
        """Return the mean excess of the first steps; None while this is one of them."""
        return self._baselines.take(name, max(0.0, common.excess), self._settings.baseline_steps)


def _severity(found: RuleReading) -> tuple[int, float]:
    """Return how bad a reading is: rungs that it is beyond, then how far."""
    amber = found.rungs[0]
    assert amber is not None and amber.value is not None and amber.threshold is not None
    return sum(rung is not None and rung.beyond for rung in found.rungs), amber.value - amber.threshold


def _over(steps: Sequence[Mapping[str, Any]]) -> tuple[Common, tuple[str, ...]]:
    """Return what the texts of several steps have in common; in what of them is right, if that is known, a
    later step adds."""
    right: dict[str, list[str]] | None = None
    for step in steps:
        for item, texts in (step["right"] or {}).items():
            right = {} if right is None else right
            right[item] = [*right.get(item, []), *texts]
    common, items = most_common([step["texts"] for step in steps], right)
    known = None if common.right is None else round(common.right, DECIMALS)
    return (
        Common(round(common.share, DECIMALS), known, common.items),
        items,
    )  # as it is logged, and judged again from the log


def _field(items: Mapping[str, Sequence[FieldAnswer]]) -> dict[str, Any]:
    texts = {item: _counts([said.found for said in told]) for item, told in items.items()}
    return {
        "texts": texts,
        "right": {item: _digests({said.gold for said in told}) for item, told in items.items()},
    }


def _counts(texts: Sequence[str]) -> dict[str, int]:
    return dict(Counter(map(_digest, texts)))


def _digests(texts: Collection[str]) -> list[str]:
    return sorted(map(_digest, texts))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARS]
