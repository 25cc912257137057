"""Where a setting stands: code that refuses one names the setting, whoever shows the refusal the file that a
person edits."""

from __future__ import annotations

import re
from collections.abc import Callable

# A name of a setting is a dotted path; only what `setting` made looks like this.
_NAMED = re.compile(r"\bsetting ([a-z0-9_]+(?:\.[a-zA-Z0-9_]+)*)")


def setting(name: str) -> str:
    """Return a dotted setting as the place of an error, before it is known in which file it stands.

    >>> setting("train.steps")
    'setting train.steps'
    """
    return f"setting {name}"


def place(name: str, file: str | None) -> str:
    """Return the place of a setting in a file, or without one where none is known yet.

    >>> place("train.steps", "params.yaml"), place("train.steps", None)
    ('params.yaml, train.steps', 'setting train.steps')
    """
    return setting(name) if file is None else f"{file}, {name}"


def located(text: str, find: Callable[[str], str]) -> str:
    """Return a message with the place of each setting that `setting` named.

    Args:
        text: The message.
        find: Returns the place of a dotted setting, with its name.

    >>> located("setting train.steps: expected 1, found 0", lambda name: f"params.yaml, {name}")
    'params.yaml, train.steps: expected 1, found 0'
    """
    return _NAMED.sub(lambda found: find(found.group(1)), text)
