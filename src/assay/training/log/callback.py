"""The callback that turns what a trainer does into rows, validations and alarms, and says when to save and
stop."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FrameType, TracebackType
from typing import Any

import torch
from transformers import TrainerCallback

from assay.core.provenance import peak_ram_bytes
from assay.core.records import TRAINING_LOG_COLUMNS, HealthEvent
from assay.health.rules.rules import Monitor
from assay.health.rules.signals import StepSignals
from assay.rollout.evaluation.alarms import flat
from assay.rollout.evaluation.phases import PHASES
from assay.rollout.evaluation.rollout import Lost, Rollout
from assay.training.adapter import rollout_links
from assay.training.log.history import History, LostValidation, Validation, Watch, component_row
from assay.training.log.step_chain import START, chain_of
from assay.training.trainer import Trainer

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# A parent that dies with several threads says so once for each: SIGTERMs so close together are one.
ONE_SIGTERM_SECONDS = 1.0


class Interruption:
    """While entered, remembers the first signal to stop instead of dying of it; a second one acts at once.

    Args:
        told: Called with the signal's name when it arrives, so that somebody who waits knows why.
    """

    def __init__(self, told: Callable[[str], None]) -> None:
        self._told = told
        self._before: dict[signal.Signals, Any] = {}
        self.signal: signal.Signals | None = None
        # Of any process: whoever was asked, all stop for the same reason
        self.heard: signal.Signals | None = None
        self._since = 0.0

    def __enter__(self) -> Interruption:
        """Take over the signals; only a main thread can."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._remember) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signals back."""
        self._give_back()

    def _give_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _remember(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.signal is None:
            self.signal, self._since = signal.Signals(number), now
            self._told(self.signal.name)
        elif number == signal.SIGINT or now - self._since > ONE_SIGTERM_SECONDS:
            self._give_back()
            signal.raise_signal(number)

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process that a signal ended."""
        return 128 + int(self.heard or self.signal or 0)


PLAYING = ("encode", "generate", "environment", "reward")
Tell = Callable[[str, Mapping[str, Any]], None]


@dataclass(slots=True)
class TrainingLedger:
    """Everything a training has found out so far; a checkpoint holds it whole."""

    history: History
    watch: Watch
    monitor: Monitor
    chain: str = START
    seconds: float = 0.0
    stopped: HealthEvent | None = None

    def levels(self) -> set[str]:
        """Return the levels at which some alarm stands now."""
        return set({event.rule: event.level for event in self.history.health}.values())


@dataclass(frozen=True, slots=True)
class Schedule:
    """When to validate, when to save, and when it is over; in optimizer steps."""

    validate: int
    save: int
    total: int

    def validates(self, step: int) -> bool:
        """Return whether a step is validated; the last one always is."""
        return step % self.validate == 0 or step == self.total

    def saves(self, step: int) -> bool:
        """Return whether a step is saved; the last one always is."""
        return step % self.save == 0 or step == self.total


class Recorder(TrainerCallback):
    """Writes a ledger while a trainer works.

    Args:
        ledger: Filled in place.
        trainer: Whose links, episodes, skipped steps and seconds are recorded; each of its processes keeps
            the same ledger, the main one writes it.
        schedule: When what happens.
        interruption: Asked after each step whether to stop.
        kl: Measures the KL to the base at a step, in nats a token; None: it has none there.
        validate: Plays the validation suite at a step; what is incomplete counts as no validation.
        tell: Told what happens, for the log of events.
        on_step: Told each finished step.
    """

    def __init__(
        self,
        ledger: TrainingLedger,
        trainer: Trainer,
        schedule: Schedule,
        interruption: Interruption,
        *,
        kl: Callable[[int], float | None],
        validate: Callable[[int], Validation | LostValidation],
        tell: Tell,
        on_step: Callable[[int], None],
    ) -> None:
        self._ledger, self._trainer, self._schedule = ledger, trainer, schedule
        self._interruption, self._phases = interruption, trainer.phases
        self._kl, self._validate, self._tell, self._on_step = kl, validate, tell, on_step
        self._mark = time.monotonic()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Validate and save the untrained policy: the first point of the curve, and what a rollback can
        always go back to."""
        self._mark = time.monotonic()
        if not self._ledger.history.validations:
            self._run_validation(0)
            self._trainer._save_checkpoint(None, None)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the clock of the optimizer."""
        self._moving = self._phases("optimizer")
        self._moving.__enter__()

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop it."""
        self._moving.__exit__(None, None, None)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Look at the weights, validate and save every so many updates, and stop where somebody asked for
        it."""
        step = int(state.global_step)
        with self._phases("logging"):
            self._trainer.look_at_weights()
        if self._schedule.validates(step):
            self._run_validation(step)
        heard = self._trainer.processes.gather(self._interruption.signal)
        asked = [each for each in heard if each is not None]
        if stop := bool(asked):
            self._interruption.heard = asked[0]
        control.should_save = stop or self._schedule.saves(step)
        control.should_training_stop = control.should_training_stop or stop

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Write one row a step."""
        state.log_history.clear()  # the ledger is the log; here it would grow through every checkpoint
        if not logs or "loss" not in logs:
            return
        step = int(state.global_step)
        with self._phases("logging"):
            everywhere = self._trainer.processes.gather(list(self._trainer.rollouts.latest))
            rollouts = [each for part in everywhere for each in part]
            self._write_rows(step, state.epoch, logs, rollouts)
        if self._ledger.stopped is not None:
            control.should_training_stop, control.should_save = True, False
        self._write_clock(step, rollouts)
        self._on_step(step)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Add the seconds of a save to the row of its step, which was written before it."""
        now = time.monotonic()
        saving, self._mark = now - self._mark, now
        self._ledger.seconds += saving
        row, taken = self._ledger.history.observed[-1], self._phases.take().get("checkpoint", 0.0)
        row["checkpoint_s"] = round(row["checkpoint_s"] + taken, 6)
        row["other_s"] = round(row["other_s"] + max(0.0, saving - taken), 6)
        row["wall_time_s"] = round(self._ledger.seconds, 3)

    def _write_rows(
        self, step: int, epoch: float, logs: Mapping[str, Any], rollouts: Sequence[Rollout | Lost]
    ) -> None:
        ledger, guard, skipped = self._ledger, self._trainer.guard, self._trainer.guard.skipped.get(step)
        episodes = [each.episode for each in rollouts if isinstance(each, Rollout)]
        with self._phases("kl_probe"), self._trainer.whole():
            kl = self._kl(step)
        row: dict[str, Any] = {"step": step, "epoch": epoch, "kl": kl}
        row |= {name: _number(logs.get(name)) for name in TRAINING_LOG_COLUMNS if name not in row}
        if skipped is not None:
            row |= {name: None for name in ("loss", "grad_norm", "reward", "reward_std")}
        elif episodes:
            for name in ("loss", "grad_norm", *(() if kl is None else ("kl",)), "reward"):
                if row[name] is None or not math.isfinite(row[name]):
                    guard.refuse(step, name, math.nan, [_item_of(each) for each in rollouts])
        ledger.history.training_log.append({name: row[name] for name in TRAINING_LOG_COLUMNS})
        components = component_row(step, episodes, self._trainer.rollouts.setup.task)
        ledger.history.reward_components.append(components)
        if episodes:
            ledger.watch.look(step, "batch", episodes)
        links = rollout_links(rollouts) | self._trainer.links
        plain = {
            name: _number(value)
            for name, value in logs.items()
            if not _clocked(name) and name != "total_flos"
        }
        if skipped is not None:  # nothing was learned from what TRL made of a poisoned step: missing, not 0
            plain |= {name: None for name in plain if name not in ("epoch", "learning_rate", "num_tokens")}
        item_ids = sorted({_item_of(each) for each in rollouts})
        facts = {
            "step": step,
            "kl_probe": row["kl"],
            "item_ids": item_ids,
            "digests": links,
            "components": components,
        }
        # On policy every ratio is 1, and nothing could ever be clipped: that is no measurement.
        clip = plain.get("clip_ratio/region_mean") if self._trainer.num_iterations > 1 else None
        signals = replace(
            StepSignals.of(step, episodes, ledger.monitor.honest, ledger.monitor.few),
            entropy=plain.get("entropy"),
            kl=row["kl"],
            clip=clip,
            grad_norm=row["grad_norm"],
            lost=1 - len(episodes) / len(rollouts),
            skipped=skipped,
        )
        # An item whose episodes were all graded with NaN has none of them in the signals
        if skipped is not None:
            signals = replace(signals, concerned={"non_finite": guard.concerned or item_ids})
        facts |= {
            "skipped": skipped,
            "lost": len(rollouts) - len(episodes),
            "retries": sum(r.retries for r in rollouts),
        }
        events = ledger.monitor.step(signals)
        whole, parts = ledger.monitor.heard.logged()
        facts["signals"] = signals.numbers() | whole
        facts |= {"fields": flat(signals.shares()), "window": parts}
        facts |= {name: value for name, value in plain.items() if name not in facts}
        ledger.chain = chain_of(ledger.chain, facts)
        ledger.history.train_log.append(facts | {"chain": ledger.chain})
        self._raise(events)

    def _raise(self, events: Sequence[HealthEvent]) -> None:
        self._ledger.history.health.extend(events)
        for event in events:
            self._tell(
                "alarm",
                {"step": event.step, "rule": event.rule, "level": event.level, "message": event.message},
            )
            if event.stop and self._ledger.stopped is None:
                self._ledger.stopped = event

    def _run_validation(self, step: int) -> None:
        with self._phases("validation"), self._trainer.whole():
            validation = self._validate(step)
        ledger = self._ledger
        if isinstance(validation, LostValidation):
            _, n, lost, item_ids, reason = validation
            self._tell(
                "validation lost",
                {"step": step, "episodes": n, "lost": lost, "items": item_ids[:8], "why": reason},
            )
            self._raise(ledger.monitor.lost_validation(step, lost, n, item_ids))
            return
        ledger.history.validations.append(validation)
        ledger.watch.look(step, "validation", validation.sampled)
        ledger.watch.look(step, "greedy validation", validation.greedy)
        self._raise(ledger.monitor.validation(step, validation.sampled))
        self._tell("validation", {"step": step, "episodes": len(validation.sampled)})

    def _write_clock(self, step: int, rollouts: Sequence[Rollout | Lost]) -> None:
        """Write where the seconds since the last row went; clocks stay out of every result."""
        now = time.monotonic()
        wall, self._mark = now - self._mark, now
        self._ledger.seconds += wall
        taken = self._phases.take()
        tokens = sum(sum(each.mask) for each in rollouts)
        playing = sum(taken.get(name, 0.0) for name in PLAYING)
        known = {f"{name}_s": round(taken.get(name, 0.0), 6) for name in PHASES if name != "other"}
        self._ledger.history.observed.append(
            {"step": step, "wall_time_s": round(self._ledger.seconds, 3)}
            | known
            | {
                "other_s": round(max(0.0, wall - sum(taken.values())), 6),
                "tokens_per_second": round(tokens / playing, 3) if playing > 0 else None,
                "peak_ram_mib": round(peak_ram_bytes() / 2**20, 1),
                "peak_gpu_mib": (
                    round(torch.cuda.max_memory_allocated() / 2**20, 1) if torch.cuda.is_available() else None
                ),
            }
        )


def _item_of(each: Rollout | Lost) -> str:
    return each.play.item.id if isinstance(each, Lost) else each.episode.item_id


def _clocked(name: str) -> bool:
    return "time" in name


def _number(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
