"""Which limits were set looser than usual: each is named in the claim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from assay.core.config.settings import Params

# Where a limit catches less. "neither": how it is set lets nothing pass that another value would catch.
Looser = Literal["above", "below", "neither"]

# The loosest of configs/grpo/, presets for a smoke test left out (tests/evidence/test_relaxed.py).
NUMBERS: dict[str, tuple[float, Looser]] = {
    "health.max_skipped": (3, "above"),
    "health.retries": (2, "neither"),
    "health.max_lost_share": (0.5, "above"),
    "health.baseline_steps": (5, "above"),
    "health.zero_variance.amber": (0.5, "above"),
    "health.zero_variance.amber_for": (5, "above"),
    "health.zero_variance.red": (0.8, "above"),
    "health.zero_variance.red_for": (10, "above"),
    "health.zero_variance.stop": (1.0, "above"),
    "health.zero_variance.stop_for": (6, "above"),
    "health.entropy.amber": (0.5, "below"),
    "health.entropy.amber_for": (1, "above"),
    "health.entropy.red": (0.33, "below"),
    "health.entropy.red_for": (5, "above"),
    "health.kl.amber": (0.1, "above"),
    "health.kl.amber_for": (1, "above"),
    "health.kl.red": (1.0, "above"),
    "health.kl.red_for": (1, "above"),
    "health.truncated.amber": (0.1, "above"),
    "health.truncated.amber_for": (1, "above"),
    "health.truncated.red": (0.5, "above"),
    "health.truncated.red_for": (5, "above"),
    "health.truncated.stop": (0.99, "above"),
    "health.truncated.stop_for": (5, "above"),
    "health.length.amber": (2.0, "above"),
    "health.length.red": (4.0, "above"),
    "health.parsed.amber": (0.9, "below"),
    "health.parsed.amber_for": (1, "above"),
    "health.parsed.red": (0.7, "below"),
    "health.parsed.red_for": (1, "above"),
    "health.parsed_drop": (0.05, "above"),
    "health.distinct.amber": (0.25, "below"),
    "health.distinct.amber_for": (5, "above"),
    "health.distinct.red": (0.1, "below"),
    "health.distinct.red_for": (5, "above"),
    "health.top_share.amber": (0.05, "above"),
    "health.top_share.amber_for": (1, "above"),
    "health.top_share.red": (0.2, "above"),
    "health.top_share.red_for": (1, "above"),
    "health.top_share_window": (10, "above"),
    "health.field_collapse.amber": (0.15, "above"),
    "health.field_collapse.amber_for": (1, "above"),
    "health.field_collapse.red": (0.3, "above"),
    "health.field_collapse.red_for": (3, "above"),
    "health.clip.amber": (3.0, "above"),
    "health.clip.amber_for": (1, "above"),
    "health.clip.red": (10.0, "above"),
    "health.clip.red_for": (1, "above"),
    "health.grad_norm.amber": (3.0, "above"),
    "health.grad_norm.amber_for": (1, "above"),
    "health.grad_norm.red": (10.0, "above"),
    "health.grad_norm.red_for": (2, "above"),
    "health.infrastructure.amber": (0.01, "above"),
    "health.infrastructure.amber_for": (1, "above"),
    "health.infrastructure.red": (0.05, "above"),
    "health.infrastructure.red_for": (1, "above"),
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
}
# Of choices the usual ones.
CHOICES: dict[str, tuple[Any, ...]] = {
    "deterministic": (True,),
    "health.preflight": (True,),
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


def relaxed_said(params: Params) -> list[str]:
    """Return one warning that names every relaxed limit, or nothing."""
    found = relaxed(params)
    if not found:
        return []
    named = "; ".join(
        f"{name} {_shown(set_to)} (usual {_shown(usual)})" for name, (usual, set_to) in found.items()
    )
    return [f"Looser than usual: {named}."]


def cooler_said(params: Params) -> list[str]:
    """Return at which temperature was measured, if not at 1, and at which trained, if that was done here."""
    measured, trained = params.generation.measured_at, params.generation.temperature
    if measured == 1:
        return []
    here = params.external is None and params.served is None
    return [f"Measured at temperature {measured:g}{f', trained at {trained:g}' if here else ''}."]


def _value(values: Any, dotted: str) -> Any:
    for name in dotted.split("."):
        values = values.get(name) if isinstance(values, Mapping) else None
    return values


def _shown(value: Any) -> str:
    """Return a value as YAML has it.

    >>> _shown(False), _shown(1000.0)
    ('false', '1000')
    """
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )
