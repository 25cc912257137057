"""Which limits were set looser than usual: each is named in the claim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from assay.core.config.settings import Params
from assay.verdict.evidence.words.remarks import Remark, remark

# Where a limit catches less. "neither": how it is set lets nothing pass that another value would catch.
Looser = Literal["above", "below", "neither"]


def _limits(rule: str, looser: Looser, *levels: tuple[float, int]) -> dict[str, tuple[float, Looser]]:
    """Return the entries of a rule: amber, red and, where a training is stopped, stop, each with its steps.

    A rule that has to hold for more steps catches less, whatever it limits.
    """
    found = dict[str, tuple[float, Looser]]()
    for level, (value, steps) in zip(("amber", "red", "stop"), levels, strict=False):
        found |= {f"health.{rule}.{level}": (value, looser), f"health.{rule}.{level}_for": (steps, "above")}
    return found


# The loosest of configs/grpo/, presets for a smoke test left out (tests/evidence/test_relaxed.py).
NUMBERS: dict[str, tuple[float, Looser]] = {
    "health.max_skipped": (3, "above"),
    "health.retries": (2, "neither"),
    "health.max_lost_share": (0.5, "above"),
    "health.baseline_steps": (5, "above"),
    **_limits("zero_variance", "above", (0.5, 5), (0.8, 10), (1.0, 6)),
    **_limits("entropy", "below", (0.5, 1), (0.33, 5)),
    **_limits("kl", "above", (0.1, 1), (1.0, 1)),
    **_limits("truncated", "above", (0.1, 1), (0.5, 5), (0.99, 5)),
    "health.length.amber": (2.0, "above"),
    "health.length.red": (4.0, "above"),
    **_limits("parsed", "below", (0.9, 1), (0.7, 1)),
    "health.parsed_drop": (0.05, "above"),
    **_limits("distinct", "below", (0.25, 5), (0.1, 5)),
    **_limits("top_share", "above", (0.05, 1), (0.2, 1)),
    "health.top_share_window": (10, "above"),
    **_limits("field_collapse", "above", (0.15, 1), (0.3, 3)),
    **_limits("clip", "above", (3.0, 1), (10.0, 1)),
    **_limits("grad_norm", "above", (3.0, 1), (10.0, 2)),
    **_limits("infrastructure", "above", (0.01, 1), (0.05, 1)),
    "health.validation.evaluations": (3, "above"),
    "health.validation.gap": (0.05, "above"),
    "health.validation.correlation": (0.5, "below"),
    "health.validation.part_share": (0.8, "above"),
    "train.kl_probe_every": (5, "above"),
    "train.kl_probe_episodes": (16, "below"),
    "base.gates.copy_accuracy": (0.95, "below"),
    "base.gates.parsed_rate": (0.9, "below"),
    "base.gates.episodes": (256, "below"),
    "claim.parsed_rate_margin": (0.05, "above"),
    "claim.control_share": (0.34, "below"),
}
# Of choices the usual ones.
CHOICES: dict[str, tuple[Any, ...]] = {
    "deterministic": (True,),
    "health.preflight": (True,),
    "health.let_pass": ([],),
    "health.on_non_finite": ("stop",),
    "dataset.audit.unreadable": ("refuse",),
    "dataset.audit.duplicate_record": ("refuse", "drop"),
    "dataset.audit.conflicting_gold": ("refuse",),
    "dataset.audit.gold_breaks_schema": ("refuse",),
    "dataset.audit.long_prompt": ("refuse",),
}


def relaxed(params: Params) -> dict[str, tuple[Any, Any]]:
    """Return each limit that catches less than the usual one, by its dotted name: what is usual, what was
    set.

    A setting that the params do not have, as the gates of a pretrained base, is not relaxed.
    """
    values, found = params.model_dump(mode="json"), dict[str, tuple[Any, Any]]()
    for name, (usual, looser) in NUMBERS.items():
        value = _value(values, name)
        if value is not None and (
            value > usual if looser == "above" else looser == "below" and value < usual
        ):
            found[name] = (usual, value)
    for name, usual_ones in CHOICES.items():
        value = _value(values, name)
        if value is not None and value not in usual_ones:
            found[name] = (usual_ones[0], value)
    return found


def looser_limits(params: Params) -> list[Remark]:
    """Return one warning that names every relaxed limit, or nothing."""
    limits = [
        {"name": name, "usual": usual, "set": value} for name, (usual, value) in relaxed(params).items()
    ]
    return [remark("looser_than_usual", limits=limits)] if limits else []


def other_measuring(params: Params) -> list[Remark]:
    """Return at which temperature was measured, if not at 1, and at which trained, if that was done here; and
    what was cut off completions before anybody graded them."""
    notes = []
    measured, trained = params.generation.measured_at, params.generation.temperature
    if measured != 1:
        here = params.external is None
        notes.append(remark("cooler", measured=measured, trained=trained if here else None))
    if params.task.cut:
        notes.append(remark("cut_before_grading", cut=params.task.cut))
    return notes


def _value(values: Any, dotted: str) -> Any:
    for name in dotted.split("."):
        values = values.get(name) if isinstance(values, Mapping) else None
    return values
