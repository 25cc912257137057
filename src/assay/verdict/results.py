"""Results of one policy, from a file, a folder or a data frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from assay.core.errors import ConfigError
from assay.rollout.tables.columns import Columns
from assay.verdict.judge.command import read_asked
from assay.verdict.judge.reading import GIVEN, Arm, read_arm, read_frame


@dataclass(frozen=True, slots=True)
class Results:
    """Scores of one policy, a row a draw of an example."""

    arm: Arm
    bounds: tuple[float, float]
    metric: str | None  # the score that was named; None: the only one

    @property
    def frame(self) -> pd.DataFrame:
        """A row a draw: item, cluster, draw, score, share (the score within its bounds, 0 to 1), success."""
        names = {"item_id": "item", "cluster": "cluster", "draw": "draw", "reward": "score"}
        names |= {"share": "share", "success": "success"}
        rows = self.arm.rows
        return pd.DataFrame({name: [getattr(row, field) for row in rows] for field, name in names.items()})

    def __repr__(self) -> str:
        items = {row.item_id for row in self.arm.rows}
        return f"Results({len(self.arm.rows)} results of {len(items)} items)"


def read(
    source: str | Path | pd.DataFrame,
    *,
    metric: str | None = None,
    columns: Mapping[str, str] | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
    draws: int | None = None,
) -> Results:
    """Return results as inspect, lm-eval, lighteval, evalplus, verifiers or a table has them.

    Args:
        source: A file, a folder of files, or a frame with one row a draw of an item. Levels of its index
            that have a name are columns.
        metric: The score to read, where there are several.
        columns: Which column is what, such as `{"item": "task_id", "score": "passed"}`; others by
            their known names.
        bounds: The least and the most that a score can be.
        draws: How many of each item, the first ones; None: all.

    Raises:
        DataError: They cannot be read; says where, and what would have them read.
        ConfigError: A column, the bounds or the draws make no sense.
    """
    if draws is not None and draws < 1:
        raise ConfigError("at least one draw", found=str(draws), where="read", fix="draws=1, or None for all")
    low, high = map(float, bounds)
    named = None if columns is None else {meaning: str(name) for meaning, name in columns.items()}
    asked = read_asked(metric, Columns.read(named), f"{low!r},{high!r}")
    if isinstance(source, pd.DataFrame):
        arm = read_frame(source, asked, draws)
    else:
        arm = read_arm(Path(source), GIVEN, asked, draws)
    return Results(arm, asked.bounds, asked.metric)
