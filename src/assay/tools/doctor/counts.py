"""How many items there are for what is asked of them, and whether training and validation are kept apart."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.config.places import setting
from assay.core.config.settings import Params
from assay.core.counting import counted
from assay.tasks.protocol import Item
from assay.tools.doctor.findings import Check, Finding

MANY_EPOCHS = 20


def counts_findings(params: Params, items: Sequence[Item], validation: Sequence[Item]) -> list[Finding]:
    """Return what the items say, before any is played."""
    return [
        _items_per_step(params, len(items)),
        _epochs(params, len(items)),
        _kl_probe(params, len(items)),
        _validation_size(params, len(validation)),
        _repeated(items),
        _apart(items, validation),
    ]


def _items_per_step(params: Params, n: int) -> Finding:
    asked = params.train.items_per_step
    check = Check(
        "items a step", f"at most the {counted(n, 'training items')}", setting("train.items_per_step")
    )
    if asked > n:
        return check.warning(
            f"{asked}: an item is several groups of one step",
            f"train.items_per_step: {max(1, n)}, or add data",
        )
    return check.ok(str(asked))


def _epochs(params: Params, n: int) -> Finding:
    epochs = params.train.steps * params.train.items_per_step / max(1, n)
    check = Check("epochs", f"at most {MANY_EPOCHS}", setting("train.steps"))
    if epochs > MANY_EPOCHS:
        found = f"each of {counted(n, 'items')} is trained on {epochs:.0f} times"
        return check.warning(found, "lower train.steps, or add data")
    return check.ok(f"{epochs:.2g}")


def _kl_probe(params: Params, n: int) -> Finding:
    asked = params.train.kl_probe_episodes
    check = Check(
        "KL probe", f"at most the {counted(n, 'training items')}", setting("train.kl_probe_episodes")
    )
    if asked > n:
        return check.fault(f"{asked} episodes, each of another item", f"train.kl_probe_episodes: {n}")
    return check.ok(str(asked))


def _validation_size(params: Params, n: int) -> Finding:
    asked = params.validation.items
    check = Check("validation items", f"{asked}, as validation.items asks for", setting("validation.items"))
    if n < asked:
        return check.warning(
            f"{n}: the checkpoint is chosen on less than was asked for", "add data, or lower validation.items"
        )
    return check.ok(str(n))


def _repeated(items: Sequence[Item]) -> Finding:
    n, check = len({item.id for item in items}), Check("training items", "each once", "the training items")
    if n < len(items):
        return check.warning(
            f"{len(items)} with {counted(n, 'ids')}", "remove the repeated records from train.jsonl"
        )
    return check.ok(f"{n}")


def _apart(items: Sequence[Item], validation: Sequence[Item]) -> Finding:
    ids, clusters = {item.id for item in items}, {item.cluster for item in items}
    check = Check(
        "validation kept apart",
        "no item and no cluster in both",
        "the data files of train and validation.suite",
    )
    fix = (
        "./run assay audit TASKS.jsonl --fix-splits makes splits that share nothing; or another"
        " validation.suite"
    )
    shared = [item.id for item in validation if item.id in ids]
    if shared:
        found = (
            f"{counted(len(shared), 'items')} in both (first: {shared[0]}): the checkpoint is chosen by"
            " memory"
        )
        return check.fault(found, fix)
    near = [item.cluster for item in validation if item.cluster in clusters]
    if near:
        return check.fault(
            f"{counted(len(near), 'validation items')} of clusters that are trained on (first: {near[0]})",
            fix,
        )
    return check.ok("nothing shared")
