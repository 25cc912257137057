"""`assay plan`: a plan for `assay judge`, with what it can show, before the results are there."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv  # type: ignore[import-untyped,unused-ignore]

from assay.core.console import say, say_table
from assay.core.counting import counted
from assay.core.errors import ConfigError
from assay.core.seeds import rng
from assay.core.storage.files import write_text
from assay.core.storage.json import digest
from assay.rollout.dataset.suite import FEWEST_CLUSTERS, Unseen
from assay.rollout.evaluation.clusters import Array
from assay.rollout.tables.columns import Columns, Meaning
from assay.rollout.tables.lines import csv_rows, json_rows, refuse, whole_text
from assay.verdict.evidence.claim.plan import usual_worst
from assay.verdict.judge.command import EFFECT, read_asked, read_bounds, read_effect, read_missing
from assay.verdict.judge.contents import content_of
from assay.verdict.judge.forms import item_of
from assay.verdict.judge.plan import (
    JudgePlan,
    PlannedItems,
    PlanPower,
    PlanReach,
    items_in,
    items_of,
    plan_text,
)
from assay.verdict.judge.plan import planned_said as said_of
from assay.verdict.judge.reading import Arm, read_arm
from assay.verdict.judge.rows import SCORE, JudgedRow, read_rows, shared_passages, unite_same
from assay.verdict.judge.sources import ArmRecord
from assay.verdict.judge.verdict import ALPHA
from assay.verdict.statistics.power import (
    ASSUMED_SPREAD_POINTS,
    MOST,
    POWER,
    ReachAt,
    clusters_for,
    plausible_spread,
    smallest_gain,
    suite_of,
)

WHERE = "assay plan"
SIZES, TIMES_DRAWS = (0.5, 1.0, 2.0, 4.0), (1, 2, 4)  # of clusters, and of draws
MOST_ALPHA = 0.1
MOST_PLANNED = 10_000_000
MOST_ITEMS = 10_000  # of which the power is computed; of more it is that of so many, and true power is higher


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What somebody plans; None: not given.

    `pilot` are results before; `items` a list of items or how many, `clusters` how many of these; `rate` and
    `within`, the variance of one draw within an item, stand in for a pilot; `spread` is the assumed sd of
    true gains between clusters, points; `worst` how many points a cluster that nobody saw may lose. The rest
    is what `assay judge` is asked.
    """

    pilot: Path | None = None
    items: str | None = None
    clusters: int | None = None
    rate: float | None = None
    within: float | None = None
    spread: float = ASSUMED_SPREAD_POINTS
    draws: int | None = None
    metric: str | None = None
    columns: str | None = None
    bounds: str | None = None
    effect: float = EFFECT
    lower: bool = False
    alpha: float = ALPHA
    one_sided: bool = False
    no_worse: bool = False
    worst: float | None = None
    missing: str = "refuse"
    rival: Sequence[str] = ()
    made: str | None = None
    out: Path = Path("plan.yaml")


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the items before: rates as shares, and each item's cluster by number, both [items]."""

    of: str
    rates: Array
    homes: NDArray[np.int64]
    seen_draws: int  # that the rates come from; 0: they are the true ones


def run(asked: PlanRequest) -> None:
    """Write a plan, and say what it can show.

    Raises:
        AssayError: A file cannot be read, or what is asked cannot be planned.
    """
    pilot = None
    if asked.pilot is not None:
        wanted = read_asked(asked.metric, asked.columns, asked.bounds)
        pilot = read_arm(asked.pilot, "pilot", wanted, asked.draws)
        asked = replace(asked, metric=wanted.metric)
    plan = make_plan(asked, pilot)
    if pilot is not None and (shared := shared_passages(pilot.rows)):
        fix = "a column cluster that names the passage, or the item where they are independent"
        told = f"{counted(len(shared), 'items')} share long passages and count as independent"
        say(f"warning: {told}. Fix: {fix}")
    if asked.out.exists():
        fix = "--out with another name; or remove the file, if nobody relies on it"
        raise refuse("no plan yet", "a file", str(asked.out), fix)
    write_text(asked.out, plan_text(plan))
    _tell(plan, asked.out)


def make_plan(asked: PlanRequest, pilot: Arm | None) -> JudgePlan:
    """Return a plan with what it can show.

    Args:
        asked: What somebody plans; its pilot and out are not read.
        pilot: Results before; None: rates are stated.

    Raises:
        AssayError: A list of items cannot be read, or what is asked cannot be planned.
    """
    if not 0 < asked.alpha <= MOST_ALPHA:
        expected = f"a level above 0, {MOST_ALPHA:g} at most"
        raise ConfigError(expected, found=str(asked.alpha), where=f"{WHERE} --alpha", fix="--alpha 0.05")
    rows: list[JudgedRow] = []
    decides, metric, columns = None, asked.metric, dict[Meaning, str]()
    if pilot is not None:
        record, rows = pilot.record, read_rows(pilot.text, "pilot")
        columns = {meaning: name for meaning, name in pilot.chosen.items() if meaning != "score"}
        if record.blockers:
            raise refuse("a pilot that is whole", str(record.blockers[0]), record.files[0].name)
        metric = metric_of(record, asked.metric)
        decides = "success" if record.has_success or all(row.share in (0.0, 1.0) for row in rows) else SCORE
    if not all(asked.rival) or len({*asked.rival, "before", "after"}) < len(asked.rival) + 2:
        found = ", ".join(map(repr, asked.rival))
        fix = "--baseline always_B, each with a name of its own"
        raise ConfigError("names of baselines", found=found, where=f"{WHERE} --baseline", fix=fix)
    items, known = _items(asked, rows), _known(asked, rows, decides)
    draws = asked.draws or max((row.draw + 1 for row in rows), default=1)
    level = asked.alpha * (2 if asked.one_sided else 1)
    if asked.no_worse and not math.isclose(level, ALPHA):
        found, fix = f"{asked.alpha:g}", f"--alpha {ALPHA:g}, or --alpha {ALPHA / 2:g} --one-sided"
        raise ConfigError("the level of the 95 % interval", found=found, where=f"{WHERE} --no-worse", fix=fix)
    return JudgePlan(
        made=_day(asked.made),
        show="no worse" if asked.no_worse else "better",
        decides=decides,
        metric=metric,
        columns=columns,
        bounds=read_bounds(asked.bounds),
        lower_is_better=asked.lower,
        draws=draws,
        alpha=asked.alpha,
        sided="one-sided" if asked.one_sided else "two-sided",
        worst_cluster=asked.worst or usual_worst(draws * items.n_items / items.n_clusters),
        smallest_effect_points=read_effect(asked.effect),
        rivals=tuple(sorted(asked.rival)),
        missing=read_missing(asked.missing),
        items=items,
        power=_power(known, items, draws, level, asked),
    )


def metric_of(record: ArmRecord, named: str | None) -> str | None:
    """Return the score that a plan of such results names, where somebody named one, or it has a name of its
    own and no success decides."""
    return named or (None if record.has_success else record.files[0].metric)


def _items(asked: PlanRequest, rows: Sequence[JudgedRow]) -> PlannedItems:
    """Return the items that are planned: those of a list, so many, or those of the pilot."""
    if asked.items is None:
        if not rows or asked.clusters is not None:
            found = "neither" if not rows else "--clusters without how many items"
            fix = "--items 400 (--clusters 100), --items items.csv, or name results before"
            raise ConfigError("which items, or how many", found=found, where=WHERE, fix=fix)
        return items_in(rows)
    if not asked.items.isdecimal():
        return _listed(Path(asked.items), Columns.read(asked.columns))
    n, clusters = int(asked.items), asked.clusters or int(asked.items)
    if n > MOST_PLANNED:
        raise ConfigError(f"at most {MOST_PLANNED:,} items", found=asked.items, where=WHERE, fix="--items")
    if not 0 < clusters <= n:
        raise ConfigError(
            "at most as many clusters as items", found=f"{clusters} of {n}", where=WHERE, fix="--clusters"
        )
    return PlannedItems(n_items=n, n_clusters=clusters)


def _listed(path: Path, columns: Columns) -> PlannedItems:
    """Return the items of a CSV or JSONL: item, and cluster, prompt and target where it has them."""
    if not path.is_file():
        raise refuse("a number, or a list of items", "no such file", f"--items {path}")
    found = csv_rows(path) if path.suffix.lower() in (".csv", ".tsv") else json_rows(path)
    homes, contents = dict[str, str](), dict[str, str]()
    for where, row in found:
        if columns.find("item", row, where) is None:
            raise columns.missing([("item",)], row, where)
        item, cluster, prompt, target = item_of(where, row, columns)
        item, home = whole_text(item, where), item if cluster is None else cluster
        content = str(content_of(prompt, target))
        # Rows of results are such a list as well, with an item once a draw.
        if (homes.setdefault(item, home), contents.setdefault(item, content)) != (home, content):
            raise refuse("one cluster, prompt and target of each item", f"others of {item!a}", where)
    if not homes:
        raise refuse("at least one item", "none", str(path))
    return items_of(homes, contents)


def _known(asked: PlanRequest, rows: Sequence[JudgedRow], decides: str | None) -> Known:
    """Return the rates that the power is computed from: a pilot's, or stated ones.

    Raises:
        ConfigError: There is neither, there are both, or no such variance is possible.
    """
    if bool(rows) == (asked.rate is not None):
        found = "both" if rows else "neither"
        fix = "name results before, or give --rate 0.4 (and --within 0.15)"
        raise ConfigError("a pilot or stated rates", found=found, where=WHERE, fix=fix)
    if rows:
        unite_same(rows, [])
        totals: dict[str, list[float]] = {}
        for row in rows:
            totals.setdefault(row.item_id, []).append(
                float(row.success) if decides == "success" else row.share or 0.0
            )
        homes = {row.item_id: row.cluster for row in rows}
        fewest = min(map(len, totals.values()))
        clusters: dict[str, list[float]] = {}
        for item, values in totals.items():
            clusters.setdefault(homes[item], []).append(math.fsum(values) / len(values))
        inside = sorted(map(sorted, clusters.values()))  # names and order of items have no part in the luck
        rates = np.array([rate for each in inside for rate in each])
        index = np.repeat(np.arange(len(inside)), [len(each) for each in inside])
        return Known(f"results before: {counted(len(rates), 'items')}, K = {fewest}", rates, index, fewest)
    assert asked.rate is not None
    most = asked.rate * (1 - asked.rate)
    within = most if asked.within is None else asked.within
    if not 0 <= within <= most + 1e-12:
        found, fix = f"{within:g}", "--within between 0 (every item is always or never right) and that"
        raise ConfigError(f"a variance within items up to {most:g}", found=found, where=WHERE, fix=fix)
    rates = _spread_out(asked.rate, most - within, 400)
    of = f"stated: mean {asked.rate:g}, variance within items {within:.4g}"
    return Known(of, rates, np.arange(len(rates)), 0)


def _spread_out(mean: float, variance: float, n: int) -> Array:
    """Return rates with this mean and about this variance, [n], as a beta distribution has them."""
    most = mean * (1 - mean)
    if variance <= 1e-9 * max(most, 1e-9):
        return np.full(n, mean)
    if variance >= most * (1 - 1e-9):
        return (np.arange(n) < round(mean * n)).astype(np.float64)
    size = most / variance - 1
    found = betaincinv(mean * size, (1 - mean) * size, (np.arange(n) + 0.5) / n)
    return np.asarray(found, dtype=np.float64)


def _power(known: Known, items: PlannedItems, draws: int, level: float, asked: PlanRequest) -> PlanPower:
    rates = 1 - known.rates if asked.lower else known.rates
    homes = known.homes
    n = int(homes.max()) + 1 if asked.items is None else items.n_clusters
    if asked.items is not None and not known.seen_draws:
        # Stated rates, dealt at random to as many items, and these to their clusters.
        # They are in order: of fewer items each n-th, so that low and high ones are kept alike.
        n_rates, m = len(rates), items.n_items
        each = np.arange(m) % n_rates if m >= n_rates else ((np.arange(m) + 0.5) * n_rates / m).astype(int)
        rates = rng("plan", "rates").permutation(rates[each])
        homes = np.arange(items.n_items) % n

    def reach(wanted: int, drawn: int) -> ReachAt:
        tried = min(wanted, MOST)
        by_item, homed = _few(*suite_of(rates, homes, tried))
        found = smallest_gain(
            by_item,
            homed,
            drawn,
            spread=asked.spread / 100,
            alpha=level,
            unseen=Unseen(loss=(asked.worst or usual_worst(drawn * items.n_items / items.n_clusters)) / 100),
            seen_draws=known.seen_draws,
        )
        # Beyond what is tried the effect falls as the root of the number of clusters.
        points = None if found is None else round(100 * found * math.sqrt(tried / wanted), 4)
        return ReachAt(n_clusters=wanted, smallest_detectable_points=points)

    sizes = [times for times in SIZES if round(times * n) >= FEWEST_CLUSTERS] or [1.0]
    table = tuple(
        PlanReach(draws=drawn, by_clusters=tuple(reach(max(1, round(times * n)), drawn) for times in sizes))
        for drawn in (draws * times for times in TIMES_DRAWS)
    )
    planned = next((each for each in table[0].by_clusters if each.n_clusters == n), None)
    points = None if planned is None else planned.smallest_detectable_points
    share = known.rates.mean()
    seen = known.seen_draws
    within = float((known.rates * (1 - known.rates)).mean())
    within = within * seen / (seen - 1) if seen > 1 else within
    return PlanPower(
        of=known.of,
        rate=round(float(share), 10),
        within_item_variance=round(min(0.25, within), 10),
        power=POWER,
        assumed_spread_points=round(
            100 * plausible_spread(asked.spread / 100, float(rates.mean()), (points or 0.0) / 100), 4
        ),
        n_clusters=n,
        smallest_detectable_points=points,
        clusters_for_smallest_effect=clusters_for(
            table[0].by_clusters, asked.effect, lambda n: reach(n, draws).smallest_detectable_points
        ),
        table=table,
    )


def _few(rates: Array, homes: NDArray[np.int64]) -> tuple[Array, NDArray[np.int64]]:
    """Return at most about MOST_ITEMS items, the same share of every cluster."""
    step = math.ceil(len(rates) / MOST_ITEMS)
    order = np.argsort(homes, kind="stable")
    place = np.arange(len(homes)) - np.searchsorted(homes[order], homes[order])
    kept = order[place % step == 0]
    return rates[kept], homes[kept]


def _day(text: str | None) -> str:
    if text is None:
        return datetime.now(UTC).date().isoformat()
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            return datetime.strptime(text, "%Y-%m-%d").date().isoformat()
    except ValueError:
        pass
    raise ConfigError("a day", found=repr(text), where=f"{WHERE} --date", fix="--date 2026-01-31")


def _tell(plan: JudgePlan, out: Path) -> None:
    power = plan.power
    say(f"planned: {said_of(plan)}")
    found, wanted = power.smallest_detectable_points, plan.smallest_effect_points
    what = "smallest true gain that is found" if plan.show == "better" else "smallest loss that is excluded"
    shown = "none that is possible" if found is None else f"about {found:.1f} points"
    enough = found is not None and found <= wanted
    say(
        f"{what} with power {power.power:g}: {shown}; {'within' if enough else 'NOT within'} the {wanted:g}"
        f" points that matter (from {power.of}; true gains assumed to differ by"
        f" {power.assumed_spread_points:g} points (sd))"
    )
    n = power.clusters_for_smallest_effect
    most = power.table[0].by_clusters[-1].n_clusters
    needed = f"more than {most}" if n is None else str(n)
    say(f"needed for {wanted:g} points with K = {plan.draws}: {needed} independent clusters")
    columns = ["K", *(f"{each.n_clusters} clusters" for each in power.table[0].by_clusters)]
    cells = [
        [str(row.draws), *(_points(each.smallest_detectable_points) for each in row.by_clusters)]
        for row in power.table
    ]
    say_table(columns, cells)
    if plan.columns:
        say(f"columns, which results are read by: {Columns(plan.columns).listed}")
    if plan.items.ids_sha256 is None:
        say("warning: only how many items there are is planned, not which; --items FILE fixes them")
    say(f"plan: {out}, sha256 {digest(plan)}; keep it where its date can be seen, such as in a commit")


def _points(found: float | None) -> str:
    return "none" if found is None else f"{found:.1f} points"
