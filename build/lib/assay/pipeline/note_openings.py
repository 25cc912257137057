"""Who opens held-out records notes it first; which opening it is follows from what was noted before.

A trained policy that sees held-out records is one more try at them, whoever made it, and a claim is tested at
the level of its try (`statistics/openings.py`). So each is given its place when it is first noted, and keeps
it. The seeds of one plan are registered together: they are given the places that follow each other in the
order of the plan, so that it does not matter which of them is trained first.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from assay.core.config.settings import Params
from assay.core.records import OpenedRecords, OtherPolicy, Split
from assay.core.storage.json import digest, write_json
from assay.dataset.suite import Suite
from assay.pipeline.heldout_ledger import (
    LEDGER,
    NOTHING,
    HeldoutLedger,
    HeldoutOpening,
    copy_id,
    key_of,
    memory,
    merged,
    noted,
    opened,
    openings,
    policies_that_saw,
    travelling,
)
from assay.pipeline.project import Project

BASE_STAGE, TRAINED_STAGE = "pre_eval", "post_eval"
# Stages in which a policy plays that nobody can claim anything of: the base, its rivals, the coin's training.
PROTOCOL = frozenset({BASE_STAGE, "control", "rivals"})
RECIPE = ("task", "dataset", "base", "generation", "evaluation", "validation", "train", "claim")


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a trained policy was trained by: plan and settings as a digest, its seed, and those of the
    plan."""

    family: str
    seed: int
    seeds: tuple[int, ...]

    @property
    def registered(self) -> bool:
        """Whether the plan names the seed."""
        return self.seed in self.seeds


def recipe_of(params: Params) -> Recipe:
    """Return the recipe that the settings are."""
    values = params.model_dump(mode="json")
    return Recipe(digest([values[name] for name in RECIPE]), params.seed, tuple(params.claim.seeds))


def tries(
    ledger: HeldoutLedger, records: Collection[str], base: Collection[str] = ()
) -> list[HeldoutOpening]:
    """Return the first note of each policy that saw any of some records and counts as a try: not the base,
    not what the protocol itself trains beside. What tells no records may have been of these, and counts.

    Args:
        ledger: All that is known.
        records: Digests of the records.
        base: Further policies that count as the base.
    """
    seen = policies_that_saw(ledger, records)
    bases = {*base, *(policy for policy, found in seen.items() if BASE_STAGE in found.stages)}
    first: dict[str, HeldoutOpening] = {}
    for each in ledger.openings:
        policy = each.policy_digest
        if each.stage in PROTOCOL or policy in bases or (each.records is not None and policy not in seen):
            continue
        # A policy that was noted before places were, and again since, has the place that it was given then.
        first[policy] = min(first.get(policy, each), each, key=lambda one: (one.place is None, *_order(one)))
    return sorted(first.values(), key=_order)


def _order(each: HeldoutOpening) -> tuple[int, str]:
    """Order notes by place; those without one came before places were noted."""
    return each.place or 0, each.policy_digest


def placed(ledger: HeldoutLedger, one: HeldoutLedger, recipe: Recipe | None) -> HeldoutLedger:
    """Return a ledger of one opening with the place that it takes among the tries at its records.

    Args:
        ledger: What was noted before.
        one: The opening.
        recipe: What the policy was trained by; None where nobody knows.
    """
    (opening,) = one.openings
    records = one.record_sets[opening.records or ""]
    known = tries(ledger, records)
    own = next((each for each in known if each.policy_digest == opening.policy_digest), None)
    told = {} if recipe is None else {"family": recipe.family, "seed": recipe.seed}
    if own is not None and own.place is not None:
        kept = ("place", "recipe_place", "family", "seed")
        update = {name: getattr(own, name) for name in kept}
        return one.model_copy(update={"openings": (opening.model_copy(update=update),)})
    others = [each for each in known if each.policy_digest != opening.policy_digest]
    siblings = _siblings(others, recipe)
    outside = [each for each in others if each not in siblings]
    place = 1 + len(others)
    if recipe is not None and recipe.registered:
        # In the order of the plan, and never before a place that was taken.
        place = max(place, 1 + len(outside) + recipe.seeds.index(recipe.seed))
    recipe_place = min(
        (each.recipe_place for each in siblings if each.recipe_place), default=1 + _units(outside)
    )
    update = told | {"place": place, "recipe_place": recipe_place}
    return one.model_copy(update={"openings": (opening.model_copy(update=update),)})


def _siblings(others: list[HeldoutOpening], recipe: Recipe | None) -> list[HeldoutOpening]:
    """Return the first policy of each other registered seed of the same plan and settings."""
    if recipe is None or not recipe.registered:
        return []
    found: dict[int, HeldoutOpening] = {}
    for each in others:
        if each.family == recipe.family and each.seed in recipe.seeds and each.seed != recipe.seed:
            found.setdefault(each.seed, each)
    return list(found.values())


def left_out_of(before: list[HeldoutOpening], recipe: Recipe) -> tuple[int, ...]:
    """Return the seeds that other plans showed beside seeds of this one, and that this one leaves out: whoever
    picks among seeds that were seen tells nothing by the rest."""
    shown: dict[str, set[int]] = {}
    for each in before:
        if each.family not in (None, recipe.family) and each.seed is not None:
            shown.setdefault(str(each.family), set()).add(each.seed)
    picked = [seeds - {*recipe.seeds} for seeds in shown.values() if seeds & {*recipe.seeds}]
    return tuple(sorted(set().union(*picked)))


def _units(others: list[HeldoutOpening]) -> int:
    """Return how many tries policies are, those of one family counted once for each time a seed was used."""
    times: dict[tuple[str, int | None], int] = {}
    for each in others:
        key = (each.family or each.policy_digest, each.seed)
        times[key] = times.get(key, 0) + 1
    families: dict[str, int] = {}
    for (family, _), n in times.items():
        families[family] = max(families.get(family, 0), n)
    return sum(families.values())


def note_opening(
    project: Project,
    stage: str,
    suite: Suite,
    policy_digest: str,
    *,
    records: Collection[str] | None = None,
    split: Split | None = None,
) -> None:
    """Write down an opening before it happens, so that one which was broken off counts as well.

    Args:
        project: Whose.
        stage: Who opens.
        suite: What is played.
        policy_digest: Who plays.
        records: Those of the suite that are held out; all of them if not given.
        split: Where they stand, if not in that of the suite.

    Raises:
        RecordError: The ledger is damaged.
    """
    where = split or suite.split
    one = opened(
        stage,
        policy_digest,
        suite.digest,
        suite.records if records is None else records,
        data=project.params.dataset.name,
        split=where,
        copy_id=copy_id(project),
    )
    known = openings(project, suite if where == "heldout" else None) or NOTHING
    if stage not in PROTOCOL and not _is_base(known, policy_digest):
        one = placed(known, one, recipe_of(project.params) if stage == TRAINED_STAGE else None)
    lost = _lost(project, known, one)
    one = one.model_copy(update={"openings": (one.openings[0].model_copy(update={"restored": lost}),)})
    now = noted(known, one)
    identity = one.openings[0].identity
    own = one.model_copy(
        update={"openings": tuple(each for each in now.openings if each.identity == identity)}
    )
    # A file an opening, so that several processes at a time lose nothing of each other.
    write_json(memory(project) / f"{digest(identity)[:16]}.json", own)
    write_json(project.observed(LEDGER), now)


def _lost(project: Project, known: HeldoutLedger, one: HeldoutLedger) -> int:
    """Return how many trained policies the ledger's file lacks that git or this working copy still knows.

    A folder of `dvc exp run --temp` has the file of a commit, and lacks what was opened since.
    """
    if project.scratch.parent.resolve() != project.root.resolve():
        return 0
    records = one.record_sets[one.openings[0].records or ""]
    there = {each.policy_digest for each in tries(travelling(project) or NOTHING, records)}
    return len({each.policy_digest for each in tries(known, records)} - there)


def _is_base(ledger: HeldoutLedger, policy_digest: str) -> bool:
    return any(each.stage == BASE_STAGE and each.policy_digest == policy_digest for each in ledger.openings)


def adopt(project: Project, ledger: HeldoutLedger) -> None:
    """Take in what another working copy noted, such as that of a seed.

    Raises:
        RecordError: The ledger is damaged.
    """
    for each in ledger.openings:
        sets = {} if each.records is None else {each.records: ledger.record_sets[each.records]}
        own = ledger.model_copy(update={"record_sets": sets, "openings": (each,)})
        write_json(memory(project) / f"{digest(each.identity)[:16]}.json", own)
    write_json(project.observed(LEDGER), merged(openings(project) or NOTHING, ledger))


def opened_records(project: Project, suite: Suite, policy_digest: str, base_digest: str) -> OpenedRecords:
    """Return what is known, once a trained policy was noted, of who saw the records before it.

    Raises:
        RecordError: The ledger is damaged.
    """
    ledger = openings(project, suite) or NOTHING
    recipe = recipe_of(project.params)
    known = tries(ledger, suite.records, [base_digest])
    own = next((each for each in known if each.policy_digest == policy_digest), None)
    seen = policies_that_saw(ledger, suite.records)
    base = seen.get(base_digest)
    before = [each for each in known if own is not None and _order(each) < _order(own)]
    # Two copies that did not know of each other may have given one place twice: the later pays for both.
    place = None if own is None or own.place is None else max(own.place, 1 + len(before))
    of_run = (base_digest, policy_digest)
    whole = base is not None and BASE_STAGE in base.stages and base.n_records == len(set(suite.records))
    told = [policies_that_saw(ledger, suite.records).get(each.policy_digest) for each in before]
    others = tuple(
        OtherPolicy(
            policy_digest=each.policy_digest,
            stages=tuple(sorted(found.stages)) if found is not None else (each.stage,),
            n_records=found.n_records if found is not None else None,
            place=each.place,
            same_recipe=each.family == recipe.family and each.seed in recipe.seeds,
        )
        for each, found in zip(before, told, strict=True)
    )
    return OpenedRecords(
        policy_digest=policy_digest,
        records=key_of(suite.records),
        n_records=len(set(suite.records)),
        place=place if whole else None,
        recipe_place=own.recipe_place if whole and own is not None else None,
        first_family=None if own is None else own.family,
        family=recipe.family,
        seed=recipe.seed,
        seeds=recipe.seeds,
        left_out=left_out_of(before, recipe),
        others=others,
        restored=max((each.restored for each in ledger.openings if each.policy_digest in of_run), default=0),
    )
