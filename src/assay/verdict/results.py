"""Results of one policy, from a file, a folder or a data frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from assay.tools.columns import Columns
from assay.tools.judge.forms import Asked
from assay.tools.judge.reading import Arm, read_arm, read_frame


@dataclass(frozen=True, slots=True)
class Results:
    """Scores of one policy, a row a draw of an example."""

    arm: Arm
    bounds: tuple[float, float]

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
        source: A file, a folder of files, or a frame with one row a draw of an item.
        metric: The score to read, where there are several.
        columns: Which column is what, such as `{"item": "task_id", "score": "passed"}`; others by
            their known names.
        bounds: The least and the most that a score can be.
        draws: How many of each item, the first ones; None: all.

    Raises:
        DataError: They cannot be read; says where, and what would have them read.
        ConfigError: A column or bound makes no sense.
    """
    pairs = None if columns is None else ",".join(f"{meaning}={name}" for meaning, name in columns.items())
    named = Columns.read(pairs)
    asked = Asked(metric or named.named.get("score"), named, bounds)
    if isinstance(source, pd.DataFrame):
        return Results(read_frame(source, asked, draws), bounds)
    return Results(read_arm(Path(source), "given", asked, draws), bounds)
