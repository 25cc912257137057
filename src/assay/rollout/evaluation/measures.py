"""What an episode is measured by: the value it contributes to each measure, means over a suite, best of k,
and validations as rows of tables. No interval."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from assay.core.errors import EvidenceError
from assay.core.records import Episode
from assay.rollout.evaluation.clusters import cluster_sums


def _fraction(yes: Iterable[bool], n: int) -> float | None:
    return sum(yes) / n if n else None


_FIXED: dict[str, Callable[[Episode], float | None]] = {
    "mean_reward": lambda episode: episode.reward,
    "success_rate": lambda episode: float(episode.success),
    "parsed_rate": lambda episode: _fraction(
        (t.outcome != "failed" for t in episode.turns), len(episode.turns)
    ),
    "truncated_rate": lambda episode: _fraction((t.truncated for t in episode.turns), len(episode.turns)),
    "mean_n_steps": lambda episode: float(len(episode.turns)),
    "mean_tokens": lambda episode: float(episode.n_tokens),
    "mean_tokens_per_completion": lambda episode: (
        episode.n_tokens / len(episode.turns) if episode.turns else None
    ),
}


def value_of(episode: Episode, measure: str) -> float | None:
    """Return what one episode contributes to a measure (see `measure_names`); None where the question does
    not arise.

    A reward part that an episode never earned is an empty sum, 0; an absent flag or metric is None.
    """
    return reader_of(measure)(episode)


def reader_of(measure: str) -> Callable[[Episode], float | None]:
    """Return the function from an episode to what it contributes to a measure."""
    kind, _, name = measure.partition(".")
    if measure in _FIXED:
        return _FIXED[measure]
    if kind == "part" and name:
        return lambda episode: episode.parts.get(name, 0.0)
    if kind == "metric" and name:
        return lambda episode: episode.metrics.get(name)
    flag = measure.removesuffix("_rate")
    return lambda episode: None if (found := episode.flags.get(flag)) is None else float(found)


def is_rate(measure: str) -> bool:
    """Return whether a measure is a share in [0, 1].

    >>> is_rate("success_rate"), is_rate("part.mass"), is_rate("metric.odd_rate")
    (True, False, False)
    """
    return measure.endswith("_rate") and "." not in measure


def measure_names(episodes: Sequence[Episode]) -> tuple[str, ...]:
    """Return every measure of these episodes except the median.

    Fixed ones first, then `<flag>_rate`, `part.<name>`, `metric.<name>`.
    """
    flags = sorted({name for episode in episodes for name in episode.flags}, key=_flag_order)
    parts = sorted({name for episode in episodes for name in episode.parts})
    metrics = sorted({name for episode in episodes for name in episode.metrics})
    fixed = list(_FIXED)
    names = [*fixed[:2], *(f"{flag}_rate" for flag in flags), *fixed[2:]]
    return (*names, *(f"part.{part}" for part in parts), *(f"metric.{metric}" for metric in metrics))


def _flag_order(flag: str) -> tuple[bool, str]:
    return not flag.endswith("_correct"), flag


def column_name(measure: str) -> str:
    """Return the column that a measure has in tables: `<x>_correct_rate` becomes `<x>_acc`, others keep their
    name.

    >>> column_name("name_correct_rate"), column_name("valid_rate")
    ('name_acc', 'valid_rate')
    """
    return measure.removesuffix("_correct_rate") + "_acc" if measure.endswith("_correct_rate") else measure


def check_complete(episodes: Sequence[Episode], draws: int, where: str) -> None:
    """Refuse episodes that are not a whole suite: each item with draws 0..draws-1 exactly once, all numbers
    finite.

    Raises:
        EvidenceError: missing or repeated draws, an item in two clusters or strata, a non-finite number.
    """

    def refuse(expected: str, found: str) -> EvidenceError:
        return EvidenceError(
            expected, found=found, where=where, fix="evaluate the whole suite again; drop nothing"
        )

    if not episodes:
        raise refuse("at least one episode", "none")
    counts = Counter((episode.item_id, episode.draw) for episode in episodes)
    repeated = [key for key, n in counts.items() if n > 1]
    if repeated:
        raise refuse("each draw of each item once", f"{len(repeated)} repeated, first {min(repeated)}")
    wanted = {(item, draw) for item, _ in counts for draw in range(draws)}
    if odd := wanted ^ set(counts):
        kind = "missing" if wanted - set(counts) else "beyond the plan"
        raise refuse(f"draws 0..{draws - 1} of every item", f"{len(odd)} {kind}, first {min(odd)}")
    homes = {(episode.item_id, episode.cluster, *sorted(episode.strata.items())) for episode in episodes}
    if len(homes) != len({episode.item_id for episode in episodes}):
        raise refuse("one cluster and one set of strata per item", "an item with two")
    for episode in episodes:
        numbers = [
            episode.reward,
            *episode.parts.values(),
            *(m for m in episode.metrics.values() if m is not None),
        ]
        if not all(math.isfinite(number) for number in numbers):
            raise refuse(
                "finite rewards, parts and metrics", f"item {episode.item_id} draw {episode.draw} is not"
            )


def mean_of(episodes: Sequence[Episode], measure: str) -> float | None:
    """Return the mean over the episodes where a measure is defined, rounded to 10 decimals; None where it is
    nowhere."""
    ordered = sorted(episodes, key=lambda episode: (episode.item_id, episode.draw))
    sums = cluster_sums(
        [value_of(episode, measure) for episode in ordered], [episode.cluster for episode in ordered]
    )
    return None if sums is None else round(sums.mean, 10)


def best_of(values: Sequence[float], k: int) -> float:
    """Return the expected maximum of k of these values, drawn without replacement.

    The i-th smallest of n is the maximum of C(i - 1, k - 1) of the C(n, k) choices. For values of 0 and 1
    this is pass@k, 1 - C(n - c, k) / C(n, k) with c ones. Source: Chen et al. (2021), "Evaluating Large
    Language Models Trained on Code", arXiv 2107.03374, eq. 1.

    >>> best_of([1, 0, 0, 0], 2), best_of([3.0, 1.0, 2.0], 1), best_of([3.0, 1.0, 2.0], 3)
    (0.5, 2.0, 3.0)

    Raises:
        EvidenceError: k is under 1 or over the number of values.
    """
    n = len(values)
    if not 1 <= k <= n:
        raise EvidenceError(
            f"k from 1 to {n}, the draws of an item", found=str(k), where="best_of", fix="play more draws"
        )
    choices = math.comb(n, k)
    return math.fsum(
        math.comb(i, k - 1) / choices * value for i, value in enumerate(sorted(values)) if i >= k - 1
    )


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
