"""Episodes that are played beside the training, to measure it: validations, and the probe that the KL is
measured on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from assay.core.config.settings import Params
from assay.core.decoding import Decoding
from assay.core.records import Episode
from assay.dataset.suite import Play, Suite, choose, units
from assay.evaluation.rollout import Lost, Rollout, attempt
from assay.policy.model import Policy
from assay.policy.processes import Processes
from assay.tasks.protocol import Item, Task
from assay.training.kl import Text
from assay.training.randomness import untouched


class Player:
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
        return attempt(self._policy, task, plays, decoding, batch_size=size, retries=retries)


def whole(played: Sequence[Episode | Lost]) -> list[Episode]:
    """Return the episodes that were played out."""
    return [each for each in played if isinstance(each, Episode)]
