"""The opening of an episode as token ids, within the task's limit: cut where the task allows it, else
refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from assay.core.errors import TaskError
from assay.evaluation.phases import Timed, untimed
from assay.tasks.protocol import Item, Message, Task


class Opens(Protocol):
    """Renders and tokenises: `policy.dialogue.Dialogue`, or `policy.words.Words` where there is no
    tokenizer."""

    def opening(self, messages: Sequence[Message]) -> list[int]:
        """Return the token ids of an opening, up to where the policy starts to write."""
        ...


@dataclass(frozen=True, slots=True)
class Opening:
    """What the policy reads first, the state it plays from, and how many characters were left out to fit."""

    prompt_ids: list[int]
    state: Any
    chars_cut: int


def open_item(task: Task, dialogue: Opens, item: Item, world_seed: int, *, timed: Timed = untimed) -> Opening:
    """Return the opening of an item, rendered by the chat template and no longer than
    `task.max_prompt_tokens`.

    Only what is read may be cut: the state is that of the whole item, so that stored completions are graded
    again without knowing what was cut. The task's own time is told to `timed` as environment.

    Raises:
        TaskError: It is too long and the task does not allow to cut so much; names item, tokens, limit and
            fix.
        EnvironmentFailure: The environment crashed or timed out.
    """
    with timed("environment"):
        messages, state = task.start(item, world_seed)
    ids = dialogue.opening(messages)
    limit = task.max_prompt_tokens
    if limit is None or len(ids) <= limit:
        return Opening(ids, state, item.chars_cut)
    fitted = _fitted(
        task, dialogue, item, world_seed, excess=len(ids) - limit, chars=_chars(messages), timed=timed
    )
    if fitted is None:
        raise TaskError(
            f"at most {limit} tokens in the rendered prompt (task.max_prompt_tokens)",
            found=f"{len(ids)}, and the task does not allow to cut enough",
            where=f"item {item.id}",
            fix=(
                "raise task.max_prompt_tokens, set task.truncate_prompts: true if the task has it, or drop"
                " the record"
            ),
        )
    return Opening(fitted[0], state, fitted[1])


def _chars(messages: Sequence[Message]) -> int:
    return sum(len(message["content"]) for message in messages)


def _fitted(
    task: Task, dialogue: Opens, item: Item, world_seed: int, *, excess: int, chars: int, timed: Timed
) -> tuple[list[int], int] | None:
    """Return the ids of the shortened opening that fits and what it lacks in characters; None if none
    fits."""
    limit = task.max_prompt_tokens or 0
    too_few, enough = 0, chars + 1
    best: tuple[list[int], int] | None = None
    # Doubled from one character a token, then halved. Each try renders and tokenises a whole prompt, so the
    # search ends once no more than 3 % of the limit is left unused.
    while enough - too_few > 1 and (best is None or len(best[0]) < limit - limit // 32):
        cut = max(excess, 2 * too_few) if best is None else (too_few + enough) // 2
        if cut >= enough:
            cut = (too_few + enough) // 2
        shorter = task.shortened(item, cut)
        if shorter is None:
            enough = cut
            continue
        with timed("environment"):
            messages, _ = task.start(shorter, world_seed)
        ids = dialogue.opening(messages)
        if len(ids) <= limit:
            best, enough = (ids, shorter.chars_cut), cut
        else:
            too_few = cut
    return best
