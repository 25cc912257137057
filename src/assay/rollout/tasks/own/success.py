"""Success by a declared comparison of texts: nobody's code is needed to judge it again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from typing import Any

from assay.core.errors import ConfigError, TaskError
from assay.core.storage.json import MAX_DEPTH, parse_strict
from assay.rollout.tasks.equality import Rules, equal, folded
from assay.rollout.tasks.own.calls import messages_of
from assay.rollout.tasks.own.settings import OwnTask as OwnSettings
from assay.rollout.tasks.own.settings import Success

WHERE = "task.success.extract"
MOST_CHARS = 1_000_000
_NUMBER = re.compile(r"[-+]?(?:\d+(?:,\d{3})*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,4})?")


@lru_cache(maxsize=64)
def pattern_of(text: str) -> re.Pattern[str]:
    """Return the expression that finds what is compared.

    Raises:
        ConfigError: It is no regular expression, or has no group.
    """
    fix = r"for example extract: '<answer>(.*?)</answer>'"
    try:
        found = re.compile(text, re.DOTALL)
    except re.error as error:
        raise ConfigError("a regular expression", found=f"{text!r}: {error}", where=WHERE, fix=fix) from None
    if found.groups < 1:
        raise ConfigError("a regular expression with a group", found=repr(text), where=WHERE, fix=fix)
    return found


def extracted(completion: str, rule: Success) -> str | None:
    """Return what of a completion is compared, stripped; None where the expression finds nothing.

    >>> extracted(" a <b>c</b>", Success(compare="exact", **{"with": "x"}, extract="<b>(.*?)</b>"))
    'c'
    """
    if rule.extract is None:
        return completion.strip()
    found = list(pattern_of(rule.extract).finditer(completion))
    return (found[-1].group(1) or "").strip() if found else None


def number(value: Any) -> Fraction | None:
    """Return a number, or a text that is one, exactly; None for anything else.

    >>> number(" 1,000.50 "), number("x"), number(True)
    (Fraction(2001, 2), None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = str(value).strip()
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return Fraction(Decimal(text.replace(",", "")))
    except (InvalidOperation, ValueError, OverflowError):
        return None


def is_right(completion: str, row: Mapping[str, Any], rule: Success) -> bool:
    """Return whether a completion is right for a record, by a comparison of texts.

    Raises:
        TaskError: The record lacks the column, or holds there what cannot be compared so.

    >>> is_right("4.0", {"answer": 4}, Success(compare="number", **{"with": "answer"}))
    True
    """
    said, gold = extracted(completion, rule), gold_of(row, rule)
    if said is None:
        return False
    if rule.compare == "number":
        value, right = number(said), number(gold)
        return value is not None and right is not None and abs(value - right) <= Fraction(rule.tolerance)
    if rule.compare == "json":
        try:
            return equal(_json(said), gold, Rules("keep", absolute=rule.tolerance))
        except ValueError:
            return False
    right_text = str(gold).strip()
    if rule.compare == "casefold":
        return folded(said).casefold() == folded(right_text).casefold()
    return said == right_text


def gold_of(row: Mapping[str, Any], rule: Success) -> Any:
    """Return what is right for a record.

    Raises:
        TaskError: The record lacks the column, or holds there what cannot be compared so.
    """
    where, column = f"record {row.get('id', '')}".rstrip(), str(rule.column)
    fix = f"see to the column {column!r}, or to task.success"
    if column not in row or row[column] is None:
        raise TaskError(
            f"a column {column!r}, which task.success compares with",
            found=", ".join(row),
            where=where,
            fix=fix,
        )
    gold = row[column]
    if rule.compare == "number" and number(gold) is None:
        raise TaskError("a number", found=repr(gold)[:80], where=f"{where}, {column}", fix=fix)
    if rule.compare == "json" and isinstance(gold, str):
        try:
            return _json(gold)
        except ValueError:
            return gold
    if rule.compare in ("exact", "casefold") and not isinstance(gold, str | int):
        raise TaskError("a text", found=json.dumps(gold)[:80], where=f"{where}, {column}", fix=fix)
    return gold


def _json(text: str) -> Any:
    return parse_strict(text, max_chars=MOST_CHARS, max_depth=MAX_DEPTH)


def refuse_row(name: str, row: Mapping[str, Any], settings: OwnSettings) -> None:
    """Refuse a record that lacks its prompt, what success compares with, or a column of strata or cluster.

    Raises:
        TaskError: Names the column.
    """
    needed: dict[str, str] = {}
    file, _, name_in_file = settings.entry.rpartition(":")
    if file.endswith(".py") and not name_in_file[:1].isupper():  # a reward function; a class opens by itself
        needed["prompt"] = "the policy is asked"
    needed |= dict.fromkeys(settings.strata, "task.strata names")
    told = "task.answer names" if settings.answer else "task.success names as with"
    needed |= {column: told for column in [settings.answer_column] if column}
    needed |= {settings.cluster: "task.cluster names"} if settings.cluster else {}
    for column, why in needed.items():
        if column not in row:
            raise TaskError(
                f"a column {column!r}, which {why}",
                found=", ".join(row),
                where=f"record {name}",
                fix="add it, or correct task",
            )
    if "prompt" in needed:
        try:
            said = messages_of(row["prompt"])
        except (TypeError, ValueError) as error:
            raise TaskError(
                "a prompt that is a text, or a list of messages of system, user and assistant",
                found=str(error),
                where=f"record {name}",
                fix="correct the record",
            ) from None
        if not said:
            raise TaskError("a prompt", found="null", where=f"record {name}", fix="correct the record")
    if settings.success.column is not None:
        gold_of(row, settings.success)
