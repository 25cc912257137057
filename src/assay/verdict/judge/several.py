"""Several sets of results against the same one before: a claim each, called better by Holm's steps over
all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from assay.core.errors import ConfigError
from assay.core.storage.files import write_text
from assay.core.storage.tables import write_csv
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.escape import markdown_table
from assay.verdict.evidence.formatting import difference_text, p_number
from assay.verdict.evidence.words.sentences import heading
from assay.verdict.judge.command import (
    WHERE,
    JudgeRequest,
    Looking,
    as_planned,
    called,
    judge_arms,
    read_arms,
)
from assay.verdict.judge.reading import Arm
from assay.verdict.judge.rows import read_rows
from assay.verdict.judge.sources import Judgement
from assay.verdict.judge.verdict import ALPHA, Judged

TABLE = "compared"
COLUMNS = (
    "name",
    "verdict",
    "before",
    "after",
    "difference",
    "low",
    "high",
    "p",
    "level",
    "items",
    "clusters",
    "draws",
)


def judge_several(
    before: Path, afters: Sequence[Path], asked: JudgeRequest, *, looking: Looking = lambda _: None
) -> Iterator[tuple[str, Judgement, dict[str, str], Judged]]:
    """Yield of each set of results the name of its folder, what was judged, its rows as texts, and what came
    of it.

    Raises:
        AssayError: A file cannot be read, or what was asked is not what was planned.
    """
    asked, plan = as_planned(asked)
    if plan is not None and plan.show == "no worse":
        fix = "judge one at a time: --no-worse reads a 95 % interval, which is not corrected for several"
        found = f"{len(afters)} files after"
        raise ConfigError("one set of results after", found=found, where=f"{WHERE} --plan", fix=fix)
    keys = [f"after {k}" for k in range(len(afters))]
    arms = read_arms({"before": before, **dict(zip(keys, afters, strict=True))}, asked)
    names = dict(zip(keys, _names([called(arms[key].record) for key in keys]), strict=True))
    first = {key: _shown_at(judge_arms(_pair(arms, key, keys), asked, plan=plan)[2].claim) for key in keys}
    alpha = ALPHA if plan is None else plan.level
    levels = holm_levels({key: p for key, p in first.items() if p is not None}, alpha)
    for key in keys:
        pair = _pair(arms, key, keys)
        level, look = levels.get(key), looking(pair)
        yield names[key], *judge_arms(pair, asked, level=level, compared=len(keys), plan=plan, look=look)


def _shown_at(claim: Claim) -> float | None:
    """Return the p at which a claim is better than before and than each rival; None where nothing was tested.

    It is the largest of theirs (Berger 1982), and 1 of a rival that is ahead: Holm's steps over p of the gain
    alone would pass the level on from a claim that is not made for its rivals.
    """
    sign = 1 if claim.plan.direction == "higher" else -1
    against = [
        1.0 if each.p is None or sign * (each.difference.value or 0.0) <= 0 else each.p
        for each in claim.rivals.values()
    ]
    return None if claim.p is None else max(claim.p, *against, 0.0)


def holm_levels(p_values: Mapping[str, float], alpha: float = ALPHA) -> dict[str, float]:
    """Return at which level each is tested, so that all together are at alpha: what is found at it is what
    Holm finds.

    Source: Holm (1979), Scandinavian Journal of Statistics 6:65, section 3.

    >>> holm_levels({"a": 0.01, "b": 0.04, "c": 0.03}, 0.06)
    {'a': 0.02, 'b': 0.06, 'c': 0.03}
    >>> holm_levels({"a": 0.03, "b": 0.04}, 0.05)
    {'a': 0.025, 'b': 0.025}
    """
    levels, stopped = {}, False
    level = alpha
    for k, name in enumerate(sorted(p_values, key=lambda name: (p_values[name], name))):
        if not stopped:
            level = alpha / (len(p_values) - k)
        levels[name] = level
        stopped = stopped or p_values[name] > level
    return {name: levels[name] for name in p_values}


def _pair(arms: Mapping[str, Arm], key: str, keys: Sequence[str]) -> dict[str, Arm]:
    """Return one set of results as the arm after, beside before and the rivals, with rows of its own."""
    names = {"before": "before", "after": key} | {n: n for n in arms if n not in ("before", *keys)}
    return {
        name: Arm(arms[old].record.renamed(name), arms[old].text, read_rows(arms[old].text, old))
        for name, old in names.items()
    }


def _names(called: Sequence[str]) -> list[str]:
    """Return names of folders, each its own.

    >>> _names(["org/model", "org/model", "a.csv"])
    ['org-model', 'org-model-2', 'a.csv']
    """
    found: list[str] = []
    for name in called:
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:80] or "results"
        k, unique = 1, plain
        while unique in found:
            k += 1
            unique = f"{plain}-{k}"
        found.append(unique)
    return found


def write_table(out: Path, claims: Mapping[str, Claim], words: Mapping[str, str]) -> None:
    """Write compared.csv and compared.md over several claims.

    Args:
        out: The folder.
        claims: By the name of the results.
        words: What came of the plan, by the same names; none without a plan.
    """
    cells, rows = [], []
    for name, claim in claims.items():
        gap, arms = claim.difference, [each.value if each else None for each in (claim.before, claim.after)]
        ends = (None, None, None) if gap is None else (gap.value, gap.low, gap.high)
        counts = (claim.n_items, claim.n_clusters, claim.draws)
        values = (name, claim.verdict, *arms, *ends, claim.p, claim.level, *counts)
        cells.append(dict(zip(COLUMNS, values, strict=True)))
        shown = claim.verdict != "NOT EVALUABLE"
        rows.append(
            {
                "results": name,
                **({"plan": words[name]} if words else {}),
                "verdict": heading(claim),
                "difference, points": difference_text(gap, rate=True) if shown else claim.reason,
                "p": p_number(claim.p) if shown else "",
                "level (Holm)": f"{claim.level:.2g}",
            }
        )
    import pandas as pd

    write_csv(out / f"{TABLE}.csv", cells, COLUMNS)
    head = (
        f"{len(claims)} sets of results against one before; better is said by Holm's steps over all of them."
    )
    write_text(out / f"{TABLE}.md", f"{head}\n\n{markdown_table(pd.DataFrame(rows))}\n")
