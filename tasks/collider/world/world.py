"""What nature does in a scenario: expected events per channel and bin, as arrays over scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import noise, physics
from .physics import BUDGET_BLOCKS, N_BINS, Floats
from .scenario import Scenario
from .spin import FLAT_MOMENT, MOMENT_SPREAD, measured, moment

if TYPE_CHECKING:  # it stands on this module
    from .simulator import ChannelData

Places = NDArray[np.int64]

# Source: PDG (2024): the Z is a vector, the Higgs boson a scalar; used where someone measures their angles.
_KNOWN_SPIN = {"dielectron": 1, "dimuon": 1, "diphoton": 0, "four_lepton": 0}


@dataclass(frozen=True, slots=True)
class Worlds:
    """N scenarios as arrays; channels are places in the briefing's list, N_C of them."""

    names: tuple[str, ...]
    nominal: Floats
    """Background that everybody knows, at full budget [channels, bins]."""
    expected: Floats
    """What nature produces at full budget [scenarios, channels, bins]."""
    peak: Floats
    """The part of it that decays like a particle, not like background [scenarios, channels, bins]."""
    peak_moment: Floats
    """Mean cos^2 of that part [scenarios, channels]."""
    flare: Floats
    """Shape of a fluctuation of the first take [scenarios, channels, bins]; zero where none."""
    flare_z: Floats
    """Its size in sigma [scenarios, channels]."""
    flare_background: Floats
    """Background under it at full budget [scenarios, channels]."""
    widths: NDArray[np.int64]
    """Scan windows in bins [scenarios, channels]."""
    known: dict[tuple[int, int, ChannelData, int], ChannelData] = field(default_factory=dict)
    """What a channel holds after a take, by world seed, place, what it held before and blocks:
    copies of a group, who share a world, are given what the first of them was given."""


def build(scenarios: Sequence[Scenario]) -> Worlds:
    """Return the arrays of scenarios that share one list of channels."""
    names = scenarios[0].briefing.channels
    where = {name: place for place, name in enumerate(names)}
    indices = [physics.NAMES.index(name) for name in names]
    nominal = np.stack([physics.background(index) for index in indices])
    n, n_channels = len(scenarios), len(names)
    shifts = np.array([scenario.truth.background_shifts for scenario in scenarios])
    expected = nominal * (1.0 + shifts)[:, :, None]
    peak, flare = np.zeros_like(expected), np.zeros_like(expected)
    peak_moment = np.full((n, n_channels), FLAT_MOMENT)
    flare_z, flare_background = np.zeros((n, n_channels)), np.ones((n, n_channels))
    m0s = np.array([scenario.briefing.m0_gev for scenario in scenarios])
    widths = physics.window_width(np.array(indices), m0s[:, None])
    rows: list[tuple[bool, int, int, float, float, float, float]] = []
    for row, scenario in enumerate(scenarios):
        m0_gev, truth = scenario.briefing.m0_gev, scenario.truth
        if truth.channel is not None and truth.mass_gev is not None and truth.spin is not None:
            place = where[truth.channel]
            seen = truth.mass_gev * (1.0 + truth.scale_shifts[place])
            rows.append((False, row, place, m0_gev, seen, truth.natural_width, truth.signal_events))
            peak_moment[row, place] = moment(truth.channel, truth.spin)
        decoy = truth.decoy
        if decoy is not None and decoy.mass_gev is not None:
            place = where[decoy.channel]
            if decoy.kind == "fluctuation":
                rows.append((True, row, place, m0_gev, decoy.mass_gev, 0.0, 1.0))
                flare_z[row, place] = decoy.size
            else:
                seen = decoy.mass_gev * (1.0 + truth.scale_shifts[place])
                rows.append((False, row, place, m0_gev, seen, 0.0, decoy.size))
                peak_moment[row, place] = moment(decoy.channel, _KNOWN_SPIN[decoy.channel])
    if rows:
        _add_peaks(rows, indices, peak, flare)
    for row, place in np.argwhere(flare_z > 0.0):
        window = physics.window_sums(nominal[place], int(widths[row, place]))
        flare_background[row, place] = window[int(flare[row, place].argmax())]
    return Worlds(
        names, nominal, expected + peak, peak, peak_moment, flare, flare_z, flare_background, widths
    )


def _add_peaks(
    rows: list[tuple[bool, int, int, float, float, float, float]],
    indices: list[int],
    peak: Floats,
    flare: Floats,
) -> None:
    m0, mass, natural, events = (np.array([entry[k] for entry in rows]) for k in (3, 4, 5, 6))
    sigma = physics.resolution(np.array([indices[entry[2]] for entry in rows]), mass)
    shapes = physics.peak_shape(m0, mass, np.hypot(sigma, natural)) * events[:, None]
    for (is_flare, row, place, *_), shape in zip(rows, shapes, strict=True):
        (flare if is_flare else peak)[row, place] += shape


def take_expectation(
    worlds: Worlds, rows: Places | int, place: int, blocks: Places | int, visit: int
) -> Floats:
    """Return the expected counts of one take in some scenarios [rows, bins], or in one [bins].

    A fluctuation lives in the first take of its channel alone.
    """
    share = np.asarray(blocks) / BUDGET_BLOCKS
    result: Floats = worlds.expected[rows, place] * share[..., None]
    z = worlds.flare_z[rows, place]
    if visit == 0 and z.any():
        # Inverts the Asimov formula to second order, s = z sqrt(b) + z^2 / 6: close enough for a planted
        # accident.
        events = z * np.sqrt(worlds.flare_background[rows, place] * share) + z * z / 6.0
        result += worlds.flare[rows, place] * events[..., None]
    return result


def spin_measurement(
    worlds: Worlds,
    rows: Places,
    place: int,
    world_seeds: ArrayLike,
    visits: ArrayLike,
    counts: Floats,
    expected: Floats,
    peak_bins: Places,
) -> tuple[Floats, Floats]:
    """Return the measured moment of the best window's excess and its error [rows]; asking again shows the
    same numbers.

    `counts` and `expected` (the player's background) are [rows, bins].
    """
    half = worlds.widths[rows, place] // 2
    bins = np.arange(N_BINS)
    window = np.abs(bins - peak_bins[:, None]) <= half[:, None]
    observed = (counts * window).sum(axis=-1)
    share = (worlds.peak[rows, place] * window).sum(axis=-1) / (worlds.expected[rows, place] * window).sum(
        axis=-1
    )
    draw = noise.normals(world_seeds, "angles", physics.NAMES.index(worlds.names[place]), visits, 1)[:, 0]
    mean = FLAT_MOMENT + share * (worlds.peak_moment[rows, place] - FLAT_MOMENT)
    mean = mean + MOMENT_SPREAD * draw / np.sqrt(np.maximum(1.0, observed))
    return measured(mean, observed, (expected * window).sum(axis=-1))
