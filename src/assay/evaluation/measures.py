"""What an episode is measured by: the value it contributes to each measure, and the mean over a suite. No
interval."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from assay.core.errors import EvidenceError
from assay.core.records import Episode
from assay.evaluation.clusters import cluster_sums


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
