"""What an answer is worth: parts, success, flags and metrics, each by a fixed rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assay.config.tasks import RewardWeights, StructuredTask
from assay.storage.json import dumps
from assay.tasks.structured.blocklist import Blocklist
from assay.tasks.structured.calls import call_score, calls_in, written_calls
from assay.tasks.structured.matching import field_score, same
from assay.tasks.structured.parsing import parse
from assay.tasks.structured.records import Grade, Reference
from assay.tasks.structured.schema import compile_schema

FLAGS: tuple[str, ...] = (
    "parsed_strict", "parsed_extracted", "schema_valid", "exact", "function_correct", "empty_fields", "blocked",
    "full_reward_but_wrong",
)  # fmt: skip
METRICS: tuple[str, ...] = ("field_f1", "completion_chars")
ALARMS: Mapping[str, float] = {"empty_fields": 0.05, "full_reward_but_wrong": 0.0}
_ROUNDING = 1e-9


def grade(completion: str, reference: Reference, settings: StructuredTask, blocklist: Blocklist) -> Grade:
    """Return what a completion amounts to; never raises, whatever the text.

    An object dug out of other text earns `extracted_share` of what the same object alone would, and is never reported as
    valid: the flag schema_valid says that the whole completion satisfies the schema. Where there is no gold, validity alone
    decides success, and the flag exact and the metric field_f1 are None.
    """
    parsed, weights = parse(completion), settings.weights
    strict, answer = parsed.outcome == "ok", parsed.value
    valid = answer is not None and compile_schema(reference.schema).problem(answer) is None
    score, exact = _compared(answer, reference)
    empty = answer is not None and leaves_all_empty(answer, reference)
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
        "function_correct": _functions_correct(answer, reference),
        "empty_fields": empty,
        "blocked": blocked,
        "full_reward_but_wrong": not success and 0.0 < full <= sum(parts.values()) + _ROUNDING,
    }
    metrics = {"field_f1": score if reference.has_gold else None, "completion_chars": float(len(completion))}
    action = None if answer is None else dumps(answer)
    return Grade(parsed.outcome, parsed.reason, action, parts, success, flags, metrics)


def full_reward(weights: RewardWeights, has_gold: bool) -> float:
    """Return the reward of a perfect answer."""
    return weights.parsed_strict + weights.schema_valid + has_gold * (weights.fields + weights.exact)


def _compared(answer: dict[str, Any] | None, reference: Reference) -> tuple[float, bool]:
    """Return the share of gold fields that are right, and whether the whole is; nothing is without an answer or a gold."""
    if answer is None or not reference.has_gold:
        return 0.0, False
    if reference.is_call:
        return call_score(answer, reference.gold)
    return (1.0, True) if same(answer, reference.gold) else (field_score(answer, reference.gold), False)


def _functions_correct(answer: dict[str, Any] | None, reference: Reference) -> bool | None:
    """Return whether exactly the right functions are called, whatever their arguments; None where no call is asked for."""
    if not reference.is_call:
        return None
    return answer is not None and set(calls_in(answer)[0]) == set(reference.gold)


def leaves_all_empty(answer: dict[str, Any], reference: Reference) -> bool:
    """Return whether an answer says nothing in any leaf, although the gold says something."""
    if not reference.has_gold:
        return _all_empty(answer)
    if reference.is_call:
        wanted = next(written_calls(reference.gold))
        return _all_empty(list(calls_in(answer)[0].values())) and not _all_empty(list(calls_in(wanted)[0].values()))
    return _all_empty(answer) and not _all_empty(reference.gold)


def _all_empty(value: Any) -> bool:
    """Return whether nothing is said: no letter or digit in any text, and besides texts only null, false, 0, [] and {}."""
    return not any(any(map(str.isalnum, leaf)) if isinstance(leaf, str) else bool(leaf) for leaf in _leaves(value))


def _leaves(value: Any) -> Iterator[Any]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not parts:
        yield value
    for part in parts:
        yield from _leaves(part)
