"""What all settings are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# Settings may be a stranger's whose package is checked, so no number is without an upper bound: what they ask
# for is computed, and held in memory, before anything can be compared with it.
MOST = 1_000_000
Positive = Annotated[int, Field(ge=1, le=MOST)]
Natural = Annotated[int, Field(ge=0, le=MOST)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Above0 = Annotated[float, Field(gt=0, le=1e9)]
From0 = Annotated[float, Field(ge=0, le=1e9)]
Within = Annotated[float, Field(ge=-1e9, le=1e9)]
Rate = Annotated[float, Field(gt=0, lt=1)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Settings(BaseModel):
    """Base of all settings: frozen, strict, no unknown key, no NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
