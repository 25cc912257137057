"""What an adversary gets who looks at the same held-out records again and again, and shows what he likes
best.

No training here teaches anything: the policies of a row answer the items by rates that are the base's, or by
rates moved at random with mean 0 over seeds and items. `before` is how often something is called better at
the plan's alpha, as if it had been the only look. `now` is the same by the rules of the ledger and the plan:
the level of its place (`statistics/openings.py`), and no call without a mark that is not of the registered
seeds. Which place that is, and whether it is marked, say the rules themselves: `placed` and
`left_out_of` on a ledger, `registration_of` on runs. Policies are compared by sign flips, which
are the more liberal of the tests that a claim knows; recipes as `assay runs compare` does it.
`upper` ends the two-sided 95 % interval of Clopper and Pearson. `series` is the power of single looks, for a
gain that a test at 0.05 finds with power 0.8.

    ./run bench openings    (four minutes on one core; writes results/openings.json)
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, written

from assay.core.seeds import rng as labelled_rng
from assay.pipeline.heldout_ledger import NOTHING, HeldoutLedger, noted, opened
from assay.pipeline.note_openings import Recipe, left_out_of, placed, tries
from assay.rollout.dataset.wording import content_of
from assay.verdict.evidence.recipe.contest import level_of_pair
from assay.verdict.evidence.recipe.runs import KnownClaim, KnownOpenings, KnownPlan, Run, registration_of
from assay.verdict.statistics.openings import opening_level
from assay.verdict.statistics.seeds_and_items import crossed_mean, sign_flip_runs
from assay.verdict.statistics.tests import sign_flip_tests

REPLICATIONS, ALPHA, DRAWS, FLIPS = 3_000, 0.05, 2, 20_000
ITEMS, ITEMS_OF_RECIPES = 48, 256  # few where policies are compared, since sign flips cost the most
BY_SEED, BY_ITEM = 0.08, 0.1  # standard deviations of what a training does to all items, and to one
RESULT = RESULTS / "openings.json"
Array = NDArray[np.float64]


def open_all(recipes: list[Recipe]) -> HeldoutLedger:
    """Return the ledger of policies of these recipes, opened one after another."""
    ledger = NOTHING
    for k, recipe in enumerate(recipes):
        one = opened("post_eval", f"{k:03d}", "s", ["r"], data="d", split="heldout", copy_id="c")
        ledger = noted(ledger, placed(ledger, one, recipe))
    return ledger


def ask(name: str, text: str) -> str:
    """Return what the ledger knows a record by."""
    return content_of({"id": name, "prompt": text})


@dataclass(frozen=True)
class Look:
    """One policy let loose on the held-out records: what it was trained from, and in which suite."""

    policy: str
    stage: str = "post_eval"
    base: str = "base"
    suite: str = "s"
    records: tuple[str, ...] = (ask("id", "Which lamp, please?"),)


def place_after(looks: list[Look]) -> int:
    """Return the place of the last of some looks, as the ledger gives it."""
    ledger, place = NOTHING, 0
    for each in looks:
        known = {"data": "d", "split": "heldout", "copy_id": "c", "base": each.base}
        one = opened(each.stage, each.policy, each.suite, each.records, **known)  # type: ignore[arg-type]
        one = placed(ledger, one, None)
        ledger, place = noted(ledger, one), one.openings[0].place or 0
    return place


def places(recipes: list[Recipe]) -> list[int]:
    """Return the place of each of these policies."""
    known = {each.policy_digest: each.place or 0 for each in tries(open_all(recipes), ["r"], None, "s")}
    return [known[f"{k:03d}"] for k in range(len(recipes))]


def judged(recipes: list[Recipe], shown: list[int]) -> tuple[bool, float]:
    """Return whether the runs shown, by their place among these, carry no mark as one recipe; and their
    level."""
    known = {each.policy_digest: each for each in tries(open_all(recipes), ["r"], None, "s")}
    last = recipes[shown[-1]]
    runs = []
    for k in shown:
        own, recipe = known[f"{k:03d}"], recipes[k]
        before = [each for each in known.values() if (each.place or 0) < (own.place or 0)]
        late = own.family != last.family or bool(left_out_of(before, recipe))
        rolls = sum((each.family, each.seed) == (own.family, own.seed) for each in before)
        registered = recipe.registered and not late
        found = KnownOpenings(recipe_place=own.recipe_place, registered=registered, rolls=rolls)
        runs.append(_run(recipe.seed, last.seeds, found))
    registration = registration_of(runs, one_sided=False)
    return registration.against is None, registration.level


def _run(seed: int, seeds: tuple[int, ...], found: KnownOpenings) -> Run:
    plan = KnownPlan.model_construct(alpha=ALPHA, seeds=seeds, sided="two-sided")
    claim = KnownClaim.model_construct(plan=plan, opened=found)

    class Trained:
        pass

    trained = Trained()
    trained.seed = seed  # type: ignore[attr-defined]
    return Run(str(seed), {}, claim, trained, [], [])  # type: ignore[arg-type]


# Before one policy is shown: ten trained models named as bases, and eleven trainings on a copy of its
# records.
AS_BASES = [Look(f"p{k}", "pre_eval", base=f"p{k}") for k in range(10)]
COPIES = [
    Look(f"p{k}", suite="copy", records=(ask("other id", "Hello, WHICH lamp\u200b?"),)) for k in range(11)
]


def gains_of(
    luck: np.random.Generator, n: int, items: int, by_seed: float = 0.0, by_item: float = 0.0
) -> Array:
    """Return what n trainings gained on each item against one measurement of the base, [n, items]."""
    rates = luck.uniform(0.15, 0.85, items)
    moved = by_seed * luck.normal(size=(n, 1)) + by_item * luck.normal(size=(n, items))
    room = np.minimum(rates, 1 - rates)
    after = rates + np.clip(moved, -room, room)  # as far up as down, so that the mean stays
    return (luck.binomial(DRAWS, after) - luck.binomial(DRAWS, rates)) / DRAWS


def row(name: str, before: Array, now: Array, marked: Array | None = None) -> dict[str, object]:
    """Return one row of the results; each array says of a replication whether something was called better."""
    n, k = len(now), int(now.sum())
    upper = 1.0 if k == n else float(stats.beta.ppf(0.975, k + 1, n - k))
    found = {"name": name, "replications": n, "before": round(float(before.mean()), 4)}
    found |= {"now": round(k / n, 4), "upper": round(upper, 4)}
    return found if marked is None else found | {"marked": round(float(marked.mean()), 4)}


def looks_at_policies(name: str, found: list[int]) -> dict[str, object]:
    """Return how often any of so many looks, at these places, is called better, which is what stopping at
    success shows."""
    luck, n = labelled_rng("openings", name), len(found)
    all_gains = np.concatenate([gains_of(luck, n, ITEMS) for _ in range(REPLICATIONS)])
    p = sign_flip_tests(all_gains, luck, FLIPS).reshape(REPLICATIONS, n)
    ahead = all_gains.sum(axis=1).reshape(REPLICATIONS, n) > 0
    levels = np.array([opening_level(place, ALPHA) for place in found])
    return row(name, (ahead & (p <= ALPHA)).any(axis=1), (ahead & (p <= levels)).any(axis=1))


def p_of_recipe(gains: Array, luck: np.random.Generator) -> float:
    """Return the p of a recipe over its runs, 1 where it did not gain."""
    if gains.mean() <= 0:
        return 1.0
    items = [str(k) for k in range(gains.shape[1])]
    first = crossed_mean(gains, items).p(one_sided=False)
    return first if first > ALPHA else max(first, sign_flip_runs(gains.mean(axis=1), luck, one_sided=False))


def growing(name: str, *, registered_anew: bool) -> dict[str, object]:
    """Return what growing a recipe from 6 to 15 seeds until it is called better finds.

    Registered anew, each set is a plan of its own, whose policies are others (an idle setting was changed);
    otherwise the plan names 15 seeds, and a smaller set is marked.
    """
    luck, sizes = labelled_rng("openings", "growing"), range(6, 16)
    verdicts, recipes = [], list[Recipe]()
    for n in sizes:
        if registered_anew:
            recipes += [Recipe(f"plan {n}", seed, tuple(range(n))) for seed in range(n)]
            verdicts.append(judged(recipes, list(range(len(recipes) - n, len(recipes)))))
        else:
            verdicts.append(
                judged([Recipe("plan", seed, tuple(range(15))) for seed in range(n)], list(range(n)))
            )
    before, now, marked = (np.zeros(REPLICATIONS, bool) for _ in range(3))
    for k in range(REPLICATIONS):
        gains = gains_of(luck, 15, ITEMS_OF_RECIPES, BY_SEED, BY_ITEM)
        for n, (unmarked, level) in zip(sizes, verdicts, strict=True):
            p = p_of_recipe(gains[:n], luck)
            before[k] |= p <= ALPHA
            now[k] |= unmarked and p <= level
            marked[k] |= not unmarked and p <= level
    return row(name, before, now, marked)


def best_of(name: str, *, registered_anew: bool) -> dict[str, object]:
    """Return what the best 6 (8, where six could not reach the level that is left) of 12 seeds show."""
    luck, n = labelled_rng("openings", "best"), 8 if registered_anew else 6
    first = [Recipe("plan", seed, tuple(range(12))) for seed in range(12)]
    again = [Recipe("another plan", seed, tuple(range(n))) for seed in range(n)]
    recipes, shown = (first + again, list(range(12, 12 + n))) if registered_anew else (first, list(range(n)))
    unmarked, level = judged(recipes, shown)
    before, now, marked = (np.zeros(REPLICATIONS, bool) for _ in range(3))
    for k in range(REPLICATIONS):
        gains = gains_of(luck, 12, ITEMS_OF_RECIPES, BY_SEED, BY_ITEM)
        p = p_of_recipe(gains[np.argsort(-gains.mean(axis=1))[:n]], luck)
        before[k] = p <= ALPHA
        now[k], marked[k] = unmarked and p <= level, not unmarked and p <= level
    return row(name, before, now, marked)


def best_rolls(name: str) -> dict[str, object]:
    """Return what the best of three rolls of each of 6 registered seeds shows."""
    luck, seeds, rolls = labelled_rng("openings", "rolls"), range(6), 3
    recipes = [Recipe("plan", seed, tuple(seeds)) for _ in range(rolls) for seed in seeds]
    before, now, marked = (np.zeros(REPLICATIONS, bool) for _ in range(3))
    verdicts: dict[tuple[int, ...], tuple[bool, float]] = {}
    for k in range(REPLICATIONS):
        gains = gains_of(luck, len(recipes), ITEMS_OF_RECIPES, BY_SEED, BY_ITEM)
        best = gains.mean(axis=1).reshape(rolls, len(seeds)).argmax(axis=0)
        shown = tuple(int(roll) * len(seeds) + seed for roll, seed in zip(best, seeds, strict=True))
        if shown not in verdicts:
            verdicts[shown] = judged(recipes, list(shown))
        unmarked, level = verdicts[shown]
        p = p_of_recipe(gains[list(shown)], luck)
        before[k] = p <= ALPHA
        now[k], marked[k] = unmarked and p <= level, not unmarked and p <= level
    return row(name, before, now, marked)


def pairs_of_recipes(name: str) -> dict[str, object]:
    """Return how often any pair is called apart of 6 recipes of 10 seeds, each compared with all before
    it."""
    luck, n, seeds = labelled_rng("openings", "pairs"), 6, 10
    before, now = np.zeros(REPLICATIONS, bool), np.zeros(REPLICATIONS, bool)
    for k in range(REPLICATIONS):
        gains = gains_of(luck, n * seeds, ITEMS_OF_RECIPES, BY_SEED, BY_ITEM).reshape(n, seeds, -1)
        for last in range(1, n):
            for first in range(last):
                apart = gains[last] - gains[first]
                p = p_of_recipe(apart if apart.mean() > 0 else -apart, luck)
                before[k] |= p <= ALPHA
                now[k] |= p <= level_of_pair(last + 1, ALPHA)
    return row(name, before, now)


def series(place: int) -> dict[str, object]:
    """Return level and power at a place, beside those of other series that sum to alpha."""
    shift = stats.norm.isf(ALPHA / 2) + stats.norm.isf(0.2)
    others = {
        "ours": opening_level(place, ALPHA),
        "squares": ALPHA * 6 / (math.pi * place) ** 2,
        "products": ALPHA / (place * (place + 1)),
    }
    power = {name: float(stats.norm.sf(stats.norm.isf(level / 2) - shift)) for name, level in others.items()}
    return {"place": place, "level": round(others["ours"], 5)} | {k: round(v, 3) for k, v in power.items()}


def table(found: dict[str, list[dict[str, object]]]) -> str:
    """Return the rows as the Markdown of docs/method.md."""

    def percent(value: object) -> str:
        return f"{100 * float(str(value)):.1f} %"

    lines = ["| looks at the same held-out records | each at alpha | now | at most |", "|---|---|---|---|"]
    for each in found["looks"]:
        cells = [percent(each[name]) for name in ("before", "now", "upper")]
        lines.append(f"| {each['name']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    seeds = tuple(range(10))
    rows = [
        looks_at_policies(
            "10 policies in turn, each with its own settings",
            places([Recipe(f"f{k}", k, (k,)) for k in seeds]),
        ),
        looks_at_policies(
            "the best checkpoint of 10 registered seeds", places([Recipe("f", k, seeds) for k in seeds])
        ),
        looks_at_policies("20 policies in turn", places([Recipe(f"f{k}", k, (k,)) for k in range(20)])),
        looks_at_policies(
            "10 policies looked at as bases, the best of them claimed",
            [place_after([*AS_BASES, Look("shown")])] * len(seeds),
        ),
        looks_at_policies(
            "one policy under 10 evaluation seeds",
            [place_after([Look("p", suite=f"s{n}") for n in range(k + 1)]) for k in seeds],
        ),
        growing("a recipe grown from 6 to 15 seeds until it succeeds", registered_anew=False),
        growing("the same, each set registered anew", registered_anew=True),
        best_of("the best 6 of 12 seeds", registered_anew=False),
        best_of("the best 8 of 12 seeds, registered anew once seen", registered_anew=True),
        best_rolls("the best of three rolls of each of 6 seeds"),
        pairs_of_recipes("all pairs of 6 recipes in turn, 10 seeds each"),
    ]
    for each in rows:
        print(*each.values(), sep="\t", flush=True)
    found = {"looks": rows, "series": [series(k) for k in (1, 2, 3, 5, 10)]}
    written(RESULT, found, indent=1, sort_keys=False)


if __name__ == "__main__":
    main()
