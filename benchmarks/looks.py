"""What twenty looks at the same held-out records find, and what they call better that is not, by rule.

Users try 20 policies in turn against one measurement of the base; a difference has a standard error of 1.9
points, half of its variance the base's. `nulls`: none of them learned anything. `late`: the first ten did
not, the last ten gained 6 points. `half`: each gained 5 points or nothing, by the toss of a coin. `gains`:
none learned anything, and the last is a vote of the others' answers, each weighted by the gain that its
report showed: that is more than verdicts, and no rule promises anything of it.

`any_false`: users with a policy called better that learned nothing; `found`: of `late` users with a true gain
called better, `last` those whose last try was; `share` of `half` the share of true gains called better. The
levels are `opening_level` and `share_of_look` of statistics/openings.py; `recycled` says whether a look that
was called hands its level on.

    ./run bench looks    (seconds on one core; writes results/looks.json)
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, written

from assay.core.seeds import rng as labelled_rng
from assay.verdict.statistics.openings import Look, opening_level, share_of_look

USERS, TRIES, ALPHA, ERROR = 20_000, 20, 0.05, 1.9
LATE, HALF = 6.0, 5.0  # points
ITEMS, DRAWS, VOTERS = 512, 2, 2_000  # users of `gains`
RESULT = RESULTS / "looks.json"
Array = NDArray[np.float64]
Levels = Callable[[NDArray[np.bool_]], Array]


def constant(called: NDArray[np.bool_]) -> Array:
    """Return alpha for the next look of every user, who has had these looks called, [users, looks]."""
    return np.full(len(called), ALPHA)


def series(called: NDArray[np.bool_]) -> Array:
    """Return the same of the k-th look by alpha / (k (k - 1))."""
    return np.full(len(called), opening_level(called.shape[1] + 1, ALPHA))


def series_recycled(called: NDArray[np.bool_]) -> Array:
    """Return the same with what the looks right before hand on."""
    handed = np.zeros(len(called))
    for k in range(called.shape[1]):
        handed = np.where(called[:, k], opening_level(k + 1, ALPHA) + handed, 0.0)
    return np.minimum(ALPHA, opening_level(called.shape[1] + 1, ALPHA) + handed)


def planned(called: NDArray[np.bool_]) -> Array:
    """Return the same of so many looks that were planned, without what is handed on."""
    return np.full(len(called), opening_level(called.shape[1] + 1, ALPHA, looks=TRIES))


def planned_recycled(called: NDArray[np.bool_]) -> Array:
    """Return the same as a claim has it: by `share_of_look`, for which the calls right before decide."""
    n = called.shape[1]
    run = np.cumprod(called[:, ::-1], axis=1).sum(axis=1) if n else np.zeros(len(called), np.int64)
    shares = [
        share_of_look(n + 1, TRIES, [Look(k + 1, TRIES, called=k >= n - length) for k in range(n)])
        for length in range(n + 1)
    ]
    return ALPHA * np.array(shares)[run]


RULES: dict[str, Levels] = {
    "each at alpha": constant,
    "alpha / (k (k - 1))": series,
    "alpha / (k (k - 1)), handed on": series_recycled,
    f"{TRIES} looks planned": planned,
    f"{TRIES} looks planned, handed on": planned_recycled,
}


def called_by(levels: Levels, z: Array) -> NDArray[np.bool_]:
    """Return which looks are called better, [users, looks], of differences in standard errors."""
    called = np.zeros((len(z), 0), bool)
    for k in range(z.shape[1]):
        bound = stats.norm.isf(levels(called) / 2)
        called = np.column_stack([called, z[:, k] > bound])
    return called


def looks_of(luck: np.random.Generator, gains: Array) -> Array:
    """Return differences from one base in standard errors, of true gains in points, [users, looks]."""
    base, own = luck.normal(size=(len(gains), 1)), luck.normal(size=gains.shape)
    return gains / ERROR + (own - base) / np.sqrt(2)


def votes(luck: np.random.Generator) -> Array:
    """Return the same of policies that guess one of two answers, and of the vote that is made of them."""
    found = []
    for _ in range(VOTERS):
        base = luck.binomial(DRAWS, 0.5, ITEMS) / DRAWS
        right = luck.random((TRIES - 1, ITEMS)) < 0.5  # that an item's answer is this one, nobody knows
        shown = right.mean(axis=1) - base.mean()
        last = (shown @ np.where(right, 1.0, -1.0)) > 0
        apart = np.vstack([right, last]) - base
        found.append(apart.mean(axis=1) / (apart.std(axis=1, ddof=1) / np.sqrt(ITEMS)))
    return np.array(found)


def main() -> None:
    luck = labelled_rng("looks")
    nulls = np.zeros((USERS, TRIES))
    late = nulls.copy()
    late[:, TRIES // 2 :] = LATE
    half = HALF * (luck.random((USERS, TRIES)) < 0.5)
    drawn = {
        name: looks_of(luck, gains) for name, gains in (("nulls", nulls), ("late", late), ("half", half))
    }
    guessed, rows = votes(luck), []
    for name, levels in RULES.items():
        calls = {kind: called_by(levels, z) for kind, z in drawn.items()}
        true = calls["late"] & (late > 0)
        row: dict[str, object] = {"rule": name, "users": USERS}
        for kind, (value, of) in {
            "any_false": (calls["nulls"].any(axis=1).sum(), USERS),
            "any_false_late": ((calls["late"] & (late == 0)).any(axis=1).sum(), USERS),
            "any_false_half": ((calls["half"] & (half == 0)).any(axis=1).sum(), USERS),
            "found": (true.any(axis=1).sum(), USERS),
            "last": (true[:, -1].sum(), USERS),
            "share": ((calls["half"] & (half > 0)).sum(), (half > 0).sum()),
            "any_false_by_gains": (called_by(levels, guessed).any(axis=1).sum(), VOTERS),
        }.items():
            row[kind] = round(float(value / of), 4)
        k = round(float(row["any_false"]) * USERS)  # type: ignore[arg-type]
        row["upper"] = round(float(stats.beta.ppf(0.975, k + 1, USERS - k)), 4)
        rows.append(row)
        print(*row.values(), sep="\t", flush=True)
    written(RESULT, {"tries": TRIES, "looks": rows}, indent=1, sort_keys=False)


def table(found: dict[str, list[dict[str, float]]]) -> str:
    """Return the rows as the Markdown of docs/method.md."""
    columns = ("any_false", "found", "last", "share", "any_false_by_gains")
    lines = [
        "| rule | none learned: any | ten late of +6: one | the last | half of +5 | a vote by gains |",
        "|---|---|---|---|---|---|",
    ]
    for each in found["looks"]:
        cells = [f"{100 * each[name]:.1f} %" for name in columns]
        lines.append(f"| {each['rule']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
