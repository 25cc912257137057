"""A project's base and adapter merged into one model, and compared with it; for `package` and `assay publish
merge`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from assay.core.errors import PackageError
from assay.core.records import Split
from assay.core.storage.files import write_folder
from assay.pipeline.inputs import decoding_of
from assay.pipeline.project import Project
from assay.rollout.dataset.external import read_training
from assay.rollout.dataset.suite import choose
from assay.stages.packing.parity import MergeComparison, Parity, Side

if TYPE_CHECKING:
    from assay.rollout.policy.base.adapter_files import Weights
    from assay.rollout.policy.model import Policy

ADAPTER = "models/adapter"


def parity_of(project: Project) -> tuple[Parity, MergeComparison]:
    """Merge in memory and return how the merged model compares with base and adapter; writes nothing.

    One model is in memory at a time. Held-out openings are read and no answer is graded, so nothing is
    learned of how well the policy does.

    Raises:
        ConfigError: The device is not there.
        PackageError: The merged model is outside of package.parity, or base and adapter are not those that
            were trained.
        PolicyError: Base or adapter cannot be read.
    """
    from assay.rollout.policy.base.adapter_files import merge

    weights = weights_of(project)
    return _compared(project, weights, lambda: merge(weights))


def merge_into(project: Project, folder: Path) -> tuple[Parity, MergeComparison]:
    """Write the merged model as a plain model folder, whole or not at all, after it was read back and
    compared.

    Args:
        project: Whose base and adapter.
        folder: To write; one that is there is replaced.

    Raises:
        ConfigError: The device is not there.
        PackageError: The merged model, read back, is outside of package.parity, or was merged from others
            than were trained.
        PolicyError: Base or adapter cannot be read.
        RecordError: The folder above cannot be written.
    """
    from assay.rollout.policy.base.adapter_files import merge, write_model

    weights = weights_of(project)
    found: list[tuple[Parity, MergeComparison]] = []

    def fill(fresh: Path) -> None:
        def written() -> Policy:
            write_model(merge(weights), fresh, base=weights.base)
            return weights.load(fresh, None, None)

        found.append(_compared(project, weights, written))

    write_folder(folder, {}, check=fill)
    return found[0]


def weights_of(project: Project) -> Weights:
    """Return where base and adapter of a project lie, and fix what makes a computation repeat itself.

    Raises:
        ConfigError: The device is not there.
        PackageError: A whole model was brought: there is nothing to merge.
        PolicyError: The base cannot be read.
    """
    from assay.rollout.policy.base.adapter_files import Weights
    from assay.rollout.policy.base.pretrained import POINTER, locate
    from assay.rollout.policy.model import pin, require_device

    params, base = project.params, project.params.base
    if (project.root / ADAPTER / POINTER).is_file():
        fix = "copy the folder that train.folder names"
        raise PackageError("base and adapter", found="a whole model that was brought", where=ADAPTER, fix=fix)
    require_device(params.device)
    pin(params.threads, deterministic=params.deterministic, device=params.device)
    return Weights(
        locate(project.root / "models/base"),
        project.root / ADAPTER,
        params.device,
        base.dtype,
        base.quantization,
        base.template,
    )


def _compared(
    project: Project, weights: Weights, merged: Callable[[], Policy]
) -> tuple[Parity, MergeComparison]:
    """Record what base and adapter say, then load the merged model in their place and compare."""
    params = project.params
    with _side(project, weights) as side:
        return side.parity(merged(), params.package.parity, base_was_4bit=weights.quantization is not None)


def _side(project: Project, weights: Weights) -> Side:
    from assay.rollout.evaluation.trajectory import open_item

    params, policy = project.params, weights.policy()
    facts = read_training(project.results("train.json"), fix="./run dvc repro train")
    if policy.digest != facts.policy_digest:
        raise PackageError(
            f"the base and the adapter of the training ({facts.policy_digest[:16]}…)",
            found=f"others ({policy.digest[:16]}…)",
            where=f"models/base and {ADAPTER}, policy_digest of train.json",
            fix=(
                "./run dvc repro train, or put the adapter back that was trained (./run dvc checkout"
                " models/adapter)"
            ),
        )
    task, items = project.task(), project.items(params.played[0])
    n = min(params.package.parity.prompts, len(items))
    split: Split = "heldout" if params.evaluation.open else "validation"
    suite = choose(items, n, split=split, draws=1, seed=params.evaluation.seed)
    openings = [
        open_item(task, policy.dialogue, each.item, each.world_seed).prompt_ids for each in suite.plays()
    ]
    # Base and adapter stand apart here, which lean does not serve: both sides are played the same way.
    decoding = replace(decoding_of(project.params, greedy=True), backend="cached")
    return Side(policy, openings, decoding, batch_size=params.generation.batch_size)
