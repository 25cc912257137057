"""Which base a claim is about, from base.json: loaded by whoever asks whether a claim is at hand, so without
tables."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from assay.core.counting import counted
from assay.core.records import Origin, SftFacts


class BaseFacts(BaseModel):
    """What base.json says of either kind of base; what it measured of a small one is not asked here."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    kind: Literal["scratch", "pretrained"]
    digest: str
    seed: int | None = None
    parameters: int | None = None
    model: str | None = None
    revision: str | None = None
    origin: Origin | None = None  # of converted weights
    sft: SftFacts | None = None  # what it was shown before GRPO

    @property
    def called(self) -> str:
        """A pretrained base by name, with what was done to it here."""
        rows = "" if self.sft is None else f" + SFT on {counted(self.sft.rows, 'rows')}"
        return f"{self.model}{rows}"


def base_said(base: BaseFacts) -> str:
    """Return a base in words.

    >>> base_said(BaseFacts(kind="scratch", digest="ab" * 32, seed=0, parameters=122752))
    'from scratch, seed 0; 122,752 parameters; digest abababababab'
    """
    known = [f"from scratch, seed {base.seed}" if base.kind == "scratch" else f"{base.kind}, {base.called}"]
    known += [f"revision {base.revision}"] if base.revision is not None else []
    known += [f"{base.origin.weights}, licence {base.origin.licence_said}"] if base.origin is not None else []
    known += [f"{base.parameters:,} parameters"] if base.parameters is not None else []
    return "; ".join([*known, f"digest {base.digest[:12]}"])
