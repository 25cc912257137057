"""Scores of single runs that somebody published together with what rliable makes of them.

DIAMOND on Atari 100k, five training seeds a game: results/data/DIAMOND.json of github.com/eloialonso/diamond
at commit a1311e9 (MIT licence), the runs of Alonso et al. (2024), Diffusion for World Modeling, arXiv
2405.12399. Scores of a random player and of a human are the usual ones of the benchmark (Wang et al. 2016,
Dueling Network Architectures, table 2; also in github.com/eloialonso/iris, results/data). Each row: game,
random, human, five runs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DIAMOND = (
    ("Alien", 227.8, 7127.7, (703.1, 683.6, 910.1, 826.8, 597.0)),
    ("Amidar", 5.8, 1719.5, (215.4, 233.5, 181.9, 275.6, 222.4)),
    ("Assault", 222.4, 742.0, (1570.93, 1321.8, 1638.1, 1791.5, 1309.5)),
    ("Asterix", 210.0, 8503.3, (3027.0, 2453.0, 7330.0, 2830.5, 2852.0)),
    ("BankHeist", 14.2, 753.1, (19.4, 16.3, 19.3, 13.7, 30.0)),
    ("BattleZone", 2360.0, 37187.5, (6340.0, 10520.0, 2220.0, 2400.0, 2030.0)),
    ("Boxing", 0.1, 12.1, (99.4, 84.0, 97.5, 71.4, 82.2)),
    ("Breakout", 1.7, 30.5, (124.0, 148.8, 81.0, 108.0, 200.6)),
    ("ChopperCommand", 811.0, 7387.8, (1378.0, 1113.0, 1789.0, 1720.0, 849.0)),
    ("CrazyClimber", 10780.5, 35829.4, (81227.0, 99253.0, 96533.0, 116221.0, 102605.0)),
    ("DemonAttack", 152.1, 1971.0, (245.4, 107.3, 295.7, 329.9, 462.3)),
    ("Freeway", 0.0, 29.6, (33.8, 33.7, 32.4, 33.0, 33.7)),
    ("Frostbite", 65.2, 4334.7, (254.9, 297.4, 280.5, 267.6, 269.9)),
    ("Gopher", 257.6, 2412.5, (980.8, 4337.0, 2518.0, 13846.6, 7807.2)),
    ("Hero", 1027.0, 30826.4, (3155.1, 7465.0, 3216.6, 7599.5, 6672.7)),
    ("Jamesbond", 29.0, 302.8, (424.0, 383.9, 508.5, 388.0, 432.5)),
    ("Kangaroo", 52.0, 3035.0, (9871.0, 5858.0, 5712.0, 3258.0, 2212.0)),
    ("Krull", 1598.0, 2665.5, (9137.3, 7246.9, 8139.0, 9341.0, 9186.5)),
    ("KungFuMaster", 258.5, 22736.3, (14325.0, 26783.0, 25959.0, 14546.0, 11955.0)),
    ("MsPacman", 307.3, 6951.6, (1776.4, 1896.2, 1642.6, 2419.8, 2055.9)),
    ("Pong", -20.7, 14.6, (19.3, 20.9, 20.9, 20.7, 20.0)),
    ("PrivateEye", 24.9, 69571.3, (100.0, 100.0, 208.1, 63.4, 100.0)),
    ("Qbert", 163.9, 13455.0, (4506.5, 3890.8, 4707.2, 5041.8, 4350.2)),
    ("RoadRunner", 11.5, 7845.0, (12228.0, 25222.0, 29552.0, 20223.0, 16141.0)),
    ("Seaquest", 68.4, 42054.7, (307.0, 789.2, 769.2, 280.2, 610.6)),
    ("UpNDown", 533.4, 11693.2, (3737.0, 3190.4, 5494.0, 1376.8, 5483.2)),
)


def normalised() -> NDArray[np.float64]:
    """Return human-normalised scores, [5 runs, 26 games]: 0 plays like the random player, 1 like the
    human."""
    return np.array([[(run - low) / (high - low) for run in runs] for _, low, high, runs in DIAMOND]).T
