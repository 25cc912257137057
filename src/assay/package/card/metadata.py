"""The YAML at the head of a model card, as Hugging Face reads it: tags, base, and a model-index with the
claim's numbers."""

from __future__ import annotations

import re
from typing import Any

from assay.core.counting import counted
from assay.core.records import Interval
from assay.dataset.fingerprint import Fingerprint
from assay.evaluation.measures import is_rate
from assay.evidence.claim.claim import Claim
from assay.evidence.claim.differences import measure_of_primary
from assay.evidence.claim.what_was_run import BaseFacts
from assay.evidence.escape import visible
from assay.policy.base.pretrained import LOCAL
from assay.statistics.report import Report

_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")


def hub_base(base: BaseFacts) -> str | None:
    """Return the hub id of a pretrained base, None for one from scratch or from somebody's folder.

    >>> hub_base(BaseFacts(kind="pretrained", digest="", model="Qwen/Qwen3-4B", revision="1cfa9a7"))
    'Qwen/Qwen3-4B'
    >>> hub_base(BaseFacts(kind="pretrained", digest="", model="home/model", revision="local"))
    """
    if base.kind != "pretrained" or base.model is None or base.revision in (None, LOCAL):
        return None
    known = _HUB_ID.fullmatch(base.model) and _REVISION.fullmatch(base.revision or "")
    return base.model if known and ".." not in base.model else None


def metadata(
    claim: Claim,
    after: Report | None,
    *,
    base: BaseFacts,
    fingerprint: Fingerprint,
    data: str,
    licence: str | None,
) -> str:
    """Return the YAML without its marks: one line a key, no final newline; equal records give equal text.

    Args:
        claim: What is claimed.
        after: The report of the trained policy; None where no number may be given.
        base: What was trained.
        fingerprint: The data.
        data: What they are called.
        licence: A hub's id of the licence of the weights, or None.
    """
    from huggingface_hub import EvalResult, ModelCardData

    hub = hub_base(base)
    results = (
        [] if after is None else [EvalResult(**each) for each in _results(claim, after, fingerprint, data)]
    )
    known: dict[str, Any] = {} if not results else {"model_name": f"assay-{data}", "eval_results": results}
    if hub is not None:
        known |= {"base_model": hub, "base_model_relation": "adapter"}
    card = ModelCardData(
        library_name="peft",
        pipeline_tag="text-generation",
        license=None if licence is None else _plain(licence),
        tags=["grpo", "lora", "reinforcement-learning", "assay"],
        **known,
    )
    return str(card.to_yaml(line_break="\n"))


def _results(claim: Claim, after: Report, fingerprint: Fingerprint, data: str) -> list[dict[str, Any]]:
    size = f"{counted(claim.n_items, 'items')}, {counted(claim.draws, 'draws')} each"
    dataset = {
        "task_type": "text-generation",
        "task_name": _plain(data),
        "dataset_type": _plain(data),
        "dataset_name": _plain(f"{data}, {claim.split}, {size}"),
        "dataset_split": claim.split,
        "dataset_args": {
            "dataset_sha256": fingerprint.dataset_sha256,
            "suite_digest": claim.plan.suite_digest,
        },
    }
    primary = measure_of_primary(claim.plan.primary)
    verdict = claim.verdict + (f" ({claim.detail})" if claim.detail else "")
    found = []
    for name in dict.fromkeys([primary, "mean_reward"]):
        unit = {"unit": "share" if is_rate(name) else "reward", "decoding": claim.decoding}
        told = f"{name}, trained policy"
        found.append(_metric(name, told, after.measures.get(name), unit))
        if name == primary:
            facts = {**unit, "verdict": verdict, "p": claim.p, "clusters": claim.n_clusters}
            found.append(_metric(f"{name}_before", f"{name}, base", claim.before, unit))
            found.append(
                _metric(f"{name}_difference", f"{name}, trained policy - base", claim.difference, facts)
            )
    return [{**dataset, **each} for each in found if each is not None]


def _metric(kind: str, name: str, found: Interval | None, facts: dict[str, Any]) -> dict[str, Any] | None:
    if found is None or found.value is None:
        return None  # a hub has no word for what is missing, and 0 would be a lie
    ends = (
        {}
        if found.low is None or found.high is None
        else {"low": found.low, "high": found.high, "level": 0.95}
    )
    return {
        "metric_type": _plain(kind),
        "metric_name": _plain(name),
        "metric_value": found.value,
        "metric_args": {**ends, "n": found.n, **facts},
    }


def _plain(text: str) -> str:
    """Return the text on one line, so that no value can end the block it stands in."""
    return visible(text).replace("\n", " ").replace("\t", " ")
