"""Intervals of validations while a training runs: it writes what every episode came to, and whoever looks
computes them."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assay.core.errors import EvidenceError
from assay.tools.watch.partial_reads import LARGEST

Columns = Mapping[str, Sequence[float | None]]
ENDS = ("_low", "_high")


@dataclass(slots=True)
class LiveIntervals:
    """Adds the ends of 95 % intervals to the rows of checkpoint_evals.csv; each validation is computed
    once."""

    # Suite and scores of a validation -> its row, or why there is none.
    _known: dict[tuple[str, str], dict[str, float | None] | str] = field(default_factory=dict)

    def added(
        self, checkpoints: Columns, scores: Mapping[str, str], suite: str, faults: list[str]
    ) -> Columns:
        """Return the columns, and behind them `<column>_low` and `_high`: empty where a validation is not
        there as a whole.

        Args:
            checkpoints: Columns of checkpoint_evals.csv.
            scores: Of validation_scores.csv, the rows of each step as a table of its own.
            suite: Digest of the validation suite, on which bootstrap draws depend; empty as long as nobody
                has said it.
            faults: Told what could not be read.
        """
        rows = dict[float, dict[str, float | None]]()
        for step, table in scores.items():
            if (suite, table) not in self._known:
                self._known[suite, table] = _row_of(table, suite)
            found = self._known[suite, table]
            if isinstance(found, str):
                faults.append(f"validation_scores.csv: step {step}: {found}")
            else:
                rows[found["step"] or 0.0] = found
        steps, n = (checkpoints.get(name, ()) for name in ("step", "episodes"))
        whole = [rows.get(step or 0.0, {}) for step in steps]
        whole = [row if row.get("episodes") == count else {} for row, count in zip(whole, n, strict=False)]
        names = dict.fromkeys(name for row in whole for name in row if name.endswith(ENDS))
        return {**checkpoints, **{name: [row.get(name) for row in whole] for name in names}}


def _row_of(table: str, suite: str) -> dict[str, float | None] | str:
    """Return the row that the episodes of one validation give, or what is wrong with them."""
    import numpy as np
    import pandas as pd

    from assay.statistics.checkpoint_rows import LABELS, rows_of_scores

    try:
        texts = {"item_id": str, "cluster": str}
        frame = pd.read_csv(io.StringIO(table), dtype=texts, keep_default_na=False, na_values=[""])
        numbers = frame.drop(columns=list(texts)).to_numpy(np.float64)
        labels = frame[[name for name in LABELS if name not in texts]]
        if not (np.isnan(numbers) | (np.abs(numbers) < LARGEST)).all() or frame[list(LABELS)].isna().any(
            axis=None
        ):
            return "numbers beyond all sense, or none"
        if not (labels["greedy"].isin((0, 1)) & labels["draw"].between(0, len(frame))).all():
            return "episodes of no suite"
        (row,) = rows_of_scores(frame, suite, 1)
        items = [set(played) for _, played in frame.groupby("greedy")["item_id"]]
        if len(items) != 2 or items[0] != items[1]:
            return {"step": row["step"]}  # the rest is still being written
    except (ArithmeticError, LookupError, TypeError, ValueError, EvidenceError) as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return dict(row)
