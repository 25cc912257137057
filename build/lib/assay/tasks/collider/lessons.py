"""Dialogues that teach a model to speak: noisy weak play on either surface, and drills in reading off a
bin."""

from __future__ import annotations

import numpy as np

from assay.tasks.collider import baselines
from assay.tasks.collider.surfaces import Action, bin_token, letter, z_token
from assay.tasks.collider.world import generation, physics
from assay.tasks.collider.world.physics import BUDGET_BLOCKS, N_BINS
from assay.tasks.collider.world.scenario import TIERS, Scenario, from_row
from assay.tasks.collider.world.simulator import ColliderState
from assay.tasks.protocol import Message

# Weak on purpose: these players gather data sensibly, but judge them blindly. Before a significant excess
# they name any channel they have seen half of the time; without one they often claim all the same. That
# nothing is there they say only when blocks or turns are spent: a policy that may say so at once learns
# nothing else, as blind claims cost more.
EXPLORER_ODDS = 0.85
HASTE_ODDS = 0.05
ACT_ON_PROOF_ODDS = 0.7
MISREAD_ODDS = 0.5
DOUBT_ODDS = 0.35
MISCOPY_ODDS = 0.02
SIDE_ACTION_ODDS = 0.04


def scenario_for_lesson(rng: np.random.Generator, max_turns: int) -> Scenario:
    """Return a scenario made on the fly, of any tier, from the training distribution."""
    tier = TIERS[int(rng.integers(len(TIERS)))]
    return from_row(generation.draw(rng, tier, "train", max_turns))


def pick_style(rng: np.random.Generator) -> str:
    """Return how one dialogue will be played: looking at every channel first, or anywhere."""
    return "explore" if rng.uniform() < EXPLORER_ODDS else "wander"


def _verdict(state: ColliderState, rng: np.random.Generator) -> Action:
    confidence = int(rng.integers(10)) / 10
    seen = state.looked_at()
    if not seen:
        return Action("no_signal", confidence=confidence)
    place = max(seen, key=lambda other: state.data[other].local_z)
    proven = state.is_significant(place)
    spent = state.turns_left == 1 or not state.blocks_left
    if spent and not proven and rng.uniform() < DOUBT_ODDS:
        return Action("no_signal", confidence=confidence)
    if not proven or rng.uniform() < MISREAD_ODDS:
        place = seen[int(rng.integers(len(seen)))]
    spin = (None, 0, 1, 2)[int(rng.integers(4))]
    action = baselines.claim(state, place, spin, confidence)
    if rng.uniform() < MISCOPY_ODDS:
        mass = physics.centre_gev(state.briefing.m0_gev, int(rng.integers(N_BINS)))
        return Action("claim", action.channel, None, mass, spin, confidence)
    return action


def weak_action(state: ColliderState, style: str, rng: np.random.Generator) -> Action:
    """Return the next move of a noisy player that speaks well and plays poorly."""
    channels, seen = state.briefing.channels, state.looked_at()
    proven = any(state.is_significant(place) for place in seen)
    haste = ACT_ON_PROOF_ODDS if proven else HASTE_ODDS
    if state.turns_left == 1 or (seen and rng.uniform() < haste):
        return _verdict(state, rng)
    if seen and rng.uniform() < SIDE_ACTION_ODDS:
        kind = int(rng.integers(4))
        name = channels[seen[int(rng.integers(len(seen)))]]
        if kind == 0:
            return Action("scan")
        if kind == 1:
            return Action("fit", name)
        return Action("angles", name) if kind == 2 or not state.blocks_left else Action("calibrate", name)
    if not state.blocks_left:
        return _verdict(state, rng)
    place = int(rng.integers(len(channels)))
    most = 4
    if style == "explore":
        unseen = [other for other in range(len(channels)) if other not in seen]
        place = (
            unseen[int(rng.integers(len(unseen)))]
            if unseen
            else max(seen, key=lambda p: state.data[p].local_z)
        )
        most = 1 if unseen else 5
    return Action("take_data", channels[place], blocks=int(rng.integers(1, min(state.blocks_left, most) + 1)))


def drill(rng: np.random.Generator) -> list[Message]:
    """Return one question about a made-up state line and its answer, which copies the bin of the channel
    asked for."""
    n = len(generation.HOME_CHANNELS)
    shown = rng.permutation(n)[: int(rng.integers(1, n + 1))].tolist()
    words = [f"L{int(rng.integers(0, BUDGET_BLOCKS))}"]
    bins = {}
    for place in shown:
        bins[place] = bin_token(int(rng.integers(N_BINS)))
        strength = z_token(float(rng.gamma(3.0, 1.0)))
        mark = "k" if rng.uniform() < 0.1 else ""
        proof = "+" if rng.uniform() < 0.1 else ""
        blocks = int(rng.integers(1, 8))
        words.append(f"{letter(generation.HOME_CHANNELS[place])}{bins[place]}{proof}{strength}{blocks}{mark}")
    asked = shown[int(rng.integers(len(shown)))]
    name = letter(generation.HOME_CHANNELS[asked])
    # Spin and confidence are fixed here, so that a right answer is one string.
    answer = f"y{name}{bins[asked]}-c5"
    return [
        {"role": "user", "content": " ".join([*words, f"y{name}"])},
        {"role": "assistant", "content": answer},
    ]
