"""Whether what a task can do beside playing is as it is used: each ability on a few episodes, and secondary
suites."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from assay.checks.envcheck.case import World, items_in
from assay.checks.envcheck.episodes import factory, row_of, shown
from assay.checks.envcheck.evidence import Evidence, check
from assay.checks.findings import Finding
from assay.core.config.settings import AuditSettings
from assay.core.counting import counted
from assay.core.errors import AssayError, EnvironmentFailure
from assay.core.storage.json import digest
from assay.rollout.dataset.suite import FEWEST_CLUSTERS
from assay.rollout.policy.base.words import Words
from assay.rollout.tasks.own.calls import Reply, checked
from assay.rollout.tasks.own.mixins import step_batch_of
from assay.rollout.tasks.protocol import Item, Step, answer_key, illustrated, schematic
from assay.rollout.tasks.schema import compile_schema

LOOKED_AT = 8  # worlds
LESSONS = 32
ROUNDING = 1e-9
OVERLAP = 0.1
EACH = 3  # of them, of each player
Played = tuple[World, list[Any], list[Step], str]
Problem = str | None  # None: the task has no such ability; "": all is well


def abilities(seen: Evidence) -> Finding:
    """Return whether every ability of the task gives what is asked of it."""
    look = check("abilities", "what the task can do beside playing, as it is used", "the task's code")
    had, wrong = list[str](), list[str]()
    episodes: list[Played] = []
    for name, examine in LOOKS.items():
        try:
            episodes = episodes or _episodes(seen)
            found = examine(seen, episodes)
        except AssayError as error:
            found = f"{error.expected}: {error.found} ({error.where})"
        except EnvironmentFailure as error:
            found = str(error)
        if found is not None:
            had.append(name)
        if found:
            wrong.append(f"{name}: {found}")
    fix = "mend it as its mix-in in assay.rollout says, or take it out of the settings of the task"
    told = ", ".join(had) or "none"
    return look.fault("; ".join(wrong), fix) if wrong else look.ok(told)


def _worlds(seen: Evidence) -> Sequence[World]:
    return seen.case.worlds(LOOKED_AT)


def _declared(seen: Evidence, name: str) -> bool:
    """Return whether the task's code has an ability: all shipped ones do that offer it."""
    own = seen.case.own
    return own is None or name in own.settings.abilities


def _episodes(seen: Evidence) -> list[Played]:
    """Return episodes of every player of the task, as it plays them."""
    task, found = seen.case.task, list[Played]()
    for name, player in task.baselines().items():
        for world in _worlds(seen)[:EACH]:
            rng = np.random.default_rng([len(name), world.seed])
            states, steps = [task.start(world.item, world.seed)[1]], list[Step]()
            while not steps or (steps[-1].ending is None and len(steps) < seen.case.max_turns):
                steps.append(task.step(states[-1], player(world.item, states[-1], rng)))
                states.append(steps[-1].state)
            found.append((world, states, steps, name))
    return found


def _key(seen: Evidence, episodes: Sequence[Played]) -> Problem:
    key, task = answer_key(seen.case.task), seen.case.task
    if key is None or not _declared(seen, "answer_key"):
        return None
    known = 0
    for world in _worlds(seen):
        item = world.item
        if (solution := key.solution(item)) is None:
            continue
        known += 1
        state, ending, left = task.start(item, world.seed)[1], None, seen.case.max_turns
        while ending is None and left > 0:
            last = task.step(state, solution)
            state, ending, left = last.state, last.ending, left - 1
        if ending is None or not task.judge(state).success or last.action is None:
            return f"solution of item {item.id} is no success: {shown(solution)}"
        right, found = key.right_answer(item), key.answer(item, last.action)
        if found != right:
            return f"item {item.id}: answer of its solution is {found!r}, right_answer {right!r}"
        if wrong := [name for name, each in key.fields(item, last.action).items() if not each.right]:
            return f"item {item.id}: fields of its solution are wrong: {', '.join(wrong)}"
        key.shape(item)
    key.survey([world.item for world in _worlds(seen)])
    return "" if known else "solution knows of no record what is right"


def _schema(seen: Evidence, episodes: Sequence[Played]) -> Problem:
    task = schematic(seen.case.task)
    if task is None:
        return None
    for each in seen.sound[:LOOKED_AT]:
        root = json.loads(task.answer_schema(each.world.item))
        schema = compile_schema(json.dumps({"schema": root, "resources": {}, "uri": None}))
        for said in each.said:
            try:
                problem = schema.problem(json.loads(said))
            except ValueError:
                problem = "no JSON"
            if problem is not None:
                return f"item {each.world.item.id}: {shown(said)} is right, and not by its schema: {problem}"
    return ""


def _lessons(seen: Evidence, episodes: Sequence[Played]) -> Problem:
    case = seen.case
    if not _declared(seen, "teach") or not case.params.task.teaches:
        return None
    task = case.task
    if case.own is not None:
        case.own.learn_from(case.splits["train"])
    rng, words = np.random.default_rng(0), Words(task.vocabulary())
    openings = [task.start(world.item, world.seed)[0] for world in _worlds(seen)]
    given = {"demonstrations": task.demonstrations(rng, LESSONS), "drills": task.drills(rng, LESSONS)}
    for name, dialogues in given.items():
        if any(not dialogue or dialogue[-1]["role"] != "assistant" for dialogue in dialogues):
            return f"{name}: a dialogue that does not end with what the model says"
    for name, dialogues in ({"openings": openings} | given).items():
        for message in (message for dialogue in dialogues for message in dialogue):
            if not words.can_write(message["content"]):
                return f"{name}: the vocabulary cannot write {shown(message['content'])}"
    return ""


def _illustrations(seen: Evidence, episodes: Sequence[Played]) -> Problem:
    offer = illustrated(seen.case.task)
    if offer is None:
        return None
    for world, states, steps, _ in episodes:
        if steps[-1].ending is None:
            continue
        where = f"item {world.item.id}: "
        pictures = offer.pictures(states)
        if len(pictures) not in (0, len(states)):
            return f"{where}{counted(len(pictures), 'pictures')} of {counted(len(states), 'moments')}"
        for panel in (panel for picture in pictures for panel in picture.panels):
            if len(panel.edges) - 1 != len(panel.measured) or len(panel.measured) != len(panel.expected):
                return f"{where}panel {panel.name}: edges need one value more than measured and expected"
            if any(high <= low for low, high in pairwise(panel.edges)):
                return f"{where}panel {panel.name}: edges do not rise"
        mark = offer.mark(states)
        if mark is not None and mark.kind not in offer.marks:
            return f"{where}mark of a kind that marks lacks: {mark.kind}"
        for budget, uses in offer.spent(states).items():
            if any(not -ROUNDING <= share <= 1 + ROUNDING for share in (*uses.values(), sum(uses.values()))):
                return f"{where}spent: shares of {budget} are no shares of one whole"
    return ""


def _batches(seen: Evidence, episodes: Sequence[Played]) -> Problem:
    case = seen.case
    if case.own is None or "batch_step" not in case.own.settings.abilities:
        return None
    worlds, said = _worlds(seen), [*seen.pool[:2], "0", ""]
    said = [*(states[1].completions[0] for _, states, _, _ in episodes), *said]
    parts, replies = frozenset(case.own.settings.parts), list[list[Reply]]()
    for together in (True, False):
        live = [factory(case)() for _ in worlds]
        for environment, world in zip(live, worlds, strict=True):
            environment.reset(row_of(world), world.seed)
        texts = [said[place % len(said)] for place in range(len(live))]
        try:
            told = (
                step_batch_of(live[0])(live, texts)
                if together
                else [each.step(text) for each, text in zip(live, texts, strict=True)]
            )
        except Exception as error:  # noqa: BLE001 - somebody's code raises anything
            return f"{type(error).__name__}: {error}" if together else None
        if len(told) != len(live):
            return f"{counted(len(told), 'answers')} for {counted(len(live), 'completions')}"
        replies.append([checked(each, parts) for each in told])
    odd = [k for k, (one, other) in enumerate(zip(*replies, strict=True)) if one != other]
    return f"item {worlds[odd[0]].item.id} is told something else than alone" if odd else ""


def _potential(seen: Evidence, episodes: Sequence[Played]) -> Problem:
    own = seen.case.own
    if own is None or "shape" not in own.settings.abilities:
        return None
    values = set[float]()
    for _, states, _, _ in episodes:
        values |= {*own.all_asked("potential", float, [state.call for state in states[:-1]])}
    if not all(math.isfinite(value) for value in values):
        return "a potential that is no finite number"
    return "" if len(values) > 1 else f"the potential is {values or 'never asked'} in every moment"


def _records(seen: Evidence, episodes: Sequence[Played]) -> Problem:
    case = seen.case
    own = case.own
    if own is None or "records" not in own.settings.abilities:
        return None
    for world in _worlds(seen):
        item = world.item
        _, oddities = own.examine(item.row or {})
        if odd := [each.kind for each in oddities if each.kind not in AuditSettings.model_fields]:
            return f"oddity {odd[0]}, which dataset.audit lacks"
        if (shorter := own.shortened(item, 1)) is not None:
            told = ["".join(m["content"] for m in own.start(one, world.seed)[0]) for one in (item, shorter)]
            if len(told[1]) >= len(told[0]):
                return f"item {item.id}: what is told of a shortened record is no shorter"
            if own.truth(item) != own.truth(shorter):
                return f"item {item.id}: something else is right for a shortened record"
    return ""


def _generator(seen: Evidence, episodes: Sequence[Played]) -> Problem:
    own = seen.case.own
    if own is None or not own.settings.generates:
        return None
    rows = [world.item.row or {} for world in _worlds(seen)]
    one, again, other = (own.generate(rows, np.random.default_rng(k), LOOKED_AT) for k in (0, 0, 1))
    if one is None:
        return "it makes none like the records" if "generate" in own.settings.abilities else None
    if one != again:
        return "equal chances make other records"
    if one == other:
        return "other chances make the same records"
    for place, row in enumerate(one):
        own.start(own.item({"id": f"generated-{place}", **row}), 0)
    return ""


def _facts(seen: Evidence, episodes: Sequence[Played]) -> Problem:
    own = seen.case.own
    if own is None or not (own.flags or own.metrics):
        return None
    said, best = set[str](), list[Mapping[str, bool | None]]()
    for world, states, steps, name in episodes:
        if steps[-1].ending is None:
            continue
        verdict = own.judge(states[-1])
        told = {**verdict.flags, **verdict.metrics}
        said |= {each for each, value in told.items() if value is not None}
        if verdict.success and (lost := [each for each in own.valid_flags if not verdict.flags[each]]):
            return f"item {world.item.id}: a success without {lost[0]}, which task.valid_flags names"
        if name == own.ceiling and verdict.success:
            best.append(verdict.flags)
    for flag, rate in own.alarms.items():
        if best and sum(each[flag] is True for each in best) > rate * len(best):
            return f"the alarm {flag} rings for {own.ceiling}, who is right"
    never = [each for each in (*own.flags, *own.metrics) if each not in said]
    return f"never said by Told: {', '.join(never)}" if never and said else ""


LOOKS: dict[str, Callable[[Evidence, Sequence[Played]], Problem]] = {
    "answer_key": _key,
    "schema": _schema,
    "teach": _lessons,
    "illustrate": _illustrations,
    "batch_step": _batches,
    "shape": _potential,
    "records": _records,
    "generate": _generator,
    "flags and metrics": _facts,
}


def secondary_suites(seen: Evidence) -> Finding:
    """Return whether secondary suites can be read, are large enough, and hold worlds that train has not."""
    case, names = seen.case, seen.case.params.dataset.secondary
    look = check("secondary suites", "records of their own, which the task reads", "dataset.secondary")
    if not names:
        return look.ok("none")
    known, told = {_content(item) for item in case.splits["train"]}, list[str]()
    for name in names:
        try:
            items, refused = items_in(case.project, case.task, name)
        except AssayError as error:
            return look.fault(f"{name}: {str(error).splitlines()[0]}", error.fix)
        if refused:
            return look.fault(f"{name}: {refused}", "correct these records")
        clusters, same = len({item.cluster for item in items}), sum(_content(each) in known for each in items)
        fix = f"more records in {name}.jsonl, of worlds that train has not"
        if clusters < FEWEST_CLUSTERS or same > OVERLAP * len(items):
            found = f"{name}: {counted(clusters, 'clusters')}, {same} of {len(items)} records among train"
            return look.fault(found, fix)
        told.append(f"{name}: {counted(len(items), 'records')}")
    return look.ok(", ".join(told))


def _content(item: Item) -> str:
    return digest({name: value for name, value in (item.row or {}).items() if name != "id"})
