"""What will be compared and what has to be shown, fixed and hashed before the results are there."""

from __future__ import annotations

from collections.abc import Sequence

from assay.verdict.judge.plan import JudgePlan, Missing, read_plan
from assay.verdict.judge.planning import PlanRequest, make_plan
from assay.verdict.results import Results

__all__ = ["JudgePlan", "plan", "read_plan"]


def plan(
    pilot: Results,
    *,
    effect: float = 10.0,
    lower_is_better: bool = False,
    alpha: float = 0.05,
    one_sided: bool = False,
    worst_cluster: float | None = None,
    rivals: Sequence[str] = (),
    missing: Missing = "refuse",
) -> JudgePlan:
    """Return a plan on the items of a pilot, with what it can show: `plan.power`.

    Args:
        pilot: Results before.
        effect: The smallest change that matters, percentage points of the score's bounds.
        lower_is_better: Whether less is better.
        alpha: Level of the test.
        one_sided: Whether only better is asked.
        worst_cluster: Points that a cluster nobody saw may lose; None: by the draws of a cluster.
        rivals: Names of the players that the second policy has to beat as well.
        missing: What becomes of results that are missing: `refuse`, `worst` or `common`.

    Raises:
        DataError: The pilot is not whole.
        ConfigError: Effect, level or the rivals' names make no sense.
    """
    low, high = pilot.bounds
    request = PlanRequest(
        metric=pilot.metric,
        bounds=f"{low!r},{high!r}",
        effect=effect,
        lower=lower_is_better,
        alpha=alpha,
        one_sided=one_sided,
        worst=worst_cluster,
        rival=(rivals,) if isinstance(rivals, str) else tuple(rivals),
        missing=missing,
    )
    return make_plan(request, pilot.arm)
