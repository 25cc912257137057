"""What a player did and saw, as plain data for readers: spectra, budgets, and where a claim lies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from assay.core.counting import counted
from assay.rollout.tasks.protocol import Mark, Panel, Picture

from .rewards import claimed_significance, compare, proven
from .surfaces import Action
from .world import physics
from .world.physics import MASS_TOLERANCE_SIGMAS, N_BINS, NAMES, Floats
from .world.simulator import ColliderState, expected_in_hand

PLANE = ("mass, GeV, as claimed, or of what was not claimed", "local significance there, \u03c3")
FOUND, UNPROVEN = "right claim, proven", "right claim, not proven"
MISPLACED, FALSE, MISSED = "claim beside the particle", "claim, and there is none", "particle not claimed"
MARKS: Mapping[str, bool | None] = {FOUND: True, UNPROVEN: True, MISPLACED: False, FALSE: False, MISSED: None}
WIDTH = 2  # bins of the experiment in one that is drawn: still narrower than any window
_EDGES = np.exp2(np.arange(0, N_BINS + 1, WIDTH) / N_BINS)
# Kind of notice -> how a turn was used.
_USES = {
    "data": "taking data",
    "calibrated": "other measuring",
    "scan": "other measuring",
    "fit": "other measuring",
    "angles": "other measuring",
    "refused": "refused, unreadable",
    "failed": "refused, unreadable",
}


def pictures(states: Sequence[ColliderState]) -> list[Picture]:
    """Return the spectra of every channel in every state, with what the turn before it did."""
    told = ["", *(_said(before, after) for before, after in pairwise(states))]
    return [
        Picture("mass, GeV", "events per 2.2 % of mass", _panels(state), said)
        for state, said in zip(states, told, strict=True)
    ]


def _panels(state: ColliderState) -> list[Panel]:
    briefing, truth, claim = state.briefing, state.scenario.truth, state.verdict
    edges = (briefing.m0_gev * _EDGES).tolist()
    found = []
    for place, (name, data) in enumerate(zip(briefing.channels, state.data, strict=True)):
        window = None
        if claim is not None and claim.channel == name and claim.mass_gev is not None:
            reach = MASS_TOLERANCE_SIGMAS * physics.resolution_at(NAMES.index(name), claim.mass_gev)
            window = claim.mass_gev * (1.0 - reach), claim.mass_gev * (1.0 + reach)
        found.append(
            Panel(
                f"{name}, {counted(data.blocks, 'blocks')}{', calibrated' if data.calibrated else ''}",
                edges,
                _drawn(data.histogram()),
                _drawn(expected_in_hand(state.worlds, place, data.blocks, data.norm)),
                window,
                truth.mass_gev if truth.channel == name else None,
            )
        )
    return found


def _drawn(values: Floats) -> list[float]:
    return [float(value) for value in values.reshape(-1, WIDTH).sum(axis=1)]


def _said(before: ColliderState, after: ColliderState) -> str:
    if after.verdict is not None:
        return _verdict(after.verdict)
    notice = after.notice
    channel = "" if notice.place is None else after.briefing.channels[notice.place]
    if notice.kind == "data":
        return f"takes {counted(before.blocks_left - after.blocks_left, 'blocks')} of {channel}"
    if notice.kind == "calibrated":
        return f"calibrates {channel}"
    if notice.kind == "scan":
        return f"scans: the best excess, of {channel}, has {notice.values[0]:.1f} \u03c3 globally"
    if notice.kind == "fit":
        return f"fits {channel}: {notice.values[0]:.0f} GeV"
    if notice.kind == "angles":
        return f"measures angles of {channel}: spin {notice.values[0]:.0f} is favoured"
    return f"{'is refused' if notice.kind == 'refused' else 'cannot be read'}: {notice.reason}"


def _verdict(verdict: Action) -> str:
    sure = f"confidence {verdict.confidence:g}"
    if verdict.mass_gev is None:
        return f"says that there is nothing, {sure}"
    spin = "no spin" if verdict.spin is None else f"spin {verdict.spin}"
    return f"claims {verdict.channel}, {verdict.mass_gev:.0f} GeV, {spin}, {sure}"


def mark(states: Sequence[ColliderState]) -> Mark | None:
    """Return mass and local significance of the claim; where none was made, those of the particle."""
    state = states[-1]
    truth, claim = state.scenario.truth, state.verdict
    if claim is not None and claim.mass_gev is not None:
        facts = compare(state)
        kind = FALSE if truth.channel is None else MISPLACED
        if facts.correct:
            kind = FOUND if proven(facts, state) else UNPROVEN
        return Mark(claim.mass_gev, facts.local_z or 0.0, kind)
    if truth.channel is None or truth.mass_gev is None:
        return None
    there = Action("claim", truth.channel, mass_gev=truth.mass_gev, confidence=1.0)
    return Mark(truth.mass_gev, claimed_significance(state, there)[0], MISSED)


def spent(states: Sequence[ColliderState]) -> dict[str, dict[str, float]]:
    """Return where blocks, apart for worlds with and without a particle, and turns went."""
    state = states[-1]
    budget, right = state.briefing.budget_blocks, state.scenario.truth.channel
    blocks = dict(zip(state.briefing.channels, (data.blocks for data in state.data), strict=True))
    own = blocks.pop(right, 0) if right is not None else 0
    where = {} if right is None else {"data of its channel": own}
    where |= {"data of other channels" if right is not None else "data": sum(blocks.values())}
    where |= {"calibration": budget - state.blocks_left - own - sum(blocks.values())}
    where |= {"not spent": state.blocks_left}
    used = Counter(
        "verdict" if after.verdict is not None else _USES[after.notice.kind] for after in states[1:]
    )
    turns = {name: used[name] for name in (*dict.fromkeys(_USES.values()), "verdict")}
    turns["not used"] = state.max_turns - state.turn
    world = f"blocks where there is {'no' if right is None else 'a'} particle"
    return {
        world: {name: n / budget for name, n in where.items()},
        "turns": {name: n / state.max_turns for name, n in turns.items()},
    }
