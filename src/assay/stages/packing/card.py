"""README.md of a package: a model card that a hub can read and a person can believe, from the claim alone.

The words stand in templates/model_card.md; whatever is put into them means nothing as Markdown or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from markupsafe import Markup

from assay.core.config.settings import Params
from assay.core.counting import counted
from assay.core.errors import EvidenceError
from assay.core.evidence_files import place_of
from assay.core.records import Interval, TrainFacts
from assay.rollout.dataset.external import Training, whole_of
from assay.rollout.dataset.fingerprint import Fingerprint
from assay.rollout.evaluation.alarms import rule_said, training_alarm_said
from assay.rollout.evaluation.measures import column_name, is_rate
from assay.rollout.policy.base.pretrained import LOCAL
from assay.verdict.evidence.claim.base_facts import BaseFacts
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.differences import measure_of_primary
from assay.verdict.evidence.claim.verdict import DRAFT
from assay.verdict.evidence.claim.what_was_run import splits_frame
from assay.verdict.evidence.escape import inline, markdown_table, visible
from assay.verdict.evidence.formatting import (
    MISSING,
    NO_INTERVAL,
    difference_text,
    interval_text,
    missing_interval_said,
    split_word,
)
from assay.verdict.evidence.tables.claim_tables import BeforeAfter, Row, main_measures
from assay.verdict.evidence.tables.markdown import make_pages
from assay.verdict.evidence.words.sentences import controls_said, heading
from assay.verdict.statistics.report import Report

_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")

_PAGES = make_pages(Path(__file__).with_name("templates"))
_PAGES.globals |= {
    "controls_said": controls_said,
    "counted": counted,
    "place_of": place_of,
    "split_word": split_word,
}
_PAGES.filters |= {
    "code": lambda text: Markup(inline(text)),
    "table": lambda frame: Markup(markdown_table(frame)),
}


@dataclass(frozen=True, slots=True)
class CardNumbers:
    """What stands behind the numbers of a card: the reports of both arms and before_after_metrics.json."""

    before: Report
    after: Report
    metrics: BeforeAfter


def model_card(
    claim: Claim,
    *,
    measured: CardNumbers | None,
    trained: Training,
    base: BaseFacts,
    fingerprint: Fingerprint,
    params: Params,
    limits: Sequence[str],
    task_code: str | None = None,
) -> str:
    """Return the text of the card: YAML for a hub, then Markdown; equal records give equal bytes.

    Args:
        claim: What is claimed.
        measured: Where the numbers come from; None where nothing can be read. Unused where the claim is not
            evaluable.
        trained: Facts of the training.
        base: What was trained.
        fingerprint: The data.
        params: The settings.
        limits: What nobody should read into the claim, one sentence each.
        task_code: sha256 of the folder of a task that was brought along; None of one that is part of assay.

    Raises:
        EvidenceError: The reports and before_after_metrics.json are not of one comparison.
    """
    evaluable = claim.verdict not in ("NOT EVALUABLE", DRAFT)
    shown, hub, template = measured if evaluable else None, hub_base(base), params.base.template
    adapter = whole_of(trained) is None
    frame = shown and before_after_frame(shown.before, shown.after, shown.metrics)
    gap = frame is not None and NO_INTERVAL in markdown_table(frame)
    named = f'"{hub}", revision="{base.revision}"' if hub else ""
    text = _PAGES.get_template("model_card.md").render(
        head=metadata(
            claim,
            shown.after if shown else None,
            base=base,
            fingerprint=fingerprint,
            data=params.dataset.name,
            adapter=adapter,
        ),
        adapter=adapter,
        whole=whole_of(trained),
        claim=claim,
        evaluable=evaluable,
        limits=limits,
        before_after=frame,
        before_after_note=missing_interval_said(claim.plan.cluster_name) if gap else "",
        base=base,
        hub=hub,
        loaded='"models/base"' if base.kind == "scratch" else named,
        params=params,
        train=None if params.external else params.train,
        surface=params.generation.surface,
        trained=trained,
        alarms=[*map(rule_said, trained.health.rules), *map(training_alarm_said, trained.alarms)]
        if isinstance(trained, TrainFacts)
        else [],
        fingerprint=fingerprint,
        splits=splits_frame(fingerprint),
        template_said=", ".join(f"{name}={value!r}" for name, value in sorted(template.items())),
        task_code=task_code,
        success_said="" if task_code is None else _success_said(params),
    )
    return re.sub(r"\n{3,}", "\n\n", text)


def _success_said(params: Params) -> str:
    """Return how a task that was brought along declares success, as its preset has it."""
    declared = params.task.model_dump(mode="json", include={"success"}, exclude_defaults=True)["success"]
    return ", ".join(f"{name}: {value}" for name, value in declared.items())


def before_after_frame(before: Report, after: Report, metrics: BeforeAfter) -> pd.DataFrame:
    """Return the main measures as text: measure, before, after, difference, n (episodes before and after).

    Raises:
        EvidenceError: The file holds another value of an arm than its report.
    """
    rows = []
    for name in main_measures(before, after):
        column = column_name(name)
        arms = []
        for report, row in ((before, metrics.pre), (after, metrics.post)):
            found = report.measures.get(name)
            if found is not None and row.get(column) != found.value:
                raise EvidenceError(
                    f"{column} = {found.value}, as the report has it",
                    found=str(row.get(column)),
                    where="before_after_metrics.json",
                    fix="./run dvc repro render_evidence",
                )
            arms.append(found)
        rate = is_rate(name)
        counts = ", ".join(MISSING if arm is None else str(arm.n) for arm in arms)
        rows.append(
            (
                column,
                *(interval_text(arm, rate=rate) for arm in arms),
                difference_text(_of(metrics.delta, column), rate=rate),
                counts,
            )
        )
    return pd.DataFrame(rows, columns=["measure", "before", "after", "difference", "n"])


def _of(row: Row, column: str) -> Interval | None:
    """Return one measure of a flat row as an interval; how many stand behind it, the row does not say."""
    if column not in row:
        return None
    value, low, high = (row.get(f"{column}{end}") for end in ("", "_low", "_high"))
    return Interval(value=value, low=low, high=high, n=0)


def hub_base(base: BaseFacts) -> str | None:
    """Return the hub id of a pretrained base, None for one from scratch, of a folder, or fine-tuned
    here.

    >>> hub_base(BaseFacts(kind="pretrained", digest="", model="Qwen/Qwen3-4B", revision="1cfa9a7"))
    'Qwen/Qwen3-4B'
    >>> hub_base(BaseFacts(kind="pretrained", digest="", model="home/model", revision="local"))
    """
    if base.kind != "pretrained" or base.model is None or base.revision in (None, LOCAL) or base.sft:
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
    adapter: bool = True,
) -> str:
    """Return the YAML without its marks: one line a key, no final newline; equal records give equal text.

    Args:
        claim: What is claimed.
        after: The report of the trained policy; None where no number may be given.
        base: What was trained.
        fingerprint: The data.
        data: What they are called.
        adapter: Whether it is an adapter, and not a whole model, which is not in the package.
    """
    from huggingface_hub import EvalResult, ModelCardData

    hub = hub_base(base)
    results = (
        [] if after is None else [EvalResult(**each) for each in _results(claim, after, fingerprint, data)]
    )
    known: dict[str, Any] = {} if not results else {"model_name": f"assay-{data}", "eval_results": results}
    if hub is not None and adapter:
        known |= {"base_model": hub, "base_model_relation": "adapter"}
    card = ModelCardData(
        library_name="peft" if adapter else "transformers",
        pipeline_tag="text-generation",
        tags=["grpo", "lora", "reinforcement-learning", "assay"]
        if claim.training_seeds
        else [*(["lora"] if adapter else []), "assay"],
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
    verdict = heading(claim)
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
