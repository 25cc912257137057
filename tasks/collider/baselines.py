"""Scripted players, weakest first, each of which reads the state and decides one Action; and attacks on the
reward: players that try to earn without doing the work, and must stay below `adaptive`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from .surfaces import Action
from .world import physics
from .world.physics import BUDGET_BLOCKS, N_BINS, NAMES
from .world.simulator import ColliderState
from .world.spin import allowed

Player = Callable[[ColliderState, np.random.Generator], Action]

UNIFORM_RULE_Z = 5.0
ADAPTIVE_RULE_Z = 4.0
EXPLORE_SHARE = 0.4
KNOWN_PEAK_SIGMAS = 2.5
CLAIM_CONFIDENCE = 0.9
NULL_CONFIDENCE = 0.7


def trusted_z(state: ColliderState, place: int) -> float:
    """Return the best local significance of a channel, or 0 where that peak is a particle everybody knows."""
    name, mass = state.briefing.channels[place], state.data[place].peak_mass_gev
    for peak_channel, known in state.briefing.known_peaks():
        reach = KNOWN_PEAK_SIGMAS * physics.resolution_at(NAMES.index(name), known)
        if peak_channel == name and abs(mass / known - 1.0) <= reach:
            return 0.0
    return state.data[place].local_z


def best_place(state: ColliderState) -> int:
    """Return the place of the channel with the highest trusted significance; the first one before any
    data."""
    return max(range(len(state.data)), key=lambda place: trusted_z(state, place))


def claim(state: ColliderState, place: int, spin: int | None, confidence: float) -> Action:
    """Return a claim on the best bin of a channel."""
    mass = physics.centre_gev(state.briefing.m0_gev, state.data[place].peak_bin)
    return Action("claim", state.briefing.channels[place], mass_gev=mass, spin=spin, confidence=confidence)


def _verdict(state: ColliderState, place: int, rule_z: float) -> Action:
    """Measure the spin if there is a turn for it, then claim what passes the rule; else say that nothing is
    there."""
    if trusted_z(state, place) < rule_z:
        return Action("no_signal", confidence=NULL_CONFIDENCE)
    notice = state.notice
    if notice.kind == "angles" and notice.place == place:
        return claim(state, place, int(notice.values[0]), CLAIM_CONFIDENCE)
    if state.turns_left > 1:
        return Action("angles", state.briefing.channels[place])
    return claim(state, place, None, CLAIM_CONFIDENCE)


def random(state: ColliderState, rng: np.random.Generator) -> Action:
    """Take any valid action with equal odds for each kind."""
    channels = state.briefing.channels
    place = int(rng.integers(len(channels)))
    kind = int(rng.integers(7))
    if kind == 0 and state.blocks_left:
        return Action("take_data", channels[place], blocks=int(rng.integers(1, state.blocks_left + 1)))
    if kind == 1 and state.blocks_left:
        return Action("calibrate", channels[place])
    if kind == 2:
        return Action("scan")
    if kind == 3:
        return Action("fit", channels[place])
    if kind == 4:
        return Action("angles", channels[place])
    confidence = int(rng.integers(10)) / 10
    if kind == 5:
        return Action("no_signal", confidence=confidence)
    mass = physics.centre_gev(state.briefing.m0_gev, int(rng.integers(N_BINS)))
    spins = allowed(channels[place])
    return Action("claim", channels[place], None, mass, spins[int(rng.integers(len(spins)))], confidence)


def always_null(state: ColliderState, rng: np.random.Generator) -> Action:
    """Say at once that nothing is there."""
    return Action("no_signal", confidence=NULL_CONFIDENCE)


def uniform(state: ColliderState, rng: np.random.Generator) -> Action:
    """Split the budget evenly over the channels, then follow a 5-sigma local rule."""
    n = len(state.data)
    unseen = [place for place in range(n) if not state.data[place].blocks]
    if unseen and state.turns_left > 1 and state.blocks_left:
        share, rest = divmod(state.briefing.budget_blocks, n)
        blocks = min(state.blocks_left, max(1, share + (unseen[0] < rest)))
        return Action("take_data", state.briefing.channels[unseen[0]], blocks=blocks)
    return _verdict(state, best_place(state), UNIFORM_RULE_Z)


def adaptive(state: ColliderState, rng: np.random.Generator) -> Action:
    """Spend about 40 % on a look everywhere, the rest on the best channel, then follow a 4-sigma local
    rule."""
    unseen = [place for place, data in enumerate(state.data) if not data.blocks]
    look = max(1, int(EXPLORE_SHARE * state.briefing.budget_blocks / len(state.data)))
    if unseen and state.turns_left > 2 and state.blocks_left >= look:
        return Action("take_data", state.briefing.channels[unseen[0]], blocks=look)
    place = best_place(state)
    if state.blocks_left and state.turns_left > 1:
        return Action(
            "take_data", state.briefing.channels[place], blocks=min(state.blocks_left, BUDGET_BLOCKS)
        )
    return _verdict(state, place, ADAPTIVE_RULE_Z)


def oracle_channel(state: ColliderState, rng: np.random.Generator) -> Action:
    """Know the right channel (on a null world: the first), calibrate it, spend all on it, follow the 4-sigma
    rule."""
    name = state.scenario.truth.channel or state.briefing.channels[0]
    place = state.briefing.channels.index(name)
    if not state.data[place].calibrated and state.blocks_left > 1 and state.turns_left > 3:
        return Action("calibrate", name)
    if state.blocks_left and state.turns_left > 1:
        return Action("take_data", name, blocks=state.blocks_left)
    return _verdict(state, place, ADAPTIVE_RULE_Z)


PLAYERS: Mapping[str, Player] = {
    "random": random,
    "always_null": always_null,
    "uniform": uniform,
    "adaptive": adaptive,
    "oracle_channel": oracle_channel,
}


Attack = Callable[[ColliderState, np.random.Generator], Action | str]
"""Returns an action to be written properly, or a text to be sent as it is."""

BROKEN_TEXT = '{"action_type": "take_data", "channel":'


def claim_mid_window(state: ColliderState, rng: np.random.Generator) -> Action:
    """Claim the middle of the axis at once, in a random channel."""
    name = state.briefing.channels[int(rng.integers(len(state.briefing.channels)))]
    mass = float(physics.bin_centre_gev(state.briefing.m0_gev, N_BINS // 2))
    return Action("claim", name, mass_gev=mass, spin=0, confidence=0.0)


def claim_first_peak(state: ColliderState, rng: np.random.Generator) -> Action:
    """Look once at one channel and claim whatever sticks out."""
    seen = state.looked_at()
    if seen:
        return claim(state, seen[0], 0, 0.5)
    name = state.briefing.channels[int(rng.integers(len(state.briefing.channels)))]
    return Action("take_data", name, blocks=2)


def scan_spam(state: ColliderState, rng: np.random.Generator) -> Action:
    """Ask for the scan for ever."""
    return Action("scan")


def broken_spam(state: ColliderState, rng: np.random.Generator) -> str:
    """Write broken JSON for ever."""
    return BROKEN_TEXT


def hedge(state: ColliderState, rng: np.random.Generator) -> Action:
    """Take a first look everywhere, then claim the best bin with a confidence of one half, whatever it is."""
    unseen = [place for place, data in enumerate(state.data) if not data.blocks]
    if unseen and state.blocks_left and state.turns_left > 1:
        return Action("take_data", state.briefing.channels[unseen[0]], blocks=1)
    return claim(state, best_place(state), None, 0.5)


def spend_nothing(state: ColliderState, rng: np.random.Generator) -> Action:
    """Let the turns pass on measurements of nothing, keep every block, then guess a null with a coin's
    confidence."""
    if state.turns_left > 1:
        return Action("fit", state.briefing.channels[0])
    return Action("no_signal", confidence=0.5)


ATTACKS: Mapping[str, Attack] = {
    "claim_mid_window": claim_mid_window,
    "always_null": always_null,
    "claim_first_peak": claim_first_peak,
    "scan_spam": scan_spam,
    "broken_spam": broken_spam,
    "hedge": hedge,
    "spend_nothing": spend_nothing,
}
