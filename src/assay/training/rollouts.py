"""Groups of episodes for GRPO: played by the same engine as every evaluation, handed to TRL as token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.evaluation.rollout import Rollout, play
from assay.evaluation.suite import Play
from assay.policy.decoding import Decoding
from assay.policy.model import Policy
from assay.seeds import derive_seed
from assay.tasks.protocol import Item, Task


class GroupRollouts:
    """Plays the groups of one generation batch.

    The G episodes of a group start from the same world and differ only in their sampling seeds. Seeds derive from
    (training seed, step, item, place in the group).

    Args:
        policy: The policy under training; its weights change between calls.
        task: What is played.
        items: Training items by id.
        decoding: How tokens are chosen.
        batch_size: Conversations held at once.
        seed: The training seed.
    """

    def __init__(
        self, policy: Policy, task: Task, items: Mapping[str, Item], decoding: Decoding, *, batch_size: int, seed: int
    ) -> None:
        self._policy, self._task, self._items, self._decoding = policy, task, items, decoding
        self._batch_size, self._seed = batch_size, seed
        self.latest: list[Rollout] = []

    def __call__(self, item_ids: Sequence[str], step: int) -> dict[str, list[Any]]:
        """Play one episode for each id (repeated ids are a group) and return TRL's rollout fields."""
        seen: dict[str, int] = {}
        plays = []
        for item_id in item_ids:
            member = seen[item_id] = seen.get(item_id, -1) + 1
            plays.append(
                Play(
                    self._items[item_id],
                    member,
                    seed=derive_seed("sampling", "train", self._seed, step, item_id, member),
                    world_seed=derive_seed("world", "train", self._seed, step, item_id),
                )
            )
        self.latest = play(self._policy, self._task, plays, self._decoding, batch_size=self._batch_size)
        return {
            "prompt_ids": [r.prompt_ids for r in self.latest],
            "completion_ids": [r.completion_ids for r in self.latest],
            "logprobs": [r.logprobs for r in self.latest],
            "env_mask": [r.mask for r in self.latest],
            "episode_reward": [r.episode.reward for r in self.latest],
        }
