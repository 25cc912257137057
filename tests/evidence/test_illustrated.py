"""What was done: figures of the collider's own episodes, and the pairs that a reader steps through."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, cast

import pytest

from assay.core.records import Episode
from assay.rollout.dataset.suite import Suite
from assay.rollout.evaluation.replay import play_baseline, states_of
from assay.rollout.tasks.protocol import Task
from assay.stages.render_evidence.illustrations import illustrations, stepped
from assay.stages.render_evidence.remembered import Remembered
from assay.verdict.evidence.figures.drawing import render
from assay.verdict.evidence.figures.gallery import of_what_was_done
from assay.verdict.evidence.figures.illustrated_figures import mark_rows, panels_shown, spending_rows
from assay.verdict.evidence.page.stepping import HEIGHT, moments
from assay.verdict.evidence.tables.trajectories import Stepped
from assay_tasks.collider import Collider, ColliderSettings, generate
from figure_boxes import faults

Arms = tuple[list[Episode], list[Episode]]


@pytest.fixture(scope="module")
def task() -> Task:
    return Collider(ColliderSettings(surface="compact", max_turns=8, shaping=0.0, gamma=1.0))


@pytest.fixture(scope="module")
def suite(task: Task) -> Suite:
    rows = generate("validation", 60, max_turns=8, labels=("illustrated",))
    return Suite("heldout", tuple(task.item(row) for row in rows), draws=2, seed=3)


@pytest.fixture(scope="module")
def arms(task: Task, suite: Suite) -> Arms:
    """Return a weak and a strong player, as if they were the policy before and after."""
    found = [
        play_baseline(task, task.baselines()[name], suite.plays(), name) for name in ("random", "adaptive")
    ]
    return found[0], found[1]


def test_an_episode_played_again_ends_in_the_state_that_was_judged(
    task: Task, suite: Suite, arms: Arms
) -> None:
    plays = {(play.item.id, play.draw): play for play in suite.plays()}
    for episode in arms[1]:
        states = states_of(task, plays[episode.item_id, episode.draw], episode)
        assert len(states) == len(episode.turns) + 1
        assert task.judge(states[-1]).metrics == episode.metrics


def test_shares_of_marks_are_those_of_the_flags_and_budgets_add_up(
    task: Task, suite: Suite, arms: Arms
) -> None:
    shows = illustrations(task, suite, arms, cast(Task, Remembered(task)))
    assert shows is not None and shows == illustrations(task, suite, arms, task)
    rows = {row.name: row for row in mark_rows(arms, shows, 1)}
    for k, arm in enumerate(arms):
        found = (rows["right claim, proven"].before, rows["right claim, proven"].after)[k]
        claimed = [episode.success and episode.ending == "claim" for episode in arm]
        assert found is not None and found.value == pytest.approx(sum(claimed) / len(arm))
    for of_budget in spending_rows(arms, shows, 1).values():
        for side in ("before", "after"):
            assert sum(getattr(row, side).value for row in of_budget) == pytest.approx(1.0)
        assert all(row.difference is not None and row.difference.low is not None for row in of_budget)


def test_pairs_to_step_through_are_the_first_by_rule(task: Task, suite: Suite, arms: Arms) -> None:
    shown = stepped(task, suite, arms)
    assert [each.pair.kind for each in shown] == ["fixed", "failed"]
    order = {item.id: k for k, item in enumerate(suite.items)}
    for each, rule in zip(
        shown, (lambda b, a: a.success and not b.success, lambda b, a: not a.success), strict=True
    ):
        fitting = [
            order[before.item_id]
            for before, after in zip(*arms, strict=True)
            if before.draw == 0 and before.strata["kind"] == "signal" and rule(before, after)
        ]
        assert order[each.pair.before.item_id] == min(fitting)


def test_what_is_said_again_in_the_same_world_is_played_once(task: Task, suite: Suite, arms: Arms) -> None:
    made = list[str]()

    class Counted(Bare):
        def __init__(self, task: Task) -> None:
            super().__init__(task)
            self.step = lambda state, said: made.append(said) or task.step(state, said)  # type: ignore[func-returns-value]

    counted = cast(Task, Remembered(cast(Task, Counted(task))))
    for _ in range(2):
        assert illustrations(task, suite, arms, counted) == illustrations(task, suite, arms, task)
    played = [
        (e.item_id, *(t.completion for t in e.turns[: k + 1]))
        for arm in arms
        for e in arm
        for k in range(len(e.turns))
    ]
    assert len(made) == len(set(played))


class Bare:
    """The same task without the offer."""

    def __init__(self, task: Task) -> None:
        self.start, self.step, self.judge = task.start, task.step, task.judge


def test_a_task_without_the_offer_has_pairs_without_pictures_and_no_figures(
    task: Task, suite: Suite, arms: Arms
) -> None:
    bare = cast(Task, Bare(task))
    assert illustrations(bare, suite, arms, bare) is None
    shown = stepped(bare, suite, arms)
    assert [each.pictures for each in shown] == [None, None]
    assert "something to find" not in shown[0].pair.reason
    assert all(not moment.panels for pair in moments(shown[0]) for moment in pair)


def test_episodes_of_one_turn_are_not_stepped_through(task: Task, suite: Suite, arms: Arms) -> None:
    short = [[each.model_copy(update={"turns": each.turns[:1]}) for each in arm] for arm in arms]
    assert stepped(task, suite, (short[0], short[1])) == []


def test_moments_go_on_until_the_longer_episode_ends_and_one_scale_holds_for_all(
    task: Task, suite: Suite, arms: Arms
) -> None:
    shown = stepped(task, suite, arms)[0]
    found, pair = moments(shown), shown.pair
    assert len(found) == max(len(pair.before.turns), len(pair.after.turns))
    for k, both in enumerate(found, 1):
        for moment, episode in zip(both, (pair.before, pair.after), strict=True):
            assert moment.number == min(k, len(episode.turns)) and moment.over == (k > len(episode.turns))
            assert moment.said and moment.turn is episode.turns[moment.number - 1]
            heights = [int(y) for panel in moment.panels for y in re.findall(r"V(\d+)", panel.measured)]
            assert all(0 <= y <= HEIGHT for y in heights)
    assert shown.pictures is not None
    assert len(found[0][0].panels) == len(panels_shown(shown.pictures))


@pytest.mark.long
def test_figures_say_what_they_show_with_n_and_equal_data_give_equal_bytes(
    task: Task, suite: Suite, arms: Arms
) -> None:
    def drawn() -> list[Any]:
        shows = illustrations(task, suite, arms, task)
        assert shows is not None
        truths = {item.id: task.truth(item) for item in suite.items}
        return of_what_was_done(shows, stepped(task, suite, arms), arms, truths, 1)

    first, second = drawn(), drawn()
    assert [each.name for each in first] == ["answers", "budgets", "one_world"]
    assert all(re.search(r"n = \d+", each.finding) and len(each.table) for each in first)
    assert "fell" in first[0].finding
    assert [faults(each.figure) for each in drawn()] == [[]] * 3
    for one, other in zip(first, second, strict=True):
        assert render(one.figure, one.finding) == render(other.figure, other.finding)


def test_a_pair_without_pictures_is_no_figure(task: Task, suite: Suite, arms: Arms) -> None:
    shows = illustrations(task, suite, arms, cast(Task, Remembered(task)))
    assert shows is not None and shows == illustrations(task, suite, arms, task)
    bare = [Stepped(replace(each.pair)) for each in stepped(task, suite, arms)]
    assert [each.name for each in of_what_was_done(shows, bare, arms, {}, 1)] == ["answers", "budgets"]
