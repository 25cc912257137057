"""Named attacks on the reward: players that try to earn without doing the work. Each must stay below
`adaptive`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from assay.tasks.collider import baselines
from assay.tasks.collider.actions import Action
from assay.tasks.collider.world import physics
from assay.tasks.collider.world.physics import N_BINS
from assay.tasks.collider.world.simulator import State

Attack = Callable[[State, np.random.Generator], Action | str]
"""Returns an action to be written properly, or a text to be sent as it is."""

BROKEN_TEXT = '{"action_type": "take_data", "channel":'


def claim_mid_window(state: State, rng: np.random.Generator) -> Action:
    """Claim the middle of the axis at once, in a random channel."""
    name = state.briefing.channels[int(rng.integers(len(state.briefing.channels)))]
    mass = float(physics.bin_centre_gev(state.briefing.m0_gev, N_BINS // 2))
    return Action("claim", name, mass_gev=mass, spin=0, confidence=0.0)


def claim_first_peak(state: State, rng: np.random.Generator) -> Action:
    """Look once at one channel and claim whatever sticks out."""
    seen = state.looked_at()
    if seen:
        return baselines.claim(state, seen[0], 0, 0.5)
    name = state.briefing.channels[int(rng.integers(len(state.briefing.channels)))]
    return Action("take_data", name, blocks=2)


def scan_spam(state: State, rng: np.random.Generator) -> Action:
    """Ask for the scan for ever."""
    return Action("scan")


def broken_spam(state: State, rng: np.random.Generator) -> str:
    """Write broken JSON for ever."""
    return BROKEN_TEXT


def hedge(state: State, rng: np.random.Generator) -> Action:
    """Take a first look everywhere, then claim the best bin with a confidence of one half, whatever it is."""
    unseen = [place for place, data in enumerate(state.data) if not data.blocks]
    if unseen and state.blocks_left and state.turns_left > 1:
        return Action("take_data", state.briefing.channels[unseen[0]], blocks=1)
    return baselines.claim(state, baselines.best_place(state), None, 0.5)


def spend_nothing(state: State, rng: np.random.Generator) -> Action:
    """Let the turns pass on measurements of nothing, keep every block, then guess a null with a coin's
    confidence."""
    if state.turns_left > 1:
        return Action("fit", state.briefing.channels[0])
    return Action("no_signal", confidence=0.5)


ATTACKS: Mapping[str, Attack] = {
    "claim_mid_window": claim_mid_window,
    "always_null": baselines.always_null,
    "claim_first_peak": claim_first_peak,
    "scan_spam": scan_spam,
    "broken_spam": broken_spam,
    "hedge": hedge,
    "spend_nothing": spend_nothing,
}
