"""What an answer is worth: parts, success, flags and metrics, each by a fixed rule."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from assay.core.storage.json import dumps
from assay.rollout.tasks.equality import Rules
from assay.rollout.tasks.schema import compile_schema
from assay.rollout.tasks.wrappings import cut_off

from ..reading.blocklist import Blocklist
from ..reading.golds import graded_part
from ..reading.records import Grade, Reference
from ..settings import RewardWeights, StructuredTask
from .parsing import parse
from .rules import rules_of

FLAGS: tuple[str, ...] = (
    "parsed_strict",
    "parsed_extracted",
    "schema_valid",
    "exact",
    "function_correct",
    "empty_fields",
    "blocked",
    "full_reward_but_wrong",
)
METRICS: tuple[str, ...] = ("field_f1", "completion_chars")
ALARMS: Mapping[str, float] = {"empty_fields": 0.05, "full_reward_but_wrong": 0.0}
_ROUNDING = 1e-9


def grade(completion: str, reference: Reference, settings: StructuredTask, blocklist: Blocklist) -> Grade:
    """Return what a completion amounts to; never raises, whatever the text.

    A value dug out of other text earns `extracted_share` of what the same value alone would, and is never
    reported as valid: the flag schema_valid says that the whole completion satisfies the schema. Of several
    golds the nearest counts. Where there is no gold, validity alone decides success, and the flag exact and
    the metric field_f1 are None. What `settings.cut` cuts off counts for blocked terms and length alone.
    """
    parsed, weights = parse(cut_off(completion, settings.cut), reference.wanted), settings.weights
    strict, read, answer = parsed.outcome == "ok", parsed.outcome != "failed", parsed.value
    action = dumps(answer) if read else None
    valid = action is not None and _satisfies(reference.schema, action)
    part = graded_part(answer, reference.graded, is_call=reference.is_call)
    score, exact = _compared(part, reference, rules_of(settings)) if read else (0.0, False)
    empty = read and leaves_all_empty(part, reference)
    blocked = blocklist.hit_in_json(completion) is not None
    share = 1.0 if strict else settings.extracted_share
    parts = {
        "parsed_strict": weights.parsed_strict * strict,
        "parsed_extracted": weights.parsed_extracted * (parsed.outcome == "repaired"),
        "schema_valid": share * weights.schema_valid * (valid and not (empty and reference.has_gold)),
        "fields": share * weights.fields * (score or 0.0) * (not empty),
        "exact": share * weights.exact * bool(exact),
    }
    if blocked and settings.reject_blocklisted:
        parts = dict.fromkeys(parts, 0.0)
    success = strict and valid and (exact or not reference.has_gold)
    full = full_reward(weights, reference.has_gold)
    flags = {
        "parsed_strict": strict,
        "parsed_extracted": parsed.outcome == "repaired",
        "schema_valid": strict and valid,
        "exact": exact if reference.has_gold else None,
        "function_correct": _functions_correct(answer, reference, read=read),
        "empty_fields": empty,
        "blocked": blocked,
        "full_reward_but_wrong": not success and 0.0 < full <= sum(parts.values()) + _ROUNDING,
    }
    metrics = {"field_f1": score if reference.has_gold else None, "completion_chars": float(len(completion))}
    return Grade(parsed.outcome, parsed.reason, action, parts, success, flags, metrics)


@lru_cache(maxsize=256)  # copies of a group often answer alike, and stand side by side
def _satisfies(schema: str, action: str) -> bool:
    """Return whether an answer, as canonical JSON, satisfies a schema: the dearest look of a grade."""
    return compile_schema(schema).problem(json.loads(action)) is None


def full_reward(weights: RewardWeights, has_gold: bool) -> float:
    """Return the reward of a perfect answer."""
    return weights.parsed_strict + weights.schema_valid + has_gold * (weights.fields + weights.exact)


def _compared(part: Any, reference: Reference, rules: Rules) -> tuple[float, bool]:
    """Return the share of gold fields that are right, and whether the whole is; nothing is without a gold."""
    graded = [gold.score(part, rules) for gold in reference.counting]
    return max((score for score, _ in graded), default=0.0), any(exact for _, exact in graded)


def _functions_correct(answer: Any, reference: Reference, *, read: bool) -> bool | None:
    """Return whether exactly the right functions are called, whatever their arguments; None where no call is
    asked for."""
    if not reference.is_call:
        return None
    return read and any(gold.named(answer) is True for gold in reference.golds)


def leaves_all_empty(answer: Any, reference: Reference) -> bool:
    """Return whether an answer says nothing in any leaf, although the gold, or each of several, says
    something."""
    if isinstance(answer, bool | int | float):
        return False  # a value by itself: 0 and false are answers like others
    if not reference.has_gold:
        return _all_empty(answer)
    return all(
        _all_empty(gold.said(answer)) and not _all_empty(gold.said(next(gold.answers())))
        for gold in reference.counting
    )


def _all_empty(value: Any) -> bool:
    """Return whether nothing is said: no letter or digit in any text, and besides texts only null, false, 0,
    [] and {}."""
    return not any(
        any(map(str.isalnum, leaf)) if isinstance(leaf, str) else bool(leaf) for leaf in _leaves(value)
    )


def _leaves(value: Any) -> Iterator[Any]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not parts:
        yield value
    for part in parts:
        yield from _leaves(part)
