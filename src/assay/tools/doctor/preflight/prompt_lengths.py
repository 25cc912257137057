"""Whether every prompt that will be played fits, known as soon as there is a tokenizer and long before there
are weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from assay.core.config.places import setting
from assay.core.counting import counted
from assay.core.errors import DataError, TaskError
from assay.dataset.suite import Play
from assay.evaluation.trajectory import GivenUp, open_item, tried
from assay.policy.renderer import Dialogue
from assay.tasks.protocol import Task

NAMED = 3  # items that a refusal names


def refuse_long_prompts(
    task: Task,
    dialogue: Dialogue,
    plays: Mapping[str, Sequence[Play]],
    *,
    positions: int | None,
    room: int,
    retries: int,
) -> dict[str, int]:
    """Return the tokens of the longest prompt of each split; what the task may cut to fit counts as it is
    cut.

    Args:
        task: Says how many tokens a prompt may have.
        dialogue: Renders it, as in play.
        plays: All that will be played, by split.
        positions: That the base has, None where it does not say.
        room: Tokens that a completion may take behind the prompt.
        retries: Of an environment that crashed.

    Raises:
        DataError: Prompts are longer than task.max_prompt_tokens or leave no room in the base; names how
            many, and which.
        EnvironmentLost: The environment failed for good.
    """
    told: list[str] = []
    longest: dict[str, int] = {}
    needed = 0
    limits = (task.max_prompt_tokens, None if positions is None else positions - room)
    limit = min((n for n in limits if n is not None), default=None)
    for split, each in plays.items():
        sizes = dict(_sizes(task, dialogue, each, retries))
        longest[split] = max(sizes.values(), default=0)
        over = {name: size for name, size in sizes.items() if limit is not None and size > limit}
        needed = max([needed, *over.values()])
        if over:
            named = ", ".join(
                f"{name!a} {size}" for name, size in sorted(over.items(), key=lambda one: -one[1])[:NAMED]
            )
            told.append(f"{len(over)} of {counted(len(sizes), 'prompts')} of {split} (longest: {named})")
    if not told:
        return longest
    found = f"more in {'; '.join(told)}"
    if limit == task.max_prompt_tokens:
        fix = (
            f"set task.max_prompt_tokens: {needed} or more, or task.truncate_prompts: true if the task has"
            " it, or drop them"
        )
        expected, where = (
            f"at most {limit} tokens in every rendered prompt",
            setting("task.max_prompt_tokens"),
        )
    else:
        fix = (
            "use a base with more positions (base.model, base.architecture.max_positions), or drop the"
            " records"
        )
        expected = (
            f"at most {limit} tokens in every rendered prompt, so that {room} for a completion fit"
            f" {positions} positions"
        )
        where = setting("base")
    raise DataError(expected, found=found, where=where, fix=fix)


def _sizes(task: Task, dialogue: Dialogue, plays: Sequence[Play], retries: int) -> Iterable[tuple[str, int]]:
    """Yield item and tokens of each opening as it would be played, whole where it cannot be cut to fit."""
    for each in plays:
        try:
            opening, _ = tried(retries, open_item, task, dialogue, each.item, each.world_seed)
            yield each.item.id, len(opening.prompt_ids)
        except TaskError:
            yield each.item.id, len(dialogue.opening(task.start(each.item, each.world_seed)[0]))
        except GivenUp as gone:
            raise gone.of(each) from gone
