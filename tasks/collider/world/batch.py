"""The adaptive player on many scenarios at once, in arrays: the same numbers as one by one, many times
faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.core.errors import TaskError

from .. import baselines, rewards
from . import noise, physics, spin
from .physics import BUDGET_BLOCKS, N_BINS, NAMES, Floats
from .scenario import Scenario
from .world import Places, Worlds, build, spin_measurement, take_expectation


@dataclass(frozen=True, slots=True)
class Outcomes:
    """How N episodes ended; `place` and `spin` are -1 where nothing was claimed, or no spin was measured."""

    reward: Floats
    success: NDArray[np.bool_]
    place: Places
    peak_bin: Places
    spin: Places
    local_z: Floats
    turns: Places


class _Table:
    """Data in hand of N episodes."""

    def __init__(self, worlds: Worlds, seeds: NDArray[np.uint64], m0_gev: Floats) -> None:
        n, n_channels = worlds.widths.shape
        self.worlds, self.seeds, self.m0_gev = worlds, seeds, m0_gev
        self.counts = np.zeros((n_channels, n, N_BINS))
        self.blocks = np.zeros((n_channels, n), np.int64)
        self.visits = np.zeros((n_channels, n), np.int64)
        self.z = np.zeros((n_channels, n))
        self.peak = np.zeros((n_channels, n), np.int64)

    def take(self, place: int, rows: Places, blocks: int, visit: int) -> None:
        """Take data in one channel for some of the episodes, and scan it again."""
        expected = take_expectation(self.worlds, rows, place, np.full(len(rows), blocks), visit)
        index = NAMES.index(self.worlds.names[place])
        self.counts[place, rows] += noise.poisson(
            self.seeds[rows], index, np.full(len(rows), visit), expected
        )
        self.blocks[place, rows] += blocks
        self.visits[place, rows] += 1
        in_hand = int(self.blocks[place, rows[0]])
        known = self.worlds.nominal[place] * (in_hand / BUDGET_BLOCKS)
        widths = self.worlds.widths[rows, place]
        for width in np.unique(widths):
            chosen = rows[widths == width]
            profile = physics.scan(
                self.counts[place, chosen], known, physics.UNCALIBRATED_BACKGROUND, int(width)
            )
            best = profile.argmax(axis=-1)
            self.peak[place, chosen] = best
            self.z[place, chosen] = profile[np.arange(len(chosen)), best]

    def trusted(self) -> Floats:
        """Return the best local significance per channel and episode, 0 where that peak is a known
        particle."""
        trusted = self.z.copy()
        for place, name in enumerate(self.worlds.names):
            known = physics.KNOWN_PEAKS_GEV.get(name)
            if known is not None:
                reach = baselines.KNOWN_PEAK_SIGMAS * float(physics.resolution(NAMES.index(name), known))
                mass = physics.bin_centre_gev(self.m0_gev, self.peak[place])
                inside = (self.m0_gev < known) & (known < 2.0 * self.m0_gev)
                trusted[place, inside & (np.abs(mass / known - 1.0) <= reach)] = 0.0
        return trusted


def play_adaptive(scenarios: Sequence[Scenario], world_seeds: Sequence[int], max_turns: int) -> Outcomes:
    """Play the adaptive baseline on every scenario at once.

    Raises:
        TaskError: the scenarios do not share channels, budget and turns; the caller's fault.
    """
    first = scenarios[0].briefing
    rules = {(s.briefing.channels, s.briefing.budget_blocks, s.briefing.max_turns) for s in scenarios}
    if len(rules) > 1:
        raise TaskError(
            "scenarios of one suite", found="different rules", where="play_adaptive", fix="split the batch"
        )
    n, n_channels, budget = len(scenarios), len(first.channels), first.budget_blocks
    limit = min(max_turns, first.max_turns)
    m0_gev = np.array([s.briefing.m0_gev for s in scenarios])
    table = _Table(build(scenarios), np.array(world_seeds, np.uint64), m0_gev)
    everyone = np.arange(n)
    look = max(1, int(baselines.EXPLORE_SHARE * budget / n_channels))
    n_looks = max(0, min(n_channels, limit - 2, budget // look))
    for place in range(n_looks):
        table.take(place, everyone, look, 0)
    turns = np.full(n, n_looks)
    rest = budget - look * n_looks
    best = table.trusted().argmax(axis=0)
    if rest and limit - n_looks > 1:
        for place in np.unique(best):
            table.take(int(place), everyone[best == place], rest, int(place < n_looks))
        turns += 1
        rest = 0
    trusted = table.trusted()
    best = trusted.argmax(axis=0)
    claims = trusted[best, everyone] >= baselines.ADAPTIVE_RULE_Z
    spins = np.full(n, -1)
    if limit - int(turns[0]) > 1:
        for place in np.unique(best[claims]):
            rows = everyone[claims & (best == place)]
            spins[rows] = _spins(table, int(place), rows)
        turns[claims] += 1
    return _judge(table, scenarios, claims, best, spins, turns + 1, rest)


def _spins(table: _Table, place: int, rows: Places) -> Places:
    share = table.blocks[place, rows] / BUDGET_BLOCKS
    known = table.worlds.nominal[place] * share[:, None]
    value, error = spin_measurement(
        table.worlds,
        rows,
        place,
        table.seeds[rows],
        table.visits[place, rows],
        table.counts[place, rows],
        known,
        table.peak[place, rows],
    )
    moments = spin.moment_table()[NAMES.index(table.worlds.names[place])]
    return np.asarray(np.argmin(np.abs(moments - value[:, None]) / error[:, None], axis=-1))


def _judge(
    table: _Table,
    scenarios: Sequence[Scenario],
    claims: NDArray[np.bool_],
    best: Places,
    spins: Places,
    turns: Places,
    saved: int,
) -> Outcomes:
    """Compare with the truths, in the arithmetic of `rewards`."""
    n = len(scenarios)
    where = {name: place for place, name in enumerate(table.worlds.names)}
    truths = [s.truth for s in scenarios]
    true_place = np.array([-1 if t.channel is None else where[t.channel] for t in truths])
    true_mass = np.array([t.mass_gev or 1.0 for t in truths])
    true_spin = np.array([-2 if t.spin is None else t.spin for t in truths])
    required = np.array([s.briefing.required_z for s in scenarios])
    peak = table.peak[best, np.arange(n)]
    local = table.z[best, np.arange(n)]
    indices = np.array([NAMES.index(name) for name in table.worlds.names])
    sigma = physics.resolution(indices[true_place], true_mass)
    pull = (physics.bin_centre_gev(table.m0_gev, peak) - true_mass) / (sigma * true_mass)
    null = true_place < 0
    right = claims & ~null & (best == true_place) & (np.abs(pull) <= physics.MASS_TOLERANCE_SIGMAS)
    overall = physics.global_z(local, (table.blocks > 0).sum(axis=0))
    spin_score = np.where(spins < 0, 0.0, np.where(spins == true_spin, 1.0, -1.0))
    sure, unsure = baselines.CLAIM_CONFIDENCE, baselines.NULL_CONFIDENCE
    reward = np.where(null, rewards.null_reward(True, unsure), rewards.null_reward(False, unsure))
    reward[claims] = rewards.claim_reward(False, False, None, saved, sure)
    proven = overall >= required
    for known in (False, True):
        earned = np.array([rewards.claim_reward(True, known, s, saved, sure) for s in (None, True, False)])
        paid = right & (proven == known)
        reward[paid] = earned[spin_score.astype(int)][paid]
    success = np.where(claims, right & proven, null)
    chosen = np.where(claims, best, -1)
    return Outcomes(reward, success, chosen, peak, np.where(claims, spins, -1), local, turns)
