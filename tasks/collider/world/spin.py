"""Spin from decay angles: the mean of cos^2(theta*) that each spin predicts, and what a measured mean
favours."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from .physics import NAMES, Floats

SPINS = (0, 1, 2)
FLAT_MOMENT = 1.0 / 3.0
# Var(c^2) of a flat distribution: 1/5 - 1/9.
MOMENT_SPREAD = math.sqrt(4.0 / 45.0)
VECTOR_PAIRS = ("diphoton", "four_lepton", "dijet")


def moment_of(c2: float, c4: float) -> float:
    """Return the mean of c^2 for a density proportional to 1 + c2 c^2 + c4 c^4 on [-1, 1].

    >>> [round(moment_of(*shape), 4) for shape in ((0.0, 0.0), (1.0, 0.0), (6.0, 1.0), (0.0, -1.0))]
    [0.3333, 0.4, 0.5238, 0.2381]
    """
    return (1.0 / 3.0 + c2 / 5.0 + c4 / 7.0) / (1.0 + c2 / 3.0 + c4 / 5.0)


def allowed(channel: str) -> tuple[int, ...]:
    """Return the spins that may decay into the channel; two photons exclude spin 1.

    Source: Landau (1948), Dokl. Akad. Nauk 60:207; Yang (1950), Phys. Rev. 77:242.

    >>> allowed("diphoton"), allowed("dimuon")
    ((0, 2), (0, 1, 2))
    """
    return (0, 2) if channel == "diphoton" else SPINS


def moment(channel: str, spin: int) -> float:
    """Return the predicted mean of cos^2(theta*) for a spin seen in a channel.

    Source: Gao et al., arXiv:1001.3396: angular densities 1 (spin 0), 1 + c^2 (qq -> 1 -> ff), 1 + 6c^2 + c^4
    (gg -> 2 -> two transverse vectors), 1 - c^4 (gg -> 2 -> ff). Four leptons: the angle of the Z pair alone.

    >>> round(moment("diphoton", 2), 4), round(moment("dimuon", 2), 4)
    (0.5238, 0.2381)
    """
    if spin == 0:
        return FLAT_MOMENT
    if spin == 1:
        return moment_of(1.0, 0.0)
    return moment_of(6.0, 1.0) if channel in VECTOR_PAIRS else moment_of(0.0, -1.0)


_TABLE = np.array(
    [[moment(name, spin) if spin in allowed(name) else np.inf for spin in SPINS] for name in NAMES]
)


def moment_table() -> Floats:
    """Return the predicted moments [channels, spins]; infinite where the spin is forbidden.

    >>> moment_table().shape
    (6, 3)
    """
    return _TABLE.copy()


def measured(mean: ArrayLike, observed: ArrayLike, expected: ArrayLike) -> tuple[Floats, Floats]:
    """Return the signal's moment and its error after subtracting a flat background from the mean of all
    events.

    `mean` is the mean of cos^2 over `observed` events, of which `expected` are background.

    >>> [round(float(x), 3) for x in measured(0.36, 200.0, 160.0)]
    [0.467, 0.105]
    """
    n = np.maximum(np.asarray(observed, np.float64), 1.0)
    excess = np.maximum(n - np.asarray(expected, np.float64), 1.0)
    return FLAT_MOMENT + (np.asarray(mean) - FLAT_MOMENT) * n / excess, MOMENT_SPREAD * np.sqrt(n) / excess


def favoured(channel: int, value: float, error: float) -> tuple[int, float]:
    """Return the spin nearest to a measured moment, and by how many sigma the runner-up is further away.

    >>> spin, lead = favoured(0, 0.5, 0.05)
    >>> spin, round(lead, 3)
    (2, 2.857)
    """
    distances = np.abs(_TABLE[channel] - value) / error
    order = np.argsort(distances, kind="stable")
    return int(order[0]), float(distances[order[1]] - distances[order[0]])
