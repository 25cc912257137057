"""Whether a gain is the same for all items, as far as several draws of each tell: one of some items alone, or
one that hides harm to others, has the mean of an honest gain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import stdtrit  # type: ignore[import-untyped,unused-ignore]

from assay.core.records import Episode, Interval
from assay.rollout.dataset.suite import FEWEST_CLUSTERS
from assay.rollout.evaluation.clusters import Array, cluster_sums
from assay.verdict.evidence.claim.first_lines import Wins, wins_of, yes_or_no
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.statistics.intervals import interval

SURE = 0.995  # quantile of t beyond which an item is called harmed: there is one such look a claim
FEWEST_FAILED = 20  # draws that failed in either arm
SHARED = 0.5  # of the gain: what the rest of the items at least shares of one that is everybody's


def uneven(
    before: Sequence[Episode], after: Sequence[Episode], measure: str, *, higher: bool
) -> list[Remark]:
    """Return that a gain lies in items that are now always right while the others got no better, and that it
    hides harm to some; nothing of single draws, which cannot tell."""
    arms = [wins_of(arm, measure) for arm in (before, after)]
    homes = {each.item_id: each.cluster for each in before}
    if not higher or not yes_or_no(*arms) or any(len(each) < 2 for arm in arms for each in arm.values()):
        return []
    return [*_in_some(arms, homes), *_harmed(arms, homes)]


def _in_some(arms: Sequence[Wins], homes: Mapping[str, str]) -> list[Remark]:
    """Return that where a draw fails, the others of its item do no better than before.

    Of items learned by heart, or of one kind, which are now always right, no draw fails: what is seen where
    one does are all the others. Its error: delete-one-cluster jackknife (Efron and Tibshirani 1993, 11.5).
    """
    names = sorted(set(homes.values()))
    index = {name: k for k, name in enumerate(names)}
    rates, whole = [], []
    for arm in arms:
        table = np.zeros((len(names), 2))
        for item, wins in arm.items():
            k, won = len(wins), sum(wins)
            table[index[homes[item]]] += ((k - won) * won / (k - 1), k - won)
        if table[:, 1].sum() < FEWEST_FAILED or len(names) < FEWEST_CLUSTERS:
            return []
        rates.append(table)
        whole.append(math.fsum(sum(w) / len(w) for w in arm.values()) / len(arm))
    first, second = (float(_share(table.sum(axis=0))) for table in rates)
    left_out = np.subtract(*(_share(table.sum(axis=0) - table) for table in rates[::-1]))
    n = len(names)
    error = math.sqrt((n - 1) / n * float(((left_out - left_out.mean()) ** 2).sum()))
    gain = whole[1] - whole[0]
    if gain <= 0 or second - first + float(stdtrit(n - 1, 0.975)) * error >= SHARED * gain:
        return []
    told = {"gain": gain, "before": first, "after": second}
    return [remark("gain_in_some_items", **{name: round(value, 10) for name, value in told.items()})]


def _harmed(arms: Sequence[Wins], homes: Mapping[str, str]) -> list[Remark]:
    """Return that items which got worse in one part of their draws are worse in the other part too: by luck
    alone they would not be."""
    values, clusters, items = [], [], set()
    for item in sorted(arms[0].keys() & arms[1].keys()):
        halves = [[(wins[::2], wins[1::2]), (wins[1::2], wins[::2])] for wins in (a[item] for a in arms)]
        for (seen_before, rest_before), (seen_after, rest_after) in zip(*halves, strict=True):
            if _rate(seen_after) < _rate(seen_before):
                values.append(_rate(rest_after) - _rate(rest_before))
                clusters.append(homes[item])
                items.add(item)
    sums = cluster_sums(values, clusters)
    if sums is None or len(sums.names) < FEWEST_CLUSTERS:
        return []
    reach = float(stdtrit(len(sums.names) - 1, SURE)) * sums.standard_error
    if sums.mean + reach >= 0:
        return []
    found: Interval = interval(sums.mean, sums.mean - reach, sums.mean + reach, len(items))
    return [remark("items_harmed", n=len(items), of=len(arms[0]), difference=found)]


def _share(table: Array) -> Array:
    return np.asarray(table[..., 0] / np.maximum(table[..., 1], 1e-12), np.float64)


def _rate(wins: Sequence[float]) -> float:
    return sum(wins) / len(wins)
