"""Results that were made elsewhere, in the one form that the verdict reads: an arm of rows, each one draw of
an item.

A row answers what the statistics ask of an episode, in a tenth of its memory, so that a million of them fit.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

from assay.core.errors import DataError
from assay.core.records import Episode, ParseOutcome

SCORE = "score"  # the flag under which a score in [0, 1] is measured: score_rate
NO_STRATA: Mapping[str, str] = {}


def no_strata() -> Mapping[str, str]:
    """Return the one empty mapping that all rows without labels share."""
    return NO_STRATA


_COLUMNS = (
    "item",
    "draw",
    "cluster",
    "score",
    "share",
    "success",
    "turns",
    "tokens",
    "truncated",
    "unparsed",
    "strata",
    "content",
    "prompt",
    "completion",
)


@dataclass(frozen=True, slots=True)
class JudgedTurn:
    """What is known of one completion."""

    outcome: ParseOutcome
    truncated: bool


@lru_cache(maxsize=4096)
def _turns_of(n: int, truncated: int, unparsed: int) -> tuple[JudgedTurn, ...]:
    return tuple(JudgedTurn("failed" if k < unparsed else "ok", k < truncated) for k in range(n))


@dataclass(slots=True)
class JudgedRow:
    """One draw of one item. None is not known; texts are there as digests only."""

    item_id: str
    draw: int
    cluster: str
    reward: float  # the score as it was given
    share: float | None  # the same within its bounds, 0 to 1; None: the success decides
    success: bool
    n_turns: int | None = None
    tokens: int | None = None
    truncated: int | None = None  # completions that hit the limit of tokens
    unparsed: int | None = None
    strata: Mapping[str, str] = field(default_factory=no_strata)
    content: str = ""  # of the question and what is right
    prompt: str = ""  # of the prompt as the model saw it
    completion: str = ""

    @property
    def seed(self) -> int:
        """The draw: which seeds were used elsewhere is not known."""
        return self.draw

    @property
    def n_tokens(self) -> int:
        """Tokens of all completions; 0 where they are not known."""
        return self.tokens or 0

    @property
    def turns(self) -> tuple[JudgedTurn, ...]:
        """The completions; none where nothing is known of them."""
        return (
            () if self.n_turns is None else _turns_of(self.n_turns, self.truncated or 0, self.unparsed or 0)
        )

    @property
    def flags(self) -> Mapping[str, float]:
        """The score as a share."""
        return {} if self.share is None else {SCORE: self.share}

    @property
    def parts(self) -> Mapping[str, float]:
        """None: reward parts are not read."""
        return NO_STRATA  # type: ignore[return-value]

    @property
    def metrics(self) -> Mapping[str, float]:
        """None, as parts."""
        return NO_STRATA  # type: ignore[return-value]

    def model_copy(self, *, update: Mapping[str, int]) -> JudgedRow:
        """Return a copy with another draw, as the control asks of a record."""
        rest = [getattr(self, name) for name in _BEHIND_DRAW]
        return JudgedRow(self.item_id, update["draw"], *rest)


_BEHIND_DRAW = JudgedRow.__slots__[2:]


def as_episodes(rows: Sequence[JudgedRow]) -> Sequence[Episode]:
    """Return rows as what the statistics take: they read nothing of an episode that a row does not have."""
    return cast("Sequence[Episode]", rows)


def all_know(rows: Iterable[JudgedRow], name: str) -> bool:
    """Return whether a field is known of every row."""
    return all(getattr(row, name) is not None for row in rows)


def short_digest(text: str) -> str:
    """Return 16 hex digits of a text's sha256; "" for no text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16] if text else ""


def rows_text(rows: Sequence[JudgedRow]) -> str:
    """Return rows as the CSV that a package holds; what is not known is empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in rows:
        strata = json.dumps(dict(row.strata), sort_keys=True, ensure_ascii=False) if row.strata else ""
        share = None if row.share is None else repr(row.share)
        writer.writerow(
            (
                row.item_id,
                row.draw,
                "" if row.cluster == row.item_id else row.cluster,
                repr(row.reward),
                share,
                int(row.success),
                row.n_turns,
                row.tokens,
                row.truncated,
                row.unparsed,
                strata,
                row.content,
                row.prompt,
                row.completion,
            )
        )
    return buffer.getvalue()


def read_rows(text: str, where: str) -> list[JudgedRow]:
    """Return the rows of such a CSV.

    Raises:
        DataError: It is not one that `rows_text` wrote.
    """
    try:
        return list(_rows_of(text))
    except (ValueError, IndexError, KeyError, TypeError, csv.Error, RecursionError) as error:
        found = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
        fix = "get the package again from where it was published"
        raise DataError("rows as assay judge writes them", found=found, where=where, fix=fix) from None


def _rows_of(text: str) -> Iterator[JudgedRow]:
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    if tuple(next(lines, ())) != _COLUMNS:
        raise ValueError("another head")
    strata: dict[str, Mapping[str, str]] = {"": NO_STRATA}
    names: dict[str, str] = {}
    for item, draw, cluster, score, share, success, *counts, labels, content, prompt, completion in lines:
        if labels not in strata:
            strata[labels] = {str(key): str(value) for key, value in json.loads(labels).items()}
        turns, tokens, truncated, unparsed = (int(each) if each else None for each in counts)
        item = names.setdefault(item, item)
        row = JudgedRow(
            item,
            int(draw),
            names.setdefault(cluster, cluster) if cluster else item,
            float(score),
            float(share) if share else None,
            success == "1",
            turns,
            tokens,
            truncated,
            unparsed,
            strata[labels],
            names.setdefault(content, content),
            names.setdefault(prompt, prompt),
            completion,
        )
        if (
            not math.isfinite(row.reward)
            or not (row.share is None or 0.0 <= row.share <= 1.0)
            or success not in "01"
        ):
            raise ValueError(f"item {item}: no score that could have been read")
        yield row
