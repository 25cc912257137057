"""The experiment: a frozen state, and what each action does to it. Knows nothing of texts or rewards."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from assay.tasks.collider import noise, physics, spin
from assay.tasks.collider.actions import Action
from assay.tasks.collider.physics import BUDGET_BLOCKS, N_BINS, NAMES, Floats
from assay.tasks.collider.scenario import Briefing, Scenario
from assay.tasks.collider.world import Worlds, build, spin_measurement, take_expectation

NoticeKind = Literal["start", "data", "calibrated", "scan", "fit", "angles", "refused", "failed"]
Ending = Literal["claim", "no_signal", "turn_limit"]
_ROW = np.zeros(1, np.int64)


@dataclass(frozen=True, slots=True)
class ChannelData:
    """What is in hand in one channel.

    `counts` holds 64 little-endian floats, so that states compare and never alias. `window_bin` is the middle of the
    best window as recorded; `peak_mass_gev` and `peak_bin` are its mass and bin free of a measured energy scale.
    """

    blocks: int = 0
    visits: int = 0
    counts: bytes = bytes(8 * N_BINS)
    scale: float | None = None
    norm: float | None = None
    local_z: float = 0.0
    window_bin: int = 0
    peak_mass_gev: float = 0.0
    peak_bin: int = 0

    @property
    def calibrated(self) -> bool:
        """Whether scale and normalisation were measured."""
        return self.norm is not None

    def histogram(self) -> Floats:
        """Return the counts [bins], read-only."""
        return np.frombuffer(self.counts, "<f8")


@dataclass(frozen=True, slots=True)
class Notice:
    """What the last turn brought to light: a kind, a channel (place in the briefing) and a few numbers."""

    kind: NoticeKind
    place: int | None = None
    values: tuple[float, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class State:
    """One moment of an episode, as a value. Hidden fields stay out of the public repr."""

    briefing: Briefing
    max_turns: int
    scenario: Scenario = field(repr=False)
    worlds: Worlds = field(repr=False, compare=False)
    world_seed: int = field(repr=False)
    turn: int
    blocks_left: int
    data: tuple[ChannelData, ...]
    notice: Notice
    ending: Ending | None
    verdict: Action | None

    @property
    def turns_left(self) -> int:
        """Completions that may still follow."""
        return self.max_turns - self.turn

    def looked_at(self) -> tuple[int, ...]:
        """Return the places of the channels that have data."""
        return tuple(place for place, data in enumerate(self.data) if data.blocks)

    def is_significant(self, place: int) -> bool:
        """Return whether a channel's best excess has the global significance that the briefing asks for."""
        return _global_z(self.data[place].local_z, max(1, len(self.looked_at()))) >= self.briefing.required_z


@lru_cache(maxsize=4096)
def _global_z(local_z: float, n_channels: int) -> float:
    return float(physics.global_z(local_z, n_channels))  # asked again at each turn for channels that rest


def corrected_mass_gev(m0_gev: float, window_bin: int, scale: float | None) -> float:
    """Return the mass at a bin's centre, freed from a measured relative scale shift.

    >>> round(corrected_mass_gev(100.0, 31, 0.01) / corrected_mass_gev(100.0, 31, None), 5)
    0.9901
    """
    return float(physics.bin_centre_gev(m0_gev, window_bin)) / (1.0 + (scale or 0.0))


def begin(scenario: Scenario, world_seed: int, max_turns: int) -> State:
    """Return the state before the first turn."""
    briefing = scenario.briefing
    return State(
        briefing=briefing,
        max_turns=min(max_turns, briefing.max_turns),
        scenario=scenario,
        worlds=build([scenario]),
        world_seed=world_seed,
        turn=0,
        blocks_left=briefing.budget_blocks,
        data=(ChannelData(),) * len(briefing.channels),
        notice=Notice("start"),
        ending=None,
        verdict=None,
    )


def expected_in_hand(worlds: Worlds, place: int, data: ChannelData) -> tuple[Floats, float]:
    """Return the background the player expects in each bin of a channel, and its relative uncertainty."""
    share = data.blocks / BUDGET_BLOCKS
    if data.norm is None:
        return worlds.nominal[place] * share, physics.UNCALIBRATED_BACKGROUND
    return worlds.nominal[place] * (share * (1.0 + data.norm)), physics.CALIBRATED_BACKGROUND


def significance_profile(state: State, place: int) -> Floats:
    """Return the local significance of the window centred on each bin; zeros before any data."""
    data = state.data[place]
    return _profile(state.worlds, place, data) if data.blocks else np.zeros(N_BINS)


def _profile(worlds: Worlds, place: int, data: ChannelData) -> Floats:
    expected, relative = expected_in_hand(worlds, place, data)
    return physics.scan(data.histogram(), expected, relative, int(worlds.widths[0, place]))


def _rescan(state: State, place: int, data: ChannelData, **changes: Any) -> State:
    """Return the state with a channel's new data, the best window found anew, and further changes."""

    def of(found: ChannelData) -> State:
        return replace(state, data=(*state.data[:place], found, *state.data[place + 1 :]), **changes)

    if not data.blocks:
        return of(data)
    profile = _profile(state.worlds, place, data)
    best = int(profile.argmax())
    m0_gev = state.briefing.m0_gev
    mass = corrected_mass_gev(m0_gev, best, data.scale)
    shown = int(physics.bin_of(m0_gev, mass))
    return of(replace(data, local_z=float(profile[best]), window_bin=best, peak_mass_gev=mass, peak_bin=shown))


def _refused(state: State, reason: str) -> State:
    return replace(state, notice=Notice("refused", reason=reason))


def _taken(state: State, place: int, blocks: int) -> Floats:
    """Return the counts of a take; copies of a group, who share a world, are given what the first of them was given."""
    visit = state.data[place].visits
    key = state.world_seed, place, blocks, visit
    if key not in state.worlds.taken:
        expected = take_expectation(state.worlds, _ROW, place, np.array([blocks]), visit)
        index = NAMES.index(state.briefing.channels[place])
        state.worlds.taken[key] = noise.poisson([state.world_seed], index, [visit], expected)[0]
    return state.worlds.taken[key]


def _take(state: State, place: int, blocks: int) -> State:
    if blocks > state.blocks_left:
        return _refused(state, f"only {state.blocks_left} blocks are left")
    data = state.data[place]
    counts = data.histogram() + _taken(state, place, blocks)
    fresh = replace(
        data, blocks=data.blocks + blocks, visits=data.visits + 1, counts=counts.astype("<f8", copy=False).tobytes()
    )
    return _rescan(state, place, fresh, blocks_left=state.blocks_left - blocks, notice=Notice("data", place))


def _calibrate(state: State, place: int) -> State:
    if state.data[place].calibrated:
        return _refused(state, "the channel is calibrated already")
    if not state.blocks_left:
        return _refused(state, "no blocks are left")
    truth = state.scenario.truth
    index = NAMES.index(state.briefing.channels[place])
    first, second = noise.normals([state.world_seed], "calibrate", index, [0], 2)[0]
    scale = truth.scale_shifts[place] + physics.CALIBRATED_SCALE * float(first)
    norm = truth.background_shifts[place] + physics.CALIBRATED_BACKGROUND * float(second)
    fresh, notice = replace(state.data[place], scale=scale, norm=norm), Notice("calibrated", place, (scale, norm))
    return _rescan(state, place, fresh, blocks_left=state.blocks_left - 1, notice=notice)


def _scan(state: State) -> State:
    seen = state.looked_at()
    if not seen:
        return _refused(state, "no channel has data")
    best = max(seen, key=lambda place: state.data[place].local_z)
    strength = _global_z(state.data[best].local_z, len(seen))
    return replace(state, notice=Notice("scan", best, (strength,)))


def _fit(state: State, place: int) -> State:
    """Fit mass and yield around the best window: the mass that maximises the likelihood of a Gaussian peak."""
    data, m0_gev = state.data[place], state.briefing.m0_gev
    if not data.blocks:
        return _refused(state, "the channel has no data")
    expected, _ = expected_in_hand(state.worlds, place, data)
    counts, width = data.histogram(), int(state.worlds.widths[0, place])
    window = slice(max(0, data.window_bin - width // 2), data.window_bin + width // 2 + 1)
    excess = max(1.0, float(counts[window].sum() - expected[window].sum()))
    offsets = np.linspace(-width / 2.0, width / 2.0, 4 * width + 1)
    masses = m0_gev * np.exp2((data.window_bin + 0.5 + offsets) / N_BINS)
    index = NAMES.index(state.briefing.channels[place])
    sigma = physics.resolution(index, masses)
    shapes = physics.peak_shape(m0_gev, masses, sigma)
    gain = (counts * np.log1p(1.2 * excess * shapes / expected) - 1.2 * excess * shapes).sum(axis=-1)
    mass = float(masses[int(gain.argmax())]) / (1.0 + (data.scale or 0.0))
    error = mass * float(sigma[0]) * max(1.0, float(counts[window].sum())) ** 0.5 / excess
    return replace(state, notice=Notice("fit", place, (mass, error, excess)))


def _angles(state: State, place: int) -> State:
    data = state.data[place]
    if not data.blocks:
        return _refused(state, "the channel has no data")
    expected, _ = expected_in_hand(state.worlds, place, data)
    values, errors = spin_measurement(
        state.worlds,
        _ROW,
        place,
        [state.world_seed],
        [data.visits],
        data.histogram()[None],
        expected[None],
        np.array([data.window_bin]),
    )
    value, error = float(values[0]), float(errors[0])
    best, lead = spin.favoured(NAMES.index(state.briefing.channels[place]), value, error)
    return replace(state, notice=Notice("angles", place, (float(best), lead, value, error)))


def apply(state: State, action: Action | None, failure: str | None) -> State:
    """Return the state after one turn; `action` is None where the completion could not be read."""
    state = replace(state, turn=state.turn + 1)
    if action is None:
        state = replace(state, notice=Notice("failed", reason=failure))
    elif action.kind == "claim":
        return replace(state, ending="claim", verdict=action)
    elif action.kind == "no_signal":
        return replace(state, ending="no_signal", verdict=action)
    elif action.kind == "scan":
        state = _scan(state)
    elif action.channel not in state.briefing.channels:
        state = _refused(state, "that channel is not available")
    else:
        place = state.briefing.channels.index(action.channel)
        if action.kind == "take_data":
            state = _take(state, place, action.blocks or 0)
        else:
            state = {"calibrate": _calibrate, "fit": _fit, "angles": _angles}[action.kind](state, place)
    return replace(state, ending="turn_limit") if state.turn >= state.max_turns else state
