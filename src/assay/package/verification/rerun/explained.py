"""Whether a policy could have written a stored completion on another machine: a test that holds where last
bits differ.

Each sampled token was decided by one number, a function of the episode's seed and the place, falling into the
token's stretch of the cumulative distribution. Another processor moves the ends of the stretches a little. So
the stored tokens are read by the policy, not chosen again, and each must be one that a little rounding would
have chosen. One token that parts does not carry the rest of the episode away with it, and a completion that
somebody preferred is far off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.core.decoding import Decoding
from assay.core.records import Episode
from assay.core.seeds import keyed_uniform
from assay.package.verification.checks import ids_digest
from assay.rollout.dataset.suite import Play
from assay.rollout.evaluation.trajectory import open_item
from assay.rollout.policy.model import Policy
from assay.rollout.tasks.protocol import Task

# By how much a logit may differ from one machine to another: numbers of 24 and of 8 significant bits. The
# tests look at both.
ROUNDING = {"float32": 1e-3, "bfloat16": 0.1}


@dataclass(frozen=True, slots=True)
class Slack:
    """By how much rounding would have to differ for a stored episode to have been written.

    `share` is that of the worst token, in units of what is allowed: at most 1 is explained, infinity is a
    text that cannot be read as tokens. `turn` and `why` name the first token that is not explained.
    """

    share: float
    turn: int
    why: str

    @property
    def explained(self) -> bool:
        """Whether rounding may account for it."""
        return self.share <= 1.0


def slack(
    policy: Policy, task: Task, play: Play, episode: Episode, decoding: Decoding, *, dtype: str
) -> Slack:
    """Return how far a stored episode is from what this policy writes.

    Args:
        policy: Who is said to have written it.
        task: What was played.
        play: The item and its seeds.
        episode: As stored.
        decoding: How tokens were chosen; temperature 0 is greedy.
        dtype: Of the policy, "float32" or "bfloat16".
    """
    from assay.rollout.policy.base.adapter_files import logits_of

    dialogue = policy.dialogue
    ids = list(open_item(task, dialogue, play.item, play.world_seed).prompt_ids)
    spans: list[tuple[int, int]] = []
    ends = [(end,) for end in dialogue.end_ids]
    for number, turn in enumerate(episode.turns, start=1):
        if ids_digest(ids) != turn.prompt_digest:
            return Slack(math.inf, number, "it was written after another text than the policy reads here")
        text = policy.tokenizer(turn.completion, add_special_tokens=False)["input_ids"]
        texts = [[int(i) for i in text] + list(end) for end in ([()] if turn.truncated else ends)]
        if len(texts[0]) != turn.n_tokens:
            return Slack(
                math.inf, number, f"{turn.n_tokens} tokens are stored for a text that has {len(texts[0])}"
            )
        spans.append((len(ids), len(ids) + turn.n_tokens))
        if turn.observation is not None and number < len(episode.turns):
            # Which of its ends it wrote is not stored; what it was asked next tells.
            next_digest, observation = episode.turns[number].prompt_digest, turn.observation
            read = [
                ids + written + dialogue.reply(observation, last_id=(written or [-1])[-1])
                for written in texts
            ]
            ids = next((each for each in read if ids_digest(each) == next_digest), read[0])
        else:
            ids += texts[0]
    logits = logits_of(policy, ids)
    last_may_be = dialogue.end_ids if not episode.turns[-1].truncated else (ids[-1],)
    worst, first = 0.0, (1, "")
    rounding, temperature = ROUNDING[dtype], decoding.temperature
    for number, (start, end) in enumerate(spans, start=1):
        for place in range(start, end):
            decided = logits[place - 1].double().numpy()
            tokens = last_may_be if place == len(ids) - 1 else (ids[place],)
            if temperature:
                noise = float(
                    keyed_uniform(np.asarray([play.seed], np.uint64), np.asarray([place], np.uint64))[0]
                )
                share = min(
                    _sampled(decided / temperature, token, noise, rounding / temperature) for token in tokens
                )
            else:
                share = min(_greedy(decided, token, rounding) for token in tokens)
            if share > 1.0 >= worst:  # what comes after the first such token may follow from it
                first = (
                    number,
                    f"token {place - start + 1} of {end - start} is not what the policy chooses there",
                )
            worst = max(worst, share)
    return Slack(worst, *first)


def _greedy(logits: NDArray[np.float64], token: int, rounding: float) -> float:
    """Return by how much the best token beats the stored one, in units of the two roundings that could hide
    it."""
    return float(logits.max() - logits[token]) / (2 * rounding)


def _sampled(logits: NDArray[np.float64], token: int, noise: float, rounding: float) -> float:
    """Return how far the deciding number lies outside of the token's stretch, in units of what rounding can
    move its ends.

    Logits that move by d each change the odds of any set of tokens by a factor of exp(2 d) at most, and so
    its probability by tanh(d / 2) at most.
    """
    weights = np.exp(logits - logits.max())
    ends = np.cumsum(weights) / weights.sum()
    low, high = (ends[token - 1] if token else 0.0), ends[token]
    return float(max(low - noise, noise - high, 0.0) / math.tanh(rounding / 2))
