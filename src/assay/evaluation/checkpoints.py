"""One validation as one row of checkpoint_evals.csv."""

from __future__ import annotations

from assay.evaluation.best_of import BestOf
from assay.evaluation.report import Report, column_name
from assay.records import Interval

Row = dict[str, float | int | None]


def checkpoint_row(
    report: Report, *, step: int, fraction_done: float, best: BestOf | None = None, greedy: Report | None = None
) -> Row:
    """Return one row, keys in column order; `<column>_low` and `_high` follow the values. Undefined values are None.

    Values of the sampled draws: step, fraction_done, episodes, mean_reward, success_rate, then `<x>_acc` and the other
    flags, median_reward, parsed_rate, truncated_rate, mean_n_steps, mean_tokens, mean_tokens_per_completion. Behind
    them, where given: best_of (k), best_of_k_mean_reward, best_of_k_success_rate; greedy_mean_reward,
    greedy_success_rate.
    """
    kept = [name for name in report.measures if "." not in name and name != "median_reward"]
    kept.insert(kept.index("parsed_rate"), "median_reward")
    row: Row = {"step": step, "fraction_done": fraction_done, "episodes": report.n_episodes}
    row |= _columns({column_name(name): report.measures[name] for name in kept})
    if best is not None:
        row |= {"best_of": best.k}
        row |= _columns({"best_of_k_mean_reward": best.mean_reward, "best_of_k_success_rate": best.success_rate})
    if greedy is not None:
        row |= _columns({f"greedy_{name}": greedy.measures[name] for name in ("mean_reward", "success_rate")})
    return row


def _columns(measures: dict[str, Interval]) -> Row:
    row: Row = {name: found.value for name, found in measures.items()}
    for name, found in measures.items():
        row |= {f"{name}_low": found.low, f"{name}_high": found.high}
    return row
