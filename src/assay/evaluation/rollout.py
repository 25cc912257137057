"""Rollouts: a policy plays items of a task, and what happened becomes episodes. Training plays through here too."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.evaluation.openings import Opening, open_item
from assay.evaluation.suite import Play
from assay.policy.decoding import Decoding
from assay.policy.engine import Completion, Session, evaluating
from assay.policy.model import Policy
from assay.records import Episode, Turn
from assay.seeds import rng
from assay.tasks.protocol import Baseline, Step, Task

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Rollout:
    """An episode and the exact tokens behind it.

    `completion_ids` holds everything after the opening: the policy's tokens (mask 1, with log-probabilities) and the
    environment's (mask 0, log-probability 0).
    """

    episode: Episode
    prompt_ids: list[int]
    completion_ids: list[int]
    mask: list[int]
    logprobs: list[float]


@dataclass(slots=True)
class _Running:
    play: Play
    state: Any
    prompt_ids: list[int]
    chars_cut: int
    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    ending: str | None = None

    def record(self, completion: Completion, text: str, step: Step, truncated: bool) -> None:
        context = np.asarray(self.prompt_ids + self.ids, np.int64).tobytes()
        digest = hashlib.sha256(context).hexdigest()[:16]
        self.turns.append(_turn(step, text, len(completion.ids), truncated, digest))
        self.ids += completion.ids
        self.mask += [1] * len(completion.ids)
        self.logprobs += completion.logprobs
        self.state, self.ending = step.state, step.ending

    def hear(self, reply: Sequence[int]) -> None:
        self.ids += reply
        self.mask += [0] * len(reply)
        self.logprobs += [0.0] * len(reply)

    def finish(self, task: Task) -> Rollout:
        episode = _episode(task, self.play, self.state, self.turns, str(self.ending), self.chars_cut)
        return Rollout(episode, self.prompt_ids, self.ids, self.mask, self.logprobs)


def _turn(step: Step, text: str, n_tokens: int, truncated: bool, prompt_digest: str) -> Turn:
    return Turn(
        prompt_digest=prompt_digest, completion=text, n_tokens=n_tokens, truncated=truncated, outcome=step.outcome,
        failure=step.failure, action=step.action, observation=step.observation,
        parts={name: float(value) for name, value in step.parts.items() if value},
    )  # fmt: skip


def _episode(task: Task, play: Play, state: Any, turns: Sequence[Turn], ending: str, chars_cut: int) -> Episode:
    verdict = task.judge(state)
    parts = {name: sum(turn.parts.get(name, 0.0) for turn in turns) for name in task.parts}
    return Episode(
        item_id=play.item.id, cluster=play.item.cluster, strata=dict(play.item.strata), draw=play.draw, seed=play.seed,
        turns=tuple(turns), prompt_chars_cut=chars_cut, ending=ending, reward=sum(parts.values()), parts=parts,
        success=verdict.success, flags=dict(verdict.flags), metrics=dict(verdict.metrics),
    )  # fmt: skip


def play(
    policy: Policy, task: Task, plays: Sequence[Play], decoding: Decoding,
    *, batch_size: int, progress: Progress | None = None,
) -> list[Rollout]:  # fmt: skip
    """Play every play once and return the rollouts in the same order.

    Args:
        policy: Who plays; it is put in evaluation mode meanwhile (no dropout).
        task: What is played.
        plays: Items with their seeds.
        decoding: How tokens are chosen.
        batch_size: Conversations held at once; changes speed and memory, not results.
        progress: Told how many episodes have just ended.
    """
    rollouts: list[Rollout] = []
    with evaluating(policy.model):
        for start in range(0, len(plays), batch_size):
            batch = _play_batch(policy, task, plays[start : start + batch_size], decoding)
            rollouts += batch
            if progress is not None:
                progress(len(batch))
    return rollouts


def _play_batch(policy: Policy, task: Task, plays: Sequence[Play], decoding: Decoding) -> list[Rollout]:
    dialogue = policy.dialogue
    running: list[_Running] = []
    openings: dict[tuple[str, int], Opening] = {}
    for each in plays:
        key = (each.item.id, each.world_seed)
        if key not in openings:
            openings[key] = open_item(task, dialogue, each.item, each.world_seed)
        opened = openings[key]
        running.append(_Running(each, opened.state, opened.prompt_ids, opened.chars_cut))
    session = Session(
        policy.model, [r.prompt_ids for r in running], [r.play.seed for r in running], decoding,
        eos_id=dialogue.eos_id, pad_id=policy.pad_id,
    )  # fmt: skip
    active = running
    while active:
        completions = session.complete()
        replies: list[list[int]] = []
        for one, completion in zip(active, completions, strict=True):
            ended = completion.ids[-1] == dialogue.eos_id
            text = dialogue.text(completion.ids)
            step = task.step(one.state, text)
            one.record(completion, text, step, truncated=not ended)
            replies.append([] if step.observation is None else dialogue.reply(step.observation, ended=ended))
        kept = [row for row, one in enumerate(active) if one.ending is None]
        active = [active[row] for row in kept]
        if active:
            session.keep(kept)
            session.tell([completions[row].ids[-1] for row in kept], [replies[row] for row in kept])
            for one, row in zip(active, kept, strict=True):
                one.hear(replies[row])
    return [one.finish(task) for one in running]


def play_baseline(task: Task, player: Baseline, plays: Sequence[Play], name: str) -> list[Episode]:
    """Let a scripted player play; its episodes have the same form as a policy's, with no tokens."""
    episodes = []
    for each in plays:
        _, state = task.start(each.item, each.world_seed)
        generator = rng("baseline", name, each.seed)
        turns: list[Turn] = []
        ending: str | None = None
        while ending is None:
            text = player(each.item, state, generator)
            step = task.step(state, text)
            turns.append(_turn(step, text, 0, False, ""))
            state, ending = step.state, step.ending
        episodes.append(_episode(task, each, state, turns, ending, 0))
    return episodes
