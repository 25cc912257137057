"""What becomes of results that are missing: an item or a draw that an arm lacks, a result without a score,
and one that ended in an error or a time-out.

Nobody knows what they would have been, and they are rarely missing at random. `refuse`: no verdict, and what
has a score counts as it was scored. `worst`: each counts as the worst for the arm that gains by its absence,
so that what is better is so whatever they would have been (C. F. Manski, Am. Econ. Rev. 80 (1990) 319).
`common`: the items that every arm has whole, which are then what the claim is about.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.judge.plan import Missing
from assay.verdict.judge.rows import JudgedRow

FAILED = ("error", "timeout")
Rows = list[JudgedRow]


@dataclass(frozen=True, slots=True)
class Settled:
    """What a policy made of the arms.

    `arms` are those that are compared; `planned` the rows before with every item and draw, which a plan is
    held to; `n_missing` how many results were missing; `notes` what is said of it.
    """

    arms: dict[str, Rows]
    planned: Rows
    n_missing: int
    notes: tuple[Remark, ...]


def settle(
    arms: Mapping[str, Rows],
    policy: Missing,
    bounds: tuple[float, float],
    *,
    lower_is_better: bool,
    unscored: Mapping[str, int],
    for_after: bool = False,
) -> Settled:
    """Return the arms with what is missing dealt with.

    Args:
        arms: Rows of before, after and each rival, matched by their ids; they stay as they are.
        policy: What becomes of what is missing.
        bounds: Of scores.
        lower_is_better: Whether less is better.
        unscored: How many results of an arm have no score.
        for_after: Of `worst`: whether it counts as the best for after instead, which a loss has to stand.
    """
    if policy == "refuse":
        return Settled(dict(arms), arms["before"], 0, ())
    measured = {name: [row for row in rows if row.fault not in FAILED] for name, rows in arms.items()}
    failed = {name: len(rows) - len(measured[name]) for name, rows in arms.items()}
    # A rival's own items are nobody's here: what it lacks counts, what only it has does not.
    models = {row.item_id: row for name in ("after", "before") for row in arms[name]}
    draws = {name: max((row.draw + 1 for row in rows), default=0) for name, rows in arms.items()}
    best = 0.0 if lower_is_better else 1.0
    whole, lacking = dict[str, Rows](), dict[str, list[str]]()
    for name, rows in measured.items():
        bad = (name == "after") != for_after
        share = 1.0 - best if bad else best
        whole[name], lacking[name] = _filled(rows, models, draws[name], share, bounds)
    n_missing = sum(map(len, lacking.values()))
    if policy == "worst":
        told_of = [
            {"arm": name, "n": len(items), "of": len(whole[name]), "failed": failed[name],
             "unscored": unscored.get(name, 0)}
            for name, items in lacking.items()
            if items
        ]  # fmt: skip
        notes = [remark("missing_counted_worst", arms=told_of)] if told_of else []
        return Settled(whole, whole["before"], n_missing, tuple(notes))
    out = {item for items in lacking.values() for item in items}
    if not out or len(out) == len(models):
        return Settled(dict(arms) if out else whole, whole["before"], 0, ())
    kept = {
        name: [row for row in rows if row.item_id in models and row.item_id not in out]
        for name, rows in measured.items()
    }
    counts = [{"arm": name, "n": len(set(items))} for name, items in lacking.items() if items]
    note = remark("missing_left_out", n=len(out), of=len(models), arms=counts)
    return Settled(kept, whole["before"], n_missing, (note,))


def _filled(
    rows: Sequence[JudgedRow],
    models: Mapping[str, JudgedRow],
    draws: int,
    share: float,
    bounds: tuple[float, float],
) -> tuple[Rows, list[str]]:
    """Return rows with as many draws of each item, and of which items some were put in, once a draw."""
    own: dict[str, Rows] = defaultdict(list)
    for row in rows:
        own[row.item_id].append(row)
    found, lacking = Rows(), list[str]()
    for k, (item, model) in enumerate(sorted(models.items())):
        here = own[item]
        more = draws - len(here)
        if more <= 0:
            found += here
            continue
        lacking += [item] * more
        # In turn at each place: base against base halves the draws by their places.
        places = [(place + k) % draws for place in range(draws)]
        score = bounds[0] + share * (bounds[1] - bounds[0])
        made = JudgedRow(
            item,
            0,
            model.cluster,
            score,
            share,
            share == 1.0,
            strata=model.strata,
            content=model.content,
            prompt=model.prompt,
        )
        both = [replace(made) for _ in range(more)] + [replace(row) for row in here]
        for place, row in zip(places, both, strict=True):
            row.draw = place
        found += both
    return found, lacking
