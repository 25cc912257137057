"""Who opens held-out records notes it first; which opening it is follows from what was noted before.

Every policy that sees held-out records is one more try at them, whoever made it, but for the base of the
claim itself; and a claim is tested at the level of its try (`statistics/openings.py`). So each is given its
place when it is first noted, and keeps it. In another suite the same policy meets other luck, and that is
another try. The seeds of one plan are registered together: they are given the places that follow each other
in the order of the plan, so that it does not matter which of them is trained first. A seed trained again
belongs to the next roll of the plan, which is another try of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from assay.core.config.settings import Params
from assay.core.evidence_files import OBSERVED, scratch_of
from assay.core.provenance import is_from_git
from assay.core.records import OpenedRecords, OtherPolicy, Split
from assay.core.storage.json import digest, write_json
from assay.pipeline.heldout_ledger import (
    LEDGER,
    NOTHING,
    HeldoutLedger,
    HeldoutOpening,
    copy_id,
    is_held_out,
    key_of,
    memory,
    merged,
    noted,
    opened,
    openings,
    policies_noted,
    policies_that_saw,
    travelling,
)
from assay.rollout.dataset.suite import SAMPLING, Suite

BASE_STAGE, TRAINED_STAGE, CONTROL_STAGE = "pre_eval", "post_eval", "control"
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
    # A setting that came with a later version, and is as it was before, makes no other recipe.
    values["base"] = params.base.model_dump(mode="json", exclude_defaults=True)
    values["generation"] = params.generation.model_dump(mode="json", exclude_defaults=True)
    values["evaluation"].pop("open")  # what is noted is open
    values["claim"].pop("looks")  # noted beside, and what a change of it could win is accounted for there
    if not params.evaluation.rivals.more_sft:
        del values["evaluation"]["rivals"]["more_sft"]
    for name, before in (("worst_cluster", None), ("control_share", 1.0)):
        if values["claim"][name] == before:
            del values["claim"][name]
    if not params.task.brings_code:  # where a shipped task lies makes no other recipe: it is as it first lay
        values["task"]["code"] = f"src/assay/tasks/{params.task.name}"
    if params.external is not None:  # what is said of it makes it no other
        values["train"] = params.external.sha256
    return Recipe(digest([values[name] for name in RECIPE]), params.seed, tuple(params.claim.seeds))


def tries(
    ledger: HeldoutLedger, records: Collection[str], base: str | None, suite: str
) -> list[HeldoutOpening]:
    """Return the first note of each try at any of some records, before and after those of a claim: each
    policy in each suite.

    The base of the claim is none. In another suite it is one unless something was measured against it there:
    who rolls its luck again takes what suits. What a coin trained, or what more fine-tuning made, is as good
    as the base that it was trained from, and nobody can claim anything of it.

    Args:
        ledger: All that is known.
        records: Contents of the records.
        base: Digest of the claim's base; None where nobody knows.
        suite: Digest of the claim's suite.
    """
    asked = frozenset(records)
    there = {key for key, held in ledger.record_sets.items() if not asked.isdisjoint(held)}
    told = [each for each in ledger.openings if each.records in there]
    beside = (BASE_STAGE, CONTROL_STAGE)
    compared = {each.suite_digest for each in told if each.stage not in beside and each.policy_digest != base}
    compared.add(suite)
    first: dict[tuple[str, str], HeldoutOpening] = {}
    for each in told:
        who = each.base if each.stage == CONTROL_STAGE else each.policy_digest
        luck = each.stage != CONTROL_STAGE and each.place is not None and each.suite_digest not in compared
        if who is None or (who == base and not luck):
            continue
        key = (who, "" if each.place is None else each.suite_digest)
        first[key] = min(first.get(key, each), each, key=_order)
    # A policy that was noted before places were, and again since, has the place that it was given then.
    known = {who for who, of_suite in first if of_suite}
    return sorted((each for (who, of), each in first.items() if of or who not in known), key=_order)


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
    records = one.record_sets[opening.records]
    who, suite = opening.policy_digest, opening.suite_digest
    own = [each for each in policies_noted(ledger, records, who) if each.suite_digest == suite and each.place]
    if own:
        first = min(own, key=_order)
        kept = ("place", "recipe_place", "family", "seed", "looks")
        update = {name: getattr(first, name) for name in kept}
        return one.model_copy(update={"openings": (opening.model_copy(update=update),)})
    others = [
        each
        for each in tries(ledger, records, opening.base, suite)
        if each.policy_digest != who or (each.place is not None and each.suite_digest != suite)
    ]
    siblings = _siblings(others, recipe)
    outside = [each for each in others if each not in siblings]
    place = 1 + len(others)
    if recipe is not None and recipe.registered:
        # In the order of the plan, and never before a place that was taken.
        place = max(place, 1 + len(outside) + recipe.seeds.index(recipe.seed))
    recipe_place = min(
        (each.recipe_place for each in siblings if each.recipe_place), default=1 + _units(outside)
    )
    told = {} if recipe is None else {"family": recipe.family, "seed": recipe.seed}
    update = told | {"place": place, "recipe_place": recipe_place}
    return one.model_copy(update={"openings": (opening.model_copy(update=update),)})


def _siblings(others: list[HeldoutOpening], recipe: Recipe | None) -> list[HeldoutOpening]:
    """Return the policies of the other registered seeds of the same plan and settings in the same roll: the
    first ones of each, unless the seed itself was trained before."""
    if recipe is None or not recipe.registered:
        return []
    found: dict[int, list[HeldoutOpening]] = {seed: [] for seed in recipe.seeds}
    for each in others:
        if each.family == recipe.family and each.seed in found:
            found[each.seed].append(each)
    roll = len(found.pop(recipe.seed))
    return [rolled[roll] for rolled in found.values() if len(rolled) > roll]


def left_out_of(before: list[HeldoutOpening], recipe: Recipe) -> tuple[int, ...]:
    """Return the seeds that other plans showed beside seeds of this one, and that this one leaves out:
    whoever picks among seeds that were seen tells nothing by the rest."""
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
    root: Path,
    params: Params,
    stage: str,
    suite: Suite,
    policy_digest: str,
    *,
    base: str,
    split: Split | None = None,
) -> None:
    """Write down an opening before it happens, so that one which was broken off counts as well.

    The validation suite of a draft is no opening, but where the ledger knows its records as held out: they
    may be so in other data.

    Args:
        root: Of the project.
        params: Its settings.
        stage: Who opens.
        suite: What is played.
        policy_digest: Who plays.
        base: Digest of what that was trained from; its own if it was not trained.
        split: Where they stand, if not in that of the suite.

    Raises:
        RecordError: The ledger is damaged.
    """
    known = openings(root) or NOTHING
    draft = not params.evaluation.open and (split or suite.split) == "validation"
    if draft and not is_held_out(known, suite.contents):
        return
    one = opened(
        stage,
        policy_digest,
        replace(suite, sampling=SAMPLING).digest,
        suite.contents,
        data=params.dataset.name,
        split=split or suite.split,
        copy_id=copy_id(root),
        base=base,
    )
    asked = one.openings[0].model_copy(update={"looks": params.claim.looks})
    one = one.model_copy(update={"openings": (asked,)})
    trained = stage == TRAINED_STAGE and policy_digest != base
    one = placed(known, one, recipe_of(params) if trained else None)
    lost = _lost(root, known, one)
    why = "put_back" if lost and is_from_git(root, f"{OBSERVED}/{LEDGER}") else "restored"
    one = one.model_copy(update={"openings": (one.openings[0].model_copy(update={why: lost}),)})
    now = noted(known, one)
    identity = one.openings[0].identity
    own = one.model_copy(
        update={"openings": tuple(each for each in now.openings if each.identity == identity)}
    )
    # A file an opening, so that several processes at a time lose nothing of each other.
    write_json(memory(root) / f"{digest(identity)[:16]}.json", own)
    write_json(root / OBSERVED / LEDGER, now)


def _lost(root: Path, known: HeldoutLedger, one: HeldoutLedger) -> int:
    """Return how many policies the ledger's file lacks that git or this working copy still knows.

    A folder of `dvc exp run --temp` has the file of a commit, and lacks what was opened since.
    """
    if scratch_of(root).parent.resolve() != root.resolve():
        return 0
    (opening,) = one.openings
    records = one.record_sets[opening.records]
    all_known, there = (
        {each.policy_digest for each in tries(ledger, records, opening.base, opening.suite_digest)}
        for ledger in (known, travelling(root) or NOTHING)
    )
    return len(all_known - there)


def adopt(root: Path, ledger: HeldoutLedger) -> None:
    """Take in what another working copy noted, such as that of a seed.

    Raises:
        RecordError: The ledger is damaged.
    """
    for each in ledger.openings:
        sets = {each.records: ledger.record_sets[each.records]}
        own = ledger.model_copy(update={"record_sets": sets, "openings": (each,)})
        write_json(memory(root) / f"{digest(each.identity)[:16]}.json", own)
    write_json(root / OBSERVED / LEDGER, merged(openings(root) or NOTHING, ledger))


def note_called(root: Path, policy_digest: str, suite: Suite, *, called: bool) -> None:
    """Write down whether the claim of a policy was called better at its level, if nothing was written down
    before: a look that was hands its level on to the next.

    Raises:
        RecordError: The ledger is damaged.
    """
    known = openings(root) or NOTHING
    own = [each for each in policies_noted(known, suite.contents, policy_digest) if _asked_in(each, suite)]
    if own and all(each.called is None for each in own):
        told = tuple(each.model_copy(update={"called": called}) for each in own)
        adopt(root, known.model_copy(update={"openings": told}))


def _asked_in(each: HeldoutOpening, suite: Suite) -> bool:
    return each.stage == TRAINED_STAGE and each.suite_digest == suite.digest


def opened_records(
    root: Path,
    params: Params,
    suite: Suite,
    policy_digest: str,
    base_digest: str,
    *,
    secondary: Mapping[str, Suite] | None = None,
) -> OpenedRecords:
    """Return what is known, once a trained policy was noted, of who saw the records before it.

    Args:
        root: Of the project.
        params: Its settings.
        suite: The held-out one.
        policy_digest: Of the trained policy.
        base_digest: Of the base.
        secondary: Further suites by name, of whose records only the place is told.

    Raises:
        RecordError: The ledger is damaged.
    """
    ledger = openings(root) or NOTHING
    recipe = recipe_of(params)
    known = tries(ledger, suite.contents, base_digest, suite.digest)
    of_policy = [each for each in known if each.policy_digest == policy_digest]
    own = next((each for each in of_policy if each.suite_digest == suite.digest or not each.place), None)
    seen = policies_that_saw(ledger, suite.contents)
    base = seen.get(base_digest)
    before = [each for each in known if own is not None and _order(each) < _order(own)]
    # Two copies that did not know of each other may have given one place twice: the later pays for both.
    place = None if own is None or own.place is None else max(own.place, 1 + len(before))
    of_run = (base_digest, policy_digest)
    whole = base is not None and BASE_STAGE in base.stages and base.n_records == len(set(suite.contents))
    told = [seen.get(each.policy_digest) for each in before]
    rolled = [each for each in before if each.family == recipe.family and each.seed in recipe.seeds]
    others = tuple(
        OtherPolicy(
            policy_digest=each.policy_digest,
            stages=tuple(sorted(found.stages)) if found is not None else (each.stage,),
            n_records=found.n_records if found is not None else None,
            place=each.place,
            looks=each.looks,
            called=_told(ledger, each),
            same_recipe=each in rolled and each.seed != recipe.seed,
        )
        for each, found in zip(before, told, strict=True)
    )
    return OpenedRecords(
        policy_digest=policy_digest,
        records=key_of(suite.contents),
        n_records=len(set(suite.contents)),
        place=place if whole else None,
        recipe_place=own.recipe_place if whole and own is not None else None,
        looks=None if own is None else own.looks,
        first_family=None if own is None else own.family,
        family=recipe.family,
        seed=recipe.seed,
        seeds=recipe.seeds,
        rolls=sum(each.seed == recipe.seed for each in rolled),
        # The seed of one that was trained elsewhere stands for nothing.
        left_out=() if params.external else left_out_of(before, recipe),
        others=others,
        restored=max((each.restored for each in ledger.openings if each.policy_digest in of_run), default=0),
        put_back=max((each.put_back for each in ledger.openings if each.policy_digest in of_run), default=0),
        secondary_places={
            name: opened_records(root, params, each, policy_digest, base_digest).place
            for name, each in (secondary or {}).items()
        },
    )


def _told(ledger: HeldoutLedger, one: HeldoutOpening) -> bool | None:
    """Return whether a try was called better, as far as any note of it says so: not, where they differ."""
    known = [
        each.called
        for each in ledger.openings
        if (each.policy_digest, each.suite_digest) == (one.policy_digest, one.suite_digest)
        and each.called is not None
    ]
    return all(known) if known else None
