"""What will be called an improvement, fixed before training, and its digest."""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from pydantic import Field

from assay.config.claim import ClaimSettings
from assay.evaluation.suite import Suite
from assay.records import Record


class ClaimPlan(Record):
    """What will be called an improvement; written and hashed before the first optimizer step."""

    primary: str = Field(description="the one metric that decides, a rate: success, or the name of a flag")
    direction: Literal["higher", "lower"] = Field(description="which way is better")
    smallest_effect_points: float = Field(gt=0, description="smallest change that matters, percentage points")
    draws: int = Field(ge=1, description="episodes per item in each arm")
    suite_digest: str
    checkpoint_rule: str = Field(description="how the checkpoint is chosen, in words")
    alpha: float = Field(gt=0, le=0.2, description="two-sided level of the deciding test")
    cluster_name: str = Field(description="what one cluster is, plural: scenarios, prompt groups")
    secondary: tuple[str, ...] = Field(description="further confirmatory measures, Holm-corrected together")
    guardrails: dict[str, float] = Field(description="measure: largest tolerable loss, in the measure's own unit")
    # The one field with a default: plans that were hashed before there was a choice had the A/A control alone.
    controls: tuple[Literal["aa", "random_reward"], ...] = Field(
        default=("aa",), description="aa: base against base; random_reward: a training for random rewards beside it"
    )


def plan_of(claim: ClaimSettings, suite: Suite, cluster_name: str) -> ClaimPlan:
    """Return the plan that the settings ask for on a suite."""
    return ClaimPlan(
        primary=claim.primary, direction="higher", smallest_effect_points=claim.smallest_effect_points, draws=suite.draws,
        suite_digest=suite.digest, checkpoint_rule=claim.checkpoint_rule, alpha=claim.alpha, cluster_name=cluster_name,
        secondary=("mean_reward",), guardrails={"parsed_rate": claim.parsed_rate_margin}, controls=tuple(claim.controls),
    )  # fmt: skip


def plan_digest(plan: ClaimPlan) -> str:
    """Return the sha256 of the plan's canonical JSON (sorted keys, no spaces), 64 hex digits."""
    # A plan with the default is the plan it was before the field existed.
    content = plan.model_dump(mode="json", exclude_defaults=True)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
