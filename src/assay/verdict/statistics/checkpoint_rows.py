"""One validation as one row with 95 % intervals, and the best of k over the items of a suite."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from assay.core.records import Episode, Interval, Record
from assay.core.seeds import rng
from assay.rollout.evaluation.clusters import cluster_sums
from assay.rollout.evaluation.measures import Row, best_of, column_name, row_measures, score_rows
from assay.verdict.statistics.intervals import mean_interval, rate_interval
from assay.verdict.statistics.report import measure_columns

if TYPE_CHECKING:
    import pandas as pd  # takes half a second to load, and most commands make no table


class BestOf(Record):
    """The best of k draws of an item, averaged over items; n of an interval counts items."""

    k: int = Field(ge=1)
    mean_reward: Interval
    success_rate: Interval = Field(description="share of items solved by at least one of k draws: pass@k")


def best_of_items(episodes: Sequence[Episode], k: int, suite_digest: str) -> BestOf:
    """Return the best of k over items, with the intervals of a rate and of a mean; bootstrap draws depend on
    the suite.

    Raises:
        EvidenceError: An item has fewer than k draws.
    """
    drawn: dict[tuple[str, str], list[Episode]] = defaultdict(list)
    for episode in episodes:
        drawn[episode.item_id, episode.cluster].append(episode)
    items = sorted(drawn)
    clusters = [cluster for _, cluster in items]
    rewards = [[episode.reward for episode in drawn[item]] for item in items]
    solved = [[float(episode.success) for episode in drawn[item]] for item in items]
    return best_of_values(rewards, solved, clusters, k, suite_digest)


def best_of_values(
    rewards: Sequence[Sequence[float]],
    solved: Sequence[Sequence[float]],
    clusters: Sequence[str],
    k: int,
    suite_digest: str,
) -> BestOf:
    """Return the same from the values of every draw, [items][draws], and the cluster of every item."""
    best = [[best_of(values, k) for values in items] for items in (rewards, solved)]
    return BestOf(
        k=k,
        mean_reward=mean_interval(cluster_sums(best[0], clusters), rng("best of", k, suite_digest)),
        success_rate=rate_interval(cluster_sums(best[1], clusters)),
    )


LABELS = ("step", "greedy", "item_id", "cluster", "draw")


def row_of_validation(
    sampled: Sequence[Episode], greedy: Sequence[Episode], suite_digest: str, *, step: int, steps: int
) -> Row:
    """Return the row of one validation from its episodes, the very one that its scores give; `greedy` are the
    same items."""
    import pandas as pd

    (row,) = rows_of_scores(pd.DataFrame(score_rows(step, sampled, greedy)), suite_digest, steps)
    return row


def rows_of_scores(scores: pd.DataFrame, suite_digest: str, steps: int) -> list[Row]:
    """Return the row of every validation from validation_scores.csv.

    Args:
        scores: One row an episode: LABELS, then the measures.
        suite_digest: What the bootstrap draws depend on.
        steps: Of the training.
    """
    rows = []
    for step, found in scores.groupby("step"):
        told = {way: found[found["greedy"] == way].sort_values(["item_id", "draw"]) for way in (0, 1)}
        measures, greedy = (_measures(part, suite_digest) for part in told.values())
        n, k, items = len(told[0]), int(told[0]["draw"].max()) + 1, told[0].groupby("item_id")
        best = best_of_values(
            [list(each) for _, each in items["mean_reward"]],
            [list(each) for _, each in items["success_rate"]],
            list(items["cluster"].first()),
            k,
            suite_digest,
        )
        rows.append(
            checkpoint_row(
                measures, n, step=int(step), fraction_done=int(step) / steps, best=best, greedy=greedy
            )
        )
    return rows


def _measures(part: pd.DataFrame, suite_digest: str) -> dict[str, Interval]:
    columns = {
        name: [None if math.isnan(value) else value for value in part[name].astype(float).tolist()]
        for name in part.columns
        if name not in LABELS
    }
    return measure_columns(columns, list(part["cluster"]), rng("validation", suite_digest))


def checkpoint_row(
    measures: Mapping[str, Interval],
    n_episodes: int,
    *,
    step: int,
    fraction_done: float,
    best: BestOf | None = None,
    greedy: Mapping[str, Interval] | None = None,
) -> Row:
    """Return one row, keys in column order: as `validation_row` has it, `<column>_low`, `_high` and `_n`
    behind the values."""
    row: Row = {"step": step, "fraction_done": fraction_done, "episodes": n_episodes}
    row |= _columns({column_name(name): measures[name] for name in row_measures(list(measures))})
    if best is not None:
        row |= {"best_of": best.k}
        row |= _columns(
            {"best_of_k_mean_reward": best.mean_reward, "best_of_k_success_rate": best.success_rate}
        )
    if greedy is not None:
        row |= _columns({f"greedy_{name}": greedy[name] for name in ("mean_reward", "success_rate")})
    return row


def _columns(measures: dict[str, Interval]) -> Row:
    row: Row = {name: found.value for name, found in measures.items()}
    for name, found in measures.items():
        row |= {f"{name}_low": found.low, f"{name}_high": found.high, f"{name}_n": found.n}
    return row
