"""Which policy a stage plays with: the pinned base, alone or under the adapter; and texts of the data that
are control tokens of that base."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from assay.core.config.settings import Params
from assay.core.console import complain
from assay.core.counting import counted
from assay.core.errors import DataError
from assay.pipeline.inputs import Inputs
from assay.rollout.policy.base.pretrained import POINTER, locate, pinned_digest
from assay.rollout.policy.model import Policy, load, pin, require_device
from assay.rollout.policy.renderer import control_names

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


BASE, ADAPTER = "models/base", "models/adapter"


def open_policy(params: Params, base: Path, adapter: Path | None = None) -> Policy:
    """Load the base policy, under a trained adapter if one is given, on the configured device.

    Where a whole model was brought, the adapter's place points to it, and it is loaded alone.

    Args:
        params: Settings of device, threads and base.
        base: Folder of the pinned base.
        adapter: Folder of the adapter.

    Raises:
        ConfigError: The device is not there.
        PolicyError: Model or adapter cannot be read, or the base changed since it was pinned.
    """
    require_device(params.device)
    pin(params.threads, deterministic=params.deterministic, device=params.device)
    whole = adapter is not None and (adapter / POINTER).is_file()
    policy = load(
        locate(adapter) if whole and adapter else locate(base),
        adapter=None if whole else adapter,
        device=params.device,
        dtype=params.base.dtype,
        quantization=params.base.quantization,
        template=params.base.template,
    )
    # Whatever is measured beside a base is noted under that base
    return replace(policy, base_digest=pinned_digest(base)) if whole else policy


_NAMED = 5


def tell_control_tokens(inputs: Inputs, tokenizer: PreTrainedTokenizerBase, split: str) -> None:
    """Say how many items of a split hold a control token of the base as text, in what is told or in what is
    right.

    Only tasks that read users' own records are told texts that others wrote.

    Raises:
        DataError: `dataset.audit.control_token` is not keep.
    """
    params = inputs.params
    if not params.task.reads_own_records:
        return
    task, items, names = inputs.task, inputs.items[split], control_names(tokenizer)
    found: dict[str, list[str]] = {}
    for item in items:
        text = "\n".join([*(message["content"] for message in task.start(item, 0)[0]), task.truth(item)])
        if hits := [name for name in names if name in text]:
            found[item.id] = hits
    if not found:
        return
    shown = ", ".join(
        ascii(name) for name in list(dict.fromkeys(hit for hits in found.values() for hit in hits))[:_NAMED]
    )
    said = (
        f"{counted(len(found), 'items')} of {len(items)} with {shown} in a text (first:"
        f" {next(iter(found))!a})"
    )
    if params.dataset.audit.control_token == "keep":
        complain(
            f"{split}: {said}: control tokens of this base, which its tokenizer reads as such and not as"
            " text, so data can end a message or open one; a gold with one cannot be told from an answer"
            " that ended there"
        )
        return
    raise DataError(
        "no control token of this base as text (dataset.audit.control_token:"
        f" {params.dataset.audit.control_token})",
        found=said,
        where=f"{params.dataset.root}/{split}.jsonl",
        fix=(
            "take them out of the data, choose another base, or set dataset.audit.control_token: keep in the"
            " task's preset in configs/task/"
        ),
    )
