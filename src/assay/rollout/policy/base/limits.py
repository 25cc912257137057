"""What a tiny base is too small for, told before it is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.core.config.settings import ScratchBase
from assay.core.errors import PolicyError
from assay.rollout.policy.base.words import Words

MOST_WORDS = 2000  # a vocabulary of more leaves too few parameters, and too few lessons for each
PRETRAINED = "choose a pretrained base: ./run assay config use grpo=pretrained"

Dialogues = Sequence[Sequence[Mapping[str, str]]]


def refuse_too_large(
    words: Sequence[str], dialogues: Dialogues, settings: ScratchBase, max_new_tokens: int
) -> None:
    """Refuse a task that a base built from scratch cannot hold.

    Args:
        words: Of its vocabulary.
        dialogues: Whole ones, as they would be imitated.
        settings: Of the base.
        max_new_tokens: That a completion may take.

    Raises:
        PolicyError: It has too many words, or too long dialogues or completions; says which, and what else to
            choose.
    """
    where = "base.kind: scratch, for this task"
    if len(words) > MOST_WORDS:
        expected, fix = f"at most {MOST_WORDS:,} words in train records and what players say", PRETRAINED
        raise PolicyError(expected, found=f"{len(words):,}", where=where, fix=fix)
    cut, most = Words(words), settings.architecture.max_positions
    said = [
        len(cut.ids(each["content"])) + 1 for one in dialogues for each in one if each["role"] == "assistant"
    ]
    if (longest := max(said, default=0)) > max_new_tokens:
        over = sum(n > max_new_tokens for n in said)
        raise PolicyError(
            f"completions of at most {max_new_tokens} tokens",
            found=f"{over} of {len(said)} of the players' that are longer, up to {longest}",
            where=where,
            fix=f"task.max_new_tokens: {{compact: {longest}, json: {longest}}}, or {PRETRAINED}",
        )
    whole = [len(cut.prompt(one[:-1])) + len(cut.ids(one[-1]["content"])) + 1 for one in dialogues]
    if (longest := max(whole, default=0)) > most:
        raise PolicyError(
            f"dialogues of at most {most} tokens",
            found=f"{sum(n > most for n in whole)} of {len(whole)} that are longer, up to {longest}",
            where=where,
            fix=f"shorten what the task says, raise base.architecture.max_positions, or {PRETRAINED}",
        )
