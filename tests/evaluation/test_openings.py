"""A prompt is cut only where its task allows it, no more than it must, and else refused; a cut is counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from assay.core.decoding import Decoding
from assay.core.errors import TaskError
from assay.core.records import Episode
from assay.rollout.dataset.suite import Suite
from assay.rollout.evaluation.alarms import cuts_said
from assay.rollout.evaluation.replay import graded_again
from assay.rollout.evaluation.rollout import Pace, play
from assay.rollout.evaluation.trajectory import open_item
from assay.rollout.policy.model import Policy
from assay.rollout.tasks.protocol import Item
from tests.small_policy import small_policy
from tests.training.toy_task import WORDS, Letters

ITEM = Item("long", "long", {}, "abcdefgh" * 25, None)
SHORT = Item("short", "short", {}, "abc", None)
TEMPLATE = 3  # tokens: user, end, assistant


class Rigid(Letters):
    """A task of which nothing may be cut."""

    def shortened(self, item: Item, chars: int) -> Item | None:
        return None


class HalfRigid(Letters):
    """A task that gives up at most 100 characters of a prompt."""

    def shortened(self, item: Item, chars: int) -> Item | None:
        return super().shortened(item, chars) if chars <= 100 else None


class Marking(Letters):
    """A task that leaves a mark where it cut, so that a cut costs more than it takes."""

    def shortened(self, item: Item, chars: int) -> Item | None:
        if chars + 4 > len(item.public):
            return None
        return replace(item, public="hhhh" + item.public[chars + 4 :], chars_cut=item.chars_cut + chars)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return small_policy(WORDS, hidden_size=16, intermediate_size=32)


def played(policy: Policy, task: Any, *items: Item) -> tuple[Suite, list[Episode]]:
    suite = Suite("heldout", items, 2, 0)
    rollouts = play(policy, task, suite.plays(), Decoding(1.0, 4), pace=Pace(64))
    assert all(len(r.prompt_ids) <= (task.max_prompt_tokens or 1000) for r in rollouts)
    return suite, [r.episode for r in rollouts]


def test_without_a_limit_nothing_is_cut(policy: Policy) -> None:
    opened = open_item(Letters(), policy.dialogue, ITEM, 0)
    assert (len(opened.prompt_ids), opened.chars_cut) == (200 + TEMPLATE, 0)


def test_the_template_counts_and_a_prompt_of_just_the_limit_stays_whole(policy: Policy) -> None:
    assert open_item(Rigid(max_prompt_tokens=200 + TEMPLATE), policy.dialogue, ITEM, 0).chars_cut == 0
    with pytest.raises(TaskError):
        open_item(Rigid(max_prompt_tokens=199 + TEMPLATE), policy.dialogue, ITEM, 0)


@pytest.mark.parametrize("kind", [Letters, HalfRigid, Marking])
@pytest.mark.parametrize("limit", [202, 180, 150, 110])
def test_a_long_prompt_is_cut_to_fit_and_little_more(policy: Policy, kind: type[Letters], limit: int) -> None:
    opened = open_item(kind(max_prompt_tokens=limit), policy.dialogue, ITEM, 0)
    assert limit - limit // 32 <= len(opened.prompt_ids) <= limit
    assert opened.chars_cut == 200 + TEMPLATE - len(opened.prompt_ids)


def test_of_a_very_long_prompt_as_much_is_kept_as_of_any(policy: Policy) -> None:
    endless = replace(ITEM, public="abcdefgh" * 10_000)
    assert 97 <= len(open_item(Letters(max_prompt_tokens=100), policy.dialogue, endless, 0).prompt_ids) <= 100


@pytest.mark.parametrize(
    "task", [Rigid(max_prompt_tokens=50), HalfRigid(max_prompt_tokens=102), Letters(max_prompt_tokens=3)]
)
def test_what_may_not_be_cut_enough_is_refused_by_name_tokens_and_limit(
    policy: Policy, task: Letters
) -> None:
    with pytest.raises(TaskError) as refused:
        open_item(task, policy.dialogue, ITEM, 0)
    text = str(refused.value)
    for word in (
        "item long",
        f"at most {task.max_prompt_tokens} tokens",
        "found 203",
        "max_prompt_tokens",
        "truncate_prompts",
    ):
        assert word in text


def test_what_is_played_is_what_was_cut_and_episodes_count_it(policy: Policy) -> None:
    _, episodes = played(policy, Letters(max_prompt_tokens=100), ITEM, SHORT)
    by_item = {e.item_id: e.prompt_chars_cut for e in episodes}
    assert by_item["short"] == 0 and by_item["long"] >= 103
    assert str(cuts_said(episodes)).startswith("1 of 2 prompts was cut")
    assert cuts_said([e for e in episodes if e.item_id == "short"]) is None


def test_a_cut_episode_is_graded_again_from_the_whole_item(policy: Policy) -> None:
    task = Letters(max_prompt_tokens=100)
    suite, episodes = played(policy, task, ITEM, SHORT)
    assert graded_again(task, suite, episodes, "arm") == []


def test_what_the_task_itself_cut_while_reading_is_counted_too(policy: Policy) -> None:
    item = replace(ITEM, public="abcdefgh" * 5, chars_cut=1000)
    assert open_item(Letters(), policy.dialogue, item, 0).chars_cut == 1000
    assert open_item(Letters(max_prompt_tokens=33), policy.dialogue, item, 0).chars_cut == 1010
