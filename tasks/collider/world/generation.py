"""Scenarios drawn from labels: one distribution for play, and the fixed suites that probe it and its
borders."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from assay.core.errors import TaskError
from assay.core.seeds import Label, derive_seed
from assay.core.seeds import rng as labelled_rng

from . import physics
from .scenario import TIERS, Briefing, ChannelName, Decoy, DecoyKind, Tier, Truth, to_row
from .spin import allowed

HOME_CHANNELS: tuple[ChannelName, ...] = ("diphoton", "dielectron", "dimuon", "four_lepton")
STRENGTH_Z: Mapping[Tier, tuple[float, float]] = {
    "easy": (9.0, 12.0),
    "medium": (7.0, 9.5),
    "hard": (5.0, 7.5),
}
REQUIRED_Z: Mapping[Tier, float] = {"easy": 5.0, "medium": 4.0, "hard": 3.0}
NULL_SHARE = 0.3
DECOY_SHARE = 0.25
SuiteName = Literal["train", "validation", "heldout", "heldout_ood", "traps"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a suite draws from: the axis start in GeV, extra channels to choose from, and how often a decoy
    appears."""

    m0_gev: tuple[float, float]
    extra_channels: tuple[ChannelName, ...]
    decoy_share: float
    known_peak_share: float


RECIPES: Mapping[SuiteName, Recipe] = {
    "train": Recipe((100.0, 3000.0), (), DECOY_SHARE, 0.0),
    "validation": Recipe((100.0, 3000.0), (), DECOY_SHARE, 0.0),
    "heldout": Recipe((100.0, 3000.0), (), DECOY_SHARE, 0.0),
    "heldout_ood": Recipe((3500.0, 7000.0), ("dijet", "bb"), DECOY_SHARE, 0.0),
    "traps": Recipe((65.0, 120.0), (), 1.0, 0.5),
}


def _pick(rng: np.random.Generator, choices: tuple[Any, ...]) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _place(rng: np.random.Generator, m0_gev: float) -> float:
    return float(m0_gev * 2.0 ** rng.uniform(0.12, 0.88))


def _events(channel: str, m0_gev: float, mass_gev: float, natural_width: float, target_z: float) -> float:
    """Return the events at full budget that reach `target_z` in the scan window around the mass."""
    index = physics.NAMES.index(channel)
    width = int(physics.window_width(index, m0_gev))
    centre = int(physics.bin_of(m0_gev, mass_gev))
    sigma = math.hypot(float(physics.resolution(index, mass_gev)), natural_width)
    inside = float(physics.window_sums(physics.peak_shape(m0_gev, mass_gev, sigma), width)[centre])
    expected = float(physics.window_sums(physics.background(index), width)[centre])
    return float(physics.signal_for_z(target_z, expected)) / inside


def _decoy(rng: np.random.Generator, briefing: Briefing, channel: str | None, recipe: Recipe) -> Decoy | None:
    elsewhere = tuple(name for name in briefing.channels if name != channel)
    peaks = tuple((name, mass) for name, mass in briefing.known_peaks() if name != channel)
    if peaks and rng.uniform() < max(recipe.known_peak_share, 0.3):
        name, mass_gev = _pick(rng, peaks)
        size = _events(name, briefing.m0_gev, mass_gev, 0.0, rng.uniform(5.0, 9.0))
        return Decoy(kind="known_peak", channel=name, mass_gev=mass_gev, size=round(size, 4))
    if not elsewhere:
        return None
    kind: DecoyKind = _pick(rng, ("fluctuation", "miscalibrated"))
    name = _pick(rng, elsewhere)
    if kind == "fluctuation":
        where = round(_place(rng, briefing.m0_gev), 4)
        return Decoy(kind=kind, channel=name, mass_gev=where, size=round(rng.uniform(3.0, 4.0), 4))
    return Decoy(kind=kind, channel=name, mass_gev=None, size=round(rng.uniform(0.06, 0.10), 4))


def draw(rng: np.random.Generator, tier: Tier, suite: SuiteName, max_turns: int) -> dict[str, Any]:
    """Return one row: a scenario of the tier, drawn as the suite's recipe says."""
    recipe = RECIPES[suite]
    low, high = (math.log(edge) for edge in recipe.m0_gev)
    m0_gev = round(math.exp(rng.uniform(low, high)), 3)
    extra = (_pick(rng, recipe.extra_channels),) if recipe.extra_channels else ()
    channels = HOME_CHANNELS + extra
    briefing = Briefing(
        m0_gev=m0_gev,
        channels=channels,
        budget_blocks=physics.BUDGET_BLOCKS,
        max_turns=max_turns,
        required_z=REQUIRED_Z[tier],
    )
    # Shifts are drawn before the particle, so that a null world and a signal world differ by the particle
    # alone.
    signs = rng.choice((-1.0, 1.0), len(channels))
    scale = tuple(round(float(x), 6) for x in signs * (0.005 + 0.015 * rng.uniform(size=len(channels)) ** 2))
    norms = np.clip(rng.normal(0.0, 0.02, len(channels)), -0.05, 0.05)
    null = rng.uniform() < NULL_SHARE
    channel: ChannelName | None = None if null else _pick(rng, channels)
    mass_gev = spin = None
    width, events = 0.0, 0.0
    if channel is not None:
        mass_gev = round(_place(rng, m0_gev), 4)
        spin = int(_pick(rng, allowed(channel)))
        width = round(float(rng.uniform(0.0, 0.005)), 6)
        events = round(_events(channel, m0_gev, mass_gev, width, rng.uniform(*STRENGTH_Z[tier])), 4)
    decoy = _decoy(rng, briefing, channel, recipe) if rng.uniform() < recipe.decoy_share else None
    if decoy is not None and decoy.kind == "miscalibrated":
        norms[channels.index(decoy.channel)] = decoy.size
    truth = Truth(
        channel=channel,
        mass_gev=mass_gev,
        spin=spin,
        natural_width=width,
        signal_events=events,
        scale_shifts=scale,
        background_shifts=tuple(round(float(x), 6) for x in norms),
        decoy=decoy,
    )
    return to_row(tier, "null" if null else "signal", briefing, truth)


def generate(suite: SuiteName, n: int, *, max_turns: int, labels: tuple[Label, ...]) -> list[dict[str, Any]]:
    """Return n distinct rows of a suite, tiers in turn, sorted by id; each suite draws from labels of its
    own.

    Raises:
        TaskError: the suite does not exist; the caller's fault.

    >>> rows = generate("train", 3, max_turns=8, labels=("doc",))
    >>> sorted(row["tier"] for row in rows)
    ['easy', 'hard', 'medium']
    """
    if suite not in RECIPES:
        raise TaskError(
            f"one of {', '.join(RECIPES)}",
            found=ascii(suite),
            where="collider suite",
            fix="name a known suite",
        )
    root = derive_seed("collider", suite, *labels)
    rows = [draw(labelled_rng(root, index), TIERS[index % 3], suite, max_turns) for index in range(n)]
    return sorted(rows, key=lambda row: str(row["id"]))


# How many scenarios each committed suite holds.
SUITES: Mapping[SuiteName, int] = {
    "train": 2048,
    "validation": 256,
    "heldout": 512,
    "heldout_ood": 256,
    "traps": 256,
}
