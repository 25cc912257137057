"""Conversations as prompts: what was said before, and the user's last message, which asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ROLES = ("system", "user", "assistant")
RULE = (
    "messages {role, content}: a system's first if at all, then user and assistant in turn, the user's last"
)


class NoConversation(ValueError):
    """A list of messages that no chat template would render as it is meant; says what was found."""


def read_conversation(messages: Any) -> tuple[tuple[tuple[str, str], ...], str]:
    """Return what was said before, as (role, text), and the user's last message.

    A field that is null counts as none, as exports write it.

    >>> read_conversation([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}])
    ((('system', 'Be brief.'),), 'Who?')

    Raises:
        NoConversation: The messages are no conversation, or one that does not end with the user.
    """
    if not isinstance(messages, list) or not messages:
        raise NoConversation(ascii(messages)[:80])
    said = [_message(message, number) for number, message in enumerate(messages, start=1)]
    turns = said[1:] if said[0][0] == "system" else said
    for number, (role, _) in enumerate(turns, start=len(said) - len(turns) + 1):
        expected = "user" if (number - (len(said) - len(turns))) % 2 else "assistant"
        if role != expected:
            raise NoConversation(f"message {number} is the {role}'s where the {expected}'s is due")
    if not turns or turns[-1][0] != "user":
        raise NoConversation(
            "the last message is not the user's (what the assistant should say belongs into gold)"
        )
    return tuple(said[:-1]), said[-1][1]


def _message(message: Any, number: int) -> tuple[str, str]:
    if not isinstance(message, Mapping):
        raise NoConversation(f"message {number} is no object")
    given = {name: value for name, value in message.items() if value is not None}
    role, content = given.pop("role", None), given.pop("content", None)
    if role not in ROLES:
        raise NoConversation(
            f"message {number} has the role {ascii(role)[:40]}; there are {', '.join(ROLES)}"
        )
    if not isinstance(content, str) or not content.strip():
        raise NoConversation(
            f"message {number} has {'no text' if content is None else ascii(content)[:40]} as content"
        )
    if given:
        raise NoConversation(f"message {number} has {ascii(sorted(given)[0])[:40]}, which would not be shown")
    return role, content
