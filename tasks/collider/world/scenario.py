"""Scenarios of the collider: the public briefing, the hidden truth, and the rows of data files they are kept
in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from assay.core.errors import TaskError

from . import physics
from .spin import allowed

Tier = Literal["easy", "medium", "hard"]
Kind = Literal["signal", "null"]
DecoyKind = Literal["known_peak", "fluctuation", "miscalibrated"]
ChannelName = Literal["diphoton", "dielectron", "dimuon", "four_lepton", "dijet", "bb"]
TIERS: tuple[Tier, ...] = ("easy", "medium", "hard")


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


class Briefing(_Strict):
    """What the player is told at the start; nothing here depends on the truth beyond the tier."""

    m0_gev: float = Field(gt=1.0, lt=1e5, description="lower end of the mass axis, which spans one octave")
    channels: tuple[ChannelName, ...] = Field(min_length=1, description="final states that may be looked at")
    budget_blocks: int = Field(ge=1, le=physics.BUDGET_BLOCKS, description="luminosity blocks to spend")
    max_turns: int = Field(ge=1, le=10, description="turns after which the episode ends without a verdict")
    required_z: float = Field(ge=0.0, le=10.0, description="global significance a discovery needs, in sigma")

    def known_peaks(self) -> tuple[tuple[str, float], ...]:
        """Return (channel, mass in GeV) of the well-known particles inside the axis."""
        return tuple(
            (name, physics.KNOWN_PEAKS_GEV[name])
            for name in self.channels
            if self.m0_gev < physics.KNOWN_PEAKS_GEV.get(name, 0.0) < 2.0 * self.m0_gev
        )


class Decoy(_Strict):
    """Something that looks like a discovery and is none."""

    kind: DecoyKind
    channel: ChannelName
    mass_gev: float | None = Field(description="where it sits; null for a wrong background normalisation")
    size: float = Field(description="events of a known peak, sigmas of a fluctuation, or relative shift")


class Truth(_Strict):
    """What decides right and wrong; never shown before the end."""

    channel: ChannelName | None
    mass_gev: float | None
    spin: int | None = Field(ge=0, le=2)
    natural_width: float = Field(ge=0.0, le=0.1, description="relative width (sigma) of the particle itself")
    signal_events: float = Field(ge=0.0, description="signal events at full budget in the right channel")
    scale_shifts: tuple[float, ...] = Field(description="relative energy-scale shift of each briefed channel")
    background_shifts: tuple[float, ...] = Field(
        description="relative background shift of each briefed channel"
    )
    decoy: Decoy | None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One validated row."""

    id: str
    tier: Tier
    kind: Kind
    briefing: Briefing
    truth: Truth


class _Row(_Strict):
    id: str
    tier: Tier
    kind: Kind
    briefing: Briefing
    truth: Truth


def content_id(tier: str, kind: str, briefing: Mapping[str, Any], truth: Mapping[str, Any]) -> str:
    """Return the id of a scenario: the first 16 hex digits of the sha256 of its canonical JSON.

    >>> len(content_id("easy", "null", {}, {}))
    16
    """
    content = {"briefing": briefing, "kind": kind, "tier": tier, "truth": truth}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def to_row(tier: Tier, kind: Kind, briefing: Briefing, truth: Truth) -> dict[str, Any]:
    """Return the JSON-able row of a scenario, its id included."""
    public, hidden = briefing.model_dump(mode="json"), truth.model_dump(mode="json")
    name = content_id(tier, kind, public, hidden)
    return {"id": name, "tier": tier, "kind": kind, "briefing": public, "truth": hidden}


def _broken(field: str, expected: str, found: str) -> TaskError:
    return TaskError(
        expected, found=found, where=f"collider row, field {field}", fix="regenerate the data file"
    )


def from_row(row: Mapping[str, Any]) -> Scenario:
    """Return the scenario of a row.

    Raises:
        TaskError: a field is missing, unknown, mistyped or contradicts another; the data file's fault.
    """
    try:
        text = json.dumps(dict(row), allow_nan=False)
        parsed = _Row.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        raise _broken(
            ".".join(map(str, first["loc"])) or "(row)", first["msg"], ascii(first["input"])[:80]
        ) from error
    except (TypeError, ValueError) as error:
        raise _broken("(row)", "strict JSON values", str(error)[:80]) from error
    _check(parsed)
    expected = content_id(parsed.tier, parsed.kind, dict(row["briefing"]), dict(row["truth"]))
    if parsed.id != expected:
        raise _broken("id", f"{expected}, the digest of the content", ascii(parsed.id)[:80])
    return Scenario(parsed.id, parsed.tier, parsed.kind, parsed.briefing, parsed.truth)


def _check(row: _Row) -> None:
    briefing, truth = row.briefing, row.truth
    n = len(briefing.channels)
    if list(briefing.channels) != sorted(set(briefing.channels), key=physics.NAMES.index):
        raise _broken("briefing.channels", "distinct channels in canonical order", str(briefing.channels))
    if len(truth.scale_shifts) != n or max(map(abs, truth.scale_shifts)) > 0.1:
        raise _broken("truth.scale_shifts", f"{n} shifts below 0.1", str(truth.scale_shifts))
    if len(truth.background_shifts) != n or max(map(abs, truth.background_shifts)) > 0.5:
        raise _broken("truth.background_shifts", f"{n} shifts below 0.5", str(truth.background_shifts))
    present = {
        "channel": truth.channel is not None,
        "mass_gev": truth.mass_gev is not None,
        "spin": truth.spin is not None,
        "signal_events": truth.signal_events > 0.0,
    }
    for name, there in present.items():
        if there != (row.kind == "signal"):
            raise _broken(f"truth.{name}", f"what a {row.kind} world has", str(getattr(truth, name)))
    if truth.channel is None or truth.mass_gev is None:
        pass
    elif truth.channel not in briefing.channels or truth.spin not in allowed(truth.channel):
        found = f"{truth.channel}, spin {truth.spin}"
        raise _broken("truth.channel", "a briefed channel that the spin may decay to", found)
    elif not briefing.m0_gev < truth.mass_gev < 2.0 * briefing.m0_gev:
        raise _broken("truth.mass_gev", "a mass inside the axis", str(truth.mass_gev))
    decoy = truth.decoy
    if decoy is not None:
        if decoy.channel not in briefing.channels:
            raise _broken("truth.decoy.channel", "a briefed channel", decoy.channel)
        if (decoy.mass_gev is None) != (decoy.kind == "miscalibrated"):
            raise _broken(
                "truth.decoy.mass_gev", "a mass exactly where the decoy has one", str(decoy.mass_gev)
            )
