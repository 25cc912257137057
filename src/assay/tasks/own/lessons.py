"""What teaches a base that is built from scratch: derived from train records and the weak player."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from assay.tasks.protocol import Message

if TYPE_CHECKING:
    from assay.tasks.own.task import OwnTask


def demonstrations(task: OwnTask, rng: np.random.Generator, n: int) -> Sequence[Sequence[Message]]:
    """Return whole dialogues of the weak player on train records."""
    raise NotImplementedError


def drills(task: OwnTask, rng: np.random.Generator, n: int) -> Sequence[Sequence[Message]]:
    """Return short dialogues whose answer is copied from the question."""
    raise NotImplementedError


def vocabulary(task: OwnTask) -> Sequence[str]:
    """Return the words of a tokenizer built from scratch."""
    raise NotImplementedError
