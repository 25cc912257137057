"""A few groups played as a training plays them, within a bounded time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch

from assay.core.config.settings import Params
from assay.core.decoding import Decoding
from assay.core.records import Episode
from assay.core.seeds import derive_seed
from assay.dataset.suite import Play
from assay.evaluation.rollout import Lost, Rollout, attempt
from assay.evaluation.trajectory import open_item
from assay.policy.backends.select import converse
from assay.policy.model import Policy, evaluating
from assay.tasks.protocol import Item, Task
from assay.tools.doctor.deadline import Deadline, TooSlow
from assay.tools.doctor.observed import BROKEN, UNDER_WAY, Observed

MOST_ITEMS, MOST_MEMBERS = 8, 16
SMALL_MODEL = 20_000_000  # parameters; of a larger one it is measured first how long a token takes
SECONDS = 30.0  # for a completion at its longest, and then for more groups
LEAST_ROOM = 16  # tokens
# Of the time that is left: for the probe, the rest being for the pass that learns; of that for reading
# prompts once.
PROBING, READING = 0.6, 0.4
SAMPLE = 128  # tokens that are read to see how fast a model reads; with fewer it reads slower than it will


@dataclass(frozen=True, slots=True)
class Probe:
    """The episodes of the probe with their plays, and what it took.

    Attributes:
        plays: In the order of the rollouts.
        rollouts: Whole episodes only.
        lost: Episodes that the environment lost.
        unfinished: Episodes under way when the time was over; their tokens are as good as any.
        seconds: Wall seconds of playing.
        room: Tokens a completion had; fewer than in training where a token takes too long.
        reading: Wall seconds that one token of a prompt takes to read; None for a small model, of which it is
            not measured.
    """

    plays: list[Play]
    rollouts: list[Rollout]
    lost: int
    unfinished: list[Rollout]
    seconds: float
    room: int
    reading: float | None

    @property
    def episodes(self) -> list[Episode]:
        """The episodes alone."""
        return [rollout.episode for rollout in self.rollouts]

    @property
    def seconds_per_episode(self) -> float:
        """Wall seconds."""
        return self.seconds / max(1, len(self.rollouts) + self.lost + len(self.unfinished))


@dataclass(frozen=True, slots=True)
class _Pace:
    """What there is time for: tokens of a completion, seconds for its longest; and how long a prompt's token
    takes to read."""

    room: int
    seconds: float
    reading: float | None


def probed(
    policy: Policy, observed: Observed, items: Sequence[Item], params: Params, deadline: Deadline
) -> Probe:
    """Play groups of a few items as training does: same temperature, same limits, one world a group.

    Raises:
        TooSlow: There is no time for one prompt and the shortest completions.
    """
    task, retries, size = cast(Task, observed), params.health.retries, params.generation.batch_size
    members = min(params.train.group_size, MOST_MEMBERS)
    groups = [_group(item, members, params.seed) for item in items[:MOST_ITEMS]]
    pace = _Pace(params.task.max_new_tokens[params.generation.surface], SECONDS, None)
    large = sum(parameter.numel() for parameter in policy.model.parameters()) > SMALL_MODEL
    if large:
        pace = _pace(policy, task, groups[0], params, deadline)
    generation = params.generation
    decoding = Decoding(generation.temperature, pace.room, generation.backend, generation.cuda_graphs)
    played: list[tuple[Play, Rollout | Lost]] = []
    first = 1 if large and params.device == "cpu" else len(groups)
    begun, seconds = time.monotonic(), 0.0
    observed.until = begun + 1.5 * pace.seconds
    for part in (groups[:first], groups[first:]):
        # What one group took says how many more there is time for.
        allowed = part if not seconds else part[: max(0, int((pace.seconds - seconds) / seconds))]
        plays = [each for group in allowed for each in group]
        if plays:
            found = attempt(policy, task, plays, decoding, batch_size=size, retries=retries)
            played += zip(plays, found, strict=True)
        seconds = time.monotonic() - begun
    observed.until = None
    ended = [(each, one) for each, one in played if isinstance(one, Rollout)]
    whole = [(each, one) for each, one in ended if one.episode.ending not in (BROKEN, UNDER_WAY)]
    unfinished = [one for _, one in ended if one.episode.ending == UNDER_WAY]
    return Probe(
        [each for each, _ in whole],
        [one for _, one in whole],
        len(played) - len(ended),
        unfinished,
        seconds,
        pace.room,
        pace.reading,
    )


def _pace(policy: Policy, task: Task, group: Sequence[Play], params: Params, deadline: Deadline) -> _Pace:
    """Return what there is time for, from how long a large model takes to read and to write a few tokens.

    Raises:
        TooSlow: Not for the prompt, or not for the shortest completions.
    """
    ids = open_item(task, policy.dialogue, group[0].item, group[0].world_seed).prompt_ids
    reading = _seconds_to_read(policy, ids[:SAMPLE]) / max(1, len(ids[:SAMPLE]))
    prompt, budget = reading * len(ids), PROBING * deadline.left
    if prompt > READING * budget:
        raise TooSlow(
            f"a prompt of {len(ids)} tokens takes some {prompt:.0f} s to read, with {deadline.left:.0f} s"
            " left"
        )
    begun = time.monotonic()
    per_token = _seconds_per_token(policy, ids[:SAMPLE], group, params)
    # The last completions may begin just before the others are broken off, at 1.5 times these seconds.
    seconds = min(SECONDS, max(0.0, budget - prompt - (time.monotonic() - begun)) / 2.5)
    wanted = params.task.max_new_tokens[params.generation.surface]
    room = min(wanted, int(seconds / max(per_token, 1e-9)))
    if room < min(wanted, LEAST_ROOM):
        raise TooSlow(f"a token takes {per_token:.2g} s to write, with {deadline.left:.0f} s left")
    return _Pace(room, seconds, reading)


def _group(item: Item, members: int, seed: int) -> list[Play]:
    world = derive_seed("world", "doctor", seed, item.id)
    return [Play(item, k, derive_seed("sampling", "doctor", seed, item.id, k), world) for k in range(members)]


def _seconds_to_read(policy: Policy, ids: Sequence[int]) -> float:
    """Return the wall seconds of one forward pass; the first of two also allocates, and does not count."""
    given = torch.as_tensor(ids)[None].to(next(policy.model.parameters()).device)
    taken = 0.0
    with evaluating(policy.model):
        for _ in range(2):
            begun = time.monotonic()
            float(
                policy.model(input_ids=given, use_cache=False, logits_to_keep=1).logits.sum()
            )  # waits for a GPU
            taken = time.monotonic() - begun
    return taken


def _seconds_per_token(policy: Policy, ids: Sequence[int], group: Sequence[Play], params: Params) -> float:
    """Return the wall seconds that one more token takes a group, from a few behind the first of a prompt."""
    n = 4
    with evaluating(policy.model):
        generation = params.generation
        decoding = Decoding(generation.temperature, n, generation.backend, generation.cuda_graphs)
        session = converse(policy, [list(ids)] * len(group), [each.seed for each in group], decoding)
        begun = time.monotonic()
        written = max(len(completion.ids) for completion in session.complete())
    # The last token chosen is not fed to the model.
    return (time.monotonic() - begun) / max(1, written - 1)
