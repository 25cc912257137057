"""Two arms, a plan and the reports that most evidence tests start from."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from assay.core.records import Episode
from assay.core.seeds import rng
from assay.verdict.evidence.claim.claim import Beside, Claim, ClaimPlan, Compared, Played, compare
from assay.verdict.evidence.words.remarks import Remark
from assay.verdict.statistics.report import Report, summarise
from synthetic_episodes import SUITE, arm


def make_plan(**changes: Any) -> ClaimPlan:
    """Return the plan of the tests, with changes."""
    settings: dict[str, Any] = {
        "primary": "success",
        "direction": "higher",
        "smallest_effect_points": 3.0,
        "draws": 4,
        "suite_digest": SUITE,
        "checkpoint_rule": "highest validation success",
        "alpha": 0.05,
        "cluster_name": "scenarios",
        "secondary": ("mean_reward", "mass_correct_rate"),
        "guardrails": {"parsed_rate": 0.05, "mean_reward": 0.05},
        "rivals": {"null": "trivial"},
        "reward_range": (-2.0, 2.0),
    }
    return ClaimPlan(**(settings | changes))


def make_claim(
    before: list[Episode], after: list[Episode], plan: ClaimPlan | None = None, **changes: Any
) -> Claim:
    """Return a claim about two arms with the settings of the tests, with changes."""
    settings: dict[str, Any] = {
        "rivals": {"null": never_right(before)},
        "suites": (SUITE, SUITE),
        "policies": ("b" * 64, "a" * 64),
        "split": "heldout",
        "decoding": "sampled",
        "training_seeds": (7,),
        "rng": rng("claim"),
    }
    told = settings | changes
    arms = [
        Played(*each) for each in zip((before, after), told.pop("policies"), told.pop("suites"), strict=True)
    ]
    compared, beside = (
        kind(**{each.name: told.pop(each.name) for each in fields(kind) if each.name in told})
        for kind in (Compared, Beside)
    )
    return compare(arms[0], arms[1], plan or make_plan(), compared, beside=beside, **told)


def codes(remarks: Iterable[Remark]) -> list[str]:
    """Return what is said, by its codes."""
    return [each.code for each in remarks]


def never_right(episodes: list[Episode]) -> list[Episode]:
    """Return what a player without skill did with the same items: nothing."""
    return [each.model_copy(update={"success": False, "reward": 0.0}) for each in episodes]


def make_report(episodes: list[Episode], policy: str = "b" * 64, **changes: Any) -> Report:
    """Return the report of one arm with the settings of the tests, with changes."""
    settings: dict[str, Any] = {
        "policy_digest": policy,
        "suite_digest": SUITE,
        "split": "heldout",
        "decoding": "sampled",
        "draws": 4,
        "rng": rng("report"),
    }
    return summarise(episodes, **(settings | changes))


@pytest.fixture(scope="session")
def before() -> list[Episode]:
    """Return a weak arm: about 35 % success over 20 scenarios of 2 items, 4 draws."""
    return arm("base", 0.35)


@pytest.fixture(scope="session")
def after() -> list[Episode]:
    """Return a strong arm on the same items: about 65 % success."""
    return arm("trained", 0.65)


@pytest.fixture(scope="session")
def claim(before: list[Episode], after: list[Episode]) -> Claim:
    """Return the claim about the weak and the strong arm."""
    return make_claim(before, after)
