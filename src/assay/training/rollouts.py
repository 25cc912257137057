"""Episodes of a training, by the same engine as every evaluation: groups for GRPO, as token ids, and those
played beside them to measure it: validations, and the probe of the KL."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from assay.core.config.settings import Params
from assay.core.decoding import Decoding
from assay.core.errors import TrainingStopped
from assay.core.records import Episode
from assay.core.seeds import derive_seed
from assay.rollout.dataset.suite import Play, Suite, choose, units
from assay.rollout.evaluation.phases import Phases
from assay.rollout.evaluation.rollout import Lost, Pace, Rollout, attempt
from assay.rollout.policy.model import Policy
from assay.rollout.policy.processes import Processes
from assay.rollout.tasks.protocol import Item, Task
from assay.training.guard import Guard
from assay.training.kl import Text
from assay.training.setup import Setup


class GroupRollouts:
    """Plays the groups of one generation batch.

    The G episodes of a group start from the same world and differ only in their sampling seeds. Seeds derive
    from (training seed, step, item, place in the group).

    Args:
        policy: The policy under training; its weights change between calls.
        setup: What is played, by which settings, and who pays for it.
        decoding: How tokens are chosen.
        phases: Where the seconds go.
        guard: Told rewards and log-probabilities.
        processes: Everyone who plays a part of the step.
    """

    def __init__(
        self,
        policy: Policy,
        setup: Setup,
        decoding: Decoding,
        *,
        phases: Phases,
        guard: Guard,
        processes: Processes,
    ) -> None:
        self._policy, self.setup, self._decoding = policy, setup, decoding
        self._items = {item.id: item for item in setup.items}
        self._phases, self._guard, self._processes = phases, guard, processes
        self.latest: list[Rollout | Lost] = []

    def __call__(self, item_ids: Sequence[str], step: int) -> dict[str, Any]:
        """Play one episode for each id (repeated ids are a group) and return TRL's rollout fields.

        An episode that the environment lost has no reward (None): TRL leaves it out of its group's baseline,
        and no token of it counts.
        """
        setup, seen, plays = self.setup, dict[str, int](), list[Play]()
        seed = setup.params.seed
        for item_id in item_ids:
            member = seen[item_id] = seen.get(item_id, -1) + 1
            plays.append(
                Play(
                    self._items[item_id],
                    member,
                    seed=derive_seed("sampling", "train", seed, step, item_id, member),
                    world_seed=derive_seed("world", "train", seed, step, item_id),
                )
            )
        self.latest = attempt(
            self._policy,
            setup.task,
            plays,
            self._decoding,
            pace=Pace(
                setup.params.generation.batch_size, phases=self._phases, retries=setup.params.health.retries
            ),
        )
        self._within_budget(step)
        for each, item_id in zip(self.latest, item_ids, strict=True):
            self._guard.note("log-probability", each.logprobs, [item_id])
        rewards = [
            each.reward if isinstance(each, Lost) else self._paid(each, step, play)
            for each, play in zip(self.latest, plays, strict=True)
        ]
        sound = self._guard.note("reward", [0.0 if r is None else r for r in rewards], item_ids)
        return {
            "prompt_ids": [each.prompt_ids for each in self.latest],
            "completion_ids": [each.completion_ids for each in self.latest],
            # TRL would make tensors of them, which only losses of other settings read.
            "logprobs": None,
            "env_mask": [
                [0] * len(each.mask) if isinstance(each, Lost) else each.mask for each in self.latest
            ],
            # A step with a poisoned reward moves nothing (the guard sees to it); TRL's own sums stay finite.
            "episode_reward": rewards if sound else [0.0] * len(rewards),
        }

    def _paid(self, rollout: Rollout, step: int, play: Play) -> float:
        credit = self.setup.credit
        return rollout.episode.reward if credit is None else credit(step, play.item.id, play.draw)

    def _within_budget(self, step: int) -> None:
        mine = [
            (each.reason, each.play.item.id)
            for each in self.latest
            if isinstance(each, Lost) and each.reward is None
        ]
        # Of the whole step, and in every process alike: one that stops alone leaves the others waiting.
        everywhere = self._processes.gather((len(self.latest), mine))
        n, lost = sum(n for n, _ in everywhere), [each for _, part in everywhere for each in part]
        most = self.setup.params.health.max_lost_share
        if len(lost) > most * n:
            raise TrainingStopped(
                f"at most {most:.0%} of a step's episodes lost by the environment",
                found=f"{len(lost)} of {n}, the first by: {lost[0][0]}",
                where=f"step {step}, item {lost[0][1]}",
                fix=(
                    "see to the environment and call again (the newest checkpoint is gone on from), "
                    "or raise health.max_lost_share"
                ),
            )


class SideRollouts:
    """Plays with the policy as it is, with the retries of a training; what the environment loses is returned
    as lost.

    Args:
        policy: Who plays.
        params: Batch size, retries, number of probe episodes.
        decoding: Of a training.
        processes: Everyone who trains together.
    """

    def __init__(self, policy: Policy, params: Params, decoding: Decoding, processes: Processes) -> None:
        self._policy, self._params, self._decoding, self._processes = policy, params, decoding, processes

    def played(self, task: Task, suite: Suite, temperature: float) -> list[Episode | Lost]:
        """Play a suite, each process its share of the units (`suite.units`); everybody gets all of it."""
        plays, size = suite.plays(), self._params.generation.batch_size
        parts = units(plays, size)
        decoding = replace(self._decoding, temperature=temperature)
        # Training goes on as if nobody had looked: whatever is drawn while a policy is validated is put back.
        with untouched():
            mine = [
                (
                    index,
                    [r.episode if isinstance(r, Rollout) else r for r in self._play(task, unit, decoding)],
                )
                for index, unit in self._processes.share(parts)
            ]
        everyone = sorted(
            (pair for part in self._processes.gather(mine) for pair in part), key=lambda pair: pair[0]
        )
        return [each for _, found in everyone for each in found]

    def fixed_probe(
        self, task: Task, items: Sequence[Item], tell: Callable[[str, Mapping[str, Any]], None]
    ) -> list[Text]:
        """Return the episodes of the base that the KL is measured on; checkpoints keep them, so that they
        stay the same.

        What the environment loses is left out and told: the KL is that of the texts there are.

        Raises:
            EnvironmentLost: More than half of them were lost: nothing has begun yet that could be lost by
                ending.
            TaskError: A reward is not finite.
        """
        suite = choose(items, self._params.train.kl_probe_episodes, split="train", draws=1, seed=0)
        # Of what each process has played, all take what the first one has: they have to see the same KL.
        played = self._processes.gather(self._play(task, suite.plays(), self._decoding))[0]
        lost = [each for each in played if isinstance(each, Lost)]
        if lost:
            tell("KL probe", {"episodes": len(played), "lost": len(lost), "why": lost[0].reason})
        for each in lost:
            if each.reward is not None or len(lost) > len(played) / 2:
                raise each.error
        return [
            Text(each.prompt_ids, each.completion_ids, each.mask)
            for each in played
            if isinstance(each, Rollout)
        ]

    def _play(self, task: Task, plays: Sequence[Play], decoding: Decoding) -> list[Rollout | Lost]:
        size, retries = self._params.generation.batch_size, self._params.health.retries
        return attempt(self._policy, task, plays, decoding, pace=Pace(size, retries=retries))


def whole(played: Sequence[Episode | Lost]) -> list[Episode]:
    """Return the episodes that were played out."""
    return [each for each in played if isinstance(each, Episode)]


@contextmanager
def untouched() -> Iterator[None]:
    """Put the global generators of Python, NumPy and torch (CPU and every CUDA device) back as they were."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
