"""Dialogues that teach a model to speak: noisy weak play on either surface, and drills in reading off a
bin."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from assay.rollout.tasks.protocol import Message

from . import baselines
from .surfaces import Action, bin_token, letter, write_json, z_token
from .world import generation, physics
from .world.physics import BUDGET_BLOCKS, N_BINS
from .world.scenario import TIERS, Scenario, from_row
from .world.simulator import ColliderState

# Weak on purpose: these players gather data sensibly, but judge them blindly. Half of the time they name any
# channel they have seen, even after a significant excess; without one they often claim all the same. That
# nothing is there they say only when blocks or turns are spent: a policy that may say so at once learns
# nothing else, as blind claims cost more.
EXPLORER_ODDS = 0.85
HASTE_ODDS = 0.05
ACT_ON_PROOF_ODDS = 0.5
MISREAD_ODDS = 0.5
DOUBT_ODDS = 0.35
MISCOPY_ODDS = 0.02
SIDE_ACTION_ODDS = 0.03
# What pays after a significant excess is rare in play at random, so they do it often and use it half.
CALIBRATE_ODDS = 0.8
ANGLES_ODDS = 0.8
READ_SPIN_ODDS = 0.7
DRILLED_SPIN_ODDS = 0.5
DRILLED_BLOCKS_ODDS = 0.4
DRILLED_AXES_GEV = (100.0, 400.0)  # where the axis of a made-up JSON state begins
# Stated in tenths, first to last: without any skill, but not where a verdict of its kind is seldom right.
NULL_TENTHS, PROVEN_TENTHS, GUESS_TENTHS = (5, 7), (8, 9), (1, 6)


def scenario_for_lesson(rng: np.random.Generator, max_turns: int) -> Scenario:
    """Return a scenario made on the fly, of any tier, from the training distribution."""
    tier = TIERS[int(rng.integers(len(TIERS)))]
    return from_row(generation.draw(rng, tier, "train", max_turns))


def pick_style(rng: np.random.Generator) -> str:
    """Return how one dialogue will be played: looking at every channel first, or anywhere."""
    return "explore" if rng.uniform() < EXPLORER_ODDS else "wander"


def _confidence(rng: np.random.Generator, tenths: tuple[int, int]) -> float:
    return int(rng.integers(tenths[0], tenths[1] + 1)) / 10


def _verdict(state: ColliderState, rng: np.random.Generator) -> Action:
    seen, doubtful = state.looked_at(), _confidence(rng, NULL_TENTHS)
    if not seen:
        return Action("no_signal", confidence=doubtful)
    place = max(seen, key=lambda other: state.data[other].local_z)
    proven = state.is_significant(place)
    spent = state.turns_left == 1 or not state.blocks_left
    if spent and not proven and rng.uniform() < DOUBT_ODDS:
        return Action("no_signal", confidence=doubtful)
    confidence = _confidence(rng, PROVEN_TENTHS if proven else GUESS_TENTHS)
    if not proven or rng.uniform() < MISREAD_ODDS:
        place = seen[int(rng.integers(len(seen)))]
    spin, notice = (None, 0, 1, 2)[int(rng.integers(4))], state.notice
    if notice.kind == "angles" and notice.place == place and rng.uniform() < READ_SPIN_ODDS:
        spin = int(notice.values[0])
    action = baselines.claim(state, place, spin, confidence)
    if rng.uniform() < MISCOPY_ODDS:
        mass = physics.centre_gev(state.briefing.m0_gev, int(rng.integers(N_BINS)))
        return Action("claim", action.channel, None, mass, spin, confidence)
    return action


def weak_action(state: ColliderState, style: str, rng: np.random.Generator) -> Action:
    """Return the next move of a noisy player that speaks well and plays poorly."""
    if state.turns_left == 1:
        return _verdict(state, rng)
    channels, seen = state.briefing.channels, state.looked_at()
    proven = any(state.is_significant(place) for place in seen)
    best = max(seen, key=lambda other: state.data[other].local_z) if seen else 0
    if proven:
        if state.blocks_left and not state.data[best].calibrated and rng.uniform() < CALIBRATE_ODDS:
            return Action("calibrate", channels[best])
        measured = state.notice.kind == "angles" and state.notice.place == best
        if not measured and rng.uniform() < ANGLES_ODDS:
            return Action("angles", channels[best])
    if seen and rng.uniform() < (ACT_ON_PROOF_ODDS if proven else HASTE_ODDS):
        return _verdict(state, rng)
    if seen and rng.uniform() < SIDE_ACTION_ODDS:
        name = channels[seen[int(rng.integers(len(seen)))]]
        return Action("scan") if rng.uniform() < 0.5 else Action("fit", name)
    if not state.blocks_left:
        return _verdict(state, rng)
    place, most = int(rng.integers(len(channels))), 4
    if style == "explore":
        unseen = [other for other in range(len(channels)) if other not in seen]
        place = unseen[int(rng.integers(len(unseen)))] if unseen else best
        most = 1 if unseen else 3
    return Action("take_data", channels[place], blocks=int(rng.integers(1, min(state.blocks_left, most) + 1)))


def as_told(action: Action) -> Action:
    """Return an action whose mass has the two decimals with which the JSON surface tells one."""
    return action if action.mass_gev is None else replace(action, mass_gev=round(action.mass_gev, 2))


def json_drill(rng: np.random.Generator) -> list[Message]:
    """Return questions behind a made-up JSON state and their answers, claims that copy the mass of the
    channel asked for, or actions that copy its blocks."""
    n = len(generation.HOME_CHANNELS)
    shown = sorted(rng.permutation(n)[: int(rng.integers(1, n + 1))].tolist())
    m0_gev = float(np.exp(rng.uniform(*np.log(DRILLED_AXES_GEV))))
    told: dict[str, dict[str, Any]] = {}
    for place in shown:
        told[generation.HOME_CHANNELS[place]] = {
            "blocks": int(rng.integers(1, 8)),
            "local_significance": round(float(rng.gamma(3.0, 1.0)), 2),
            "best_mass_gev": round(physics.centre_gev(m0_gev, int(rng.integers(N_BINS))), 2),
            "significant": bool(rng.uniform() < 0.1),
        }
        if rng.uniform() < 0.1:
            told[generation.HOME_CHANNELS[place]]["calibrated"] = True
    turns, left = int(rng.integers(1, 10)), int(rng.integers(0, BUDGET_BLOCKS))
    text = json.dumps({"blocks_left": left, "turns_left": turns, "channels": told})
    dialogue: list[Message] = []
    # A state is long to read, so every channel in it is asked for. Which one is meant takes longest to learn,
    # and blocks, which stand right behind a channel's name, are where that is learned first. Spin and
    # confidence are fixed, so that a right answer is one text.
    for place in rng.permutation(shown).tolist():
        asked = generation.HOME_CHANNELS[place]
        answer = Action("claim", asked, mass_gev=told[asked]["best_mass_gev"], confidence=0.5)
        if rng.uniform() < DRILLED_BLOCKS_ODDS:
            answer = Action("take_data", asked, blocks=told[asked]["blocks"])
        dialogue.append({"role": "user", "content": f'{text}{{"{answer.kind}":"{asked}"}}'})
        dialogue.append({"role": "assistant", "content": write_json(answer)})
        text = ""
    return dialogue


def drill(rng: np.random.Generator) -> list[Message]:
    """Return one question about a made-up state line and its answer, which copies the bin of the channel
    asked for, and the spin where it was measured."""
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
    # Confidence is fixed here, and the spin where none was measured, so that a right answer is one string.
    spin = "-"
    if rng.uniform() < DRILLED_SPIN_ODDS:
        spin = str(int(rng.integers(3)))
        words.insert(0, f"a{name}{spin}{z_token(float(rng.gamma(3.0, 1.0)))}")
    answer = f"y{name}{bins[asked]}{spin}c5"
    return [
        {"role": "user", "content": " ".join([*words, f"y{name}"])},
        {"role": "assistant", "content": answer},
    ]
