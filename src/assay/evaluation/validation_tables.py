"""Validations as tables: one row each in checkpoint_evals.csv, one row an episode in validation_scores.csv.
No interval."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from assay.core.records import Episode
from assay.evaluation.measures import column_name, mean_of, measure_names, value_of
from assay.evaluation.pass_at_k import best_of

Row = dict[str, float | int | None]


def row_measures(names: Sequence[str]) -> list[str]:
    """Return which measures a row has, in the order of its columns: reward, success, flags, the median, what
    is fixed."""
    kept = [name for name in names if "." not in name and name != "median_reward"]
    kept.insert(kept.index("parsed_rate"), "median_reward")
    return kept


def score_rows(step: int, sampled: Sequence[Episode], greedy: Sequence[Episode]) -> list[dict[str, object]]:
    """Return what every episode of a validation came to: from these rows alone its means and their intervals
    follow.

    Keys: step, greedy (0 or 1), item_id, cluster, draw, then each measure of `row_measures` but the median.
    """
    names = [name for name in row_measures(measure_names(sampled)) if name != "median_reward"]
    return [
        {
            "step": step,
            "greedy": int(way),
            "item_id": each.item_id,
            "cluster": each.cluster,
            "draw": each.draw,
        }
        | {name: value_of(each, name) for name in names}
        for way, episodes in ((False, sampled), (True, greedy))
        for each in episodes
    ]


def validation_row(
    sampled: Sequence[Episode], greedy: Sequence[Episode], *, step: int, fraction_done: float, k: int
) -> Row:
    """Return the values of one validation, keys in column order; undefined values are None.

    Values of the sampled draws: step, fraction_done, episodes, then `row_measures` under their column names.
    Behind them best_of (k), best_of_k_mean_reward, best_of_k_success_rate, greedy_mean_reward and
    greedy_success_rate.

    Raises:
        EvidenceError: An item has fewer than k sampled draws.
    """
    row: Row = {"step": step, "fraction_done": fraction_done, "episodes": len(sampled)}
    for name in row_measures(measure_names(sampled)):
        median = name == "median_reward"
        row[column_name(name)] = (
            round(float(np.median([e.reward for e in sampled])), 10) if median else mean_of(sampled, name)
        )
    row |= {
        "best_of": k,
        "best_of_k_mean_reward": _best(sampled, k, lambda episode: episode.reward),
        "best_of_k_success_rate": _best(sampled, k, lambda episode: float(episode.success)),
    }
    return row | {f"greedy_{name}": mean_of(greedy, name) for name in ("mean_reward", "success_rate")}


def _best(episodes: Sequence[Episode], k: int, value: Callable[[Episode], float]) -> float:
    drawn: dict[str, list[float]] = defaultdict(list)
    for episode in episodes:
        drawn[episode.item_id].append(value(episode))
    return round(float(np.mean([best_of(drawn[item], k) for item in sorted(drawn)])), 10)
