"""Whether two arms were graded alike, as far as their answers show it: one text, of one item, is to have one
score.

A grader that draws lots, such as a model that is sampled, scores one text now so and now so. But it is as
often kinder after as before: of one grader the two scores of a text can be exchanged, so that the signs of
their differences are tosses of a fair coin. Another grader, or another extraction, is known by its
one-sidedness (the sign test), or by its differences where equal draws inside the arms have none. Where these
differ often, the score hangs on more than the text, and nothing can be seen of the grader.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import variance

from scipy.stats import binomtest  # type: ignore[import-untyped,unused-ignore]

from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.judge.missing import FAILED
from assay.verdict.judge.rows import SCORE, JudgedRow

SIDED = 0.01  # p of the sign test from which one arm is favoured
FEW, SHARE = 2, 0.05  # equal answers with other scores that are a warning alone: so many, or such a share
# Texts that one arm gave again, from which lots are known; so many times as often may scores of arms differ.
FEWEST, TIMES = 10, 3.0
SETTLED = 0.5  # of the variance of scores that may be left where text and item are the same
SAME = 0.01  # of the way between the bounds, within which scores are equal: files round them


def compare_grading(
    before: Sequence[JudgedRow], after: Sequence[JudgedRow], name: str, primary: str, *, by_model: bool
) -> tuple[list[Remark], list[Remark]]:
    """Return what bars a claim and what to warn of, of equal answers that are scored otherwise in an arm.

    Args:
        before: One arm.
        after: The other.
        name: Of the other.
        primary: What decides: success or score.
        by_model: Whether the files name a model that graded, so that scores may be drawn.
    """
    texts = [_scores(rows, primary) for rows in (before, after)]
    pairs = {key: (texts[0][key], texts[1][key]) for key in texts[0].keys() & texts[1].keys()}
    gaps = {key: sum(two) / len(two) - sum(one) / len(one) for key, (one, two) in pairs.items()}
    up, down = (sum(sign * gap > SAME for gap in gaps.values()) for sign in (1, -1))
    if not (k := up + down):
        return [], []
    again = [scores for found in texts for scores in found.values() if len(scores) > 1]
    drawn = sum(max(scores) - min(scores) > SAME for scores in again)
    if len(again) >= FEWEST and _hangs_on_more(texts):
        return [], [remark("score_beyond_text", again=len(again), drawn=drawn)]
    weight = 2 * len({row.item_id for row in before})
    draws = [max(1, len(rows)) / max(1, weight / 2) for rows in (before, after)]
    points = sum(
        100 * gap * sum(len(own) / n for own, n in zip(pairs[key], draws, strict=True)) / weight
        for key, gap in gaps.items()
    )
    lots = drawn / len(again) if len(again) >= FEWEST else math.inf if by_model else 0.0
    many = k > max(FEW, len(pairs) * max(SHARE, TIMES * lots))
    barred = many or binomtest(up, k).pvalue <= SIDED
    values = {
        "arm": name, "n": len(pairs), "k": k, "higher": up, "lower": down, "points": round(points, 10),
        "again": len(again), "drawn": drawn,
    }  # fmt: skip
    found = [remark("graded_otherwise" if barred else "scored_twice", **values)]
    return (found, []) if barred else ([], found)


def _hangs_on_more(texts: Sequence[Mapping[tuple[str, str], list[float]]]) -> bool:
    """Return whether scores of one text of one item differ nearly as much as those of all texts do."""
    inside = whole = 0.0
    for arm in texts:
        if groups := [scores for scores in arm.values() if len(scores) > 1]:
            inside += sum(map(variance, groups))
            whole += len(groups) * variance([score for scores in groups for score in scores])
    return inside > SETTLED * whole


def _scores(rows: Sequence[JudgedRow], primary: str) -> dict[tuple[str, str], list[float]]:
    """Return the scores of each text of each item; nothing of what failed, or whose text is not known."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        text = row.completion or row.fault  # an empty answer is one too
        if text and row.fault not in FAILED:
            value = row.share if primary == SCORE else float(row.success)
            found[row.item_id, text].append(value or 0.0)
    return found
