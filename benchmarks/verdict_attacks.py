"""Ways to get IMPROVED for a training that taught nothing, and what the claim says to each.

The attacker may choose every setting, the base, the data and which runs are shown, but edits no result. Arms
are made up, with 256 clusters of two draws; everything else is the code that makes claims.

    ./run bench verdict_attacks    (a minute; writes results/verdict_attacks.json)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.attack import Attack, Said, rows_of, said_of
from benchmarks.common import RESULTS, ROOT, written
from benchmarks.contamination_attacks import contamination_attacks
from benchmarks.judge_attacks import attacks as judge_attacks
from benchmarks.judge_attacks import honest_rows
from benchmarks.openings import AS_BASES, COPIES, Look, place_after

from assay.core.config.composition import Selection, compose
from assay.core.config.settings import Params
from assay.core.records import (
    ControlFacts,
    Episode,
    HealthSummary,
    OpenedRecords,
    OtherPolicy,
    TrainFacts,
    Turn,
)
from assay.core.seeds import derive_seed, rng
from assay.rollout.dataset.clusters import united
from assay.rollout.tasks.protocol import Item
from assay.stages.render_evidence.rivals import rival_notes
from assay.verdict.evidence.claim.claim import Beside, Claim, Compared, Played, compare
from assay.verdict.evidence.claim.openings import (
    Openings,
    level_of,
    opening_obstacles,
    opening_warnings,
    openings_of,
)
from assay.verdict.evidence.claim.plan import ClaimPlan, PlannedSuite
from assay.verdict.evidence.claim.random_reward import LEFT_OUT, control_left_out, other_control
from assay.verdict.evidence.claim.relaxed import looser_limits
from assay.verdict.evidence.claim.secondary_suites import PlayedSuite
from assay.verdict.evidence.words.remarks import Remark
from assay_tasks.collider import Collider, ColliderSettings

RESULT = RESULTS / "verdict_attacks.json"
SUITE, CLUSTERS, DRAWS, SIMILARITY = "5" * 64, 256, 2, 0.6
HARD = rng("attacks", "difficulty").uniform(-0.15, 0.15, CLUSTERS)


def arm(
    name: str,
    rate: float | Callable[[int], float],
    *,
    clusters: int = CLUSTERS,
    draws: int = DRAWS,
    parsed: float = 1.0,
    tokens: int = 10,
    turns: int = 1,
    cost: float = 0.0,
    said: Callable[[int, int], str] = lambda k, draw: "x",
) -> list[Episode]:
    """Return a whole suite played by a policy: success at `rate`, harder clusters less, none where nothing
    parsed; `cost` is taken off each reward, and `said` is the answer to a cluster."""
    found = []
    for k in range(clusters):
        own = rate(k) if callable(rate) else rate + (HARD[k % CLUSTERS] if 0 < rate < 1 else 0.0)
        for draw in range(draws):
            luck = rng("attacks", name, k, draw)
            reads = bool(luck.random() < parsed)
            won = reads and bool(luck.random() < own)
            turn = Turn(
                prompt_digest="0" * 64,
                completion=said(k, draw),
                n_tokens=tokens,
                truncated=False,
                outcome="ok" if reads else "failed",
                failure=None if reads else "not JSON",
                action="x" if reads else None,
                observation=None,
                parts={"right": float(won)},
            )
            found.append(
                Episode(
                    item_id=f"item-{k:04d}",
                    cluster=f"cluster-{k:04d}",
                    strata={"kind": "odd" if k % 2 else "even"},
                    draw=draw,
                    seed=derive_seed("attacks", name, k, draw),
                    turns=(turn,) * turns,
                    prompt_chars_cut=0,
                    ending="answered",
                    reward=float(won) - cost,
                    parts={"right": float(won)},
                    success=won,
                    flags={"valid": reads},
                    metrics={},
                )
            )
    return found


NULL_PLAYER = arm("null", lambda k: float(k % 4 == 0), draws=DRAWS)  # right wherever nothing is there
RANDOM_PLAYER = arm("random", 0.2)
GREEDY = [each for each in arm("greedy", 0.3) if each.draw == 0]
PLAN: dict[str, Any] = {
    "primary": "success",
    "direction": "higher",
    "smallest_effect_points": 10.0,
    "draws": DRAWS,
    "suite_digest": SUITE,
    "checkpoint_rule": "best_validation_reward",
    "alpha": 0.05,
    "cluster_name": "scenarios",
    "secondary": ("mean_reward",),
    "guardrails": {"parsed_rate": 0.05},
    "rivals": {"null": "trivial", "random": "trivial", "greedy": "instead of training"},
}
RIVALS = {"null": NULL_PLAYER, "random": RANDOM_PLAYER, "greedy": GREEDY}


def claim(
    before: Sequence[Episode],
    after: Sequence[Episode],
    *,
    plan: Mapping[str, Any] | None = None,
    rivals: Mapping[str, Sequence[Episode]] | None = None,
    random_arm: Sequence[Episode] | None = None,
    level: float | None = None,
    opened: Openings | None = None,
    suites: Mapping[str, PlayedSuite] | None = None,
    **further: Sequence[Remark],
) -> Claim:
    """Return the claim about two arms."""
    return compare(
        Played(before, "b" * 64, SUITE),
        Played(after, "a" * 64, SUITE),
        ClaimPlan(**(PLAN | dict(plan or {}))),
        Compared("heldout", "sampled", (0,), level=level, opened=opened),
        rng=rng("attacks", "claim"),
        beside=Beside(
            random_arm=random_arm, rivals=RIVALS if rivals is None else rivals, secondary_suites=suites or {}
        ),
        **further,
    )


BASE, SKILLED = arm("base", 0.3), arm("skilled", 0.65)
BASE_ONCE = [each for each in BASE if each.draw == 0]
HONEST = claim(BASE, SKILLED)


def beside_base(name: str, rate: float) -> Said:
    """Return what is said where the base, used otherwise, succeeds at a rate."""
    rivals = {**PLAN["rivals"], name: "instead of training"}
    played = RIVALS | {name: arm(name, rate)}
    return said_of(claim(BASE, SKILLED, plan={"rivals": rivals}, rivals=played))


def beyond(before: float, after: float) -> Said:
    """Return what is said of an honest gain beside these rates on a secondary suite."""
    played = PlayedSuite(arm("ood before", before), arm("ood after", after), {"null": NULL_PLAYER})
    planned = PlannedSuite(suite_digest="6" * 64, largest_cluster=1)
    return said_of(claim(BASE, SKILLED, plan={"secondary_suites": {"ood": planned}}, suites={"ood": played}))


def of_settings(**changes: Any) -> Said:
    """Return what is said of the shipped settings with these changes, whatever the arms show; REFUSED where
    they are none."""
    values = compose(ROOT, Selection(grpo="tiny", task="collider", seed=0)).values
    for name, value in changes.items():
        place: Any = values
        *way, last = name.split("__")
        for key in way:
            place = place[key]
        place[last] = value
    try:
        return HONEST.verdict, looser_limits(Params.model_validate(values))
    except ValueError:
        return "REFUSED", []


def settings(grpo: str, **claim: Any) -> Params:
    """Return the settings of a preset with these of `claim`."""
    values = compose(ROOT, Selection(grpo=grpo, task="collider", seed=0)).values
    return Params.model_validate({**values, "claim": {**values["claim"], **claim}})


def of_control(played: str) -> list[Remark]:
    """Return why an arm that this policy played is no control of the training."""
    base, last = "b" * 64, {"seed": 0, "steps": 2, "chosen_step": 2}
    facts = ControlFacts(asked=True, base_digest=base, policy_digest=played, **last)
    healthy = HealthSummary(worst="GREEN", rules=(), unmeasured=())
    unknown = {"claim_plan_sha256": "", "validation_suite": "", "chain": "", "alarms": ()}
    trained = TrainFacts(base_digest=base, policy_digest="a" * 64, health=healthy, **last, **unknown)
    return other_control(facts, played, trained, 2)


WORDINGS = ("Please", "Kindly", "Would you", "Could you", "I ask you to", "We need you to", "Do", "Now")
ENDS = (".", ", please.", " at once.", ", thank you.", " for me.", " as agreed.", " today.", "!")


GOODS = (
    *("red lamp", "blue chair", "green desk", "old clock"),
    *("tall vase", "small rug", "oak shelf", "tin box"),
)
PLACES = ("Oslo", "Turin", "Leeds", "Porto", "Graz", "Lyon", "Ghent", "Basel")


def reworded(which: Callable[[int], int], gold: Callable[[int], Any]) -> list[Item]:
    """Return 512 items, each one of eight records in one of 64 wordings; `which` record an item is, and the
    right answer of a record."""
    found = []
    for k in range(512):
        of, start, end = which(k), WORDINGS[k // 8 % 8], ENDS[k // 64]
        text = f"{start} write down the order of a {GOODS[of]} that goes to {PLACES[of]} on a Monday{end}"
        row = {"id": f"r{k:04d}", "prompt": text, "gold": gold(of)}
        found.append(Item(row["id"], row["id"], {}, None, None, row=row))
    return found


def wordings(
    which: Callable[[int], int], gold: Callable[[int], Any], learned: Callable[[int], bool]
) -> Callable[[], Said]:
    """Return the attack of eight records in 512 wordings, some of which the training learned by heart."""

    def by_heart() -> Said:
        homes = [item.cluster for item in united(reworded(which, gold), SIMILARITY)]

        def homed(name: str, rate: float | Callable[[int], float]) -> list[Episode]:
            one = arm(name, rate, clusters=512)
            return [e.model_copy(update={"cluster": homes[int(e.item_id[5:])]}) for e in one]

        after = homed("wordings learned", lambda k: 0.75 if learned(which(k)) else 0.1)
        rivals = {name: homed(name, 0.05) for name in RIVALS}
        return said_of(claim(homed("wordings", lambda k: 0.1), after, rivals=rivals))

    return by_heart


def opened(place: int | None) -> OpenedRecords:
    """Return what is known of an opening: which try it was; None: the ledger is gone."""
    others = tuple(
        OtherPolicy(
            policy_digest=f"{k:064d}",
            stages=("post_eval",),
            n_records=CLUSTERS,
            place=k + 1,
            same_recipe=False,
        )
        for k in range((place or 1) - 1)
    )
    return OpenedRecords(
        policy_digest="a" * 64,
        records="r" * 64,
        n_records=CLUSTERS,
        place=place,
        recipe_place=place,
        family="f" * 64,
        first_family="f" * 64,
        seed=0,
        seeds=(0,),
        others=others,
        left_out=(),
        restored=0,
    )


def looks(place: int | None, gain: float) -> Callable[[], Said]:
    """Return the attack that shows the policy of one look of many, or hides the ledger of them."""

    def try_again() -> Said:
        found, plan = opened(place), ClaimPlan(**(PLAN | {"seeds": (0,)}))
        told = openings_of(found, "0" * 64)
        stops = opening_obstacles(found, plan, policy="a" * 64, records="r" * 64, seed=0)
        return said_of(
            claim(
                BASE,
                arm("lucky", 0.3 + gain),
                plan={"seeds": (0,)},
                stops=stops,
                level=level_of(told, plan),
                opened=told,
                notes=opening_warnings(told, found),
            )
        )

    return try_again


def after(*looked: Look) -> Callable[[], Said]:
    """Return the attack that makes these looks at held-out records before it shows a policy on them."""
    return lambda: looks(place_after([*looked, Look("shown")]), 0.095)()


def only(one: Sequence[Episode], *, draws: int = DRAWS, clusters: int = CLUSTERS) -> list[Episode]:
    """Return the first draws of the first clusters of an arm."""
    return [each for each in one if each.draw < draws and each.item_id < f"item-{clusters:04d}"]


def always_null(rate: float) -> Callable[[int], float]:
    """Return the rate of who says that nothing is there, which is right of every fourth cluster."""
    return lambda k: rate * (k % 4 == 0)


COINS = {"controls": ("aa", "random_reward")}
EASY = {"primary": "valid", "secondary": ("mean_reward", "success_rate")}
PIPELINE: dict[str, Callable[[], Said]] = {
    "a weak base made to say always null": lambda: said_of(
        claim(arm("weak", 0.02), arm("always null", always_null(0.98)))
    ),
    "a base that abstains": lambda: said_of(claim(arm("silent", 0.0), arm("commonest", always_null(0.9)))),
    "a little luck above always null": lambda: said_of(
        claim(arm("weak", 0.02), arm("lucky null", lambda k: 0.97 if k % 4 == 0 else 0.01))
    ),
    "a margin of 30 over a loss": lambda: said_of(
        claim(SKILLED, arm("worse", 0.57), plan={"smallest_effect_points": 30.0})
    ),
    "a margin of 95 over a loss": lambda: said_of(
        claim(SKILLED, arm("worse", 0.57), plan={"smallest_effect_points": 95.0})
    ),
    "a margin of 95 over a control that gains as well": lambda: said_of(
        claim(BASE, SKILLED, plan={"smallest_effect_points": 95.0} | COINS, random_arm=arm("coin", 0.64))
    ),
    "a guardrail of 95": lambda: said_of(
        claim(BASE, arm("unreadable", 1.0, parsed=0.55), plan={"guardrails": {"parsed_rate": 0.95}})
    ),
    "a control for random rewards that gains as well": lambda: said_of(
        claim(BASE, SKILLED, plan=COINS, random_arm=arm("coin", 0.64))
    ),
    **{
        f"no control for random rewards, which would gain as much: {grpo}": lambda grpo=grpo: said_of(
            claim(BASE, SKILLED, notes=control_left_out(settings(grpo, controls=["aa"])))
        )
        for grpo in ("tiny", "pretrained")
    },
    "a control that cannot be read any more": lambda: said_of(
        claim(BASE, SKILLED, plan=COINS, random_arm=arm("garbled coin", 0.3, parsed=0.1))
    ),
    "a control that fails whatever it is asked": lambda: said_of(
        claim(BASE, SKILLED, plan=COINS, random_arm=arm("failing coin", 0.01))
    ),
    "a control that says one thing": lambda: said_of(
        claim(
            arm("base", 0.3, said=lambda k, draw: f"label {(k + draw) % 5}"),
            SKILLED,
            plan=COINS,
            random_arm=arm("constant coin", 0.3, said=lambda k, draw: "A"),
        )
    ),
    "a control of so few steps that it is the base": lambda: said_of(
        claim(BASE, SKILLED, plan=COINS, random_arm=BASE, stops=of_control("b" * 64))
    ),
    "a control that is the trained policy": lambda: said_of(
        claim(BASE, SKILLED, plan=COINS, random_arm=SKILLED, stops=of_control("a" * 64))
    ),
    "format only": lambda: said_of(claim(arm("garbled", 0.6, parsed=0.4), arm("mended", 0.6))),
    "ten times the tokens": lambda: said_of(claim(BASE, arm("long", 0.65, tokens=100))),
    "a base sampled too hot": lambda: said_of(
        claim(arm("hot", 0.3), SKILLED, rivals=RIVALS | {"greedy": only(arm("cold", 0.66), draws=1)})
    ),
    "a metric that trivial players have": lambda: said_of(
        claim(arm("garbled", 0.3, parsed=0.4), BASE, plan=EASY)
    ),
    "no rivals": lambda: said_of(claim(BASE, SKILLED, plan={"rivals": {}}, rivals={})),
    "one draw, so that base cannot be compared with base": lambda: said_of(
        claim(only(BASE, draws=1), only(SKILLED, draws=1), plan={"draws": 1})
    ),
    "six clusters": lambda: said_of(
        claim(
            *(arm(name, rate, clusters=6) for name, rate in (("six", 0.3), ("six lucky", 0.75))),
            rivals={name: only(one, clusters=6) for name, one in RIVALS.items()},
        )
    ),
    "eight records in 512 wordings": wordings(
        lambda k: k % 8, lambda of: {"item": GOODS[of], "to": PLACES[of]}, lambda of: of < 6
    ),
    "400 of 512 wordings are one record, yes or no": wordings(
        lambda k: 0 if k < 400 else 1 + k % 7, lambda of: "yes" if of % 2 else "no", lambda of: of == 0
    ),
    "the ledger deleted": looks(None, 0.3),
    "another suite size after a look": looks(2, 0.08),
    "the best of twelve trainings": looks(12, 0.095),
    "a copy of the records under other ids": after(*COPIES),
    "trained models looked at as bases": after(*AS_BASES),
    "trained models looked at by controls that move nothing": after(
        *(Look(f"c{k}", "control", base=f"trained {k}") for k in range(10))
    ),
    "one policy under ten evaluation seeds": after(*(Look("shown", suite=f"seed {k}") for k in range(10))),
    "the base's luck rolled ten times": after(
        *(Look("base", "pre_eval", suite=f"seed {k}") for k in range(10))
    ),
    "health limits of 1,000": lambda: of_settings(health__kl__red=1000.0, health__kl__amber=1000.0),
    "base gates at zero": lambda: of_settings(base__gates__copy_accuracy=0.0, base__gates__parsed_rate=0.0),
    "preflight off": lambda: of_settings(health__preflight=False),
    "an alarm answered for by a letter": lambda: of_settings(
        evidence__acknowledged_alarms=[{"rule": "kl", "reason": "x"}]
    ),
    "the base does better behind examples": lambda: beside_base("few_shot", 0.9),
    "the base does better as the best of several": lambda: beside_base("best_of_n", 0.85),
    "the base does better under the schema": lambda: beside_base("constrained", 0.85),
    "the base does as well behind examples": lambda: beside_base("few_shot", 0.65),
    "what one would do instead of training is left out": lambda: said_of(
        claim(
            BASE,
            SKILLED,
            notes=rival_notes(Collider(ColliderSettings("compact", 8, 0.0, 1.0)), ClaimPlan(**PLAN), {}),
        )
    ),
    "40 % of the items learned by heart": lambda: said_of(
        claim(BASE, arm("by heart", lambda k: 1.0 if k % 5 < 2 else 0.3 + HARD[k]))
    ),
    "15 % of the items learned by heart": lambda: said_of(
        claim(BASE, arm("by heart", lambda k: 1.0 if k % 7 < 1 else 0.3 + HARD[k]))
    ),
    "a base that never succeeds, behind a broken template": lambda: said_of(claim(arm("mute", 0.0), SKILLED)),
    "a grader that lets everything pass after": lambda: said_of(claim(BASE, arm("waved", 1.0))),
    "six times the turns": lambda: said_of(claim(BASE, arm("patient", 0.65, turns=6))),
    "1.49 times the tokens": lambda: said_of(
        claim(arm("short", 0.3, tokens=100), arm("l", 0.65, tokens=149))
    ),
    "a collapse beyond the held-out suite": lambda: beyond(0.6, 0.2),
    "a little loss beyond the held-out suite": lambda: beyond(0.6, 0.45),
    "a mean reward that falls, of which no bounds are known": lambda: said_of(
        claim(BASE, arm("dear", 0.65, cost=3.0))
    ),
    "60 % of the items gain 60 points and 40 % lose 30": lambda: said_of(
        claim(arm("even", lambda k: 0.4), arm("robbed", lambda k: 1.0 if k % 5 < 3 else 0.1))
    ),
    "items that were always right made a toss of a coin": lambda: said_of(
        claim(
            arm("sure half", lambda k: float(k % 2)),
            arm("tossed", 0.7),
            rivals=RIVALS | {"greedy": BASE_ONCE},
        )
    ),
    "one stratum loses": lambda: said_of(
        claim(arm("even", lambda k: 0.4), arm("odd ones lose", lambda k: 0.15 if k % 2 else 0.95))
    ),
    "always the commonest label, where only silence is a trivial rival": lambda: said_of(
        claim(
            arm("guesses", 0.2, said=lambda k, draw: f"label {(k + draw) % 5}"),
            arm("always A", lambda k: float(k % 5 < 3), said=lambda k, draw: "A"),
            plan={"rivals": {"silence": "trivial"}},
            rivals={"silence": arm("silence", 0.0)},
        )
    ),
    "the commonest label in four spellings": lambda: said_of(
        claim(
            arm("guesses", 0.2, said=lambda k, draw: f"label {(k + draw) % 5}"),
            arm("A", lambda k: float(k % 5 < 3), said=lambda k, draw: ("A", "a.", "A!", "(A)")[k % 4]),
            plan={"rivals": {"silence": "trivial"}},
            rivals={"silence": arm("silence", 0.0)},
        )
    ),
    "the commonest label, each time with other words around it": lambda: said_of(
        claim(
            arm("guesses", 0.2, said=lambda k, draw: f"label {(k + draw) % 5}"),
            arm("A, why", lambda k: float(k % 5 < 3), said=lambda k, draw: f"A, since {k} and {draw}"),
            plan={"rivals": {"silence": "trivial"}},
            rivals={"silence": arm("silence", 0.0)},
        )
    ),
}


# What answers an attack where the verdict is a gain all the same: codes that name just this.
OWN = {
    "a guardrail of 95": {"worse_within_margin"},
    "format only": {"form_only"},
    "ten times the tokens": {"more_tokens"},
    "a base sampled too hot": {"sharpening"},
    "one draw, so that base cannot be compared with base": {"control_not_run"},
    "health limits of 1,000": {"looser_than_usual"},
    "base gates at zero": {"looser_than_usual"},
    "preflight off": {"looser_than_usual"},
    "the base does as well behind examples": {"prompting_as_good"},
    "what one would do instead of training is left out": {"rivals_left_out"},
    "40 % of the items learned by heart": {"gain_in_some_items"},
    "15 % of the items learned by heart": {"gain_in_some_items"},
    "a base that never succeeds, behind a broken template": {"arm_at_bound"},
    "a grader that lets everything pass after": {"arm_at_bound"},
    "six times the turns": {"more_turns"},
    "1.49 times the tokens": {"more_tokens"},
    "a mean reward that falls, of which no bounds are known": {"reward_fell"},
    "60 % of the items gain 60 points and 40 % lose 30": {"items_harmed"},
    "items that were always right made a toss of a coin": {"items_harmed"},
    "one stratum loses": {"strata_worse"},
    "always the commonest label, where only silence is a trivial rival": {"one_answer"},
    "the commonest label in four spellings": {"one_answer"},
    "the commonest label, each time with other words around it": {"gain_in_some_items"},
    "no control for random rewards, which would gain as much: tiny": {LEFT_OUT},
    "no control for random rewards, which would gain as much: pretrained": {LEFT_OUT},
    "a control that cannot be read any more": {"random_rewards_collapsed"},
    "a control that fails whatever it is asked": {"random_rewards_collapsed"},
    "a control that says one thing": {"random_rewards_collapsed"},
}
# Lists of other kinds are added here.
ATTACKS = [
    *(Attack("pipeline", name, make, frozenset(OWN.get(name, ()))) for name, make in PIPELINE.items()),
    *judge_attacks(),
    *contamination_attacks(lambda stops, notes: said_of(claim(BASE, SKILLED, stops=stops, notes=notes))),
]


def main() -> None:
    """Try every attack, print and write what was said."""
    rows = rows_of(ATTACKS)
    honest = {"verdict": HONEST.verdict, "said": [*map(str, HONEST.warnings)]}
    unremarked = sum(not row["remarked"] for row in rows)
    pairs = honest_rows()
    found = {"honest": honest, "attacks": rows, "unremarked": unremarked, "honest_pairs": pairs}
    found["honest_remarked"] = sum(bool(row["said"]) for row in pairs)
    written(RESULT, found, indent=1, sort_keys=False)


if __name__ == "__main__":
    main()
