"""In which form a reward function reads completions and which columns of a record: a prompt that is a text
gives completions that are texts, a conversation gives lists with one message, as in TRL."""

from __future__ import annotations

import inspect
from dataclasses import replace

from assay.checks.envcheck.case import Case, World
from assay.checks.envcheck.episodes import factory
from assay.rollout.tables.columns import NAMES
from assay.rollout.tasks.own.api import Message
from assay.rollout.tasks.own.loading import RewardFunction

AS_TEXT = "a text in place of the list of messages"
AS_MESSAGES = 'a list of messages, [{"role": "user", "content": "…"}], in place of the text'
NO_COLUMNS = frozenset({"prompts", "completions", "completion_ids", "options", "trainer_state"})


def reward_of(case: Case) -> RewardFunction | None:
    """Return the reward function of a task that is one."""
    made = None if case.own is None else factory(case)()
    return made if isinstance(made, RewardFunction) else None


def columns_read(case: Case) -> list[str]:
    """Return the columns of the records that the reward function asks for by name; of one that takes all,
    those that are called like an answer."""
    found = reward_of(case)
    if found is None:
        return []
    row = dict(case.splits["train"][0].hidden)
    named = [name for name in inspect.signature(found.function).parameters if name not in NO_COLUMNS]
    columns = [name for name in named if name in row]
    return columns or [name for name in NAMES["reference"] if name in row]


def in_form(form: str) -> str:
    """Return what mends a reward that reads another form, as a person types it."""
    return f"prompt: {form}, in every record; or read completions as they come, a text for a text"


def other_form(case: Case, world: World) -> tuple[str, World] | None:
    """Return what its prompt would be in the other form, in words, and that world; None where there is no
    reward function, or a conversation of more than the user's message."""
    if reward_of(case) is None:
        return None
    prompt = world.item.hidden.get("prompt")
    if isinstance(prompt, str):
        form = AS_MESSAGES
        changed: str | list[Message] = [{"role": "user", "content": prompt}]
    elif isinstance(prompt, list) and prompt:
        form, changed = AS_TEXT, str(prompt[-1].get("content", ""))
    else:
        return None
    return form, replace(world, item=replace(world.item, hidden={**world.item.hidden, "prompt": changed}))
