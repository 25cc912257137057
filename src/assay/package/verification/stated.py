"""V3, what small records say: base.json, parity.json and control.json, which only a model can fill in, are of
this run and keep its bounds; openings.json and rivals.json follow from the rest of the package."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

from assay.core.config.settings import PretrainedBase, ScratchBase, is_gguf, requirement_of
from assay.core.counting import counted
from assay.core.evidence_files import place_of
from assay.core.records import HEALTH_RULES, ControlFacts, OpenedRecords, Origin, Record, SftFacts
from assay.core.storage.files import read_bytes, read_text, sha256_bytes
from assay.core.storage.json import json_text, read_record
from assay.package.verification.checks import LookResult
from assay.package.verification.content.weights import base_shapes
from assay.package.verification.unpacked import FIX, Unpacked
from assay.pipeline.heldout_ledger import HeldoutLedger, key_of
from assay.pipeline.note_openings import opened_records, recipe_of
from assay.pipeline.rival_files import BaseRivals, facts_of, file_of
from assay.rollout.dataset.external import whole_of
from assay.rollout.policy.base.pretrained import name_of
from assay.rollout.tasks.protocol import reward_range
from assay.rollout.tasks.rivals import BEST_OF_N, CONSTRAINED, FEW_SHOT, IN_PRE_EVAL, MORE_SFT, rivals_of
from assay.stages.packing.layout import OPENINGS, PARITY
from assay.stages.packing.parity import Parity
from assay.stages.packing.provenance import Sha256
from assay.verdict.evidence.claim.openings import Openings, level_of, openings_of


class BuiltBase(Record):
    """base.json of a base that was built here."""

    kind: Literal["scratch"]
    seed: int
    digest: Sha256
    parameters: int
    copy_accuracy: float
    parsed_rate: float
    success_rate: float
    mean_reward: float


class PinnedBase(Record):
    """base.json of a pretrained base."""

    kind: Literal["pretrained"]
    model: str
    revision: str | None
    digest: Sha256
    origin: Origin | None = None  # of converted weights
    sft: SftFacts | None = None  # of one that was fine-tuned before GRPO


def facts_within_bounds(package: Unpacked) -> LookResult:
    """Check that what was measured of the model is of this model, in range, and keeps the bounds of the
    settings."""
    wrong = [*_parity(package), *_told(package), *_written_otherwise(package)]
    return _facts_said("base.json, parity.json and control.json", wrong)


def facts_without_models(package: Unpacked) -> LookResult:
    """Check the same where there are no models, and nothing was merged."""
    told, trained, wrong = package.base.get("digest"), package.told.base_digest, [*_told(package)]
    if told != trained:
        wrong.append(f"base.json, digest: {str(told)[:16]}, and {trained[:16]} in train.json")
    return _facts_said("base.json and control.json", wrong)


def _told(package: Unpacked) -> Iterator[str]:
    yield from _base(package)
    yield from _control(package)


def _facts_said(files: str, wrong: list[str]) -> LookResult:
    return LookResult(f"{files} are of this run and keep its bounds; their numbers need the model", wrong)


def _base(package: Unpacked) -> Iterator[str]:
    base, told = package.project.params.base, package.base
    forms: dict[str, type[Record]] = {"scratch": BuiltBase, "pretrained": PinnedBase}
    read_record(package.results("base.json"), forms[base.kind], fix=FIX)
    expected: dict[str, object] = {"kind": base.kind}
    if isinstance(base, ScratchBase):
        expected["seed"] = base.seed
        shapes = base_shapes(base, len(package.words.vocabulary)).values()
        expected["parameters"] = sum(math.prod(shape) for shape in shapes)
        low, high = reward_range(package.task) or (-math.inf, math.inf)
        if not low <= told["mean_reward"] <= high:
            yield f"base.json, mean_reward: {told['mean_reward']!r:.40}, and rewards are from {low} to {high}"
        for name, least in (
            ("copy_accuracy", base.gates.copy_accuracy),
            ("parsed_rate", base.gates.parsed_rate),
        ):
            value = told.get(name)
            if not isinstance(value, int | float) or not least <= value <= 1:
                yield f"base.json, {name}: {value!r:.40}, and the settings ask for at least {least}"
        rate = told.get("success_rate")
        if not isinstance(rate, int | float) or not 0 <= rate <= 1:
            yield f"base.json, success_rate: {rate!r:.40}"
    else:
        expected["model"] = name_of(base.model, str(told.get("revision")))
        yield from origin_follows(base, told.get("origin"))
        yield from _sft_follows(package, told.get("sft"))
    for name, value in expected.items():
        if told.get(name) != value:
            yield f"base.json, {name}: {told.get(name)!r:.40}, and {value!r} in params.yaml"


def _sft_follows(package: Unpacked, told: dict[str, Any] | None) -> Iterator[str]:
    """Yield in what base.json tells of other fine-tuning than settings and data give."""
    asked, n = package.project.params.sft, len(package.project.items("train"))
    if (told is None) == (asked is not None):
        yield f"base.json, sft: {'missing' if told is None else 'there'}, and base.warm_start says otherwise"
    if told is None or asked is None:
        return
    shown = len(package.project.inputs("train").shown)
    if told["rows"] > shown or told["train_rows"] != n:
        rows = f"{told['rows']} of {told['train_rows']} rows"
        yield f"base.json, sft: {rows}, and the data have {shown} of {n} for it"
    if told["steps"] != asked.steps:
        yield f"base.json, sft: {told['steps']} steps, and {asked.steps} in params.yaml"
    if not asked.gates.parsed_rate <= told["parsed_rate"] <= 1 or not 0 <= told["success_rate"] <= 1:
        yield "base.json, sft: a rate beyond its bounds"


def origin_follows(base: PretrainedBase, told: dict[str, Any] | None) -> Iterator[str]:
    """Yield in what base.json tells another origin of converted weights than the settings ask for."""
    asked = requirement_of(base.model)
    if (told is None) == is_gguf(base.model):
        there = "missing" if told is None else "there"
        yield f"base.json, origin: {there}, and base.model is {base.model!r:.80}"
    if told is None:
        return
    if base.sha256 not in (None, told["sha256"]):
        yield f"base.json, origin: sha256 {told['sha256']}, and {base.sha256} in params.yaml"
    if told["package"] != asked:
        yield f"base.json, origin: package {told['package']!r:.80}, and {asked!r:.80} in params.yaml"


def _written_otherwise(package: Unpacked) -> Iterator[str]:
    """Yield the records that are made again from nothing, and not written as assay writes them."""
    records: dict[str, type[Record]] = {"control.json": ControlFacts, "rivals.json": BaseRivals}
    records["train.json"] = type(package.told)
    if package.project.params.evaluation.open:
        records["openings.json"] = OpenedRecords
    told = {name: read_record(package.results(name), kind, fix=FIX) for name, kind in records.items()}
    for name, value in {**told, "base.json": package.base}.items():
        if read_text(package.results(name), fix=FIX) != json_text(value):
            yield f"{name}: not as assay writes it"


def _parity(package: Unpacked) -> Iterator[str]:
    if whole_of(package.told):
        return  # nothing was merged
    found, asked = read_record(package.root / PARITY, Parity, fix=FIX), package.project.params.package.parity
    if found.policy_digest != package.told.policy_digest:
        yield f"{PARITY}, policy_digest: not that of train.json"
    if (found.max_logit_difference, found.min_greedy_agreement) != (
        asked.max_logit_difference,
        asked.min_greedy_agreement,
    ):
        yield f"{PARITY}: other bounds than package.parity of params.yaml"
    if found.prompts != min(asked.prompts, len(package.item_ids(package.project.params.played[0]))):
        yield f"{PARITY}, prompts: {found.prompts}, and {asked.prompts} in params.yaml"
    if (
        found.logit_difference_at_most > found.max_logit_difference
        or found.greedy_agreement < found.min_greedy_agreement
    ):
        yield f"{PARITY}: outside of its own bounds"
    if not found.prompts <= found.tokens <= found.positions:
        yield f"{PARITY}: {found.prompts} prompts, {found.tokens} tokens at {found.positions} places"


def _control(package: Unpacked) -> Iterator[str]:
    control = package.control
    if not control.asked:
        return
    if control.stopped is None and (
        control.chain is None or control.health is None or control.chosen_step is None
    ):
        yield "control.json: of a training that ended, and without its end"
    if control.chosen_step is not None and control.steps is not None and control.chosen_step > control.steps:
        yield f"control.json, chosen_step: {control.chosen_step} of {control.steps}"
    if not package.elsewhere and control.chain == package.trained.chain:
        yield "control.json, chain: that of the training proper"
    if control.health is not None:
        ranks = [HEALTH_RULES.index(rule) for rule in control.health.unmeasured]
        if ranks != sorted(set(ranks)) or {each.rule for each in control.health.rules} & set(
            control.health.unmeasured
        ):
            yield "control.json, health: a rule that was measured and was not"


def openings_follow(package: Unpacked) -> LookResult:
    """Check that the claim's place among the tries at its records, by which it is tested, is what the notes
    of these tries come to; a draft has neither notes nor a place."""
    if not package.project.params.evaluation.open:
        named = {OPENINGS, place_of("openings.json")} & package.names
        wrong = [f"{name}: a draft opens nothing" for name in sorted(named)]
        wrong += ["claim.json, opened: a draft opens nothing"] * (package.claim["opened"] is not None)
        return LookResult("a draft: no held-out record was opened", wrong)
    ledger = read_record(package.root / OPENINGS, HeldoutLedger, fix=FIX)
    trained, told = package.told, package.opened
    found = opened_records(
        package.project.root,
        package.project.params,
        package.heldout,
        trained.policy_digest,
        trained.base_digest,
    )
    wrong = [
        f"openings.json, {name}: {before!r}; the ledger in the package gives {now!r}"
        for (name, before), now in zip(_facts(told).items(), _facts(found).values(), strict=True)
        if before != now
    ]
    wrong += [*_unnoted(package, ledger), *_claimed(package)]
    of = counted(len(told.others), "tries")
    return LookResult(f"place {told.place} of the claim, behind {of} that the ledger names", wrong)


def _unnoted(package: Unpacked, ledger: HeldoutLedger) -> Iterator[str]:
    """Yield which of the claim's own policies the ledger has no note of under this base and these data."""
    base, data = package.told.base_digest, package.project.params.dataset.name
    for policy in (base, package.told.policy_digest):
        told = (each for each in ledger.openings if each.policy_digest == policy)
        noted = {(each.base, each.data, each.split) for each in told}
        if (base, data, package.heldout.split) not in noted:
            yield f"{OPENINGS}: no note of {policy[:16]} at the {package.heldout.split} records of {data}"


def openings_without_ledger(package: Unpacked) -> LookResult:
    """Check the same as far as settings and data tell it, where the ledger is not there."""
    told, suite, recipe = package.opened, package.heldout, recipe_of(package.project.params)
    follows = {
        "records": key_of(suite.contents),
        "n_records": len(set(suite.contents)),
        "seed": recipe.seed,
        "seeds": recipe.seeds,
    }
    wrong = [
        f"openings.json, {name}: {getattr(told, name)!r}; settings and data give {value!r}"
        for name, value in follows.items()
        if getattr(told, name) != value
    ]
    of = counted(len(told.others), "tries")
    return LookResult(f"place {told.place} of the claim, behind {of}", [*wrong, *_claimed(package)])


def _claimed(package: Unpacked) -> Iterator[str]:
    """Yield in what the claim does not follow from openings.json."""
    claim, path, told = package.claim, package.results("openings.json"), package.opened
    if told.secondary_places.keys() != package.plan.secondary_suites.keys():
        suites = ", ".join(package.plan.secondary_suites) or "none"
        yield f"openings.json, secondary_places: {', '.join(told.secondary_places)}; the plan has {suites}"
    opened = openings_of(told, sha256_bytes(read_bytes(path, fix=FIX)), package.plan.looks)
    if claim["verdict"] != "NOT EVALUABLE" and claim["level"] != level_of(opened, package.plan):
        level = level_of(opened, package.plan)
        yield f"claim.json, level: {claim['level']}; place {told.place} leaves {level}"
    if claim["opened"] is not None and Openings.model_validate(claim["opened"]) != opened:
        yield "claim.json, opened: not what openings.json says"


def _facts(of: OpenedRecords) -> dict[str, Any]:
    # Of the others who they were and when; in which stages they played may have grown since, and decides
    # nothing.
    others = [
        (each.policy_digest[:16], each.place, each.looks, each.called, each.same_recipe) for each in of.others
    ]
    facts = of.model_dump(exclude={"others", "secondary_places"})
    return {**facts, "others": others}


def rivals_told(package: Unpacked) -> LookResult:
    """Check that rivals.json is about the rivals that the settings ask for, and counts what they played."""
    asked, wrong = package.project.params.evaluation.rivals, []
    settings = {
        FEW_SHOT: asked.few_shot,
        BEST_OF_N: asked.best_of_n,
        CONSTRAINED: 1,
        MORE_SFT: asked.more_sft,
    }
    expected = [name for name in IN_PRE_EVAL if name in rivals_of(package.task, asked)]
    if sorted(package.rivals) != sorted(expected):
        wrong.append(f"rivals.json: {', '.join(package.rivals)}; the settings ask for {', '.join(expected)}")
    for name in expected:
        if (told := package.rivals.get(name)) is None:
            continue
        episodes = package.episodes(file_of(name)) if told.used else []
        again = facts_of(
            package.task,
            episodes,
            settings[name],
            told.used,
            told.note,
            tokens=max(told.tokens, sum(episode.n_tokens for episode in episodes)),
            unbound=told.unbound_items,
        )
        if name != BEST_OF_N:  # where draws that did not count cost tokens too
            again = again.model_copy(update={"tokens": sum(episode.n_tokens for episode in episodes)})
        if again != told:
            wrong.append(f"rivals.json, {name}: not what its settings and {file_of(name)}.jsonl say")
        if name == FEW_SHOT and not isinstance(package.project.params.base, PretrainedBase):
            fit = package.shown[1]
            if fit != told.used:
                wrong.append(f"rivals.json, {name}, used: {told.used}; {fit} are there and fit")
        if not told.used and told.note is None:
            wrong.append(f"rivals.json, {name}: did not play, and does not say why")
    played = sum(bool(told.used) for told in package.rivals.values())
    return LookResult(
        f"{counted(played, 'rivals')} of {len(expected)} that the settings ask for played", wrong
    )
