"""Sound and ill trainings by name, and one of them run through the alarms."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assay.core.config.reading import parse_params
from assay.core.config.settings import Params
from assay.core.records import Episode, HealthEvent
from assay.core.seeds import rng
from assay.health.rules.commonest import Honest
from assay.health.rules.rules import Monitor
from assay.health.rules.signals import StepSignals
from assay.rollout.dataset.suite import Play
from assay.rollout.evaluation.trajectory import episode_of, turn_of
from assay.rollout.tasks.protocol import Item
from tests.training.alarm_shapes import (
    FUNCTIONS,
    N_ITEMS,
    Asked,
    Golds,
    Policy,
    Shape,
    always,
    call,
    certain,
    changed,
    chatty,
    copies,
    even,
    flags,
    free_text,
    guesser,
    into,
    labels,
    learner,
    made,
    nested,
    number_only,
    order,
    said,
    same_gold,
    with_constant,
    with_null,
    with_rare_note,
)
from tests.training.healthy_setup import composed

STEPS, ITEMS, GROUP, VALIDATE, VALIDATED = 60, 8, 8, 20, 48
LABEL0, LABEL1 = {"label": "label0"}, {"label": "label1"}


def sound() -> list[Shape]:
    """Return trainings in which nothing is wrong."""
    shapes = [Shape(f"{k} labels, learned", even(k), learner(1 / k, 0.97), False) for k in (2, 3, 5, 10)]
    shapes += [Shape(f"{k} labels, all right from the start", even(k), certain, False) for k in (2, 3, 5, 10)]
    shapes += [
        Shape(f"{k} labels, learned to certainty", even(k), learner(0.9 / k + 0.1, 0.999), False)
        for k in (2, 4, 7)
    ]
    shapes += [
        Shape("2 labels, 70 to 30", labels(7, 3), learner(0.55, 0.97), False),
        Shape("2 labels, 95 to 5", labels(95, 5), learner(0.8, 0.99), False),
        Shape("3 labels, 80 to 10 to 10", labels(8, 1, 1), learner(0.6, 0.97), False),
        Shape("8 labels, by Zipf", labels(*(1 / k for k in range(1, 9))), learner(0.3, 0.95), False),
        Shape(
            "2 labels, a base that leans by 75 to 25",
            even(2),
            learner(0.5, 0.97, lean={said(LABEL0): 1.0}),
            False,
        ),
        Shape(
            "3 labels, a base that leans",
            even(3),
            learner(0.4, 0.97, lean={said(LABEL1): 0.8, said(LABEL0): 0.2}),
            False,
        ),
        Shape("10 labels, a base that leans", even(10), learner(0.2, 0.95, lean={said(LABEL1): 1.0}), False),
        Shape("3 labels, 15 % mislabelled", even(3), learner(0.4, 0.99, noise=0.15), False),
        Shape("2 labels, hard: 80 % at best", even(2), learner(0.52, 0.8), False),
        Shape("4 labels, guessed and never learned", even(4), guesser, False),
        Shape("numbers, each its own", made(number_only), learner(0.3, 0.95), False),
        Shape("numbers, certain", made(number_only), certain, False),
        Shape("free text", made(free_text), learner(0.2, 0.8), False),
        Shape("three fields", made(order), learner(0.3, 0.95), False),
        Shape("three fields, certain", made(order), certain, False),
        Shape("nested fields and a list", made(nested), learner(0.3, 0.95), False),
        Shape("yes or no in two fields", made(flags), learner(0.3, 0.95), False),
        Shape("a field that is constant in the golds", made(with_constant), learner(0.3, 0.95), False),
        Shape("a field that is mostly empty in the golds", made(with_rare_note), learner(0.3, 0.95), False),
        Shape("a field that is often null in the golds", made(with_null), learner(0.3, 0.95), False),
        Shape("calls of functions", made(call), learner(0.3, 0.95), False, functions=FUNCTIONS),
        Shape("one gold for all", made(same_gold), learner(0.5, 0.99), False),
        Shape("prose at first, an answer later", made(order), chatty(learner(0.3, 0.95)), False),
        Shape("half right, and no more learned", made(order), learner(0.5, 0.55), False),
    ]
    return shapes


ORDER = {"name": "Ana", "city": "Oslo", "count": 1}
START = {"at": 0.0, "over": 0.0}


def ill() -> list[Shape]:
    """Return trainings that collapse, or that cheat."""
    unsure, rarer = learner(0.2, 0.25), labels(95, 5)
    one_label, one_order = always(LABEL0), always(ORDER)
    made_up: list[tuple[str, Golds, Policy]] = [
        *((f"{k} labels, always one of them", even(k), into(one_label)) for k in (2, 3, 5, 10)),
        ("2 labels, one of them from the start", even(2), into(one_label, **START)),
        ("3 labels, one of them from the start", even(3), into(one_label, **START)),
        ("2 labels, nearly always one of them", even(2), into(one_label, share=0.9)),
        ("2 labels 70 to 30, always the commoner", labels(7, 3), into(one_label)),
        ("2 labels 95 to 5, always the commoner", rarer, into(one_label, first=learner(0.8, 0.9))),
        ("2 labels 95 to 5, the commoner from the start", rarer, into(one_label, **START)),
        ("2 labels 95 to 5, always the rarer", rarer, into(always(LABEL1))),
        ("3 labels, an answer that is none of them", even(3), into(always({"label": "unknown"}), share=0.5)),
        ("3 labels, prose", even(3), into(always("I cannot say."))),
        ("one order for all", made(order), into(one_order)),
        ("one order for a third", made(order), into(one_order, share=0.4)),
        ("an empty object for all", made(order), into(always({}))),
        ("one number for all", made(number_only), into(always({"answer": 42}))),
        ("copies of a wrong answer in each group", made(order), into(copies)),
        ("sure of wrong numbers", made(number_only), into(copies, first=unsure)),
        ("sure of wrong labels", even(10), into(copies, first=unsure)),
        ("a field that empties out", made(order), into(changed(city=""))),
        ("a field that is left out", made(order), into(changed(city=None))),
        ("a field that empties out in half", made(order), into(changed(city=""), share=0.5)),
        ("a field that says one and the same", made(order), into(changed(city="Oslo"))),
        ("a number that is always 0", made(order), into(changed(count=0))),
        ("two fields that say one and the same", made(order), into(changed(city="Oslo", count=1))),
        ("a nested field that empties out", made(nested), into(changed(who={"city": ""}))),
        ("a nested object that is left out", made(nested), into(changed(who={}))),
        ("a list that empties out", made(nested), into(changed(tags=[]))),
        ("always yes", made(flags), into(changed(urgent=True))),
        ("often null in the golds, always null", made(with_null), into(changed(discount=None))),
        ("mostly empty in the golds, always empty", made(with_rare_note), into(changed(note=""))),
        ("an argument that empties out", made(call), into(changed(arguments={"item": ""}))),
        ("always the same function", made(call), into(changed(name="ship"))),
    ]
    calls = ("an argument that empties out", "always the same function")
    return [
        Shape(name, golds, policy, True, functions=FUNCTIONS if name in calls else None)
        for name, golds, policy in made_up
    ]


@functools.cache
def settings() -> Params:
    """Return the shipped settings with short windows, as most presets have them, and steps of few items."""
    values = json.loads(json.dumps(composed("tiny", "structured")))
    values["health"]["top_share_window"] = 10
    values["train"] |= {"steps": 200, "items_per_step": 8}
    values["distributed"]["processes"] = 1
    return parse_params(values)


@dataclass
class Training:
    """One shape as a training."""

    shape: Shape
    seed: int = 0
    logged: bool = False  # whether it keeps rows, as alarms read a log

    def __post_init__(self) -> None:
        params = settings()
        self.task = params.task.build(params.generation, shaping=False)
        self.asked, self.items = {}, []
        for number in range(N_ITEMS):
            gold, golds, shares = self.shape.golds(number)
            asked = Asked(number, gold, golds, shares, float(rng("hard", self.seed, number).normal()))
            row: dict[str, Any] = {"id": f"i{number}", "prompt": f"Item {number}: answer.", "gold": gold}
            row |= (
                {"functions": self.shape.functions}
                if self.shape.functions
                else {"schema": self.shape.schema or {}}
            )
            item = self.task.item(row)
            self.asked[item.id] = asked
            self.items.append(item)
        self.graded: dict[tuple[str, str], Episode] = {}
        self.rows: list[dict[str, Any]] = []

    def episode(self, item: Item, text: str, draw: int) -> Episode:
        if (item.id, text) not in self.graded:
            _, state = self.task.start(item, 0)
            step = self.task.step(state, text)
            turn = turn_of(step, text, 1 + len(text) // 4, False, "")
            assert step.ending is not None
            self.graded[item.id, text] = episode_of(
                self.task, Play(item, 0, 0, 0), step.state, [turn], step.ending, 0
            )
        return self.graded[item.id, text].model_copy(update={"draw": draw})

    def group(self, item: Item, done: float, draws: int, *label: Any) -> tuple[list[Episode], float]:
        """Return draws of an item and the entropy of a token."""
        dist = {text: p for text, p in self.shape.policy(self.asked[item.id], done).items() if p > 0}
        texts, p = list(dist), np.array(list(dist.values()))
        p = p / p.sum()
        chosen = rng("draws", self.seed, item.id, *label).choice(len(texts), size=draws, p=p)
        nats = float(-(p * np.log(p)).sum()) / 6 + 0.002
        return [self.episode(item, texts[int(k)], draw) for draw, k in enumerate(chosen)], nats

    def run(self) -> list[HealthEvent]:
        """Return what rings."""
        train, judged = self.items[:-VALIDATED], self.items[-VALIDATED:]
        monitor = Monitor(settings().health, self.task, Honest(self.task, train))
        chance, events = rng("order", self.seed), list[HealthEvent]()
        for step in range(STEPS + 1):
            done = step / STEPS
            if step % VALIDATE == 0:
                groups = [self.group(item, done, 2, "validation", step)[0] for item in judged]
                events += monitor.validation(step, [each for group in groups for each in group])
            if step == 0:
                continue
            chosen = chance.choice(len(train), size=ITEMS, replace=False)
            played = [self.group(train[int(k)], done, GROUP, step) for k in chosen]
            episodes = [each for group, _ in played for each in group]
            entropy = float(np.mean([nats for _, nats in played]))
            signals = replace(
                StepSignals.of(step, episodes, monitor.honest),
                entropy=entropy,
                kl=0.05 * done,
                grad_norm=0.3,
                lost=0.0,
            )
            events += monitor.step(signals)
            if not self.logged:
                continue
            whole, parts = monitor.heard.logged()
            self.rows.append(
                {
                    "step": step,
                    "item_ids": list(signals.item_ids),
                    "skipped": None,
                    "signals": signals.numbers() | whole,
                    "window": parts,
                    "fields": signals.shares(),
                }
            )
        return events


def worst(events: Sequence[HealthEvent]) -> dict[str, str]:
    """Return the worst level of each rule that rang; STOP for one that ended the training."""
    rank, found = ("AMBER", "RED", "STOP"), dict[str, str]()
    for event in events:
        level = "STOP" if event.stop else event.level
        if level != "GREEN" and rank.index(level) >= rank.index(found.get(event.rule, "AMBER")):
            found[event.rule] = level
    return found
