"""A few groups played as a training plays them, within a bounded time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from assay.config.settings import Params
from assay.evaluation.openings import open_item
from assay.evaluation.rollout import Lost, Rollout, attempt
from assay.evaluation.suite import Play
from assay.policy.decoding import Decoding
from assay.policy.engine import Session, evaluating
from assay.policy.model import Policy
from assay.records import Episode
from assay.seeds import derive_seed
from assay.tasks.protocol import Item, Task
from assay.training.doctor.observed import BROKEN, UNDER_WAY, Observed

MOST_ITEMS, MOST_MEMBERS = 8, 16
SMALL_MODEL = 20_000_000  # parameters; of a larger one it is measured first how long a token takes
SECONDS = 30.0  # for a completion at its longest, and then for more groups
LEAST_ROOM = 16  # tokens


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
    """

    plays: list[Play]
    rollouts: list[Rollout]
    lost: int
    unfinished: list[Rollout]
    seconds: float
    room: int

    @property
    def episodes(self) -> list[Episode]:
        """The episodes alone."""
        return [rollout.episode for rollout in self.rollouts]

    @property
    def seconds_per_episode(self) -> float:
        """Wall seconds."""
        return self.seconds / max(1, len(self.rollouts) + self.lost + len(self.unfinished))


def probed(policy: Policy, observed: Observed, items: Sequence[Item], params: Params) -> Probe:
    """Play groups of a few items as training does: same temperature, same limits, one world a group."""
    task, retries, size = cast(Task, observed), params.health.retries, params.generation.batch_size
    members = min(params.train.group_size, MOST_MEMBERS)
    groups = [_group(item, members, params.seed) for item in items[:MOST_ITEMS]]
    room = params.task.max_new_tokens[params.generation.surface]
    large = sum(parameter.numel() for parameter in policy.model.parameters()) > SMALL_MODEL
    if large:
        per_token = _seconds_per_token(policy, task, groups[0], params)
        room = max(min(room, LEAST_ROOM), min(room, int(SECONDS / per_token)))
    decoding = Decoding(params.generation.temperature, room)
    played: list[tuple[Play, Rollout | Lost]] = []
    first = 1 if large and params.device == "cpu" else len(groups)
    begun, seconds = time.monotonic(), 0.0
    observed.until = begun + 1.5 * SECONDS
    for part in (groups[:first], groups[first:]):
        # What one group took says how many more there is time for.
        allowed = part if not seconds else part[: max(0, int((SECONDS - seconds) / seconds))]
        plays = [each for group in allowed for each in group]
        if plays:
            found = attempt(policy, task, plays, decoding, batch_size=size, retries=retries)
            played += zip(plays, found, strict=True)
        seconds = time.monotonic() - begun
    observed.until = None
    ended = [(each, one) for each, one in played if isinstance(one, Rollout)]
    whole = [(each, one) for each, one in ended if one.episode.ending not in (BROKEN, UNDER_WAY)]
    unfinished = [one for _, one in ended if one.episode.ending == UNDER_WAY]
    return Probe([each for each, _ in whole], [one for _, one in whole], len(played) - len(ended), unfinished, seconds, room)


def _group(item: Item, members: int, seed: int) -> list[Play]:
    world = derive_seed("world", "doctor", seed, item.id)
    return [Play(item, k, derive_seed("sampling", "doctor", seed, item.id, k), world) for k in range(members)]


def _seconds_per_token(policy: Policy, task: Task, group: Sequence[Play], params: Params) -> float:
    """Return the wall seconds that one more token takes a group, from the first few of an opening."""
    opening = open_item(task, policy.dialogue, group[0].item, group[0].world_seed)
    n = 4
    with evaluating(policy.model):
        session = Session(
            policy.model, [opening.prompt_ids] * len(group), [each.seed for each in group],
            Decoding(params.generation.temperature, n), eos_id=policy.dialogue.eos_id, pad_id=policy.pad_id,
        )  # fmt: skip
        begun = time.monotonic()
        written = max(len(completion.ids) for completion in session.complete())
    # The last token chosen is not fed to the model.
    return (time.monotonic() - begun) / max(1, written - 1)
