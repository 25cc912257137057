"""The training on the page: which checkpoint was chosen, and what rang."""

from __future__ import annotations

import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.core.counting import counted
from assay.core.records import TrainFacts
from assay.evaluation.alarms import training_alarm_said
from assay.evidence.page.elements import bullets, html_table, paragraph

_SIGNS = {"GREEN": "\u25cf GREEN", "AMBER": "\u25b2 AMBER", "RED": "\u25a0 RED"}


def training(facts: TrainFacts, checkpoint_rule: str) -> list[str]:
    """Return the chosen checkpoint, the worst level of every rule that left GREEN, what was not measured,
    flags that rang."""
    health = facts.health
    chosen = (
        f"GRPO, {counted(facts.steps, 'optimizer steps')}, training seed {facts.seed}. Chosen on the"
        f" validation suite: step {facts.chosen_step}, by the rule {checkpoint_rule}."
    )
    blocks = [paragraph(chosen), paragraph(f"Worst alarm: {_SIGNS.get(health.worst, health.worst)}.")]
    if health.rules:
        rows = [
            (r.rule, _SIGNS.get(r.level, r.level), r.first_step, r.worst_step, r.times) for r in health.rules
        ]
        columns = [
            "rule",
            "worst level",
            "beyond its limit since step",
            "worst level at step",
            "times it left GREEN",
        ]
        blocks.append(html_table(pd.DataFrame(rows, columns=columns), "Rules that left GREEN"))
    unmeasured = ", ".join(health.unmeasured)
    if unmeasured:
        blocks.append(paragraph(f"Never measured, so neither ill nor known to be well: {unmeasured}."))
    return blocks + ([bullets(training_alarm_said(alarm) for alarm in facts.alarms)] if facts.alarms else [])
