"""The experiment: a frozen state, and what each action does to it. Knows nothing of texts or rewards."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np

from ..surfaces import Action
from . import noise, physics, spin
from .physics import BUDGET_BLOCKS, N_BINS, NAMES, Floats
from .scenario import Briefing, Scenario
from .world import Worlds, build, spin_measurement, take_expectation

NoticeKind = Literal["start", "data", "calibrated", "scan", "fit", "angles", "refused", "failed"]
Ending = Literal["claim", "no_signal", "turn_limit"]
_ROW = np.zeros(1, np.int64)


@dataclass(frozen=True, slots=True)
class ChannelData:
    """What is in hand in one channel.

    `counts` holds 64 little-endian floats, so that states compare and never alias, and so does `profile`, the
    local significance of the window centred on each bin. `window_bin` is the middle of the best window as
    recorded; `peak_mass_gev` and `peak_bin` are its mass and bin free of a measured energy scale.
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
    profile: bytes = field(default=bytes(8 * N_BINS), repr=False, compare=False)

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


Told = tuple[
    Notice, ChannelData | None
]  # what a turn brought to light, and the channel's new data if there are any


@dataclass(frozen=True, slots=True)
class ColliderState:
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
        return tuple([place for place, data in enumerate(self.data) if data.blocks])

    def is_significant(self, place: int) -> bool:
        """Return whether a channel's best excess has the global significance that the briefing asks for."""
        return overall_z(self.data[place].local_z, max(1, len(self.looked_at()))) >= self.briefing.required_z


@lru_cache(maxsize=4096)
def overall_z(local_z: float, n_channels: int) -> float:
    """Return what `physics.global_z` does for one window; it is asked again at each turn for channels that
    rest."""
    return float(physics.global_z(local_z, n_channels))


def corrected_mass_gev(m0_gev: float, window_bin: int, scale: float | None) -> float:
    """Return the mass at a bin's centre, freed from a measured relative scale shift.

    >>> round(corrected_mass_gev(100.0, 31, 0.01) / corrected_mass_gev(100.0, 31, None), 5)
    0.9901
    """
    return physics.centre_gev(m0_gev, window_bin) / (1.0 + (scale or 0.0))


def begin(scenario: Scenario, world_seed: int, max_turns: int) -> ColliderState:
    """Return the state before the first turn."""
    briefing = scenario.briefing
    return ColliderState(
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


def expected_in_hand(worlds: Worlds, place: int, blocks: int, norm: float | None) -> Floats:
    """Return the background the player expects in each bin of a channel after so many blocks."""
    share = blocks / BUDGET_BLOCKS
    expected: Floats = worlds.nominal[place] * (share if norm is None else share * (1.0 + norm))
    return expected


def _rescanned(
    state: ColliderState,
    place: int,
    blocks: int,
    visits: int,
    counts: Floats,
    scale: float | None,
    norm: float | None,
) -> ChannelData:
    """Return a channel's new data with the best window found anew."""
    held = counts.astype("<f8", copy=False).tobytes()
    if not blocks:
        return ChannelData(blocks, visits, held, scale, norm)
    width, m0_gev = int(state.worlds.widths[0, place]), state.briefing.m0_gev
    if norm is None:
        known, relative = (
            physics.background_sums(_index(state, place), blocks, width),
            physics.UNCALIBRATED_BACKGROUND,
        )
    else:
        known = physics.window_sums(expected_in_hand(state.worlds, place, blocks, norm), width)
        relative = physics.CALIBRATED_BACKGROUND
    profile = physics.local_z(physics.window_sums(counts, width), known, relative)
    best = int(profile.argmax())
    mass = corrected_mass_gev(m0_gev, best, scale)
    shown, kept = physics.bin_at(m0_gev, mass), profile.astype("<f8", copy=False).tobytes()
    return ChannelData(blocks, visits, held, scale, norm, float(profile[best]), best, mass, shown, kept)


def _index(state: ColliderState, place: int) -> int:
    return NAMES.index(state.briefing.channels[place])


def _refused(reason: str) -> Told:
    return Notice("refused", reason=reason), None


def _take(state: ColliderState, place: int, blocks: int) -> Told:
    if blocks > state.blocks_left:
        return _refused(f"only {state.blocks_left} blocks are left")
    data, known = state.data[place], state.worlds.known
    key = state.world_seed, place, data, blocks
    if key not in known:
        expected = take_expectation(state.worlds, 0, place, blocks, data.visits)
        counts = data.histogram() + noise.one_take(
            state.world_seed, _index(state, place), data.visits, expected
        )
        known[key] = _rescanned(
            state, place, data.blocks + blocks, data.visits + 1, counts, data.scale, data.norm
        )
    return Notice("data", place), known[key]


def _calibrate(state: ColliderState, place: int) -> Told:
    data = state.data[place]
    if data.calibrated:
        return _refused("the channel is calibrated already")
    if not state.blocks_left:
        return _refused("no blocks are left")
    truth = state.scenario.truth
    first, second = noise.normals([state.world_seed], "calibrate", _index(state, place), [0], 2)[0]
    scale = truth.scale_shifts[place] + physics.CALIBRATED_SCALE * float(first)
    norm = truth.background_shifts[place] + physics.CALIBRATED_BACKGROUND * float(second)
    fresh = _rescanned(state, place, data.blocks, data.visits, data.histogram(), scale, norm)
    return Notice("calibrated", place, (scale, norm)), fresh


def _scan(state: ColliderState) -> Told:
    seen = state.looked_at()
    if not seen:
        return _refused("no channel has data")
    best = max(seen, key=lambda place: state.data[place].local_z)
    return Notice("scan", best, (overall_z(state.data[best].local_z, len(seen)),)), None


def _fit(state: ColliderState, place: int) -> Told:
    """Fit mass and yield around the best window: the mass that maximises the likelihood of a Gaussian
    peak."""
    data, m0_gev = state.data[place], state.briefing.m0_gev
    if not data.blocks:
        return _refused("the channel has no data")
    expected = expected_in_hand(state.worlds, place, data.blocks, data.norm)
    counts, width = data.histogram(), int(state.worlds.widths[0, place])
    window = slice(max(0, data.window_bin - width // 2), data.window_bin + width // 2 + 1)
    excess = max(1.0, float(counts[window].sum() - expected[window].sum()))
    offsets = np.linspace(-width / 2.0, width / 2.0, 4 * width + 1)
    masses = m0_gev * np.exp2((data.window_bin + 0.5 + offsets) / N_BINS)
    sigma = physics.resolution(_index(state, place), masses)
    shapes = physics.peak_shape(m0_gev, masses, sigma)
    gain = (counts * np.log1p(1.2 * excess * shapes / expected) - 1.2 * excess * shapes).sum(axis=-1)
    mass = float(masses[int(gain.argmax())]) / (1.0 + (data.scale or 0.0))
    error = mass * float(sigma[0]) * max(1.0, float(counts[window].sum())) ** 0.5 / excess
    return Notice("fit", place, (mass, error, excess)), None


def _angles(state: ColliderState, place: int) -> Told:
    data = state.data[place]
    if not data.blocks:
        return _refused("the channel has no data")
    expected = expected_in_hand(state.worlds, place, data.blocks, data.norm)
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
    best, lead = spin.favoured(_index(state, place), value, error)
    return Notice("angles", place, (float(best), lead, value, error)), None


def _told(state: ColliderState, action: Action | None, failure: str | None) -> Told:
    if action is None:
        return Notice("failed", reason=failure), None
    if action.kind == "scan":
        return _scan(state)
    if action.channel not in state.briefing.channels:
        return _refused("that channel is not available")
    place = state.briefing.channels.index(action.channel)
    if action.kind == "take_data":
        return _take(state, place, action.blocks or 0)
    return {"calibrate": _calibrate, "fit": _fit, "angles": _angles}[action.kind](state, place)


def apply(state: ColliderState, action: Action | None, failure: str | None) -> ColliderState:
    """Return the state after one turn; `action` is None where the completion could not be read."""
    turn, left, data, notice = state.turn + 1, state.blocks_left, state.data, state.notice
    ending: Ending | None = "turn_limit" if turn >= state.max_turns else None
    verdict = None
    if action is not None and (action.kind == "claim" or action.kind == "no_signal"):
        ending, verdict = action.kind, action
    else:
        notice, fresh = _told(state, action, failure)
        if action is not None and notice.place is not None and fresh is not None:
            data = (*data[: notice.place], fresh, *data[notice.place + 1 :])
            left -= action.blocks or 1  # only a take says how many; a calibration costs one
    # Not dataclasses.replace, which takes as long as the rest of a turn.
    return ColliderState(
        state.briefing,
        state.max_turns,
        state.scenario,
        state.worlds,
        state.world_seed,
        turn,
        left,
        data,
        notice,
        ending,
        verdict,
    )
