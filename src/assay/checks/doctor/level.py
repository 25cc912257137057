"""Whether the next claim could call any gain better: its level, which openings of the records have used up,
against the clusters of the held-out suite."""

from __future__ import annotations

from collections import Counter

import numpy as np

from assay.checks.findings import DoctorCheck, Finding
from assay.core.config.places import setting
from assay.core.counting import counted
from assay.core.storage.json import read_record
from assay.pipeline.heldout_ledger import NOTHING, openings
from assay.pipeline.note_openings import BASE_STAGE, CONTROL_STAGE, recipe_of, tries
from assay.pipeline.project import Project
from assay.rollout.dataset.suite import FEWEST_CLUSTERS, Suite
from assay.verdict.evidence.claim.base_facts import BaseFacts
from assay.verdict.evidence.claim.plan import expected_unseen
from assay.verdict.statistics.bounded_mean import clusters_needed
from assay.verdict.statistics.openings import Look, opening_level, share_of_look


def next_look(project: Project, suite: Suite) -> tuple[int, float]:
    """Return which trained policy would be the next to see the held-out records, 1 for the first, and the
    level at which it would be tested; 0 where no look is left.

    A policy of these very settings and this seed does not count: the training to come may be that one again.
    """
    recipe, built = recipe_of(project.params), project.results("base.json")
    base = read_record(built, BaseFacts, fix="./run dvc repro base").digest if built.exists() else None
    known = tries(openings(project.root) or NOTHING, suite.contents, base, suite.digest)
    own = (recipe.family, recipe.seed)
    # Before there is a base nobody knows which of the others it will be.
    bases = () if base is not None else (BASE_STAGE, CONTROL_STAGE)
    others = [each for each in known if each.stage not in bases and (each.family, each.seed) != own]
    place, claim = len(others) + 1, project.params.claim
    if claim.looks is None:
        return place, opening_level(place, claim.alpha)
    before = [Look(each.place or 0, each.looks, each.called) for each in others]
    return place, claim.alpha * share_of_look(place, claim.looks, before)


def level_finding(project: Project) -> Finding:
    """Return whether the held-out suite has the clusters that the level of the next claim needs.

    With fewer, not even a gain of everything everywhere is called better: a fault. A suite that is too small
    for the level of a first look is a trial that can only describe, which is a warning. A draft is not
    tested.
    """
    inputs, alpha, looks = project.inputs("heldout"), project.params.claim.alpha, project.params.claim.looks
    suite = inputs.heldout
    sizes = np.array(list(Counter(item.cluster for item in suite.items).values()), np.float64)
    unseen = expected_unseen(project.params, suite, inputs.fingerprint)
    place, level = next_look(project, suite)
    first = opening_level(1, alpha, looks=looks)
    planned = "" if looks is None else f", {counted(looks, 'looks')} planned (claim.looks)"

    def needed(at: float) -> int:
        return max(FEWEST_CLUSTERS, clusters_needed(sizes, unseen=unseen, alpha=at))

    what, n = inputs.task.cluster_name, len(sizes)
    seen = f"; {counted(place - 1, 'trained policies')} saw these records before{planned}"
    if project.params.evaluation.open and not level:
        none = DoctorCheck("looks at the held-out records", "one that is left", setting("claim.looks"))
        return none.judge(
            f"none{seen}",
            "./run assay data fresh draws some for a trained policy; or play other held-out records",
            fault=True,
        )
    check = DoctorCheck(
        "clusters for the level of the claim",
        f"{needed(level)} {what} of such sizes or more, to call any gain better at the level {level:.2g}",
        setting("evaluation.items"),
    )
    if not project.params.evaluation.open:
        return check.ok("a draft: nothing is tested (evaluation.open: false)")
    return check.judge(
        f"{counted(n, what)} (claim.alpha {alpha:g}{seen if place > 1 else planned})",
        f"play {needed(level)} {what} or more of such sizes"
        + (", or records that no trained policy has seen" if place > 1 else ""),
        fault=n < needed(level) and n >= needed(first),
        doubtful=n < needed(level),
        ok=f"{counted(n, what)}",
    )
