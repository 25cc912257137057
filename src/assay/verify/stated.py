"""V3, what only a model can fill in: base.json, parity.json and control.json are of this run and keep its
bounds."""

from __future__ import annotations

from collections.abc import Iterator

from assay.core.config.served import ServedBase
from assay.core.config.settings import PretrainedBase, ScratchBase
from assay.core.records import HEALTH_RULES
from assay.core.storage.json import read_record
from assay.dataset.external import whole_of
from assay.package.layout import PARITY
from assay.package.parity import Parity
from assay.policy.base.pretrained import name_of
from assay.verify.checks import LookResult
from assay.verify.unpacked import FIX, Unpacked


def facts_within_bounds(package: Unpacked) -> LookResult:
    """Check that what was measured of the model is of this model, in range, and keeps the bounds of the
    settings."""
    wrong = [*_base(package), *_parity(package), *_control(package)]
    said = (
        "base.json, parity.json and control.json are of this run and keep its bounds; their numbers need the"
        " model"
    )
    return LookResult(said, wrong)


def _base(package: Unpacked) -> Iterator[str]:
    base, told = package.project.params.base, package.base
    expected: dict[str, object] = {"kind": base.kind}
    if isinstance(base, ScratchBase):
        expected["seed"] = base.seed
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
    elif isinstance(base, ServedBase):
        expected["model"] = base.model
    elif isinstance(base, PretrainedBase):
        expected["model"] = name_of(base.model, str(told.get("revision")))
    for name, value in expected.items():
        if told.get(name) != value:
            yield f"base.json, {name}: {told.get(name)!r:.40}, and {value!r} in params.yaml"


def _parity(package: Unpacked) -> Iterator[str]:
    if whole_of(package.told) or package.served:
        return  # nothing was merged
    found, asked = read_record(package.root / PARITY, Parity, fix=FIX), package.project.params.package.parity
    if found.policy_digest != package.told.policy_digest:
        yield f"{PARITY}, policy_digest: not that of train.json"
    if (found.max_logit_difference, found.min_greedy_agreement) != (
        asked.max_logit_difference,
        asked.min_greedy_agreement,
    ):
        yield f"{PARITY}: other bounds than package.parity of params.yaml"
    if found.prompts != min(asked.prompts, len(package.item_ids("heldout"))):
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
