"""What a verdict is worth: right and wrong, the reward parts, the flags and the metrics."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from assay.rollout.tasks.protocol import Verdict

from .surfaces import Action
from .world import physics
from .world.physics import BUDGET_BLOCKS, NAMES
from .world.scenario import Truth
from .world.simulator import ColliderState, overall_z

RIGHT_CLAIM = 0.7
# A right claim without the required significance is a lucky guess: it pays little, or guessing early would
# pay best.
UNPROVEN_CLAIM = 0.1
SPIN_BONUS = 0.15
SAVED_BONUS = 0.15
WRONG_CLAIM = -1.0
RIGHT_NULL = 0.5
MISSED_SIGNAL = -0.3
NO_VERDICT = -0.7
CALIBRATION_WEIGHT = 0.4
FORMAT_PENALTY = -0.02
POTENTIAL_CAP_Z = 5.0
_CENTRES = physics.bin_centre_gev(1.0, np.arange(physics.N_BINS))
_CENTRES.setflags(write=False)

FLAGS: tuple[str, ...] = ("discovered", "mass_correct", "channel_correct", "spin_correct", "false_claim")
METRICS: tuple[str, ...] = ("confidence", "brier", "mass_pull", "blocks_used", "turns", "local_z", "global_z")


@dataclass(frozen=True, slots=True)
class Facts:
    """A verdict compared with the truth; None where a question does not arise."""

    correct: bool | None
    channel_correct: bool | None
    mass_correct: bool | None
    spin_correct: bool | None
    mass_pull: float | None
    local_z: float | None
    global_z: float | None


def mass_pull(truth: Truth, mass_gev: float) -> float:
    """Return (claimed - true mass) in units of the resolution of the true channel; only for a signal
    world."""
    assert truth.channel is not None and truth.mass_gev is not None
    sigma = physics.resolution_at(NAMES.index(truth.channel), truth.mass_gev)
    return (mass_gev - truth.mass_gev) / (sigma * truth.mass_gev)


def claimed_significance(state: ColliderState, claim: Action) -> tuple[float, float]:
    """Return local and global significance, from the player's own data, of the best window near the claimed
    mass."""
    if claim.channel not in state.briefing.channels or claim.mass_gev is None:
        return 0.0, 0.0
    place = state.briefing.channels.index(claim.channel)
    data = state.data[place]
    if not data.blocks:
        return 0.0, 0.0
    reach = physics.MASS_TOLERANCE_SIGMAS * physics.resolution_at(NAMES.index(claim.channel), claim.mass_gev)
    local = _best_near(data.profile, state.briefing.m0_gev, data.scale or 0.0, claim.mass_gev, reach)
    return local, overall_z(local, len(state.looked_at()))


@lru_cache(maxsize=4096)
def _best_near(profile: bytes, m0_gev: float, scale: float, mass_gev: float, reach: float) -> float:
    """Return the highest local significance where the corrected mass is near; the reward asks, then the judge
    again."""
    near = np.abs(m0_gev * _CENTRES / (1.0 + scale) / mass_gev - 1.0) <= reach
    return float(np.frombuffer(profile, "<f8")[near].max(initial=0.0))


def compare(state: ColliderState) -> Facts:
    """Return the facts of a finished episode."""
    truth, verdict = state.scenario.truth, state.verdict
    if verdict is None:
        return Facts(None, None, None, None, None, None, None)
    if verdict.kind == "no_signal":
        return Facts(truth.channel is None, None, None, None, None, None, None)
    local, overall = claimed_significance(state, verdict)
    if truth.channel is None:
        return Facts(False, None, None, None, None, local, overall)
    pull = mass_pull(truth, verdict.mass_gev or 0.0)
    channel_correct = verdict.channel == truth.channel
    mass_correct = abs(pull) <= physics.MASS_TOLERANCE_SIGMAS
    spin_correct = None if verdict.spin is None else verdict.spin == truth.spin
    return Facts(
        channel_correct and mass_correct,
        channel_correct,
        mass_correct,
        spin_correct,
        pull if channel_correct else None,
        local,
        overall,
    )


def proven(facts: Facts, state: ColliderState) -> bool:
    """Return whether the player's data at the claimed mass reach the global significance that the briefing
    asks for."""
    return facts.global_z is not None and facts.global_z >= state.briefing.required_z


def claim_reward(
    right: bool, proven: bool, spin_correct: bool | None, blocks_saved: int, confidence: float
) -> float:
    """Return the terminal reward of a claim, in [-1.4, 1]; being proven counts for a right claim alone.

    >>> round(claim_reward(True, True, True, 10, 1.0), 9), round(claim_reward(True, False, True, 10, 1.0), 9)
    (1.0, 0.4)
    >>> claim_reward(False, True, None, 10, 1.0)
    -1.4
    """
    if not right:
        return WRONG_CLAIM - CALIBRATION_WEIGHT * confidence * confidence
    spin_score = 0.0 if spin_correct is None else (1.0 if spin_correct else -1.0)
    saved = blocks_saved / BUDGET_BLOCKS
    base = RIGHT_CLAIM if proven else UNPROVEN_CLAIM
    return base + SPIN_BONUS * spin_score + SAVED_BONUS * saved - CALIBRATION_WEIGHT * (confidence - 1.0) ** 2


def null_reward(is_null: bool, confidence: float) -> float:
    """Return the terminal reward of saying that nothing is there, in [-0.7, 0.5]; saved blocks do not count.

    >>> null_reward(True, 1.0), round(null_reward(False, 0.5), 9)
    (0.5, -0.4)
    """
    base = RIGHT_NULL if is_null else MISSED_SIGNAL
    return base - CALIBRATION_WEIGHT * (confidence - float(is_null)) ** 2


def reward_range(max_turns: int) -> tuple[float, float]:
    """Return the smallest and the largest reward of an episode without shaping.

    They are a wrong claim, sure of itself, behind turns that could not be read, and a right one that is
    proven, saves all blocks and names the spin.

    >>> reward_range(8)
    (-1.56, 1.0)
    """
    low = WRONG_CLAIM - CALIBRATION_WEIGHT + FORMAT_PENALTY * max_turns
    return round(low, 9), RIGHT_CLAIM + SPIN_BONUS + SAVED_BONUS


def terminal_reward(state: ColliderState) -> float:
    """Return the terminal part of a turn: 0 while the episode goes on."""
    if state.ending is None:
        return 0.0
    if state.verdict is None:
        return NO_VERDICT
    confidence = state.verdict.confidence or 0.0
    facts = compare(state)
    if state.verdict.kind == "no_signal":
        return null_reward(bool(facts.correct), confidence)
    return claim_reward(
        bool(facts.correct), proven(facts, state), facts.spin_correct, state.blocks_left, confidence
    )


def potential(state: ColliderState) -> float:
    """Return the capped expected significance of the data in hand, in [0, 1]; 0 at the end and on null
    worlds.

    Source: potential-based shaping: Ng, Harada, Russell (1999), "Policy invariance under reward
    transformations".
    """
    truth = state.scenario.truth
    if state.ending is not None or truth.channel is None or truth.mass_gev is None:
        return 0.0
    place = state.briefing.channels.index(truth.channel)
    share = state.data[place].blocks / BUDGET_BLOCKS
    if share == 0.0:
        return 0.0
    width, centre = (
        int(state.worlds.widths[0, place]),
        int(physics.bin_of(state.briefing.m0_gev, truth.mass_gev)),
    )
    signal = float(physics.window_sums(state.worlds.peak[0, place], width)[centre]) * share
    expected = float(physics.window_sums(state.worlds.nominal[place], width)[centre]) * share
    return min(float(physics.asimov_z(signal, expected)), POTENTIAL_CAP_Z) / POTENTIAL_CAP_Z


def shaping(before: ColliderState, after: ColliderState, weight: float, gamma: float) -> float:
    """Return weight * (gamma * potential(after) - potential(before))."""
    return weight * (gamma * potential(after) - potential(before))


def judge(state: ColliderState) -> Verdict:
    """Return success, flags and metrics of a finished episode."""
    facts, verdict = compare(state), state.verdict
    signal = state.scenario.truth.channel is not None
    success = bool(facts.correct) and (proven(facts, state) or not signal)
    flags = {
        "discovered": success if signal else None,
        "mass_correct": facts.mass_correct,
        "channel_correct": facts.channel_correct,
        "spin_correct": facts.spin_correct,
        "false_claim": None if signal else state.ending == "claim",
    }
    confidence = None if verdict is None else verdict.confidence
    brier = None
    if confidence is not None and facts.correct is not None:
        brier = (confidence - float(facts.correct)) ** 2
    pull = facts.mass_pull
    metrics = {
        "confidence": confidence,
        "brier": brier,
        "mass_pull": pull if pull is not None and math.isfinite(pull) else None,
        "blocks_used": float(state.briefing.budget_blocks - state.blocks_left),
        "turns": float(state.turn),
        "local_z": facts.local_z,
        "global_z": facts.global_z,
    }
    return Verdict(success, flags, metrics)
