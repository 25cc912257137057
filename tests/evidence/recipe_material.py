"""Finished runs made up for tests: one base, one suite, and a training for each seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.core.records import Episode, HealthSummary, TrainFacts
from assay.core.seeds import rng
from assay.verdict.evidence.claim.openings import Openings
from assay.verdict.evidence.recipe.runs import KnownClaim, KnownTraining, Run
from conftest import make_claim, make_plan
from synthetic_episodes import SUITE, arm

BASE = "b" * 64
OPENED = Openings(place=1, recipe_place=1, policies_before=0, registered=True, restored=0, sha256="0" * 64)
BEFORE = arm("base", 0.35)


def facts(seed: int) -> KnownTraining:
    """Return what a training was."""
    settings: dict[str, Any] = {
        "seed": seed,
        "steps": 200,
        "chosen_step": 150,
        "claim_plan_sha256": "c" * 64,
        "base_digest": BASE,
        "policy_digest": f"{seed:064d}",
        "validation_suite": SUITE,
        "chain": f"{seed:064d}",
        "alarms": (),
        "health": HealthSummary.of([]),
    }
    return KnownTraining.model_validate_json(TrainFacts(**settings).model_dump_json())


def run(
    seed: int,
    rate: float,
    *,
    recipe: str = "a",
    name: str | None = None,
    before: Sequence[Episode] = BEFORE,
    rivals: dict[str, list[Episode]] | None = None,
    random_arm: list[Episode] | None = None,
    after: list[Episode] | None = None,
    **plan: Any,
) -> Run:
    """Return a run whose trained policy succeeds at about `rate`, a little better or worse by seed."""
    luck = 0.06 * (rng("seed", recipe, seed).random() - 0.5)
    after = after or arm(f"{recipe}{seed}", rate + luck)
    lower = plan.get("direction") == "lower"
    plan = {"seeds": tuple(range(6)), "secondary": ()} | plan  # no recipe looks at secondary measures
    claim = make_claim(
        list(before),
        after,
        make_plan(**plan),
        opened=OPENED,
        rivals=rivals or {"null": [e.model_copy(update={"success": lower}) for e in before]},
        random_arm=random_arm,
        training_seeds=(seed,),
        policies=("b" * 64, f"{recipe}{seed}".rjust(64, "0")),
    )
    settings = {"train.steps": "200", "train.learning_rate": recipe}
    known = KnownClaim.model_validate_json(claim.model_dump_json())
    return Run(name or f"{recipe}{seed}", settings, known, facts(seed), list(before), after)


_MADE: dict[str, Run] = {}


def runs(n: int, rate: float, **options: Any) -> list[Run]:
    """Return n runs with the seeds 0 to n - 1; one that is asked for again is made once."""
    known = [repr((seed, rate, sorted(options.items()))) for seed in range(n)]
    for seed, key in enumerate(known):
        if key not in _MADE:
            _MADE[key] = run(seed, rate, **options)
    return [_MADE[key] for key in known]
