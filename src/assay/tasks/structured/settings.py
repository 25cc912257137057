"""The settings of the structured task, checked once."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

from assay.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Weights:
    """What each part of an answer is worth, as config.RewardWeights says."""

    parsed_strict: float
    parsed_extracted: float
    schema_valid: float
    fields: float
    exact: float


@dataclass(frozen=True, slots=True)
class StructuredSettings:
    """The fields of configs/task/structured.yaml that decide; `blocklist` is the terms themselves, not their file."""

    lessons: Literal["shop"] | None
    strata: tuple[str, ...]
    max_prompt_chars: int
    max_prompt_tokens: int
    truncate_prompts: bool
    weights: Weights
    extracted_share: float
    blocklist: tuple[str, ...]
    reject_blocklisted: bool

    def __post_init__(self) -> None:
        """Refuse impossible settings; ConfigError names the field."""
        shares = {f"weights.{field.name}": getattr(self.weights, field.name) for field in fields(Weights)}
        shares["extracted_share"] = self.extracted_share
        checks = {name: math.isfinite(value) and 0.0 <= value <= 1.0 for name, value in shares.items()}
        checks["lessons"] = self.lessons in ("shop", None)
        checks["max_prompt_chars"] = self.max_prompt_chars >= 1
        checks["max_prompt_tokens"] = self.max_prompt_tokens >= 1
        # Chatter around an object must never pay better than the object, nor as well.
        checks["weights.parsed_extracted"] &= self.weights.parsed_extracted <= self.weights.parsed_strict
        checks["extracted_share"] &= self.extracted_share < 1.0
        checks["weights.schema_valid"] &= self.weights.parsed_strict + self.weights.schema_valid > 0.0
        for name, good in checks.items():
            if not good:
                found = ascii(shares.get(name, getattr(self, name, None)))
                raise ConfigError("a possible value", found=found, where=f"task.{name}", fix="see configs/task/structured.yaml")
