"""What stands behind a report, in one small table: task, data, base, training and held-out suite."""

from __future__ import annotations

from typing import Literal

import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from pydantic import BaseModel, ConfigDict

from assay.core.counting import counted
from assay.core.records import TrainFacts
from assay.evidence.formatting import split_word
from assay.statistics.report import Report


class BaseFacts(BaseModel):
    """What base.json says of either kind of base; what it measured of a small one is not asked here."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    kind: Literal["scratch", "pretrained"]
    digest: str
    seed: int | None = None
    parameters: int | None = None
    model: str | None = None
    revision: str | None = None


def base_said(base: BaseFacts) -> str:
    """Return a base in words.

    >>> base_said(BaseFacts(kind="scratch", digest="ab" * 32, seed=0, parameters=122752))
    'from scratch, seed 0; 122,752 parameters; digest abababababab'
    """
    known = [f"from scratch, seed {base.seed}" if base.kind == "scratch" else f"pretrained, {base.model}"]
    known += [f"revision {base.revision}"] if base.revision is not None else []
    known += [f"{base.parameters:,} parameters"] if base.parameters is not None else []
    return "; ".join([*known, f"digest {base.digest[:12]}"])


def run_frame(
    *,
    task: str,
    data: str,
    dataset_sha256: str,
    base: BaseFacts,
    trained: TrainFacts,
    checkpoint_rule: str,
    before: Report,
    decoding: str,
) -> pd.DataFrame:
    """Return what was run as text; `before` is the report of an arm, for both played the same suite."""
    suite = f"{counted(before.n_items, 'items')}, {counted(before.draws, 'draws')} each"
    rows = [
        ("task", task),
        ("data", f"{data}, dataset digest {dataset_sha256[:16]}"),
        ("base", base_said(base)),
        ("training", f"GRPO, {counted(trained.steps, 'steps')}, training seed {trained.seed}"),
        (
            "chosen checkpoint",
            f"step {trained.chosen_step} of {trained.steps}, by the rule {checkpoint_rule}",
        ),
        (f"{split_word(before.split)} suite", suite),
        ("completions", decoding),
    ]
    return pd.DataFrame(rows, columns=["what", "value"])
