"""What nobody should read into a claim, one sentence each: how weak the base was, what came before, how many
bases and suites there are."""

from __future__ import annotations

from collections.abc import Mapping

from assay.rollout.tasks.protocol import Task
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.differences import measure_of_primary
from assay.verdict.evidence.claim.verdict import DRAFT
from assay.verdict.evidence.formatting import percent
from assay.verdict.evidence.words.sentences import opening_said, random_reward_said
from assay.verdict.statistics.report import Report

SAME_BYTES = "Bit-identity is a promise for one machine; other processors may round differently."


def limits(
    task: Task, claim: Claim, before: Report, after: Report, players: Mapping[str, Report]
) -> tuple[str, ...]:
    """Return the limits of a claim.

    Args:
        task: Names the clusters, and the scripted player that may read what is hidden.
        claim: One that is not evaluable has no number among its limits, and a draft none of a claim's.
        before: Of the base.
        after: Of the chosen checkpoint.
        players: Reports of the scripted players on the same suite.
    """
    if claim.verdict == DRAFT:
        return (
            "A draft: the records that were played choose the checkpoint too, which flatters it. For a claim:"
            " ./run dvc exp run -S evaluation.open=true, or that setting in the preset and ./run repro.",
            SAME_BYTES,
        )
    what, elsewhere = task.cluster_name, not claim.training_seeds
    found = [
        "One base, one policy that was trained elsewhere, one held-out suite: the claim is about this policy"
        " against this base, and says nothing of how it was trained, nor of another base or suite."
        if elsewhere
        else "One base, one training run, one held-out suite: the claim is about this checkpoint against this"
        " base, not about the recipe, and says nothing of another base or suite. Other training seeds, where"
        " they were run, are in evidence/results/recipe.json."
    ]
    suites = " and ".join(claim.plan.secondary_suites)
    beyond = f" but {suites}, where a loss changes the verdict and a gain does not" if suites else ""
    if claim.verdict != "NOT EVALUABLE":
        found += _of_players(claim, before, after, players, task.ceiling)
        found.append(random_reward_said(claim.random_reward))
    return (
        *found,
        opening_said(claim.opened, claim.level, claim.plan),
        (
            "Trials on other records than these are not corrected for. Every other policy that saw these"
            " before is in results/post_eval/openings.json; the intervals are 95 % each, whatever the level."
        ),
        (
            "Strata and measures that the plan does not name are exploratory: there were many looks, and"
            " their intervals are not corrected for them."
        ),
        (
            f"Whether the held-out {what} come from the source of what it was trained on is not known."
            if elsewhere
            else f"The held-out {what} come from the same source as the training {what}; nothing is said"
            f" about any other{beyond}."
        ),
        SAME_BYTES,
    )


def _of_players(
    claim: Claim, before: Report, after: Report, players: Mapping[str, Report], ceiling: str
) -> list[str]:
    measure = measure_of_primary(claim.plan.primary)
    base, trained = (report.measures[measure].value for report in (before, after))
    if base is None or trained is None:
        return []
    rates = {name: report.measures[measure].value for name, report in players.items() if name != ceiling}
    known = sorted(((value, name) for name, value in rates.items() if value is not None), reverse=True)

    def above(level: float) -> str:
        return ", ".join(f"{name} {percent(value)} %" for value, name in known if value > level)

    metric = claim.plan.primary.removesuffix("_rate").replace("_", " ")
    weak = f"The base reaches {percent(base)} % {metric}"
    better = above(base)
    found = [
        f"{weak}, less than scripted players that learned nothing: {better}. A gain over a weak base is"
        " easier than one over a strong one."
        if better
        else f"{weak}; no scripted player that sees only what the policy sees is above it."
    ]
    if ahead := above(trained):
        found.append(f"Scripted players above the trained policy's {percent(trained)} %: {ahead}.")
    return found
