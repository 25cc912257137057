"""Physics of the bump hunt as array functions: axis, resolutions, backgrounds, significances, scan, spin
moments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

Floats = NDArray[np.float64]

N_BINS = 64
BUDGET_BLOCKS = 10
BIN_LOG_WIDTH = math.log(2.0) / N_BINS
UNCALIBRATED_BACKGROUND = 0.03
CALIBRATED_BACKGROUND = 0.005
CALIBRATED_SCALE = 0.001
MASS_TOLERANCE_SIGMAS = 1.5
LOCAL_CAP = 37.0
# A window of +-1.4 sigma is the width that maximises s/sqrt(b) for a Gaussian peak on a flat background.
WINDOW_SIGMAS = 2.8


@dataclass(frozen=True, slots=True)
class Channel:
    """One final state: relative mass resolution, background events at full budget, and the slope of their
    spectrum."""

    name: str
    letter: str
    resolution: float
    background_events: float
    slope: float


# Source: resolutions of the order ATLAS (arXiv:1606.03833, diphoton) and CMS (arXiv:2103.02708, dilepton)
# publish.
CHANNELS = (
    Channel("diphoton", "g", 0.013, 4000.0, 5.0),
    Channel("dielectron", "e", 0.011, 1500.0, 4.0),
    Channel("dimuon", "m", 0.018, 1500.0, 4.0),
    Channel("four_lepton", "l", 0.013, 60.0, 4.0),
    Channel("dijet", "j", 0.050, 3000.0, 5.0),
    Channel("bb", "q", 0.100, 2000.0, 5.0),
)
NAMES = tuple(channel.name for channel in CHANNELS)
LETTERS = "".join(channel.letter for channel in CHANNELS)
DIMUON = NAMES.index("dimuon")
_RESOLUTIONS = np.array([channel.resolution for channel in CHANNELS])
MUON_TURNOVER_GEV = 2000.0

# Source: Particle Data Group, Review of Particle Physics (2024): m_Z = 91.188 GeV, m_H = 125.20 GeV.
KNOWN_PEAKS_GEV = {"dielectron": 91.188, "dimuon": 91.188, "diphoton": 125.20, "four_lepton": 125.20}


def resolution(channel: ArrayLike, mass_gev: ArrayLike) -> Floats:
    """Return the relative mass resolution of channels (places in CHANNELS) at masses in GeV.

    The muon's momentum is read from the bend of its track, so its resolution worsens as the mass grows.

    >>> resolution([0, 1, 2, 3], 1000.0).round(4).tolist()
    [0.013, 0.011, 0.0201, 0.013]
    """
    # A power of one number and of an array would differ in the last digit, a square does not.
    bend = np.sqrt(1.0 + np.square(np.asarray(mass_gev, np.float64) / MUON_TURNOVER_GEV))
    return np.asarray(_RESOLUTIONS[np.asarray(channel)] * np.where(np.asarray(channel) == DIMUON, bend, 1.0))


def bin_centre_gev(m0_gev: ArrayLike, bin_index: ArrayLike) -> Floats:
    """Return the mass in GeV at the (geometric) centre of a bin of the log axis that starts at m0.

    >>> round(float(bin_centre_gev(100.0, 31.5)), 3)
    141.421
    """
    return np.asarray(np.asarray(m0_gev) * np.exp2((np.asarray(bin_index) + 0.5) / N_BINS))


def bin_of(m0_gev: ArrayLike, mass_gev: ArrayLike) -> NDArray[np.int64]:
    """Return the bin that holds a mass in GeV, clipped to the axis.

    >>> bin_of(100.0, [100.1, 141.0, 500.0]).tolist()
    [0, 31, 63]
    """
    place = np.floor(np.log2(np.asarray(mass_gev) / np.asarray(m0_gev)) * N_BINS)
    return np.asarray(np.clip(place, 0, N_BINS - 1), np.int64)


_CENTRES = [float(bin_centre_gev(1.0, place)) for place in range(N_BINS)]


def centre_gev(m0_gev: float, bin_index: int) -> float:
    """Return what `bin_centre_gev` does for one bin.

    >>> centre_gev(512.3, 7) == float(bin_centre_gev(512.3, 7))
    True
    """
    return m0_gev * _CENTRES[bin_index]


def bin_at(m0_gev: float, mass_gev: float) -> int:
    """Return what `bin_of` does for one mass.

    >>> [bin_at(100.0, mass) for mass in (100.1, 141.0, 500.0)]
    [0, 31, 63]
    """
    return int(min(max(float(np.log2(mass_gev / m0_gev)) * N_BINS, 0.0), N_BINS - 1))


@lru_cache(maxsize=4096)
def resolution_at(channel: int, mass_gev: float) -> float:
    """Return what `resolution` does for one channel at one mass."""
    return float(resolution(channel, mass_gev))


@cache
def background(channel: int) -> Floats:
    """Return the nominal background of each bin at full budget, read-only; m^-slope looks equal in every
    octave.

    >>> round(float(background(0).sum()), 6)
    4000.0
    """
    spec = CHANNELS[channel]
    edges = np.exp2(np.arange(N_BINS + 1) / N_BINS)
    contents = -np.diff(edges ** (1.0 - spec.slope))
    result: Floats = spec.background_events * contents / contents.sum()
    result.setflags(write=False)
    return result


def peak_shape(m0_gev: ArrayLike, mass_gev: ArrayLike, sigma: ArrayLike) -> Floats:
    """Return the share of a Gaussian peak (in log mass, relative width sigma) in each bin: [..., bins].

    >>> shape = peak_shape(100.0, 141.42, 0.013)
    >>> round(float(shape.sum()), 6), int(shape.argmax())
    (1.0, 31)
    """
    centre = np.log(np.asarray(mass_gev, np.float64) / np.asarray(m0_gev, np.float64))
    edges = np.arange(N_BINS + 1) * BIN_LOG_WIDTH
    steps = ndtr((edges - centre[..., None]) / np.asarray(sigma, np.float64)[..., None])
    return np.asarray(np.diff(steps, axis=-1))


def asimov_z(signal: ArrayLike, expected: ArrayLike) -> Floats:
    """Return the median significance, in sigma, of `signal` events over a known background of `expected`
    events.

    Source: Cowan, Cranmer, Gross, Vitells, arXiv:1007.1727, eq. 97.

    >>> round(float(asimov_z(10.0, 100.0)), 4)
    0.984
    """
    s, b = np.asarray(signal, np.float64), np.asarray(expected, np.float64)
    return np.sqrt(np.maximum(0.0, 2.0 * ((s + b) * np.log1p(s / b) - s)))


def signal_for_z(target_z: ArrayLike, expected: ArrayLike) -> Floats:
    """Return the signal events whose Asimov significance over `expected` events is `target_z` (Newton on eq.
    97).

    >>> round(float(asimov_z(signal_for_z(5.0, 3.0), 3.0)), 9)
    5.0
    """
    z, b = np.asarray(target_z, np.float64), np.asarray(expected, np.float64)
    s = z * np.sqrt(b) + z * z / 6.0
    for _ in range(12):
        s = s - ((s + b) * np.log1p(s / b) - s - 0.5 * z * z) / np.log1p(s / b)
    return np.asarray(s)


def local_z(observed: ArrayLike, expected: ArrayLike, relative: ArrayLike) -> Floats:
    """Return the local significance, in sigma, of counts over a background known to a relative uncertainty; 0
    below it.

    Source: Cowan, "Discovery sensitivity for a counting experiment with background uncertainty" (2012), eq.
    20, with the observed count in place of s + b: the profile likelihood ratio with an auxiliary measurement
    of b.

    >>> round(float(local_z(110.0, 100.0, 1e-4)), 4), round(float(local_z(110.0, 100.0, 0.1)), 4)
    (0.984, 0.6902)
    """
    n, b = np.asarray(observed, np.float64), np.asarray(expected, np.float64)
    variance = np.asarray(relative, np.float64) ** 2
    ratio = np.maximum(n / b, 1.0)
    tension = np.log1p((ratio - 1.0) * b * variance / (1.0 + b * variance))
    q = 2.0 * (ratio * b * (np.log(ratio) - tension) - tension / variance)
    return np.asarray(np.minimum(np.sqrt(np.maximum(q, 0.0)), LOCAL_CAP))


def window_width(channel: ArrayLike, m0_gev: ArrayLike) -> NDArray[np.int64]:
    """Return the odd number of bins of the scan window, from the resolution at the middle of the axis.

    >>> window_width(range(6), 100.0).tolist()
    [3, 3, 5, 3, 13, 25]
    """
    sigma = resolution(np.asarray(channel), np.asarray(m0_gev, np.float64) * math.sqrt(2.0))
    return np.maximum(
        3, 2 * np.rint((WINDOW_SIGMAS * sigma / BIN_LOG_WIDTH - 1.0) / 2.0).astype(np.int64) + 1
    )


@lru_cache(maxsize=256)
def _window(width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    centres = np.arange(N_BINS)
    return np.maximum(centres - width // 2, 0), np.minimum(centres + width // 2 + 1, N_BINS)


def window_sums(values: Floats, width: int) -> Floats:
    """Return the sums over windows centred on each bin and cut at the ends of the axis: [..., bins].

    >>> window_sums(np.ones(64), 3)[[0, 1, 63]].tolist()
    [2.0, 3.0, 2.0]
    """
    low, high = _window(width)
    cumulative = np.zeros((*values.shape[:-1], N_BINS + 1))
    values.cumsum(axis=-1, out=cumulative[..., 1:])
    return np.asarray(cumulative.take(high, axis=-1) - cumulative.take(low, axis=-1))


@lru_cache(maxsize=4096)
def background_sums(channel: int, blocks: int, width: int) -> Floats:
    """Return the window sums of the nominal background of so many blocks, read-only."""
    result = window_sums(background(channel) * (blocks / BUDGET_BLOCKS), width)
    result.setflags(write=False)
    return result


def scan(counts: Floats, expected: Floats, relative: ArrayLike, width: int) -> Floats:
    """Return the local significance of the window centred on each bin: [..., bins].

    Counts and expected events are [..., bins]; `relative` is the background uncertainty of each row, [...,
    1].
    """
    return local_z(window_sums(counts, width), window_sums(expected, width), relative)


def global_z(local: ArrayLike, n_channels: ArrayLike) -> Floats:
    """Return the global significance of the best of all windows in `n_channels` channels, in sigma, at least
    0.

    The trials factor counts every window as if it were independent (Sidak); overlap only makes that
    conservative. Source: Sidak (1967), JASA 62:626; the effect: Gross, Vitells, arXiv:1005.1891.

    >>> round(float(global_z(5.0, 1)), 2), float(global_z(1.0, 4))
    (4.13, 0.0)
    """
    p_local = ndtr(-np.asarray(local, np.float64))
    p_global = -np.expm1(np.asarray(n_channels) * N_BINS * np.log1p(-p_local))
    return np.asarray(np.maximum(0.0, -ndtri(p_global)))
