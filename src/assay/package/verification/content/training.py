"""V3, the training: the plan before it, its items, log and checkpoint, and the alarms that ring again."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from assay.core.config.settings import Params
from assay.core.config.training import TrainSettings
from assay.core.counting import counted
from assay.core.records import Alarm, HealthEvent, HealthSummary, TrainAlarm
from assay.core.storage.files import read_bytes, sha256_bytes
from assay.core.storage.json import digest
from assay.health.rules.commonest import Honest
from assay.health.rules.relative import moved_levels
from assay.health.rules.rules import Heard, Monitor
from assay.health.rules.signals import NUMBERS, StepSignals
from assay.package.verification.checks import LookResult
from assay.package.verification.compared import NEAR
from assay.package.verification.unpacked import FIX, Unpacked
from assay.pipeline.live_log import quiet
from assay.rollout.tasks.protocol import Task
from assay.stages.render_evidence.claim_inputs import plan_asked
from assay.stages.render_evidence.fresh_suite import planned_before
from assay.training.honest_play import honest_play
from assay.training.log.history import Raised, Watch, component_row
from assay.training.log.step_chain import LINKS, check_chain
from assay.training.recipe import chosen_step, item_order
from assay.verdict.evidence.claim.plan import alarms_digest, plan_digest

# What an alarm is besides the items it concerns, which follow from episodes that are not kept.
FIELDS = ("rule", "level", "step", "stop", "value", "threshold", "baseline", "first_step", "message")


class Relistened(Monitor):
    """A monitor that takes what answers have in common from the log, since the texts themselves are not in
    it."""

    logged = Heard()

    def relisten(self, row: Mapping[str, Any]) -> list[HealthEvent]:
        """Take one row of train_log.jsonl in and return the alarms whose level it changes."""
        self.logged = Heard.of_log(row)
        numbers = {name: row["signals"][name] for name in NUMBERS}
        return self.step(
            StepSignals(step=row["step"], item_ids=tuple(row["item_ids"]), skipped=row["skipped"], **numbers)
        )

    def _hear(self, signals: StepSignals) -> Heard:
        return self.logged


def scheduled(package: Unpacked) -> list[int]:
    """Return the steps at which a training validates: before the first, every so many, and the last."""
    interval, steps = package.project.params.validation.interval, package.project.params.train.steps
    return sorted({0, steps, *range(interval, steps + 1, interval)})


def rung_again(package: Unpacked) -> tuple[list[HealthEvent], Relistened]:
    """Return the alarms that log and validations raise, oldest first, and the monitor that heard them."""
    monitor, played = (
        Relistened(package.project.params.health, package.task, play=package.trained.honest_play),
        {v.step: v for v in package.validations},
    )
    found = monitor.validation(0, played[0].sampled) if 0 in played else []
    for row in package.log:
        step = row["step"]
        if step in played:  # a step is validated before it is logged
            found += monitor.validation(step, played[step].sampled)
        found += monitor.relisten(row)
    return found, monitor


def alarms_ring_again(package: Unpacked) -> LookResult:
    """Compare the alarms that ring again with those that are stored, and with what train.json sums up of
    them."""
    again, monitor = rung_again(package)
    stored = [] if package.events == [quiet(len(package.log))] else package.events
    wrong = (
        [] if package.events else ["health.jsonl: empty; where no alarm rang it has one line that says so"]
    )
    if package.plan.alarms != alarms_digest(package.project.params.health):
        wrong.append(
            "params.yaml, health: not the thresholds of the plan, by which these alarms are rung again"
        )
    lost = sorted(set(scheduled(package)) - {each.step for each in package.validations})
    if lost:  # how many episodes were lost is not in a package, and what the rule says depends on it
        again, stored = _without(again), _without(stored)
    for one, other in zip(stored, again, strict=False):
        odd = [name for name in FIELDS if getattr(one, name) != getattr(other, name)]
        if odd:
            told = (
                f"{odd[0]} {getattr(one, odd[0])!r} is stored, {getattr(other, odd[0])!r} follows from"
                " the log"
            )
            wrong.append(f"health.jsonl, {one.rule} at step {one.step}: {told}")
    wrong += [f"health.jsonl: {_named(each)} is stored and does not ring" for each in stored[len(again) :]]
    wrong += [f"health.jsonl: {_named(each)} rings and is not stored" for each in again[len(stored) :]]
    known = package.item_ids("train")
    for event in stored:
        if foreign := set(event.item_ids) - known:
            wrong.append(f"health.jsonl, {event.rule} at step {event.step}: {min(foreign)} is no train item")
    if package.trained.health != HealthSummary.of(package.events, monitor.unmeasured):
        wrong.append("train.json, health: not what health.jsonl and the log come to")
    wrong += [*_ring_of_flags(package), *played_honestly(package)]
    said = f"{counted(len(again), 'alarms')} {'rings' if len(again) == 1 else 'ring'} again from "
    said += f"{counted(len(package.log), 'steps')} and {counted(len(package.validations), 'validations')}"
    return LookResult(
        f"{said}, those of infrastructure left out: the validations at {lost} were lost" if lost else said,
        wrong,
    )


def played_honestly(package: Unpacked) -> list[str]:
    """Return in what the right answers, or honest play, are not as they are stored; play of a task whose code
    does not run here stands as stored, and only what levels follow from it can be told."""
    task, stored, params = package.task, package.trained.honest_play, package.project.params
    items = package.project.inputs("train").train
    honest, wrong = Honest(task, items).facts, list[str]()
    if package.trained.honest != honest:
        wrong.append(
            f"train.json, honest: {package.trained.honest} is stored, {honest} follows from the train items"
        )
    keyed = honest is not None
    if getattr(task, "runner", task) is not None:
        again = honest_play(task, item_order(items, _first(params), params.seed), params, keyed=keyed)
    elif stored is not None:
        levels = moved_levels(params.health, stored, keyed=keyed)
        again = stored.model_copy(update={"levels": levels})
    else:
        return wrong
    if again != stored:
        wrong.append(f"train.json, honest_play: {stored} is stored, {again} follows from the train items")
    return wrong


def _first(params: Params) -> int:
    return params.train.steps * params.train.items_per_step


def _named(event: HealthEvent) -> str:
    return f"{event.rule} {event.level} at step {event.step}"


def _without(events: Sequence[HealthEvent]) -> list[HealthEvent]:
    return [event for event in events if event.rule != "infrastructure"]


def _ring_of_flags(package: Unpacked) -> list[str]:
    """Return in what the alarms of flags differ: of batches their rates are logged, of validations all
    episodes are kept."""
    watch, task, played = Watch(package.task), package.task, {v.step: v for v in package.validations}
    for step in [0, *(row["step"] for row in package.log)]:
        if step in played:
            watch.look(step, "validation", played[step].sampled)
            watch.look(step, "greedy validation", played[step].greedy)
        if step:
            watch.raised += _of_batch(package.log[step - 1], task)
    again, stored = watch.facts(), package.trained.alarms
    if [_apart(each) for each in again] != [_apart(each) for each in stored]:
        return [f"train.json, alarms: {len(stored)} are stored, {len(again)} ring again, or not the same"]
    return []


def _of_batch(row: dict[str, Any], task: Task) -> list[Raised]:
    rates = {flag: row["components"].get(f"{flag}_rate") for flag in task.alarms}
    return [
        Raised(row["step"], "batch", Alarm(flag=flag, rate=rate, threshold=task.alarms[flag], n=1))
        for flag, rate in rates.items()
        if rate is not None and rate > task.alarms[flag]
    ]


def _apart(alarm: TrainAlarm) -> TrainAlarm:
    """Return an alarm without the number of episodes of a batch in which its question arose, which no log
    holds."""
    return (
        alarm.model_copy(update={"worst": alarm.worst.model_copy(update={"n": 1})})
        if alarm.source == "batch"
        else alarm
    )


# Of a row of the log, beside the numbers that the trainer gives.
FACTS = {"step", "kl_probe", "item_ids", "digests", "components", "skipped", "lost", "retries", "signals"}
FACTS |= {"fields", "window", "chain"}
SIGNALS = {*NUMBERS, "top_share", "top_share_right", "top_share_items"}
_LOGGED = re.compile(r"[A-Za-z0-9_/.@-]{1,60}")
_FIELD = re.compile(r"[^\s<>&]{1,80}")  # as a schema names it, or (function)
# A mean over a step's episodes is taken once in 64 bits and once by the trainer in 32.
TRAINER_DIGITS = 1e-4


def plan_precedes(package: Unpacked) -> LookResult:
    """Compare the plan with the settings, with what the training noted before its first step, and with the
    claim."""
    written = sha256_bytes(read_bytes(package.results("claim_plan.json"), fix=FIX))
    plan, noted = package.plan, package.told.claim_plan_sha256
    begun = "it was taken from elsewhere" if package.elsewhere else "training began"
    wrong = []
    fresh = written != noted and planned_before(package.project, plan, package.told)
    if written != noted and not fresh:
        wrong.append(f"claim_plan.json: sha256 {written[:16]} now, {noted[:16]} when {begun} (train.json)")
    if plan != plan_asked(package.project, package.task.cluster_name, package):
        wrong.append("claim_plan.json is not what the settings ask for")
    told = package.claim.get("plan")
    if digest(told) != digest(plan.model_dump(mode="json")):
        wrong.append("claim.json, plan: not that of claim_plan.json")
    if plan.alarms != alarms_digest(package.project.params.health):
        wrong.append("params.yaml, health: other alarms than the plan was hashed with")
    its = "that of the data, the same but for held-out records," if fresh else "its file"
    said = f"plan {plan_digest(plan)[:16]} follows from the settings, and {its} has the sha256 noted when"
    said += f" {begun}"
    return LookResult(said, wrong)


def log_whole(package: Unpacked) -> LookResult:
    """Check that the log is steps 1, 2, 3 ... of the settings, chained to the value in train.json, and agrees
    with itself."""
    rows, params, trained = package.log, package.project.params, package.trained
    wrong = []
    counts = {"train_log.jsonl": len(rows), "train.json": trained.steps, "params.yaml": params.train.steps}
    if len(set(counts.values())) > 1:
        wrong.append(f"steps: {', '.join(f'{n} in {name}' for name, n in counts.items())}")
    if trained.seed != params.seed:
        wrong.append(f"train.json, seed: {trained.seed}, and {params.seed} in params.yaml")
    check_chain(rows, "train_log.jsonl")
    if rows and rows[-1]["chain"] != trained.chain:
        wrong.append(
            f"train.json, chain: {trained.chain[:16]}, and {rows[-1]['chain'][:16]} at the end of"
            " train_log.jsonl"
        )
    size = params.train.items_per_step * params.train.group_size
    columns = set(component_row(0, [], package.task))
    wrong += [
        f"train_log.jsonl, step {row['step']}: {fault}"
        for row in rows
        for fault in (*_strange(row, columns), *_odd(row, size))
    ]
    wrong += off_schedule(package, package.log)
    steps, planned = [each.step for each in package.validations], scheduled(package)
    if steps != sorted(set(steps) & set(planned)) or planned[0] not in steps:
        wrong.append(f"validation.jsonl: validations at {steps}, planned were {planned}")
    lost = sorted(set(planned) - set(steps))
    said = f"{counted(len(rows), 'steps')}, each chained to the one before, up to the chain in train.json; "
    said += counted(len(steps), "validations")
    if lost:  # a package cannot show it: who left out validations that did not suit him would say the same
        said = (
            f"{said}; that those at {lost} are missing because their environment lost them is the maker's"
            " word"
        )
    return LookResult(said, wrong, outcome="not shown" if lost else "passed")


def _odd(row: dict[str, Any], episodes: int) -> list[str]:
    """Return in what a row contradicts itself."""
    signals, components = row["signals"], row["components"]
    kept = episodes - row["lost"]
    pairs = {
        "step": (row["step"], components["step"]),
        "kl": (row["kl_probe"], signals["kl"]),
        "entropy": (row.get("entropy"), signals["entropy"]),
        "grad_norm": (row.get("grad_norm"), signals["grad_norm"]),
        "lost": (1 - kept / episodes, signals["lost"]),
        "n": (kept, components["n"]),
    }
    wrong = [
        f"{name}: {one!r} and {other!r} in one row" for name, (one, other) in pairs.items() if one != other
    ]
    told = (signals["reward"], row.get("reward"))
    return [*wrong, *(fault for each in told for fault in rewards_apart(each, components["mean_cumulative"]))]


def _strange(row: dict[str, Any], columns: Set[str]) -> Iterator[str]:
    """Yield what no training logs of a step: a name of no number, a value that is none."""
    known = {"components": columns, "signals": SIGNALS, "digests": {*LINKS}}
    inner = {name: row[name] for name in ("components", "signals", "fields", "window")}
    for place, values in {"": {name: row[name] for name in row.keys() - FACTS}, **inner}.items():
        for name in sorted(values):
            form = _FIELD if place in ("fields", "window") else _LOGGED
            if not _plain(form, name, values[name]) or name not in known.get(place, values):
                yield f"{place}{'.' if place else ''}{name!r:.60} is no number of a training"
    if row["digests"].keys() != known["digests"]:
        yield f"digests: {', '.join(sorted(row['digests']))!r:.60}, expected {', '.join(LINKS)}"


def _plain(form: re.Pattern[str], name: str, value: object) -> bool:
    """Return whether it is what a trainer logs of a step: a number under a short name."""
    return form.fullmatch(name) is not None and (value is None or type(value) in (int, float))


def rewards_apart(told: float | None, mean: float | None) -> Iterator[str]:
    """Yield that the reward of a step is not the mean over its episodes, where both are known."""
    if told is not None and mean is not None and abs(told - mean) > TRAINER_DIGITS * max(1.0, abs(mean)):
        yield f"reward: {told!r} and {mean!r} in one row"


def off_schedule(package: Unpacked, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield in what rows of a log, or of the tables made from it, are not as the settings have it."""
    settings, processes = package.project.params.train, package.project.params.distributed.processes
    alone = settings.num_iterations == processes == 1
    for row, rate in zip(rows, learning_rates(settings), strict=False):
        if (row["kl_probe"] is not None) != settings.measures_kl(row["step"]):
            yield (
                f"train_log.jsonl, step {row['step']}, kl_probe: {row['kl_probe']!r}; train.kl_probe_every"
                f" is {settings.kl_probe_every}"
            )
        if not math.isclose(row["learning_rate"], rate, rel_tol=NEAR, abs_tol=1e-15):
            yield (
                f"train_log.jsonl, step {row['step']}, learning_rate: {row['learning_rate']!r}; the settings"
                f" give {rate!r}"
            )
        if alone and not math.isclose(row["epoch"], row["step"] / settings.steps, rel_tol=NEAR):
            yield (
                f"train_log.jsonl, step {row['step']}, epoch: {row['epoch']!r} of {settings.steps} steps"
                " in one"
            )


def learning_rates(settings: TrainSettings) -> list[float]:
    """Return the learning rate of every step, as it is logged.

    Source: transformers 4 and 5, `optimization.py`, the schedules of these names with their defaults.
    """
    warm, n, kind = settings.warmup_steps, settings.steps, settings.lr_scheduler
    rates = []
    for done in range(n):
        share = 1.0 if kind == "constant" or done >= warm else done / max(1, warm)
        left = (done - warm) / max(1, n - warm)
        if kind == "linear" and done >= warm:
            share = max(0.0, (n - done) / max(1, n - warm))
        elif kind == "cosine" and done >= warm:
            share = max(0.0, 0.5 * (1.0 + math.cos(math.pi * left)))
        rates.append(settings.learning_rate * share)
    return rates


def items_in_order(package: Unpacked) -> LookResult:
    """Check that every item that was trained on is a train item, at its step of the order, and none that is
    judged by."""
    params, rows = package.project.params, package.log
    train = package.project.inputs("train").train
    wrong = []
    seen = {str(item) for row in rows for item in row["item_ids"]}
    for suite in (package.validation, package.heldout):
        if shared := seen & {item.id for item in suite.items}:
            wrong.append(
                f"train_log.jsonl: {counted(len(shared), f'{suite.split} items')} trained on, first"
                f" {min(shared)}"
            )
    if foreign := seen - {item.id for item in train}:
        said = (
            f"{counted(len(foreign), 'items')} {'is' if len(foreign) == 1 else 'are'} none of the train data"
        )
        wrong.append(f"train_log.jsonl: {said}, first {min(foreign)}")
    size = params.train.items_per_step
    said = (
        f"{counted(len(seen), 'train items')} in {counted(len(rows), 'steps')}; none is a validation or"
        " held-out item"
    )
    if params.train.num_iterations > 1:
        return LookResult(said, wrong)
    order = [item.id for item in item_order(train, len(rows) * size, params.seed)]
    for k, row in enumerate(rows):
        if sorted(set(order[k * size : (k + 1) * size])) != row["item_ids"]:
            wrong.append(f"train_log.jsonl, step {k + 1}: other items than the seed orders")
    return LookResult(f"{said}; their order is that of seed {params.seed}", wrong)


def checkpoint_follows(package: Unpacked) -> LookResult:
    """Apply the plan's rule to the validations and compare with the step that was chosen."""
    rule, trained, suite = package.plan.checkpoint_rule, package.trained, package.validation.digest
    chosen = chosen_step(package.validations, rule, trained.steps)
    wrong = []
    if chosen != trained.chosen_step:
        wrong.append(f"train.json, chosen_step: {trained.chosen_step}; by {rule} it is {chosen}")
    if trained.validation_suite != suite:
        wrong.append(
            f"train.json, validation_suite: {trained.validation_suite[:16]}; settings and data make"
            f" {suite[:16]}"
        )
    return LookResult(
        f"step {chosen}, by {rule} over {counted(len(package.validations), 'validations')}", wrong
    )
