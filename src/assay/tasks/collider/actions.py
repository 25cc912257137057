"""What a player can do: one Action, and what reading a completion can come to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from assay.core.records import ParseOutcome
from assay.tasks.collider.world.physics import BUDGET_BLOCKS, NAMES

ActionKind = Literal["take_data", "calibrate", "scan", "fit", "angles", "claim", "no_signal"]
KINDS: tuple[ActionKind, ...] = ("take_data", "calibrate", "scan", "fit", "angles", "claim", "no_signal")
WITH_CHANNEL = frozenset({"take_data", "calibrate", "fit", "angles", "claim"})
MAX_MASS_GEV = 1e6


@dataclass(frozen=True, slots=True)
class Action:
    """One decision. Fields that the kind does not use are None; `spin` is None where a claim abstains from
    it."""

    kind: ActionKind
    channel: str | None = None
    blocks: int | None = None
    mass_gev: float | None = None
    spin: int | None = None
    confidence: float | None = None

    def __post_init__(self) -> None:
        """Refuse fields that contradict the kind, with a ValueError."""
        problem = self.problem()
        if problem is not None:
            raise ValueError(problem)

    def problem(self) -> str | None:
        """Return what is wrong with the fields, or None; a parser passes this on to the player.

        >>> Action("scan").problem() is None
        True
        """
        known = self.channel in NAMES
        if known != (self.kind in WITH_CHANNEL) or (self.channel is not None and not known):
            return f"{self.kind}: channel must be one of {', '.join(NAMES)}"
        if (self.blocks is not None) != (self.kind == "take_data"):
            return f"{self.kind}: blocks belong to take_data alone"
        if self.blocks is not None and not 1 <= self.blocks <= BUDGET_BLOCKS:
            return f"blocks must be a whole number from 1 to {BUDGET_BLOCKS}"
        if (self.mass_gev is not None) != (self.kind == "claim") or (
            self.spin is not None and self.kind != "claim"
        ):
            return f"{self.kind}: a mass belongs to every claim, mass and spin to nothing else"
        if self.mass_gev is not None and not 0.0 < self.mass_gev < MAX_MASS_GEV:
            return "mass_gev must be a positive number below 1e6"
        if self.spin not in (None, 0, 1, 2):
            return "spin must be 0, 1, 2 or null"
        if (self.confidence is not None) != (self.kind in ("claim", "no_signal")):
            return f"{self.kind}: a confidence belongs to a verdict, and to nothing else"
        if self.confidence is not None and not (
            math.isfinite(self.confidence) and 0.0 <= self.confidence <= 1.0
        ):
            return "confidence must be a number from 0 to 1"
        return None


@dataclass(frozen=True, slots=True)
class Parsed:
    """What reading came to: an action with `ok` or `repaired`, or a reason with `failed`."""

    outcome: ParseOutcome
    action: Action | None
    reason: str | None


def failed(reason: str) -> Parsed:
    """Return a failure with its reason.

    >>> failed("empty").outcome
    'failed'
    """
    return Parsed("failed", None, reason)
